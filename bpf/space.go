package bpf

import (
	"cmp"
	"slices"
)

// span is a range of rows or pages.
type span struct{ start, end uint32 }

// space hands out ranges of an array. Ranges never cross a multiple of block.
type space struct {
	free  []span // sorted, not empty, not adjacent within a block
	block uint32
}

// newSpace returns a space of size entries.
func newSpace(size, block uint32) *space {
	s := &space{block: block}
	for start := uint32(0); start < size; start += block {
		s.free = append(s.free, span{start, min(start+block, size)})
	}
	return s
}

// allocate returns the first free range of size entries.
func (s *space) allocate(size uint32) (span, bool) {
	for i := range s.free {
		if got, ok := s.take(i, size); ok {
			return got, true
		}
	}
	return span{}, false
}

// take cuts size entries off the free range i, which stays in the list when
// something is left.
func (s *space) take(i int, size uint32) (span, bool) {
	free := &s.free[i]
	if size == 0 || free.end-free.start < size {
		return span{}, false
	}
	got := span{free.start, free.start + size}
	free.start = got.end
	if free.start == free.end {
		s.free = slices.Delete(s.free, i, i+1)
	}
	return got, true
}

// place finds room for pieces of the given sizes: as many as fit into the
// first free range, the next ones into the next. It returns where each piece
// starts and which ranges were taken, or false and takes nothing.
func (s *space) place(sizes []uint32) (starts []uint32, taken []span, ok bool) {
	starts = make([]uint32, len(sizes))
	for i, next := 0, 0; next < len(sizes); {
		if i == len(s.free) {
			s.release(taken...)
			return nil, nil, false
		}
		room, run := s.free[i].end-s.free[i].start, uint32(0)
		first := next
		for next < len(sizes) && sizes[next] <= room-run {
			starts[next] = s.free[i].start + run
			run += sizes[next]
			next++
		}
		before := len(s.free)
		if got, took := s.take(i, run); took {
			taken = append(taken, got)
		}
		// The next range slides into the place of one used up. Pieces of no
		// rows take nothing and are placed all the same.
		if len(s.free) == before || next == first {
			i++
		}
	}
	return starts, taken, true
}

// release frees ranges.
func (s *space) release(spans ...span) {
	if len(spans) == 0 {
		return
	}
	s.free = append(s.free, spans...)
	slices.SortFunc(s.free, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	merged := s.free[:1]
	for _, next := range s.free[1:] {
		last := &merged[len(merged)-1]
		if last.end == next.start && next.start%s.block != 0 {
			last.end = next.end
		} else {
			merged = append(merged, next)
		}
	}
	s.free = merged
}

// available returns the number of free entries.
func (s *space) available() (total uint32) {
	for _, free := range s.free {
		total += free.end - free.start
	}
	return total
}
