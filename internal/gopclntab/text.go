package gopclntab

import (
	"debug/elf"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// textMap converts between the table's text offsets and vaddrs. They differ
// by a constant, except where the linker split a text that is too large for
// the architecture's calls (arm64, above 124 MiB).
type textMap struct {
	start    uint64
	sections []textSection // only where there are several
}

// textSection is runtime.textsect.
type textSection struct {
	off, end uint64 // text offsets
	vaddr    uint64
}

const maxTextSections = 256

// vaddr converts a text offset. The end of the last section belongs to it.
func (m textMap) vaddr(off uint32) uint64 {
	for i, section := range m.sections {
		if uint64(off) >= section.off && (uint64(off) < section.end || i == len(m.sections)-1 && uint64(off) == section.end) {
			return section.vaddr + uint64(off) - section.off
		}
	}
	return m.start + uint64(off)
}

// offset converts a vaddr; ok is false outside of the text.
func (m textMap) offset(vaddr uint64) (off uint32, ok bool) {
	for _, section := range m.sections {
		if vaddr >= section.vaddr && vaddr-section.vaddr < section.end-section.off {
			return uint32(vaddr - section.vaddr + section.off), true
		}
	}
	if len(m.sections) > 0 || vaddr < m.start || vaddr-m.start > noOffset {
		return 0, false
	}
	return uint32(vaddr - m.start), true
}

// inside reports whether the text, which ends at vaddr end, lies in executable
// segments with contents.
func (m textMap) inside(file *safeelf.File, end uint64) bool {
	if len(m.sections) == 0 {
		return inExecutable(file, m.start, end)
	}
	for _, section := range m.sections {
		if !inExecutable(file, section.vaddr, section.vaddr+section.end-section.off) {
			return false
		}
	}
	return true
}

// inExecutable reports whether one executable segment holds the vaddrs from
// start to end.
func inExecutable(file *safeelf.File, start, end uint64) bool {
	for _, prog := range file.Progs {
		if prog.Type != elf.PT_LOAD || prog.Flags&elf.PF_X == 0 {
			continue
		}
		size := min(prog.Filesz, uint64(file.Size()))
		if start <= end && start >= prog.Vaddr && end-prog.Vaddr <= size {
			return true
		}
	}
	return false
}

// textStart finds the address of runtime.text without the module data.
func (t *Table) textStart(headerText uint64) uint64 {
	if headerText != 0 {
		return headerText
	}
	if start := t.symbol("runtime.text"); start != 0 {
		return start
	}
	// True only where Go's own linker wrote the file.
	if section := t.file.Section(".text"); section != nil {
		return section.Addr
	}
	return 0
}
