package unwind

import (
	"encoding/binary"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// Pointer encodings of .eh_frame: LSB core, "DWARF Exception Header Encoding".
const (
	ptrAbsolute = 0x00
	ptrULEB     = 0x01
	ptrUdata2   = 0x02
	ptrUdata4   = 0x03
	ptrUdata8   = 0x04
	ptrSLEB     = 0x09
	ptrSdata2   = 0x0a
	ptrSdata4   = 0x0b
	ptrSdata8   = 0x0c

	ptrPCRel    = 0x10
	ptrTextRel  = 0x20
	ptrDataRel  = 0x30
	ptrFuncRel  = 0x40
	ptrAligned  = 0x50
	ptrIndirect = 0x80
	ptrOmit     = 0xff

	ptrFormat = 0x0f
	ptrBase   = 0x70
)

// bases are the addresses that encoded pointers are relative to.
type bases struct {
	section uint64 // vaddr of the section's first byte
	text    uint64
	data    uint64
	memory  *safeelf.File // read for indirect pointers
}

// pointer reads a pointer of the given encoding at pos of a section. ok is
// false when it is omitted, malformed or cannot be followed; next is past the
// pointer where its size is known.
func (b *bases) pointer(data []byte, pos int, encoding uint8) (value uint64, next int, ok bool) {
	if encoding == ptrOmit {
		return 0, pos, false
	}
	at := pos
	if encoding&ptrBase == ptrAligned {
		aligned := (b.section + uint64(pos) + 7) &^ 7
		at = int(aligned - b.section)
	}
	value, next, ok = fixedPointer(data, at, encoding&ptrFormat)
	if !ok {
		return 0, next, false
	}
	switch encoding & ptrBase {
	case ptrAbsolute, ptrAligned:
	case ptrPCRel:
		value += b.section + uint64(at)
	case ptrTextRel:
		value += b.text
	case ptrDataRel:
		value += b.data
	default:
		// ptrFuncRel is relative to the function that the pointer itself
		// would have to locate.
		return 0, next, false
	}
	if encoding&ptrIndirect != 0 {
		if value, ok = b.indirect(value); !ok {
			return 0, next, false
		}
	}
	return value, next, true
}

// fixedPointer reads the bytes of a pointer without its base.
func fixedPointer(data []byte, pos int, format uint8) (value uint64, next int, ok bool) {
	if pos < 0 || pos > len(data) {
		return 0, overrun, false
	}
	rest := data[pos:]
	switch format {
	case ptrUdata4, ptrSdata4:
		if len(rest) < 4 {
			return 0, overrun, false
		}
		value = uint64(binary.LittleEndian.Uint32(rest))
		if format == ptrSdata4 {
			value = uint64(int64(int32(value)))
		}
		return value, pos + 4, true
	case ptrAbsolute, ptrUdata8, ptrSdata8:
		if len(rest) < 8 {
			return 0, overrun, false
		}
		return binary.LittleEndian.Uint64(rest), pos + 8, true
	case ptrUdata2, ptrSdata2:
		if len(rest) < 2 {
			return 0, overrun, false
		}
		value = uint64(binary.LittleEndian.Uint16(rest))
		if format == ptrSdata2 {
			value = uint64(int64(int16(value)))
		}
		return value, pos + 2, true
	case ptrULEB:
		value, next = uleb(data, pos)
		return value, next, next <= len(data)
	case ptrSLEB:
		signed, next := sleb(data, pos)
		return uint64(signed), next, next <= len(data)
	}
	return 0, overrun, false
}

// indirect reads the pointer stored at vaddr in the file.
func (b *bases) indirect(vaddr uint64) (uint64, bool) {
	if b.memory == nil {
		return 0, false
	}
	off, ok := b.memory.Offset(vaddr)
	if !ok || off > uint64(b.memory.Size()) {
		return 0, false
	}
	word, err := b.memory.Bytes(int64(off), 8)
	if err != nil {
		return 0, false
	}
	return binary.LittleEndian.Uint64(word), true
}
