package bpf

import "testing"

func TestViewFindsTheRowsThatWereLoaded(t *testing.T) {
	tables, _ := testTables(2*rowsPerChunk, 16)
	// All but three rows of the first chunk are taken, so that the second page
	// lies in another span.
	if _, err := tables.load(make([]uint32, rowsPerChunk-3), []Page{{0, 1 << 16}, {1 << 16, 1 << 16}, {2 << 16, 1 << 16}, {3 << 16, 1<<16 - 3}}); err != nil {
		t.Fatal(err)
	}
	ref, err := tables.load([]uint32{1 << 16, 2<<16 | 0x10, 3 << 16, 4<<16 | 0x20, 5<<16 | 0xffff}, []Page{{0, 2}, {2, 3}, {0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	view, err := tables.view(ref)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	for _, test := range []struct {
		offset uint64
		rule   uint16
	}{
		{0, 1}, {0xf, 1}, {0x10, 2}, {0xffff, 2}, {0x10000, 3}, {0x10020, 4}, {0x1fffe, 4}, {0x1ffff, 5},
		{0x20000, 0}, {0x30000, 0}, {1 << 63, 0},
	} {
		if got := view.Rule(test.offset); got != test.rule {
			t.Errorf("rule at %#x is %d, want %d", test.offset, got, test.rule)
		}
	}
	empty, err := tables.view(TableRef{})
	if err != nil || empty.Rule(0) != 0 {
		t.Errorf("view of no table: rule %d, %v", empty.Rule(0), err)
	}
}
