package dwarf

import "sort"

// inlined is one DW_TAG_inlined_subroutine of a function.
type inlined struct {
	origin   dieRef
	parent   int32 // index of the inlined subroutine around it, or -1
	callFile uint32
	callLine uint32
	callCol  uint32
	hasName  bool // origin is valid
}

// segment says which inlined subroutine is innermost from low on.
type segment struct {
	low  uint64
	node int32 // -1: the function itself
}

// body is what was inlined into a function.
type body struct {
	nodes    []inlined
	segments []segment // sorted by low
}

// at returns the innermost inlined subroutine at pc, or -1.
func (b *body) at(pc uint64) int32 {
	i := sort.Search(len(b.segments), func(i int) bool { return b.segments[i].low > pc })
	if i == 0 {
		return -1
	}
	return b.segments[i-1].node
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
		case a.children && a.tag != tagLexicalBlock && a.sibling >= 0:
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
	b.segments = flatten(ranges)
	d.nodeRanges, d.nodeStack = ranges[:0], stack[:0]
	return b
}

// foreign marks what is inlined into a nested function.
const foreign = -2

// parseInlined reads the attributes of a DW_TAG_inlined_subroutine.
func (d *Data) parseInlined(c *cursor, a *abbrev, u *unit) (node inlined, at codeAttrs) {
	for _, attr := range a.attrs {
		switch attr.name {
		case attrLowPC:
			at.low = c.value(attr, u.enc)
		case attrHighPC:
			at.high = c.value(attr, u.enc)
		case attrRanges:
			at.ranges = c.value(attr, u.enc)
		case attrAbstractOrigin:
			node.origin, node.hasName = d.reference(u, c.value(attr, u.enc))
		case attrCallFile:
			node.callFile = uint32(c.value(attr, u.enc).u)
		case attrCallLine:
			node.callLine = uint32(c.value(attr, u.enc).u)
		case attrCallColumn:
			node.callCol = uint32(c.value(attr, u.enc).u)
		default:
			c.skipForm(attr.form, u.enc)
		}
	}
	return node, at
}

// flatten turns nested ranges into segments that do not overlap. Where ranges
// overlap the one that starts later, or is deeper, is innermost.
func flatten(ranges []nodeRange) []segment {
	if len(ranges) == 0 {
		return nil
	}
	sort.SliceStable(ranges, func(i, j int) bool {
		if ranges[i].low != ranges[j].low {
			return ranges[i].low < ranges[j].low
		}
		return ranges[i].node < ranges[j].node // a child follows its parent
	})
	segments := make([]segment, 0, 2*len(ranges)+1)
	emit := func(low uint64, node int32) {
		if n := len(segments); n > 0 && segments[n-1].low == low {
			segments[n-1].node = node
			return
		}
		segments = append(segments, segment{low, node})
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
	closeUntil(^uint64(0))
	return segments
}
