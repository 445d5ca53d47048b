package dwarf

import (
	"cmp"
	"slices"
	"sort"
)

// functionRange is one range of a function; a function split into hot and
// cold parts has several.
type functionRange struct {
	addrRange
	function int32
}

// function is a DW_TAG_subprogram with code.
type function struct {
	body *body // nil until several addresses were looked up
	die  int   // offset in .debug_info
	hits int   // lookups without body
}

// functionIndex finds the function of an address within one unit.
type functionIndex struct {
	functions []function
	ranges    []functionRange // sorted by low
	high      []uint64        // greatest end of ranges[:i+1]
	complete  bool            // every DIE was visited
}

// functionIndex returns the unit's index. The quick form passes over types and
// function bodies where DW_AT_sibling allows it: functions with code are rarely
// inside. complete visits every DIE.
func (d *Data) functionIndex(u *unit, complete bool) *functionIndex {
	if u.functions != nil && (u.functions.complete || !complete) {
		return u.functions
	}
	index := &functionIndex{complete: complete}
	d.heavy -= u.cost
	u.functions, u.cost = index, 0
	d.scanFunctions(u, index)
	slices.SortFunc(index.ranges, func(a, b functionRange) int {
		// Identical code that the linker folded: the first DIE is found first.
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(b.function, a.function))
	})
	index.high = make([]uint64, len(index.ranges))
	var high uint64
	for i, r := range index.ranges {
		high = max(high, r.high)
		index.high[i] = high
	}
	d.charge(u, 24*len(index.functions)+32*len(index.ranges))
	return index
}

// charge adds bytes to what the unit holds.
func (d *Data) charge(u *unit, bytes int) {
	u.cost += bytes
	d.heavy += bytes
}

// scanFunctions collects the functions of a unit.
func (d *Data) scanFunctions(u *unit, index *functionIndex) {
	table := d.tableOf(u)
	if table == nil {
		index.complete = true
		return
	}
	passed := false
	var scratch []addrRange
	c := cursor{data: d.sections.Info[:u.end], pos: u.dieOff}
	for depth := 0; c.pos < len(c.data); {
		die := c.pos
		code := c.uleb()
		if code == 0 {
			if depth--; depth <= 0 {
				break
			}
			continue
		}
		a := table.find(code)
		if a == nil {
			break
		}
		sibling := uint64(0)
		if a.tag == tagSubprogram && a.hasCode {
			var at codeAttrs
			for _, attr := range a.attrs {
				switch attr.name {
				case attrLowPC:
					at.low = c.value(attr, u.enc)
				case attrHighPC:
					at.high = c.value(attr, u.enc)
				case attrRanges:
					at.ranges = c.value(attr, u.enc)
				case attrSibling:
					sibling = siblingOf(u, c.value(attr, u.enc))
				default:
					c.skipForm(attr.form, u.enc)
				}
			}
			scratch = d.appendRanges(scratch[:0], u, at)
			if len(scratch) > 0 && len(index.ranges)+len(scratch) <= maxRangesPerUnit {
				n := int32(len(index.functions))
				index.functions = append(index.functions, function{die: die})
				for _, r := range scratch {
					index.ranges = append(index.ranges, functionRange{r, n})
				}
			}
		} else if a.children && a.sibling >= 0 && !index.complete && !mayHoldFunctions(a.tag) {
			sibling = c.siblingDIE(a, u)
		} else {
			c.skipDIE(a, u.enc)
		}
		if c.failed {
			break
		}
		if !a.children {
			continue
		}
		if sibling > uint64(c.pos) && sibling < uint64(len(c.data)) && !index.complete {
			passed = true
			c.pos = int(sibling)
			continue
		}
		if depth++; depth > maxNesting {
			break
		}
	}
	if !passed {
		index.complete = true
	}
}

// mayHoldFunctions reports whether DIEs with a tag usually have functions with
// code among their children.
func mayHoldFunctions(tag uint16) bool {
	switch tag {
	case tagCompileUnit, tagPartialUnit, tagSkeletonUnit, tagNamespace, tagModule:
		return true
	}
	return false
}

// siblingOf returns the offset DW_AT_sibling names.
func siblingOf(u *unit, v value) uint64 {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		return uint64(u.off) + v.u
	}
	return 0
}

// siblingDIE passes the attributes of a DIE and returns its DW_AT_sibling, or
// 0 where that is of no use.
func (c *cursor) siblingDIE(a *abbrev, u *unit) (sibling uint64) {
	if size := int(a.lastSize); size > 0 {
		c.skipDIE(a, u.enc)
		if c.failed {
			return 0
		}
		last := cursor{data: c.data, pos: c.pos - size}
		if sibling = uint64(u.off) + last.uint(uint8(size)); sibling > uint64(c.pos) {
			return sibling
		}
		return 0
	}
	index := int(a.sibling)
	for _, attr := range a.attrs[:index] {
		c.skipForm(attr.form, u.enc)
	}
	sibling = siblingOf(u, c.value(a.attrs[index], u.enc))
	if sibling > uint64(c.pos) {
		return sibling // the caller moves there
	}
	for _, attr := range a.attrs[index+1:] {
		c.skipForm(attr.form, u.enc)
	}
	return 0
}

// tableOf returns the unit's abbreviations, or nil.
func (d *Data) tableOf(u *unit) *abbrevTable {
	if u.table == nil {
		table, err := d.abbrevs(u.abbrevOff, u.enc)
		if err != nil {
			return nil
		}
		u.table = table
	}
	return u.table
}

// functionAt returns the function of the unit that contains pc, or nil.
func (d *Data) functionAt(u *unit, pc uint64) *function {
	index := d.functionIndex(u, false)
	f := index.find(pc)
	if f == nil && !index.complete {
		index = d.functionIndex(u, true)
		f = index.find(pc)
	}
	return f
}

func (x *functionIndex) find(pc uint64) *function {
	i := sort.Search(len(x.ranges), func(i int) bool { return x.ranges[i].low > pc })
	for steps := 0; i > 0 && x.high[i-1] > pc && steps < maxOverlap; steps++ {
		i--
		if r := x.ranges[i]; r.high > pc {
			return &x.functions[r.function]
		}
	}
	return nil
}
