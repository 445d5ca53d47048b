package unwind

import (
	"cmp"
	"slices"
)

// layout writes the sorted spans of a compiler into the pages of a table.
type layout struct {
	*compiler
	table *Table
	entry uint64 // vaddr where the process starts, 0 for a library

	rows    []uint32
	page    uint64 // the page being written
	current uint16 // rule that holds at the write position
	open    bool   // page has rows

	none, chain, stop uint16
}

const (
	// maxPadding bounds the bytes between two functions that are taken for
	// alignment. They never run, so they need no row of their own.
	maxPadding = 15
	// entryStub is how much of an entry point without FDE is taken for the
	// outermost frame; C libraries' _start is shorter on all architectures.
	entryStub = 48
)

func sortSegments(segments []segment) {
	slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(a.off, b.off) })
}

// sortSpans orders spans by address, the trusted and the longer first.
func (c *compiler) sortSpans() {
	sorted := slices.IsSortedFunc(c.spans, compareSpans)
	if !sorted {
		slices.SortFunc(c.spans, compareSpans)
	}
}

func compareSpans(a, b span) int {
	switch {
	case a.start < b.start:
		return -1
	case a.start > b.start:
		return 1
	case a.rank != b.rank:
		return cmp.Compare(a.rank, b.rank)
	case a.end != b.end:
		return cmp.Compare(b.end, a.end)
	}
	return cmp.Compare(a.first, b.first)
}

// build fills the table with the code of segments, which are ordered by file
// offset.
func (l *layout) build(segments []segment) {
	if len(segments) == 0 {
		return
	}
	last := segments[len(segments)-1]
	l.table.Pages = make([]Page, (last.off+last.size-1)>>pageBits+1)
	l.rows = make([]uint32, 0, len(l.compiler.rows)+len(l.table.Pages)+len(l.spans)/8+16)
	l.chain = l.index(Rule{CFA: CFAChain})
	l.stop = l.index(Rule{CFA: CFAStop})
	for _, s := range segments {
		l.table.Stats.CodeBytes += int(s.size)
		l.segment(s)
	}
	l.closePage()
	l.table.Rows = slices.Clip(l.rows)
}

// segment writes the rows of one segment.
func (l *layout) segment(s segment) {
	end := s.vaddr + s.size
	position := s.vaddr // everything before it is written
	i, _ := slices.BinarySearchFunc(l.spans, s.vaddr, func(sp span, at uint64) int {
		return cmp.Compare(sp.start, at)
	})
	// A signal frame's span starts before its code and may start before the
	// segment.
	for i > 0 && l.spans[i-1].end > s.vaddr {
		i--
	}
	for ; i < len(l.spans) && l.spans[i].start < end; i++ {
		sp := &l.spans[i]
		from, to := max(sp.start, position), min(sp.end, end)
		if from >= to {
			continue
		}
		// A following span that is trusted at least as much cuts this one
		// short, as a search for the nearest start would.
		for j := i + 1; j < len(l.spans) && l.spans[j].start < to; j++ {
			if next := &l.spans[j]; next.rank <= sp.rank && next.start > from {
				to = next.start
				break
			}
		}
		if from > position {
			l.hole(s, position, from)
		}
		l.span(s, sp, from, to)
		position = to
	}
	if position < end {
		l.hole(s, position, end)
	}
	l.put(s.off+s.size, l.none)
}

// span writes the rows of sp that hold in [from, to).
func (l *layout) span(s segment, sp *span, from, to uint64) {
	rows := l.compiler.rows[sp.first : sp.first+sp.rows]
	base := sp.start
	for i, row := range rows {
		at := base + row>>16
		if at >= to {
			return
		}
		if at < from {
			if i+1 < len(rows) && base+rows[i+1]>>16 <= from {
				continue
			}
			at = from
		}
		l.put(at-s.vaddr+s.off, uint16(row))
	}
}

// hole writes the rules of [from, to), which no function covers.
func (l *layout) hole(s segment, from, to uint64) {
	if to-from <= maxPadding && from != s.vaddr && to%16 == 0 {
		return
	}
	if l.entry >= from && l.entry < to {
		if l.entry > from {
			l.put(from-s.vaddr+s.off, l.chain)
		}
		l.put(l.entry-s.vaddr+s.off, l.stop)
		from = min(l.entry+entryStub, to)
		if from == to {
			return
		}
	}
	l.table.Stats.ChainBytes += int(to - from)
	l.put(from-s.vaddr+s.off, l.chain)
}

// put lets rule hold from the file offset off on. Offsets come in increasing
// order.
func (l *layout) put(off uint64, rule uint16) {
	page := off >> pageBits
	if page >= uint64(len(l.table.Pages)) {
		return // only the end of the last segment
	}
	low := uint32(off & (1<<pageBits - 1))
	if page != l.page || !l.open {
		l.startPage(page, low)
	}
	if rule == l.current {
		return
	}
	if n := len(l.rows); n > int(l.table.Pages[page].First) && l.rows[n-1]&(1<<pageBits-1) == low {
		l.rows = l.rows[:n-1]
	}
	l.rows = append(l.rows, uint32(rule)<<pageBits|low)
	l.current = rule
}

// startPage carries the current rule over to page, and to the pages that are
// passed on the way to it.
func (l *layout) startPage(page uint64, low uint32) {
	if l.open {
		l.closePage()
		for l.page++; l.page < page && l.current != l.none; l.page++ {
			l.table.Pages[l.page] = Page{First: uint32(len(l.rows)), Count: 1}
			l.rows = append(l.rows, uint32(l.current)<<pageBits)
		}
	}
	l.page, l.open = page, true
	l.table.Pages[page].First = uint32(len(l.rows))
	l.rows = append(l.rows, uint32(l.current)<<pageBits)
}

// closePage notes how many rows the page being written has got.
func (l *layout) closePage() {
	if !l.open {
		return
	}
	p := &l.table.Pages[l.page]
	p.Count = uint32(len(l.rows)) - p.First
}
