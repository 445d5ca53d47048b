package dwarf

import "fmt"

// attribute is one attribute specification of an abbreviation.
type attribute struct {
	name     uint16
	form     uint16
	implicit int32 // of DW_FORM_implicit_const: a line, a column or a flag
}

// Ops of an abbreviation's skip program: a value >= 0 is a number of bytes to
// pass, the others name a field whose size its contents tell.
const (
	skipLEB = -1 - iota
	skipCString
	skipBlock1
	skipBlock2
	skipBlock4
	skipBlockLEB
	skipIndirect
)

// abbrev is one abbreviation, compiled so that a DIE can be passed without
// looking at its attributes one by one.
type abbrev struct {
	attrs    []attribute
	skip     []int16
	tag      uint16
	children bool
	hasCode  bool // it has an address: DW_AT_low_pc or DW_AT_ranges
	sibling  int8 // index of DW_AT_sibling in attrs, or -1
	lastSize int8 // size of DW_AT_sibling where it comes last, as GCC has it; else 0
}

// abbrevTable maps abbreviation codes, which producers number from 1.
type abbrevTable struct {
	dense  []abbrev // by code-1; tag 0 where the code is unused
	sparse map[uint64]*abbrev
	cost   int // bytes held
}

func (t *abbrevTable) find(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		if a := &t.dense[code-1]; a.tag != 0 {
			return a
		}
		return nil
	}
	return t.sparse[code]
}

// encoding is what the size of a form depends on.
type encoding struct {
	version  uint8
	addrSize uint8
	is64     bool
}

func (e encoding) offsetSize() int {
	if e.is64 {
		return 8
	}
	return 4
}

type abbrevKey struct {
	off uint64
	encoding
}

// abbrevs returns the table at off of .debug_abbrev for units of an encoding.
func (d *Data) abbrevs(off uint64, enc encoding) (*abbrevTable, error) {
	key := abbrevKey{off, enc}
	if t := d.abbrevTables[key]; t != nil {
		return t, nil
	}
	if off > uint64(len(d.sections.Abbrev)) {
		return nil, fmt.Errorf("read abbreviations at %#x: past the end of the section", off)
	}
	t := parseAbbrevs(d.sections.Abbrev[off:], enc, 0)
	if d.abbrevTables == nil {
		d.abbrevTables = make(map[abbrevKey]*abbrevTable)
	}
	d.abbrevTables[key] = t
	d.heavy += t.cost
	return t, nil
}

// parseAbbrevs reads one table, or only as far as the code last when that is
// not 0. A malformed entry ends it: its DIEs are then unknown, which ends the
// walk over them.
func parseAbbrevs(data []byte, enc encoding, last uint64) *abbrevTable {
	t := &abbrevTable{}
	c := cursor{data: data}
	// Entries share two arenas; their slices are cut once these stop growing.
	var attrs []attribute
	var skips []int16
	type span struct{ attrs, skips int }
	type entry struct {
		code  uint64
		value abbrev
		start span
		end   span
	}
	var entries []entry
	for {
		code := c.uleb()
		if code == 0 || c.failed {
			break
		}
		e := entry{code: code, start: span{len(attrs), len(skips)}}
		e.value.tag = uint16(c.uleb())
		e.value.children = c.u8() != 0
		e.value.sibling = -1
		fixed := 0
		for {
			name, form := c.uleb(), c.uleb()
			if name == 0 && form == 0 || c.failed {
				break
			}
			a := attribute{name: uint16(name), form: uint16(form)}
			if form > 0xffff {
				a.form = 0xffff
			}
			if form == formImplicitConst {
				a.implicit = int32(c.sleb())
			}
			index := len(attrs) - e.start.attrs
			switch a.name {
			case attrSibling:
				if index < 127 {
					e.value.sibling = int8(index)
				}
			case attrLowPC, attrRanges:
				e.value.hasCode = true
			}
			attrs = append(attrs, a)
			size, op := formSize(a.form, enc)
			if op == 0 {
				fixed += size
				if fixed < 1<<14 {
					continue
				}
			}
			if fixed > 0 {
				skips = append(skips, int16(fixed))
				fixed = 0
			}
			if op != 0 {
				skips = append(skips, op)
			}
		}
		if fixed > 0 {
			skips = append(skips, int16(fixed))
		}
		if c.failed {
			break
		}
		e.end = span{len(attrs), len(skips)}
		if last := e.end.attrs - 1; e.value.sibling >= 0 && int(e.value.sibling) == last-e.start.attrs {
			switch attrs[last].form {
			case formRef1, formRef2, formRef4, formRef8:
				size, _ := formSize(attrs[last].form, enc)
				e.value.lastSize = int8(size)
			}
		}
		entries = append(entries, e)
		if code == last {
			break
		}
	}
	t.cost = 72*len(entries) + 8*len(attrs) + 2*len(skips)
	t.dense = make([]abbrev, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		e.value.attrs = attrs[e.start.attrs:e.end.attrs:e.end.attrs]
		e.value.skip = skips[e.start.skips:e.end.skips:e.end.skips]
		if e.value.tag == 0 {
			continue
		}
		if e.code <= uint64(2*len(entries)+16) {
			for uint64(len(t.dense)) < e.code {
				t.dense = append(t.dense, abbrev{})
			}
			// The first definition of a code counts.
			if t.dense[e.code-1].tag == 0 {
				t.dense[e.code-1] = e.value
			}
			continue
		}
		if t.sparse == nil {
			t.sparse = make(map[uint64]*abbrev)
		}
		if t.sparse[e.code] == nil {
			t.sparse[e.code] = &e.value
		}
	}
	return t
}

