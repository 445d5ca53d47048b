package unwind

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"unsafe"
)

// laidOut compiles hand-made spans into a table and lists its rows as
// "offset rule".
func laidOut(t *testing.T, entry uint64, segments []segment, spans ...span) (*Table, *RuleSet, []string) {
	t.Helper()
	rules := NewRuleSet()
	c := rules.compiler()
	for _, s := range spans {
		first := len(c.rows)
		// A span's rows: sp+8 at its start, sp+16 from the first byte on that
		// s.rows gives.
		c.emit(first, 0, c.index(saved(CFASP, 8)))
		if s.rows > 0 {
			c.emit(first, uint64(s.rows), c.index(saved(CFASP, 16)))
		}
		c.add(s, first)
	}
	c.sortSpans()
	table := &Table{}
	l := layout{compiler: c, table: table, entry: entry}
	l.build(segments)
	var rows []string
	total := uint32(0)
	for i, page := range table.Pages {
		if page.Count > 0 && page.First != total {
			t.Errorf("page %d starts at row %d, the one before ends at %d", i, page.First, total)
		}
		total += page.Count
		for j, row := range table.Rows[page.First : page.First+page.Count] {
			if j == 0 && row&0xffff != 0 {
				t.Errorf("page %d does not start with a row at its first byte", i)
			}
			rows = append(rows, fmt.Sprintf("%#x %v", uint64(i)<<16|uint64(row&0xffff), rules.At(uint16(row>>16))))
		}
	}
	if int(total) != len(table.Rows) {
		t.Errorf("pages hold %d rows of %d", total, len(table.Rows))
	}
	return table, rules, rows
}

func TestLayout(t *testing.T) {
	const sp8, sp16 = " cfa=sp+8 ra=*(cfa-8)", " cfa=sp+16 ra=*(cfa-8)"
	one := []segment{{off: 0x1000, vaddr: 0x401000, size: 0x1000}}
	for _, test := range []struct {
		name     string
		entry    uint64
		segments []segment
		spans    []span
		want     []string
	}{
		{"hole after a function", 0, one, []span{{start: 0x401000, end: 0x401100, rows: 4}},
			[]string{"0x0 none", "0x1000" + sp8, "0x1004" + sp16, "0x1100 chain", "0x2000 none"}},
		{"padding is no hole", 0, one, []span{{start: 0x401000, end: 0x401105}, {start: 0x401110, end: 0x402000, rows: 4}},
			[]string{"0x0 none", "0x1000" + sp8, "0x1114" + sp16, "0x2000 none"}},
		{"unsorted, overlapping, duplicate", 0, one, []span{{start: 0x401800, end: 0x402000}, {start: 0x401000, end: 0x401900, rows: 4}, {start: 0x401800, end: 0x401810, rows: 1}},
			[]string{"0x0 none", "0x1000" + sp8, "0x1004" + sp16, "0x1800" + sp8, "0x2000 none"}},
		{"the better source wins", 0, one, []span{{start: 0x401000, end: 0x402000, rank: rankGo}, {start: 0x401800, end: 0x401900, rows: 1, rank: rankDebugFrame}},
			[]string{"0x0 none", "0x1000" + sp8, "0x2000 none"}},
		{"the better source starts inside", 0, one, []span{{start: 0x401000, end: 0x402000, rows: 2, rank: rankDebugFrame}, {start: 0x401800, end: 0x402000, rank: rankGo}},
			[]string{"0x0 none", "0x1000" + sp8, "0x1002" + sp16, "0x1800" + sp8, "0x2000 none"}},
		{"entry point without FDE", 0x401100, one, []span{{start: 0x401000, end: 0x401080}},
			[]string{"0x0 none", "0x1000" + sp8, "0x1080 chain", "0x1100 stop", "0x1130 chain", "0x2000 none"}},
		{"pages carry the rule over", 0, []segment{{off: 0, vaddr: 0x400000, size: 0x28000}}, []span{{start: 0x400000, end: 0x428000, rows: 4}},
			[]string{"0x0" + sp8, "0x4" + sp16, "0x10000" + sp16, "0x20000" + sp16, "0x28000 none"}},
		{"two segments with other distances", 0, []segment{{off: 0x1000, vaddr: 0x401000, size: 0x100}, {off: 0x41000, vaddr: 0x801000, size: 0x100}},
			[]span{{start: 0x801000, end: 0x801100, rows: 8}, {start: 0x401000, end: 0x401100}},
			[]string{"0x0 none", "0x1000" + sp8, "0x1100 none", "0x40000 none", "0x41000" + sp8, "0x41008" + sp16, "0x41100 none"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, rows := laidOut(t, test.entry, test.segments, test.spans...)
			if !slices.Equal(rows, test.want) {
				t.Errorf("rows\n%q\nwant\n%q", rows, test.want)
			}
		})
	}
}

