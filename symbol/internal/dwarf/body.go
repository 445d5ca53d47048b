package dwarf

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// inlined is one DW_TAG_inlined_subroutine of a function.
type inlined struct {
	origin   dieRef // noDIE when absent
	parent   int32  // index of the inlined subroutine around it, or -1
	callFile uint32
	callLine uint32
	callCol  uint16
}

// segment says which inlined subroutine is innermost from an address on.
type segment struct {
	start uint32 // from body.low
	node  int32  // -1: the function itself
}

// body is what was inlined into a function.
type body struct {
	low      uint64 // of the first segment
	nodes    []inlined
	segments []segment // sorted by start
}

// at returns the innermost inlined subroutine at pc, or -1.
func (b *body) at(pc uint64) int32 {
	i := sort.Search(len(b.segments), func(i int) bool { return b.low+uint64(b.segments[i].start) > pc })
	if i == 0 {
		return -1
	}
	return b.segments[i-1].node
}

// walkBody appends the inlined subroutines around pc, the outermost first. It
// passes over those that pc is not in, which makes it much cheaper than
// parseBody for a few addresses of a function.
func (d *Data) walkBody(dst []inlined, u *unit, f *function, pc uint64) []inlined {
	table := d.tableOf(u)
	if table == nil {
		return dst
	}
	c := cursor{data: d.sections.Info[:u.end], pos: f.die}
	own := table.find(c.uleb())
	if own == nil || !own.children {
		return dst
	}
	c.skipDIE(own, u.enc)
	// Inlined subroutines that were optimized away have no addresses, but may
	// be around one that has.
	type pending struct {
		inlined
		depth int
	}
	var empty []pending
	for depth := 1; c.pos < len(c.data); {
		code := c.uleb()
		if code == 0 {
			if depth--; depth == 0 {
				break
			}
			if n := len(empty) - 1; n >= 0 && empty[n].depth == depth {
				empty = empty[:n]
			}
			continue
		}
		a := table.find(code)
		if a == nil {
			break
		}
		switch {
		case a.tag == tagInlinedSubroutine:
			node, at := d.parseInlined(&c, a, u)
			d.scratch = d.appendRanges(d.scratch[:0], u, at)
			if len(d.scratch) == 0 {
				if a.children && len(empty) < maxNesting {
					empty = append(empty, pending{node, depth})
					depth++
				} else if a.children {
					return dst
				}
				continue
			}
			inside := slices.ContainsFunc(d.scratch, func(r addrRange) bool { return r.low <= pc && pc < r.high })
			switch {
			case inside:
				for _, e := range empty {
					dst = append(dst, e.inlined)
				}
				dst, empty = append(dst, node), empty[:0]
				if !a.children {
					return dst
				}
				depth = 1 // what is beside it does not matter any more
			case !a.children:
			case at.sibling > uint64(c.pos):
				c.skip(at.sibling - uint64(c.pos))
			default:
				c.skipChildren(table, u)
			}
		case a.children && holdsInlined(a.tag):
			c.skipDIE(a, u.enc)
			depth++
		case a.children:
			c.skipTree(a, table, u)
		default:
			c.skipDIE(a, u.enc)
		}
	}
	return dst
}

// holdsInlined reports whether DIEs with a tag are blocks of the function they
// are in.
func holdsInlined(tag uint16) bool {
	switch tag {
	case tagLexicalBlock, tagTryBlock, tagCatchBlock, tagWithStmt:
		return true
	}
	return false
}

// skipTree passes a DIE, from its attributes on, and all below it.
func (c *cursor) skipTree(a *abbrev, table *abbrevTable, u *unit) {
	if a.sibling < 0 {
		c.skipDIE(a, u.enc)
	} else if sibling := c.siblingDIE(a, u); sibling != 0 {
		c.skip(sibling - uint64(c.pos))
		return
	}
	if a.children {
		c.skipChildren(table, u)
	}
}

// skipChildren passes the DIEs below one whose attributes were read.
func (c *cursor) skipChildren(table *abbrevTable, u *unit) {
	for depth := 1; depth > 0 && c.pos < len(c.data); {
		code := c.uleb()
		if code == 0 {
			depth--
			continue
		}
		a := table.find(code)
		if a == nil {
			c.fail()
			return
		}
		if a.children && a.sibling >= 0 {
			if sibling := c.siblingDIE(a, u); sibling != 0 {
				c.skip(sibling - uint64(c.pos))
				continue
			}
		} else {
			c.skipDIE(a, u.enc)
		}
		if a.children {
			depth++
		}
	}
}

