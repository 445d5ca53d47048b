package dwarf

// addrRange is [low, high) of ELF addresses.
type addrRange struct{ low, high uint64 }

// codeAttrs are the attributes that tell which addresses a DIE covers.
type codeAttrs struct {
	low, high, ranges value
	sibling           uint64 // offset of the next DIE beside it, or 0
}

// appendRanges adds the address ranges of a DIE (DWARF 5, 2.17). Ranges that
// lie outside the code of the file belong to functions the linker discarded.
func (d *Data) appendRanges(dst []addrRange, u *unit, at codeAttrs) []addrRange {
	if at.ranges.form != 0 {
		if u.enc.version >= 5 {
			return d.appendRnglist(dst, u, at.ranges)
		}
		return d.appendDebugRanges(dst, u, at.ranges.u)
	}
	if at.low.form == 0 || at.high.form == 0 {
		return dst
	}
	low, ok := d.address(u, at.low)
	if !ok {
		return dst
	}
	// DW_AT_high_pc is an address or, since DWARF 4, a length.
	if length, ok := constant(at.high); ok {
		return d.appendRange(dst, low, low+length)
	}
	if high, ok := d.address(u, at.high); ok {
		return d.appendRange(dst, low, high)
	}
	return dst
}

func (d *Data) appendRange(dst []addrRange, low, high uint64) []addrRange {
	if low >= high || low < d.code.low || low >= d.code.high {
		return dst
	}
	return append(dst, addrRange{low, min(high, d.code.high)})
}

// appendDebugRanges reads a list of .debug_ranges (DWARF 4, 2.17.3).
func (d *Data) appendDebugRanges(dst []addrRange, u *unit, off uint64) []addrRange {
	if off > uint64(len(d.sections.Ranges)) {
		return dst
	}
	c := cursor{data: d.sections.Ranges, pos: int(off)}
	base := u.lowPC
	selection := ^uint64(0)
	if u.enc.addrSize == 4 {
		selection = 0xffffffff
	}
	for range maxRangesPerDIE {
		low, high := c.uint(u.enc.addrSize), c.uint(u.enc.addrSize)
		switch {
		case c.failed || low == 0 && high == 0:
			return dst
		case low == selection:
			base = high
		default:
			dst = d.appendRange(dst, base+low, base+high)
		}
	}
	return dst
}

// appendRnglist reads a list of .debug_rnglists (DWARF 5, 7.25).
func (d *Data) appendRnglist(dst []addrRange, u *unit, v value) []addrRange {
	section := d.sections.Rnglists
	off := v.u
	if v.form == formRnglistx {
		if v.u > uint64(len(section)) {
			return dst
		}
		entry := u.rnglistsBase + v.u*uint64(u.enc.offsetSize())
		if entry < u.rnglistsBase || entry > uint64(len(section)) {
			return dst
		}
		c := cursor{data: section, pos: int(entry)}
		off = u.rnglistsBase + c.offset(u.enc.is64)
		if c.failed || off < u.rnglistsBase {
			return dst
		}
	}
	if off > uint64(len(section)) {
		return dst
	}
	c := cursor{data: section, pos: int(off)}
	base := u.lowPC
	for range maxRangesPerDIE {
		switch c.u8() {
		case rleBaseAddressx:
			addr, ok := d.indexedAddress(u, c.uleb())
			if !ok {
				return dst
			}
			base = addr
		case rleStartxEndx:
			low, ok := d.indexedAddress(u, c.uleb())
			high, okHigh := d.indexedAddress(u, c.uleb())
			if ok && okHigh {
				dst = d.appendRange(dst, low, high)
			}
		case rleStartxLength:
			low, ok := d.indexedAddress(u, c.uleb())
			length := c.uleb()
			if ok {
				dst = d.appendRange(dst, low, low+length)
			}
		case rleOffsetPair:
			low, high := c.uleb(), c.uleb()
			// An offset pair that starts at a discarded base is discarded too.
			if base >= d.code.low || base == 0 && u.lowPC == 0 {
				dst = d.appendRange(dst, base+low, base+high)
			}
		case rleBaseAddress:
			base = c.uint(u.enc.addrSize)
		case rleStartEnd:
			low, high := c.uint(u.enc.addrSize), c.uint(u.enc.addrSize)
			dst = d.appendRange(dst, low, high)
		case rleStartLength:
			low := c.uint(u.enc.addrSize)
			length := c.uleb()
			dst = d.appendRange(dst, low, low+length)
		default: // end of list, the end of the section, or not a list
			return dst
		}
		if c.failed {
			return dst
		}
	}
	return dst
}
