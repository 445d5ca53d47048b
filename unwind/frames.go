package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// frameSection is the contents of .eh_frame or .debug_frame.
type frameSection struct {
	data  []byte
	eh    bool // .eh_frame, whose pointers are encoded and whose CIE offsets are relative
	bases bases
	// open marks contents that were located without a section header and so
	// run to the end of their segment; only the terminator ends them.
	open bool
}

// cie is a common information entry.
type cie struct {
	ok           bool // false: the entry and the FDEs that use it are skipped
	codeAlign    uint64
	dataAlign    int64
	ra           uint64
	encoding     uint8 // of the addresses in FDEs
	augmented    bool  // FDEs hold a block of augmentation data
	signal       bool  // frames are those of a signal handler's return
	addressBytes uint8
	initial      Rule // state after the initial instructions
	packed       packedRule
}

// fde is a frame description entry.
type fde struct {
	cie     *cie
	start   uint64 // vaddr
	size    uint64 // bytes of code
	program []byte
	offset  int // of program in the section
}

// frameReader iterates over the FDEs of a section.
type frameReader struct {
	section frameSection
	regs    registers
	pos     int
	cies    map[int]*cie
	last    *cie // the CIE at lastAt: neighbours mostly share one
	lastAt  int
	skipped int // malformed or unsupported entries
	// cieBytes is the size of all CIEs parsed. Entries of a sound section do
	// not overlap, so it stays below the section's; FDEs of a hostile one can
	// point into the middle of others, and each would be parsed to its end.
	cieBytes int
}

var errTruncated = errors.New("entry runs past the end of the section")

func newFrameReader(section frameSection, arch Arch) *frameReader {
	return &frameReader{section: section, regs: arch.registers(), cies: map[int]*cie{}, lastAt: -1}
}

// entry is the frame of a CIE or FDE.
type entry struct {
	idAt int // position of the CIE id or CIE pointer
	body int // position after it
	end  int
	id   uint64
	wide bool // 64-bit DWARF
}

// entryAt reads the length and the id of the entry at pos. An entry with
// end == body and length 0 is a terminator.
func (s *frameSection) entryAt(pos int) (e entry, terminator bool, err error) {
	data := s.data
	if pos < 0 || pos+4 > len(data) {
		return e, false, errTruncated
	}
	length := uint64(binary.LittleEndian.Uint32(data[pos:]))
	pos += 4
	if length == 0 {
		return entry{end: pos}, true, nil
	}
	if length == 0xffffffff {
		if pos+8 > len(data) {
			return e, false, errTruncated
		}
		length = binary.LittleEndian.Uint64(data[pos:])
		pos += 8
		e.wide = true
	}
	if length > uint64(len(data)-pos) {
		return e, false, errTruncated
	}
	e.idAt, e.end = pos, pos+int(length)
	// The id of .eh_frame stays 4 bytes in entries with a 64-bit length (LSB
	// core, "The Common Information Entry Format").
	idBytes := 4
	if e.wide && !s.eh {
		idBytes = 8
	}
	if length < uint64(idBytes) {
		return e, false, fmt.Errorf("entry of %d bytes has no room for its id", length)
	}
	if idBytes == 8 {
		e.id = binary.LittleEndian.Uint64(data[pos:])
	} else {
		e.id = uint64(binary.LittleEndian.Uint32(data[pos:]))
	}
	e.body = pos + idBytes
	return e, false, nil
}

// isCIE reports whether e is a CIE.
func (s *frameSection) isCIE(e entry) bool {
	switch {
	case s.eh:
		return e.id == 0
	case e.wide:
		return e.id == 0xffffffffffffffff
	}
	return e.id == 0xffffffff
}

// cieOffset returns the position of the CIE that the FDE e refers to, or -1.
func (s *frameSection) cieOffset(e entry) int {
	if s.eh {
		if e.id > uint64(e.idAt) {
			return -1
		}
		return e.idAt - int(e.id)
	}
	if e.id >= uint64(len(s.data)) {
		return -1
	}
	return int(e.id)
}

