package dwarf

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// unit is one unit of .debug_info. Only its header and root DIE are read when
// the file is opened; functions, bodies and lines follow on first use.
type unit struct {
	off, dieOff, end int // of the section: header, root DIE, past the last byte
	enc              encoding
	kind             uint8
	abbrevOff        uint64

	// Attributes of the root DIE.
	lowPC          uint64
	addrBase       uint64
	strOffsetsBase uint64
	rnglistsBase   uint64
	stmtList       uint64
	hasLines       bool
	cPlusPlus      bool
	compDir        value

	table     *abbrevTable
	functions *functionIndex // nil until a lookup needs it
	lines     *lineTable     // nil until a lookup needs it
	scopes    []scope        // nil until a name is to be qualified
	used      uint64         // clock of the last lookup
	cost      int            // bytes that functions and scopes hold
}

// rangeOwner says that a unit claims a range of addresses.
type rangeOwner struct {
	addrRange
	unit int32
}

// parseUnits reads the headers of all units.
func (d *Data) parseUnits() error {
	info := d.sections.Info
	for off := 0; off < len(info); {
		c := cursor{data: info, pos: off}
		length, is64 := c.unitLength()
		start := c.pos
		if c.failed || length > uint64(len(info)-start) {
			// What comes before is still good.
			if len(d.units) > 0 {
				return nil
			}
			return fmt.Errorf("read unit header at %#x: length exceeds the section", off)
		}
		end := start + int(length)
		c.data = info[:end]
		u := unit{off: off, end: end, kind: unitCompile}
		version := c.u16()
		u.enc = encoding{version: uint8(version), is64: is64}
		switch {
		case version >= 2 && version <= 4:
			u.abbrevOff = c.offset(is64)
			u.enc.addrSize = c.u8()
		case version == 5:
			u.kind = c.u8()
			u.enc.addrSize = c.u8()
			u.abbrevOff = c.offset(is64)
			switch u.kind {
			case unitSkeleton, unitSplitCompile:
				c.skip(8) // id of the split unit
			case unitType, unitSplitType:
				c.skip(8) // type signature
				c.offset(is64)
			}
		default:
			u.kind = 0 // a version to come: pass it
		}
		off = end
		if c.failed || u.kind == 0 || u.enc.addrSize != 8 && u.enc.addrSize != 4 {
			continue
		}
		u.dieOff = c.pos
		d.units = append(d.units, u)
	}
	return nil
}

// parseRoot reads the root DIE of a unit and appends the ranges it claims.
func (d *Data) parseRoot(u *unit, dst []addrRange) []addrRange {
	c := cursor{data: d.sections.Info[:u.end], pos: u.dieOff}
	code := c.uleb()
	if code == 0 || c.failed || u.abbrevOff > uint64(len(d.sections.Abbrev)) {
		return dst
	}
	// The other abbreviations are not needed before a function is looked up.
	root := parseAbbrevs(d.sections.Abbrev[u.abbrevOff:], u.enc, code).find(code)
	if root == nil {
		return dst
	}
	// Without the attribute a table starts after its header (DWARF 5, 7.26).
	u.strOffsetsBase = 8
	u.addrBase = 8
	u.rnglistsBase = 12
	if u.enc.is64 {
		u.strOffsetsBase, u.addrBase, u.rnglistsBase = 16, 16, 20
	}
	if u.enc.version < 5 {
		u.addrBase = 0
	}
	var at codeAttrs
	for _, a := range root.attrs {
		v := c.value(a, u.enc)
		switch a.name {
		case attrLowPC:
			at.low = v
		case attrHighPC:
			at.high = v
		case attrRanges:
			at.ranges = v
		case attrStmtList:
			u.stmtList, u.hasLines = v.u, true
		case attrLanguage:
			u.cPlusPlus = isCPlusPlus(v.u)
		case attrCompDir:
			u.compDir = v
		case attrStrOffsetsBase:
			u.strOffsetsBase = v.u
		case attrAddrBase, attrGNUAddrBase:
			u.addrBase = v.u
		case attrRnglistsBase:
			u.rnglistsBase = v.u
		}
	}
	if c.failed || root.tag == tagTypeUnit {
		return dst
	}
	// Bases may follow the attributes that need them.
	if at.low.form != 0 {
		u.lowPC, _ = d.address(u, at.low)
	}
	return d.appendRanges(dst, u, at)
}

// indexUnits finds the addresses of every unit.
func (d *Data) indexUnits() {
	var scratch []addrRange
	total := 0
	for i := range d.units {
		u := &d.units[i]
		scratch = d.parseRoot(u, scratch[:0])
		if len(scratch) == 0 && (u.kind == unitCompile || u.kind == unitPartial) {
			d.rangeless = append(d.rangeless, int32(i))
		}
		if total += len(scratch); total > maxRangesPerUnit {
			break
		}
		for _, r := range scratch {
			d.owners = append(d.owners, rangeOwner{r, int32(i)})
		}
	}
	d.sortOwners()
}

// indexRangeless looks for functions in units that do not tell their
// addresses, as some assemblers and old compilers leave them.
func (d *Data) indexRangeless() {
	for _, i := range d.rangeless {
		u := &d.units[i]
		index := d.functionIndex(u, true)
		for _, f := range index.ranges {
			d.owners = append(d.owners, rangeOwner{f.addrRange, i})
		}
		if len(d.owners) > maxRangesPerUnit {
			break
		}
	}
	d.rangeless = nil
	d.sortOwners()
}

func (d *Data) sortOwners() {
	slices.SortFunc(d.owners, func(a, b rangeOwner) int {
		// Units that share a COMDAT function all claim the copy that the linker
		// kept, which is that of the first; so that one is found first.
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(b.unit, a.unit))
	})
	d.ownerHigh = make([]uint64, len(d.owners))
	var high uint64
	for i, o := range d.owners {
		high = max(high, o.high)
		d.ownerHigh[i] = high
	}
}

// maxOverlap bounds how many ranges that contain an address are tried.
const maxOverlap = 64

// unitsOf calls try for the units that claim pc, the one with the closest
// start first, until it returns true.
func (d *Data) unitsOf(pc uint64, try func(*unit) bool) bool {
	i := sort.Search(len(d.owners), func(i int) bool { return d.owners[i].low > pc })
	for steps := 0; i > 0 && d.ownerHigh[i-1] > pc && steps < maxOverlap; steps++ {
		i--
		if o := d.owners[i]; o.high > pc && try(&d.units[o.unit]) {
			return true
		}
	}
	return false
}

// unitAt returns the unit whose DIEs include off.
func (d *Data) unitAt(off uint64) *unit {
	i := sort.Search(len(d.units), func(i int) bool { return uint64(d.units[i].end) > off })
	if i == len(d.units) || off < uint64(d.units[i].dieOff) {
		return nil
	}
	return &d.units[i]
}