// unknownForm makes the skip program fail.
const unknownForm = -100

// formSize returns the size of a form in bytes, or the op that passes it.
func formSize(form uint16, enc encoding) (size int, op int16) {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0, 0
	case formData1, formFlag, formRef1, formStrx1, formAddrx1:
		return 1, 0
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2, 0
	case formStrx3, formAddrx3:
		return 3, 0
	case formData4, formRef4, formRefSup4, formStrx4, formAddrx4:
		return 4, 0
	case formData8, formRef8, formRefSup8, formRefSig8:
		return 8, 0
	case formData16:
		return 16, 0
	case formAddr:
		return int(enc.addrSize), 0
	case formRefAddr:
		if enc.version <= 2 {
			return int(enc.addrSize), 0
		}
		return enc.offsetSize(), 0
	case formStrp, formSecOffset, formLineStrp, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return enc.offsetSize(), 0
	case formUdata, formSdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx,
		formGNUAddrIndex, formGNUStrIndex:
		return 0, skipLEB
	case formString:
		return 0, skipCString
	case formBlock1:
		return 0, skipBlock1
	case formBlock2:
		return 0, skipBlock2
	case formBlock4:
		return 0, skipBlock4
	case formBlock, formExprloc:
		return 0, skipBlockLEB
	case formIndirect:
		return 0, skipIndirect
	}
	return 0, unknownForm
}

// skipDIE moves past the attributes of a DIE.
func (c *cursor) skipDIE(a *abbrev, enc encoding) {
	for _, op := range a.skip {
		if op >= 0 {
			c.pos += int(op)
			if c.pos > len(c.data) {
				c.fail()
				return
			}
			continue
		}
		c.skipOp(op, enc)
	}
}

func (c *cursor) skipOp(op int16, enc encoding) {
	switch op {
	case skipLEB:
		for c.pos < len(c.data) {
			c.pos++
			if c.data[c.pos-1] < 0x80 {
				return
			}
		}
		c.fail()
	case skipCString:
		c.skipString()
	case skipBlock1:
		c.skip(uint64(c.u8()))
	case skipBlock2:
		c.skip(uint64(c.u16()))
	case skipBlock4:
		c.skip(uint64(c.u32()))
	case skipBlockLEB:
		c.skip(c.uleb())
	case skipIndirect:
		form := c.uleb()
		if form == formIndirect || form == formImplicitConst || form > 0xffff {
			c.fail()
			return
		}
		c.skipForm(uint16(form), enc)
	default:
		c.fail()
	}
}

// skipForm moves past one value.
func (c *cursor) skipForm(form uint16, enc encoding) {
	size, op := formSize(form, enc)
	if op == 0 {
		c.skip(uint64(size))
		return
	}
	c.skipOp(op, enc)
}