// next returns the next FDE; ok is false at the end of the section. Entries
// that cannot be used are counted and skipped; after an entry of impossible
// length nothing can be found any more, so it ends the section.
func (r *frameReader) next() (f fde, ok bool) {
	for r.pos+4 <= len(r.section.data) {
		if f, ok = r.common(); ok {
			return f, true
		}
		e, terminator, err := r.section.entryAt(r.pos)
		if err != nil {
			r.skipped++
			r.pos = len(r.section.data)
			return fde{}, false
		}
		r.pos = e.end
		if terminator {
			// Length 0 ends .eh_frame (LSB core, "Exception Frames"), but
			// linkers leave terminators of their inputs in the middle too.
			if r.section.open {
				r.pos = len(r.section.data)
				return fde{}, false
			}
			continue
		}
		if r.section.isCIE(e) {
			continue
		}
		if f, ok = r.fde(e); ok {
			return f, true
		}
		r.skipped++
	}
	return fde{}, false
}

// common parses the entry at pos when it has the form that nearly all have: an
// FDE of .eh_frame with a 32-bit length, the CIE of the one before, and 32-bit
// relative addresses. ok is false for any other entry, malformed ones included.
func (r *frameReader) common() (f fde, ok bool) {
	data, pos := r.section.data, r.pos
	c := r.last
	if c == nil || !r.section.eh || c.encoding != ptrPCRel|ptrSdata4 || pos+17 > len(data) {
		return fde{}, false
	}
	head := data[pos : pos+17]
	length := uint64(binary.LittleEndian.Uint32(head))
	id := uint64(binary.LittleEndian.Uint32(head[4:]))
	if length < 13 || length >= 0xfffffff0 || length > uint64(len(data)-pos-4) || id == 0 || uint64(pos+4)-id != uint64(r.lastAt) {
		return fde{}, false
	}
	f.start = r.section.bases.section + uint64(pos+8) + uint64(int64(int32(binary.LittleEndian.Uint32(head[8:]))))
	f.size = uint64(binary.LittleEndian.Uint32(head[12:]))
	end := pos + 4 + int(length)
	body := pos + 16
	if c.augmented {
		skip := int(head[16])
		if skip >= 0x80 || skip > end-body-1 {
			return fde{}, false
		}
		body += 1 + skip
	}
	f.cie, f.program, f.offset = c, data[body:end], body
	r.pos = end
	return f, true
}

// fde parses the entry e as an FDE.
func (r *frameReader) fde(e entry) (f fde, ok bool) {
	at := r.section.cieOffset(e)
	c := r.cieAt(at)
	if c == nil {
		return fde{}, false
	}
	data := r.section.data[:e.end]
	pos := e.body
	if c.encoding == ptrPCRel|ptrSdata4 && pos+8 <= len(data) {
		f.start = r.section.bases.section + uint64(pos) + uint64(int64(int32(binary.LittleEndian.Uint32(data[pos:]))))
		f.size = uint64(binary.LittleEndian.Uint32(data[pos+4:]))
		pos += 8
	} else {
		if f.start, pos, ok = r.section.bases.pointer(data, pos, c.encoding); !ok {
			return fde{}, false
		}
		format := c.encoding & ptrFormat
		if f.size, pos, ok = fixedPointer(data, pos, format); !ok {
			return fde{}, false
		}
		// The length of the code has the size of the encoding, never its sign.
		switch format {
		case ptrSdata2:
			f.size &= 0xffff
		case ptrSdata4:
			f.size &= 0xffffffff
		}
	}
	if c.augmented {
		var length uint64
		length, pos = uleb(data, pos)
		if pos > len(data) || length > uint64(len(data)-pos) {
			return fde{}, false
		}
		pos += int(length)
	}
	f.cie, f.program, f.offset = c, data[pos:], pos
	return f, true
}

// cieAt returns the CIE at the given position, or nil when it is unusable.
func (r *frameReader) cieAt(at int) *cie {
	if at == r.lastAt {
		return r.last
	}
	c, known := r.cies[at]
	if !known {
		parsed := r.parseCIE(at)
		c = &parsed
		r.cies[at] = c
	}
	if !c.ok {
		c = nil
	}
	r.last, r.lastAt = c, at
	return c
}

