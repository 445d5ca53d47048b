package unwind

import (
	"bytes"
	"os"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// FuzzNewTable feeds ELF images to everything that reads foreign bytes, with
// and without their section headers. The comments of the C files beside the
// seeds say how those were made.
func FuzzNewTable(f *testing.F) {
	for _, path := range []string{"testdata/arm64/frames.so", "testdata/amd64/frames.so", "testdata/amd64/debug.so"} {
		image, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(image)
		f.Add(withoutSections(image))
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		if len(image) > 1<<16 {
			return
		}
		file, err := safeelf.New(bytes.NewReader(image), int64(len(image)))
		if err != nil {
			return
		}
		rules := NewRuleSet()
		if functions, err := Functions(file); err == nil {
			for i, r := range functions {
				if r.Start >= r.End || i > 0 && r.Start < functions[i-1].End {
					t.Fatalf("function %d is out of order: %#x", i, r)
				}
			}
		}
		table, err := NewTable(file, rules)
		if err != nil {
			return
		}
		checkTable(t, table, rules, len(image))
	})
}

// FuzzFrames feeds bytes to the parser of frame sections, which a fuzzer of
// whole files seldom reaches.
func FuzzFrames(f *testing.F) {
	for _, program := range [][]byte{
		{cfaAdvanceLoc | 1, cfaDefCFAOffset, 16, cfaOffset | amd64FP, 2},
		{cfaRememberState, cfaAdvanceLoc1, 200, cfaRestoreState, cfaSetLoc, 1, 2, 3, 4, 5, 6, 7, 8},
		block8(cfaDefCFAExpression, -1, opBreg0+7, 8, opBreg0+16, 0, opLit0+15, opAnd, opLit0+9, opGe, opLit0+3, opShl, opPlus),
	} {
		f.Add(ehSection(AMD64, "zRS", program...).data, true, false)
		f.Add(ehSection(ARM64, "zR", program...).data, true, true)
		c := cfi{}
		c.fde(c.cie(4, "", join([]byte{8, 0}, amd64Factors, amd64Initial)...), absolute(program...))
		f.Add(c.data, false, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, eh, arm64 bool) {
		if len(data) > 1<<16 {
			return
		}
		arch := AMD64
		if arm64 {
			arch = ARM64
		}
		rules := NewRuleSet()
		c := rules.compiler()
		segments := []segment{{off: 0x1000, vaddr: 0x1000, size: 1 << 20}}
		c.section(frameSection{data: data, eh: eh, bases: bases{section: sectionAt}}, arch, rankEHFrame, segments)
		c.sortSpans()
		table := &Table{}
		l := layout{compiler: c, table: table}
		l.build(segments)
		checkTable(t, table, rules, len(data))
	})
}

// checkTable checks what the kernel's unwinder relies on.
func checkTable(t *testing.T, table *Table, rules *RuleSet, size int) {
	t.Helper()
	// A row takes at least a byte of input; pages, holes and expanded PLTs add
	// a bounded number.
	if limit := 4*size + len(table.Pages) + 1<<16; len(table.Rows) > limit {
		t.Fatalf("%d rows from %d bytes", len(table.Rows), size)
	}
	next := uint32(0)
	for i, page := range table.Pages {
		if page.Count == 0 {
			continue
		}
		if page.First != next || uint64(page.First)+uint64(page.Count) > uint64(len(table.Rows)) {
			t.Fatalf("page %d holds rows from %d on, %d of them; %d were due", i, page.First, page.Count, next)
		}
		next += page.Count
		low := -1
		for _, row := range table.Rows[page.First:next] {
			if int(row&0xffff) <= low || int(row>>16) >= rules.Len() {
				t.Fatalf("page %d has row %#x after %#x", i, row, low)
			}
			if low < 0 && row&0xffff != 0 {
				t.Fatalf("page %d starts with row %#x", i, row)
			}
			low = int(row & 0xffff)
		}
	}
	if int(next) != len(table.Rows) {
		t.Fatalf("pages hold %d rows of %d", next, len(table.Rows))
	}
}
