package unwind

// overrun is the position after a value that runs past the end of its bytes.
// It is larger than every length, so one comparison after a sequence of reads
// finds it, and small enough that adding to it cannot overflow.
const overrun = 1 << 60

// uleb reads an unsigned LEB128 number at pos and returns the position after
// it. Bits beyond 64 are dropped.
func uleb(data []byte, pos int) (value uint64, next int) {
	if pos < len(data) && data[pos] < 0x80 {
		return uint64(data[pos]), pos + 1
	}
	return ulebLong(data, pos)
}

func ulebLong(data []byte, pos int) (value uint64, next int) {
	for shift := uint(0); pos < len(data); shift += 7 {
		b := data[pos]
		pos++
		if shift < 64 {
			value |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return value, pos
		}
	}
	return 0, overrun
}

// sleb reads a signed LEB128 number at pos.
func sleb(data []byte, pos int) (value int64, next int) {
	for shift := uint(0); pos < len(data); {
		b := data[pos]
		pos++
		if shift < 64 {
			value |= int64(b&0x7f) << shift
		}
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				value |= -1 << shift
			}
			return value, pos
		}
	}
	return 0, overrun
}
