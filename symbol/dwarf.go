package symbol

import (
	"debug/elf"
	"encoding/binary"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/symbol/internal/dwarf"
)

// dwarfLines looks an address up in debug information.
func (b *Binary) dwarfLines(vaddr uint64) []Line {
	if !b.loaded.dwarf {
		b.loaded.dwarf = true
		b.dwarf = b.loadDWARF()
	}
	if b.dwarf == nil {
		return nil
	}
	b.frames = b.dwarf.Lookup(b.frames[:0], vaddr)
	if len(b.frames) == 0 {
		return nil
	}
	lines := make([]Line, len(b.frames))
	if b.frames[0].Function == nil {
		// Only the line is known: the name is another source's to tell.
		frame := b.frames[0]
		lines[0] = Line{File: frame.File, Line: frame.Line, Column: frame.Column}
		if !b.nameBySymbol(&lines[0], vaddr) {
			return nil // between functions
		}
		return lines
	}
	for i, frame := range b.frames {
		line := &lines[i]
		line.File, line.Line, line.Column = frame.File, frame.Line, frame.Column
		line.StartLine = frame.Function.StartLine
		if system := frame.Function.LinkageName; system != "" {
			b.name(line, system)
			continue
		}
		// GCC gives C++ functions of internal linkage no linkage name; the
		// symbol has it where the function is not inlined.
		outermost := i == len(b.frames)-1
		if outermost && (frame.Function.CPlusPlus || frame.Function.Name == "") {
			if name, ok := b.symbolAt(vaddr); ok && (frame.Function.Name == "" || strings.HasPrefix(name, "_Z")) {
				b.name(line, name)
				continue
			}
		}
		line.Function = b.dwarf.QualifiedName(frame.Function)
		if line.Function == "" {
			line.Function = "[unnamed]"
		}
		line.System = line.Function
	}
	return lines
}

// nameBySymbol names a line after the symbol or function boundary at vaddr;
// false where there is neither.
func (b *Binary) nameBySymbol(line *Line, vaddr uint64) bool {
	for _, source := range [...]func(uint64) []Line{b.symbolLines, b.functionLines} {
		if lines := source(vaddr); len(lines) > 0 {
			line.Function, line.System = lines[0].Function, lines[0].System
			return true
		}
	}
	return false
}

// loadDWARF opens the debug sections, or returns nil when they cannot be used.
func (b *Binary) loadDWARF() *dwarf.Data {
	if b.debug == nil {
		return nil
	}
	low, high := codeBounds(b.file)
	options := dwarf.Options{CodeLow: low, CodeHigh: high, Memory: b.options.Memory}
	if sup := b.openSupplementary(b.debug); sup != nil {
		options.Supplementary, _ = dwarf.New(debugSections(sup), dwarf.Options{})
	}
	data, err := dwarf.New(debugSections(b.debug), options)
	if err != nil {
		return nil
	}
	return data
}

// debugSections maps the debug sections of a file.
func debugSections(file *safeelf.File) dwarf.Sections {
	if file.ByteOrder != binary.LittleEndian {
		return dwarf.Sections{}
	}
	section := func(name string) []byte {
		s := file.Section("." + name)
		if s == nil {
			s = file.Section(".z" + name)
		}
		if s == nil {
			return nil
		}
		data, err := file.View(s)
		if err != nil {
			return nil
		}
		return data
	}
	return dwarf.Sections{
		Info:       section("debug_info"),
		Abbrev:     section("debug_abbrev"),
		Str:        section("debug_str"),
		LineStr:    section("debug_line_str"),
		StrOffsets: section("debug_str_offsets"),
		Addr:       section("debug_addr"),
		Ranges:     section("debug_ranges"),
		Rnglists:   section("debug_rnglists"),
		Line:       section("debug_line"),
	}
}

// codeBounds returns the ELF addresses that code lies between.
func codeBounds(file *safeelf.File) (low, high uint64) {
	low = ^uint64(0)
	for i := range file.Sections {
		s := &file.Sections[i]
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 {
			low, high = min(low, s.Addr), max(high, s.Addr+s.Size)
		}
	}
	if high > 0 {
		return low, high
	}
	for _, prog := range file.Progs {
		if prog.Type == elf.PT_LOAD && prog.Flags&elf.PF_X != 0 {
			low, high = min(low, prog.Vaddr), max(high, prog.Vaddr+prog.Memsz)
		}
	}
	if high == 0 {
		return 0, 0
	}
	return low, high
}
