package dwarf

import "bytes"

// cursor reads little-endian fields off a section. Reading past the end sets
// failed and returns zeros, so that callers check once.
type cursor struct {
	data   []byte
	pos    int
	failed bool
}

// fail marks the cursor and moves it to the end, which ends every loop over
// its contents.
func (c *cursor) fail() {
	c.failed = true
	c.pos = len(c.data)
}

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.data)-c.pos) {
		c.fail()
		return
	}
	c.pos += int(n)
}

func (c *cursor) u8() uint8 {
	if c.pos >= len(c.data) {
		c.fail()
		return 0
	}
	b := c.data[c.pos]
	c.pos++
	return b
}

func (c *cursor) u16() uint16 {
	if len(c.data)-c.pos < 2 {
		c.fail()
		return 0
	}
	b := c.data[c.pos : c.pos+2]
	c.pos += 2
	return uint16(b[0]) | uint16(b[1])<<8
}

func (c *cursor) u24() uint32 {
	low := uint32(c.u16())
	return low | uint32(c.u8())<<16
}

func (c *cursor) u32() uint32 {
	if len(c.data)-c.pos < 4 {
		c.fail()
		return 0
	}
	b := c.data[c.pos : c.pos+4]
	c.pos += 4
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func (c *cursor) u64() uint64 {
	low := uint64(c.u32())
	return low | uint64(c.u32())<<32
}

// uint reads an unsigned number of size 1, 2, 4 or 8 bytes.
func (c *cursor) uint(size uint8) uint64 {
	switch size {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.fail()
	return 0
}

// offset reads a section offset of the 32-bit or 64-bit DWARF format.
func (c *cursor) offset(is64 bool) uint64 {
	if is64 {
		return c.u64()
	}
	return uint64(c.u32())
}

func (c *cursor) uleb() uint64 {
	if c.pos < len(c.data) {
		if b := c.data[c.pos]; b < 0x80 {
			c.pos++
			return uint64(b)
		}
	}
	return c.ulebLong()
}

func (c *cursor) ulebLong() uint64 {
	var value uint64
	for shift := uint(0); ; shift += 7 {
		if c.pos >= len(c.data) {
			c.fail()
			return 0
		}
		b := c.data[c.pos]
		c.pos++
		if shift < 64 {
			value |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return value
		}
	}
}

func (c *cursor) sleb() int64 {
	var value int64
	for shift := uint(0); ; shift += 7 {
		if c.pos >= len(c.data) {
			c.fail()
			return 0
		}
		b := c.data[c.pos]
		c.pos++
		if shift < 64 {
			value |= int64(b&0x7f) << shift
		}
		if b < 0x80 {
			if b&0x40 != 0 && shift+7 < 64 {
				value |= -1 << (shift + 7)
			}
			return value
		}
	}
}

// skipString passes a NUL-terminated string.
func (c *cursor) skipString() {
	n := bytes.IndexByte(c.data[c.pos:], 0)
	if n < 0 {
		c.fail()
		return
	}
	c.pos += n + 1
}

// stringAt returns the NUL-terminated string at off of a string section.
func stringAt(section []byte, off uint64) []byte {
	if off >= uint64(len(section)) {
		return nil
	}
	s := section[off:]
	n := bytes.IndexByte(s, 0)
	if n < 0 {
		return nil
	}
	return s[:n]
}

// unitLength reads an initial length and tells the DWARF format by it
// (DWARF 5, 7.4).
func (c *cursor) unitLength() (length uint64, is64 bool) {
	length = uint64(c.u32())
	switch {
	case length == 0xffffffff:
		return c.u64(), true
	case length >= 0xfffffff0:
		c.fail()
	}
	return length, false
}