// Plausible bounds of the factors in a CIE keep products within 64 bits.
const maxAlign = 1 << 16

// parseCIE parses the CIE at the given position.
func (r *frameReader) parseCIE(at int) (c cie) {
	e, terminator, err := r.section.entryAt(at)
	if err != nil || terminator || !r.section.isCIE(e) {
		return cie{}
	}
	data := r.section.data[:e.end]
	pos := e.body
	r.cieBytes += e.end - at
	if pos >= len(data) || r.cieBytes > len(r.section.data) {
		return cie{}
	}
	version := data[pos]
	pos++
	nameEnd := pos
	for nameEnd < len(data) && data[nameEnd] != 0 {
		nameEnd++
	}
	if nameEnd == len(data) {
		return cie{}
	}
	augmentation := string(data[pos:nameEnd])
	pos = nameEnd + 1
	c = cie{encoding: ptrAbsolute, addressBytes: 8}
	switch version {
	case 1, 3:
	case 4:
		// Address size and segment selector size: DWARF 4, section 6.4.1.
		if pos+2 > len(data) || data[pos] != 8 || data[pos+1] != 0 {
			return cie{}
		}
		pos += 2
	default:
		return cie{}
	}
	if augmentation == "eh" {
		pos += 8 // the pre-LSB exception table of GCC 2
		augmentation = ""
	}
	c.codeAlign, pos = uleb(data, pos)
	c.dataAlign, pos = sleb(data, pos)
	if version == 1 {
		if pos >= len(data) {
			return cie{}
		}
		c.ra = uint64(data[pos])
		pos++
	} else {
		c.ra, pos = uleb(data, pos)
	}
	if pos > len(data) || c.codeAlign > maxAlign || c.dataAlign > maxAlign || c.dataAlign < -maxAlign {
		return cie{}
	}
	if pos, c.ok = r.augment(&c, data, pos, augmentation); !c.ok {
		return cie{}
	}
	c.initial = r.regs.initialRule()
	m := machine{registers: r.regs, cie: &c, bases: &r.section.bases, section: r.section.data}
	// Rows inside a CIE have no address; only the final state counts.
	c.initial = m.initial(data[pos:])
	c.packed = c.initial.pack()
	return c
}

// augment applies the augmentation string of a CIE and returns the position
// of the initial instructions.
func (r *frameReader) augment(c *cie, data []byte, pos int, augmentation string) (next int, ok bool) {
	if augmentation == "" {
		return pos, true
	}
	end := -1
	for i := 0; i < len(augmentation); i++ {
		switch augmentation[i] {
		case 'z':
			if i != 0 {
				return 0, false
			}
			var length uint64
			length, pos = uleb(data, pos)
			if pos > len(data) || length > uint64(len(data)-pos) {
				return 0, false
			}
			end = pos + int(length)
			c.augmented = true
		case 'R':
			if pos >= len(data) {
				return 0, false
			}
			c.encoding = data[pos]
			pos++
		case 'P':
			if pos >= len(data) {
				return 0, false
			}
			// The personality routine's pointer is skipped, so what it is
			// relative to does not matter; alignment does.
			encoding := data[pos] &^ ptrIndirect
			if encoding&ptrBase != ptrAligned {
				encoding &= ptrFormat
			}
			if _, pos, ok = r.section.bases.pointer(data, pos+1, encoding); !ok {
				return 0, false
			}
		case 'L':
			pos++ // encoding of the pointer to language-specific data
		case 'S':
			c.signal = true
		case 'B', 'G':
			// arm64: return addresses signed with key B; frames with memory
			// tags. Neither has data nor moves a register.
		default:
			// Later letters are unknown too; their data is skipped by length.
			if end < 0 {
				return 0, false
			}
			return end, true
		}
		if pos > len(data) {
			return 0, false
		}
	}
	if end >= 0 {
		pos = end
	}
	return pos, pos <= len(data)
}
