package bpf

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestSpaceIsHandedOutOnce(t *testing.T) {
	const size, block = 1 << 12, 1 << 8
	random := rand.New(rand.NewPCG(1, 2))
	s := newSpace(size, block)
	owners := make([]int, size)
	held := make(map[int][]span)
	for step := 1; step < 5000; step++ {
		if len(held) > 0 && random.IntN(3) == 0 {
			for owner, spans := range held {
				for _, got := range spans {
					for i := got.start; i < got.end; i++ {
						owners[i] = 0
					}
				}
				s.release(spans...)
				delete(held, owner)
				break
			}
			continue
		}
		sizes := make([]uint32, 1+random.IntN(6))
		for i := range sizes {
			sizes[i] = random.Uint32N(block/2 + 1)
		}
		before := slices.Clone(s.free)
		starts, taken, ok := s.place(sizes)
		if !ok {
			if !slices.Equal(before, s.free) {
				t.Fatalf("step %d: free ranges were %v, and after a failure are %v", step, before, s.free)
			}
			continue
		}
		held[step] = taken
		for i, start := range starts {
			if sizes[i] > 0 && start/block != (start+sizes[i]-1)/block {
				t.Fatalf("step %d: piece %d at %d of %d crosses a block", step, i, start, sizes[i])
			}
			for at := start; at < start+sizes[i]; at++ {
				if owners[at] != 0 {
					t.Fatalf("step %d: %d belongs to %d", step, at, owners[at])
				}
				owners[at] = step
			}
		}
	}
	for _, spans := range held {
		s.release(spans...)
	}
	if want := newSpace(size, block).free; !slices.Equal(s.free, want) {
		t.Errorf("free ranges after all is released: %v, want %v", s.free, want)
	}
}

func memoryArray[T any](length int) array[T] {
	return array[T]{fd: -1, memory: make([]T, length), length: length}
}

// testTables is memory that no kernel shares.
func testTables(rows, pages int) (*tables, *time.Time) {
	now := time.Unix(0, 0)
	t := newTables(memoryArray[uint32](rows), memoryArray[samplerTablePage](pages), memoryArray[samplerUnwindRule](16))
	t.now = func() time.Time { return now }
	return t, &now
}

func TestTablesAreCopiedPageByPage(t *testing.T) {
	tables, _ := testTables(2*rowsPerChunk, 16)
	// All but three rows of the first chunk are taken, so that the second page
	// must go to the next one.
	if _, err := tables.load(make([]uint32, rowsPerChunk-3), []Page{{0, 1 << 16}, {1 << 16, 1 << 16}, {2 << 16, 1 << 16}, {3 << 16, 1<<16 - 3}}); err != nil {
		t.Fatal(err)
	}
	ref, err := tables.load([]uint32{10, 11, 12, 13, 14}, []Page{{0, 2}, {2, 3}, {0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	var got [][]uint32
	for _, page := range tables.pages.memory[ref.pages.start:ref.pages.end] {
		got = append(got, tables.rows.memory[page.First:page.First+page.Count])
	}
	if !slices.Equal(got[0], []uint32{10, 11}) || !slices.Equal(got[1], []uint32{12, 13, 14}) || len(got[2]) != 0 {
		t.Errorf("pages hold %v", got)
	}
	if first := tables.pages.memory[ref.pages.start+1].First; first != rowsPerChunk {
		t.Errorf("second page is at %d, want %d", first, rowsPerChunk)
	}
}

func TestMalformedTablesAreRefused(t *testing.T) {
	tables, _ := testTables(rowsPerChunk, 16)
	for _, pages := range [][]Page{{{0, 6}}, {{6, 0}, {0, 1 << 31}}, {{1<<32 - 1, 2}}} {
		if _, err := tables.load(make([]uint32, 5), pages); err == nil || errors.Is(err, ErrNoSpace) {
			t.Errorf("pages %v of 5 rows: %v", pages, err)
		}
	}
}

func TestFreedSpaceRests(t *testing.T) {
	tables, now := testTables(rowsPerChunk, 4)
	s := &Sampler{tables: tables}
	full := []Page{{0, 1 << 16}, {0, 1 << 16}, {0, 1 << 16}, {0, 1 << 16}}
	ref, err := s.LoadTable(make([]uint32, 1<<16), full)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LoadTable(make([]uint32, 1), []Page{{0, 1}}); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("load into a full kernel: %v, want ErrNoSpace", err)
	}
	s.UnloadTable(ref)
	tables.reclaim()
	if free := tables.rowSpace.available(); free != 0 {
		t.Errorf("%d rows are free at once, samples may still read them", free)
	}
	*now = now.Add(settle)
	if _, err := s.LoadTable(make([]uint32, 1<<16), full); err != nil {
		t.Errorf("load after the space has settled: %v", err)
	}
	s.UnloadTable(TableRef{})
}
