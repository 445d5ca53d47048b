package unwind

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// faultOf returns the error for a recovered panic that reading a mapped file
// raised because it had been truncated meanwhile. Other panics go on, those of
// nil pointers included.
func faultOf(recovered any) error {
	if recovered == nil {
		return nil
	}
	if fault, ok := recovered.(interface{ Addr() uintptr }); ok && fault.Addr() > 1<<16 {
		return errors.New("the file shrank while it was read")
	}
	panic(recovered)
}

// maxFrameSection bounds the call frame information that is read from one
// file. The largest of real files, a browser's with debug information, is
// about a tenth of it.
const maxFrameSection = 512 << 20

// ehFrame returns the contents of .eh_frame; ok is false when f has none.
// Without section headers it is found through PT_GNU_EH_FRAME.
func ehFrame(f *safeelf.File) (section frameSection, ok bool, err error) {
	b := bases{memory: f}
	if got := f.Section(".got"); got != nil {
		b.data = got.Addr
	}
	if text := f.Section(".text"); text != nil {
		b.text = text.Addr
	}
	header := f.Section(".eh_frame")
	if header == nil {
		return ehFrameByHeader(f, b)
	}
	if header.Size > maxFrameSection {
		return section, false, fmt.Errorf("read .eh_frame: %d bytes exceed the limit of %d", header.Size, maxFrameSection)
	}
	data, err := f.View(header)
	if err != nil {
		return section, false, err
	}
	b.section = header.Addr
	return frameSection{data: data, eh: true, bases: b}, len(data) > 0, nil
}

// ehFrameByHeader locates .eh_frame through the pointer at the start of
// .eh_frame_hdr, which PT_GNU_EH_FRAME covers (LSB core, "Exception Frame
// Header").
func ehFrameByHeader(f *safeelf.File, b bases) (section frameSection, ok bool, err error) {
	for _, prog := range f.Progs {
		if prog.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		header, err := f.Bytes(int64(prog.Off), int64(min(prog.Filesz, 32)))
		if err != nil {
			return section, false, fmt.Errorf("read .eh_frame_hdr: %w", err)
		}
		if len(header) < 4 || header[0] != 1 {
			return section, false, fmt.Errorf("read .eh_frame_hdr: unknown version")
		}
		own := bases{section: prog.Vaddr, data: prog.Vaddr, memory: f}
		vaddr, _, ok := own.pointer(header, 4, header[1])
		if !ok {
			return section, false, fmt.Errorf("read .eh_frame_hdr: malformed pointer to .eh_frame")
		}
		for _, load := range f.Progs {
			if load.Type != elf.PT_LOAD || vaddr < load.Vaddr || vaddr-load.Vaddr >= load.Filesz {
				continue
			}
			skip := vaddr - load.Vaddr
			size := min(load.Filesz-skip, maxFrameSection)
			data, err := f.Bytes(int64(load.Off+skip), int64(size))
			if err != nil {
				return section, false, fmt.Errorf("read .eh_frame: %w", err)
			}
			b.section = vaddr
			return frameSection{data: data, eh: true, bases: b, open: true}, len(data) > 0, nil
		}
		return section, false, fmt.Errorf("read .eh_frame: address %#x is in no segment", vaddr)
	}
	return section, false, nil
}

// debugFrame returns the contents of .debug_frame, decompressed; ok is false
// when f has none.
func debugFrame(f *safeelf.File) (section frameSection, ok bool, err error) {
	header := f.Section(".debug_frame")
	if header == nil {
		header = f.Section(".zdebug_frame")
	}
	if header == nil {
		return section, false, nil
	}
	if header.Size > maxFrameSection {
		return section, false, fmt.Errorf("read .debug_frame: %d bytes exceed the limit of %d", header.Size, maxFrameSection)
	}
	data, err := f.View(header)
	if err != nil {
		return section, false, err
	}
	return frameSection{data: data, bases: bases{memory: f}}, len(data) > 0, nil
}

// segment is an executable PT_LOAD segment as far as the file holds it.
type segment struct {
	off, vaddr, size uint64
}

// executableSegments returns the parts of the file that are mapped as code,
// in the order of their file offsets and without overlap.
func executableSegments(f *safeelf.File) []segment {
	// Linkers make one or two executable segments, kernels' modules a few.
	const maxSegments = 256
	var segments []segment
	limit := uint64(f.Size())
	for _, prog := range f.Progs {
		if prog.Type != elf.PT_LOAD || prog.Flags&elf.PF_X == 0 || prog.Off >= limit {
			continue
		}
		size := min(prog.Filesz, limit-prog.Off)
		if prog.Vaddr+size < prog.Vaddr || size == 0 || len(segments) == maxSegments {
			continue
		}
		segments = append(segments, segment{off: prog.Off, vaddr: prog.Vaddr, size: size})
	}
	sortSegments(segments)
	kept := segments[:0]
	end := uint64(0)
	for _, s := range segments {
		if s.off < end {
			skip := end - s.off
			if skip >= s.size {
				continue
			}
			s.off, s.vaddr, s.size = s.off+skip, s.vaddr+skip, s.size-skip
		}
		end = s.off + s.size
		kept = append(kept, s)
	}
	return kept
}

// isProgram reports whether the entry address of f is where a process
// starts. Linkers have put the start of .text there in shared libraries.
func isProgram(f *safeelf.File) bool {
	if f.Entry == 0 {
		return false
	}
	if f.Type == elf.ET_EXEC {
		return true
	}
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_INTERP {
			return true
		}
	}
	return f.Type == elf.ET_DYN && isPIE(f)
}

// isPIE reports whether the dynamic section of f has the flag DF_1_PIE,
// which tells a static position-independent program from a library.
func isPIE(f *safeelf.File) bool {
	const flagPIE, maxDynamic = 0x08000000, 1 << 16
	for _, prog := range f.Progs {
		if prog.Type != elf.PT_DYNAMIC || prog.Filesz > maxDynamic {
			continue
		}
		data, err := f.Bytes(int64(prog.Off), int64(prog.Filesz))
		if err != nil {
			return false
		}
		for ; len(data) >= 16; data = data[16:] {
			if elf.DynTag(binary.LittleEndian.Uint64(data)) == elf.DT_FLAGS_1 {
				return binary.LittleEndian.Uint64(data[8:])&flagPIE != 0
			}
		}
	}
	return false
}