// nodeRange is a range of an inlined subroutine.
type nodeRange struct {
	addrRange
	node int32
}

// parseBody reads the DIEs below a function.
func (d *Data) parseBody(u *unit, f *function) *body {
	b := &body{}
	table := d.tableOf(u)
	if table == nil {
		return b
	}
	c := cursor{data: d.sections.Info[:u.end], pos: f.die}
	own := table.find(c.uleb())
	if own == nil || !own.children {
		return b
	}
	c.skipDIE(own, u.enc)

	ranges := d.nodeRanges[:0]
	// stack[depth] is the inlined subroutine around the DIEs of that depth.
	stack := append(d.nodeStack[:0], -1)
	for c.pos < len(c.data) {
		code := c.uleb()
		if code == 0 {
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				break
			}
			continue
		}
		a := table.find(code)
		if a == nil {
			break
		}
		around := stack[len(stack)-1]
		switch {
		case a.tag == tagInlinedSubroutine:
			n := int32(len(b.nodes))
			node, at := d.parseInlined(&c, a, u)
			node.parent = around
			b.nodes = append(b.nodes, node)
			d.scratch = d.appendRanges(d.scratch[:0], u, at)
			for _, r := range d.scratch {
				ranges = append(ranges, nodeRange{r, n})
			}
			around = n
		case a.children && !holdsInlined(a.tag) && a.sibling >= 0:
			// Call sites, types and nested functions hold no inlined code of
			// this function.
			if sibling := c.siblingDIE(a, u); sibling != 0 {
				c.skip(sibling - uint64(c.pos))
				continue
			}
		default:
			c.skipDIE(a, u.enc)
		}
		if c.failed {
			break
		}
		if a.children {
			if a.tag == tagSubprogram {
				around = foreign
			}
			if stack = append(stack, around); len(stack) > maxNesting {
				break
			}
		}
	}
	b.low, b.segments = flatten(ranges)
	b.nodes = slices.Clip(b.nodes)
	d.nodeRanges, d.nodeStack = ranges[:0], stack[:0]
	return b
}

// foreign marks what is inlined into a nested function.
const foreign = -2

// parseInlined reads the attributes of a DW_TAG_inlined_subroutine.
func (d *Data) parseInlined(c *cursor, a *abbrev, u *unit) (node inlined, at codeAttrs) {
	node.origin = noDIE
	for _, attr := range a.attrs {
		switch attr.name {
		case attrLowPC:
			at.low = c.value(attr, u.enc)
		case attrHighPC:
			at.high = c.value(attr, u.enc)
		case attrRanges:
			at.ranges = c.value(attr, u.enc)
		case attrSibling:
			at.sibling = siblingOf(u, c.value(attr, u.enc))
		case attrAbstractOrigin:
			if ref, ok := d.reference(u, c.value(attr, u.enc)); ok {
				node.origin = ref
			}
		case attrCallFile:
			node.callFile = uint32(c.value(attr, u.enc).u)
		case attrCallLine:
			node.callLine = uint32(c.value(attr, u.enc).u)
		case attrCallColumn:
			node.callCol = uint16(min(c.value(attr, u.enc).u, math.MaxUint16))
		default:
			c.skipForm(attr.form, u.enc)
		}
	}
	return node, at
}

// flatten turns nested ranges into segments that do not overlap. Where ranges
// overlap the one that starts later, or is deeper, is innermost.
func flatten(ranges []nodeRange) (base uint64, segments []segment) {
	if len(ranges) == 0 {
		return 0, nil
	}
	slices.SortFunc(ranges, func(a, b nodeRange) int {
		// A child follows its parent.
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(a.node, b.node))
	})
	base = ranges[0].low
	emit := func(low uint64, node int32) {
		if low-base > math.MaxUint32 {
			return // farther from its function than code models allow
		}
		start := uint32(low - base)
		if n := len(segments); n > 0 && segments[n-1].start == start {
			segments[n-1].node = node
			return
		}
		segments = append(segments, segment{start, node})
	}
	var open []nodeRange
	closeUntil := func(addr uint64) {
		for len(open) > 0 && open[len(open)-1].high <= addr {
			end := open[len(open)-1].high
			for len(open) > 0 && open[len(open)-1].high <= end {
				open = open[:len(open)-1]
			}
			node := int32(-1)
			if len(open) > 0 {
				node = open[len(open)-1].node
			}
			emit(end, node)
		}
	}
	for _, r := range ranges {
		closeUntil(r.low)
		emit(r.low, r.node)
		open = append(open, r)
	}
	closeUntil(math.MaxUint64)
	return base, slices.Clip(segments)
}