func TestLookup(t *testing.T) {
	table, rules, _ := laidOut(t, 0, []segment{{off: 0x1000, vaddr: 0x401000, size: 0x20000}}, span{start: 0x401000, end: 0x421000, rows: 4})
	for off, want := range map[uint64]string{
		0: "none", 0xfff: "none", 0x1000: "cfa=sp+8 ra=*(cfa-8)", 0x1003: "cfa=sp+8 ra=*(cfa-8)", 0x1004: "cfa=sp+16 ra=*(cfa-8)",
		0xffff: "cfa=sp+16 ra=*(cfa-8)", 0x10000: "cfa=sp+16 ra=*(cfa-8)", 0x20fff: "cfa=sp+16 ra=*(cfa-8)", 0x21000: "none", 1 << 40: "none",
	} {
		if got := table.Lookup(rules, off).String(); got != want {
			t.Errorf("rule at offset %#x: got %q, want %q", off, got, want)
		}
	}
}

// TestSortsByRadixAsByComparison covers both ways of sorting on the same
// functions.
func TestSortsByRadixAsByComparison(t *testing.T) {
	c := NewRuleSet().compiler()
	state := uint64(1)
	for range 5000 {
		state = state*6364136223846793005 + 1442695040888963407
		start := state >> 40
		c.spans = append(c.spans, span{start: start, end: start + 1 + state>>60, rank: rank(state >> 20 & 3)})
	}
	c.sortSpans()
	for i := 1; i < len(c.order); i++ {
		a, b := &c.spans[uint32(c.order[i-1])], &c.spans[uint32(c.order[i])]
		if compareSpans(a, b) > 0 {
			t.Fatalf("spans %d and %d are out of order: %+v, %+v", i-1, i, a, b)
		}
	}
}

func TestRuleSetIsBoundedAndShared(t *testing.T) {
	if size := unsafe.Sizeof(Rule{}); size != 16 {
		t.Errorf("a Rule has %d bytes, the kernel's has 16", size)
	}
	set := NewRuleSet()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range int32(MaxRules + 100) {
				index, ok := set.Index(saved(CFASP, i))
				if ok && set.At(index) != saved(CFASP, i) {
					t.Errorf("index %d holds %v", index, set.At(index))
					return
				}
			}
		})
	}
	group.Wait()
	if set.Len() != MaxRules || len(set.Rules(1)) != MaxRules-1 {
		t.Errorf("%d rules, %d after the first", set.Len(), len(set.Rules(1)))
	}
	if _, ok := set.Index(saved(CFAFP, -1)); ok {
		t.Error("a full set took another rule")
	}
}

func TestPackedRulesKeepTheirValue(t *testing.T) {
	rule := Rule{CFA: CFAReg, Reg: 0xfe, FP: RegAtFP, RA: RegUndefined, CFAOff: -2, FPOff: -3, RAOff: -4, BXOff: -5, Off2: -6}
	if got := rule.pack().unpack(); got != rule {
		t.Errorf("got %+v, want %+v", got, rule)
	}
	if got := *(*packedRule)(unsafe.Pointer(&rule)); got != rule.pack() {
		t.Errorf("packed %#x, in memory %#x", rule.pack(), got)
	}
}
