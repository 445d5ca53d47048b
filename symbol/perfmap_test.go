package symbol

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func parsePerf(t *testing.T, text string) *PerfMap {
	t.Helper()
	m, err := ParsePerfMap(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPerfMapNamesRanges(t *testing.T) {
	m := parsePerf(t, "1000 20 LazyCompile:*f /a b.js:1\n0x2000 0x10 g\nno line\n3000 0 empty\nfffffffffffffff0 20 wraps\n4000 10\n4100 10  \n5000 10 being writ")
	for addr, want := range map[uint64]string{
		0xfff: "", 0x1000: "LazyCompile:*f /a b.js:1", 0x101f: "LazyCompile:*f /a b.js:1", 0x1020: "",
		0x2000: "g", 0x200f: "g", 0x2010: "", 0x3000: "", 0x4000: "", 0x4100: "", 0x5000: "", ^uint64(0): "",
	} {
		if got, ok := m.Lookup(addr); got != want || ok != (want != "") {
			t.Errorf("%#x is %q, want %q", addr, got, want)
		}
	}
}

// The latest line of those that cover an address holds, whatever their order.
func TestPerfMapLaterLinesHold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var text strings.Builder
		var want [64]string
		for i := range 30 {
			start, size := random.IntN(60), 1+random.IntN(20)
			name := fmt.Sprintf("n%d", i)
			fmt.Fprintf(&text, "%x %x %s\n", start, size, name)
			for addr := start; addr < start+size && addr < len(want); addr++ {
				want[addr] = name
			}
		}
		m := parsePerf(t, text.String())
		for addr, name := range want {
			if got, _ := m.Lookup(uint64(addr)); got != name {
				t.Fatalf("%#x is %q, want %q in\n%s", addr, got, name, text.String())
			}
		}
	}
}

func TestPerfMapIsBounded(t *testing.T) {
	m := parsePerf(t, "1000 10 "+strings.Repeat("é", maxPerfName)+"\n2000 10 a\x1b[31mb\tc\n"+
		"3000 10 "+strings.Repeat("x", 3*maxPerfLine)+"\n4000 10 after\n")
	name, _ := m.Lookup(0x1000)
	if len(name) > maxPerfName || !utf8.ValidString(name) || !strings.HasPrefix(name, "éé") {
		t.Errorf("name of %d bytes, valid: %v", len(name), utf8.ValidString(name))
	}
	if name, _ := m.Lookup(0x2000); name != "a?[31mb?c" {
		t.Errorf("name %q can act on a terminal", name)
	}
	if name, ok := m.Lookup(0x3000); ok {
		t.Errorf("a line over the limit is taken: %.20q", name)
	}
	if name, _ := m.Lookup(0x4000); name != "after" {
		t.Errorf("after a line over the limit: %q", name)
	}
}

func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("1000 20 f\n1010 20 g\n0x1 0x1 h i\n"))
	f.Add([]byte("ffffffffffffffff 1 f\n0 ffffffffffffffff g\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParsePerfMap(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		for _, r := range m.ranges {
			if r.start < last || r.end <= r.start || r.name == "" || len(r.name) > 3*maxPerfName {
				t.Errorf("range %#x-%#x %q after %#x", r.start, r.end, r.name, last)
			}
			if name, ok := m.Lookup(r.start); !ok || name != r.name {
				t.Errorf("%#x is %q, want %q", r.start, name, r.name)
			}
			last = r.end
		}
	})
}
