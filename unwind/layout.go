package unwind

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
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

// sortSpans orders spans by address, the trusted and the longer first, into
// c.order: the low 32 bits of an element are the number of a span.
func (c *compiler) sortSpans() {
	c.order = slices.Grow(c.order[:0], len(c.spans))
	if len(c.spans) == 0 {
		return
	}
	base, limit := c.spans[0].start, c.spans[0].start
	for i := range c.spans {
		base, limit = min(base, c.spans[i].start), max(limit, c.spans[i].start)
	}
	if limit-base > math.MaxUint32 {
		for i := range c.spans {
			c.order = append(c.order, uint64(i))
		}
		slices.SortFunc(c.order, func(a, b uint64) int { return compareSpans(&c.spans[a], &c.spans[b]) })
		return
	}
	for i := range c.spans {
		c.order = append(c.order, (c.spans[i].start-base)<<32|uint64(i))
	}
	if !slices.IsSorted(c.order) {
		c.radixSort(uint(32 + bits.Len64(limit-base)))
	}
	// The numbers of spans with the same start are in order, their ranks and
	// lengths need not be.
	for i := 1; i < len(c.order); i++ {
		if c.order[i]>>32 != c.order[i-1]>>32 {
			continue
		}
		end := i + 1
		for end < len(c.order) && c.order[end]>>32 == c.order[i]>>32 {
			end++
		}
		slices.SortFunc(c.order[i-1:end], func(a, b uint64) int {
			return compareSpans(&c.spans[uint32(a)], &c.spans[uint32(b)])
		})
		i = end
	}
}

// radixSort sorts c.order by bits 32 to limit. It is several times as fast as
// a sort by comparison on the 100,000 functions of a large library.
func (c *compiler) radixSort(limit uint) {
	const digit = 11
	c.swap = slices.Grow(c.swap[:0], len(c.order))[:len(c.order)]
	for shift := uint(32); shift < limit; shift += digit {
		var at [1 << digit]int
		for _, key := range c.order {
			at[key>>shift&(1<<digit-1)]++
		}
		sum := 0
		for i, count := range at {
			at[i] = sum
			sum += count
		}
		for _, key := range c.order {
			i := key >> shift & (1<<digit - 1)
			c.swap[at[i]] = key
			at[i]++
		}
		c.order, c.swap = c.swap, c.order
	}
}

func compareSpans(a, b *span) int {
	return cmp.Or(
		cmp.Compare(a.start, b.start),
		cmp.Compare(a.rank, b.rank),
		cmp.Compare(b.end, a.end),
		cmp.Compare(a.first, b.first),
	)
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
	if cap(l.rows) > len(l.rows)+len(l.rows)/8 {
		l.table.Rows = slices.Clone(l.rows)
	}
}

// segment writes the rows of one segment.
func (l *layout) segment(s segment) {
	end := s.vaddr + s.size
	position := s.vaddr // everything before it is written
	count := len(l.order)
	i := sort.Search(count, func(i int) bool { return l.at(i).start >= s.vaddr })
	// A signal frame's span starts before its code and may start before the
	// segment.
	for i > 0 && l.at(i-1).end > s.vaddr {
		i--
	}
	for ; i < count; i++ {
		sp := l.at(i)
		if sp.start >= end {
			break
		}
		from, to := max(sp.start, position), min(sp.end, end)
		if from >= to {
			continue
		}
		// A following span that is trusted at least as much cuts this one
		// short, as a search for the nearest start would.
		for j := i + 1; j < count; j++ {
			next := l.at(j)
			if next.start >= to {
				break
			}
			if next.rank <= sp.rank && next.start > from {
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

// at returns the span that is number i by address.
func (l *layout) at(i int) *span { return &l.spans[uint32(l.order[i])] }

// span writes the rows of sp that hold in [from, to).
func (l *layout) span(s segment, sp *span, from, to uint64) {
	rows := l.compiler.rows[sp.first : sp.first+sp.rows]
	base := sp.start - s.vaddr + s.off // 64-bit wrap-around is meant
	begin, end := from-s.vaddr+s.off, to-s.vaddr+s.off
	for len(rows) > 1 && base+rows[1]>>16 <= begin {
		rows = rows[1:]
	}
	for i, row := range rows {
		at := base + row>>16
		if i == 0 {
			at = begin
		}
		if at >= end {
			return
		}
		rule := uint16(row)
		if rule == l.current && at>>pageBits == l.page && l.open {
			continue
		}
		if i == 0 || at>>pageBits != l.page {
			l.put(at, rule)
			continue
		}
		// Rows of one span differ in offset, so none is to be replaced.
		l.rows = append(l.rows, uint32(rule)<<pageBits|uint32(at&(1<<pageBits-1)))
		l.current = rule
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
