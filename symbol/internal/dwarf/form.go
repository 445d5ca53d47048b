package dwarf

// value is one attribute value as it stands in the file. What u means depends
// on the form; for DW_FORM_string it is where the string starts.
type value struct {
	u    uint64
	form uint16 // 0: the attribute is absent
}

// value reads the value of an attribute.
func (c *cursor) value(a attribute, enc encoding) value {
	form := a.form
	if form == formIndirect {
		f := c.uleb()
		if f == formIndirect || f == formImplicitConst || f > 0xffff {
			c.fail()
			return value{}
		}
		form = uint16(f)
	}
	v := value{form: form}
	switch form {
	case formFlagPresent:
		v.u = 1
	case formImplicitConst:
		v.u = uint64(int64(a.implicit))
	case formString:
		v.u = uint64(c.pos)
		c.skipString()
	case formSdata:
		v.u = uint64(c.sleb())
	case formStrx3, formAddrx3:
		v.u = uint64(c.u24())
	case formData16:
		c.skip(16)
	default:
		size, op := formSize(form, enc)
		switch op {
		case 0:
			v.u = c.uint(uint8(size))
		case skipLEB:
			v.u = c.uleb()
		default:
			c.skipOp(op, enc)
		}
	}
	return v
}

// address interprets a value of class address.
func (d *Data) address(u *unit, v value) (addr uint64, ok bool) {
	switch v.form {
	case formAddr:
		return v.u, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return d.indexedAddress(u, v.u)
	}
	return 0, false
}

// indexedAddress reads entry index of the unit's table in .debug_addr.
func (d *Data) indexedAddress(u *unit, index uint64) (addr uint64, ok bool) {
	size := uint64(u.enc.addrSize)
	if index > uint64(len(d.sections.Addr)) {
		return 0, false
	}
	off := u.addrBase + index*size
	if off < u.addrBase || off > uint64(len(d.sections.Addr)) {
		return 0, false
	}
	c := cursor{data: d.sections.Addr, pos: int(off)}
	addr = c.uint(u.enc.addrSize)
	return addr, !c.failed
}

// text interprets a value of class string. The result aliases the file.
func (d *Data) text(u *unit, v value) []byte {
	switch v.form {
	case formString:
		return stringAt(d.sections.Info, v.u)
	case formLineString:
		return stringAt(d.sections.Line, v.u)
	case formStrp:
		return stringAt(d.sections.Str, v.u)
	case formLineStrp:
		return stringAt(d.sections.LineStr, v.u)
	case formStrpSup, formGNUStrpAlt:
		if d.sup != nil {
			return stringAt(d.sup.sections.Str, v.u)
		}
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		if v.u > uint64(len(d.sections.StrOffsets)) {
			return nil
		}
		off := u.strOffsetsBase + v.u*uint64(u.enc.offsetSize())
		if off < u.strOffsetsBase || off > uint64(len(d.sections.StrOffsets)) {
			return nil
		}
		c := cursor{data: d.sections.StrOffsets, pos: int(off)}
		at := c.offset(u.enc.is64)
		if !c.failed {
			return stringAt(d.sections.Str, at)
		}
	}
	return nil
}

// constant interprets a value of class constant.
func constant(v value) (n uint64, ok bool) {
	switch v.form {
	case formData1, formData2, formData4, formData8, formUdata, formSdata, formImplicitConst:
		return v.u, true
	}
	return 0, false
}

// dieRef is the offset of a DIE in .debug_info; inSup marks one in the
// supplementary file's. Sections are shorter than 2 GiB (New checks it).
type dieRef uint32

const (
	inSup dieRef = 1 << 31
	noDIE dieRef = 0 // a unit header is there
)

// reference interprets a value of class reference. References by type
// signature lead to types only and are not followed.
func (d *Data) reference(u *unit, v value) (ref dieRef, ok bool) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		off := uint64(u.off) + v.u
		return dieRef(off), v.u < uint64(u.end-u.off)
	case formRefAddr:
		return dieRef(v.u), v.u < uint64(len(d.sections.Info))
	case formRefSup4, formRefSup8, formGNURefAlt:
		if d.sup != nil && v.u < uint64(len(d.sup.sections.Info)) {
			return dieRef(v.u) | inSup, true
		}
	}
	return 0, false
}
