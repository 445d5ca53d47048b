package gopclntab

import (
	"bytes"
	"debug/elf"
)

// moduleWords is the number of words of runtime.moduledata that are read:
// up to and with textsectmap, and what later versions may insert before it.
const moduleWords = 56

// maxModuleTries bounds the places that are read in full because they begin
// like the module data.
const maxModuleTries = 16

// Words of runtime.moduledata (runtime/symtab.go). Up to the text's end they
// have not moved since Go 1.18.
const (
	moduleHeader    = 0 // *pcHeader
	moduleFuncnames = 1 // of the slice: pointer, length, capacity
	moduleFunctab   = 16
	moduleMinPC     = 20
	moduleMaxPC     = 21
	moduleText      = 22
	moduleGofunc118 = 38 // Go 1.18 and 1.19
	moduleGofunc120 = 40 // since Go 1.20, with two words for coverage counters
)

// module is what the table needs of runtime.moduledata.
type module struct {
	words [moduleWords]uint64
	text  textMap
}

// findModule finds the module data, by its first words: they point to the
// header and to the parts of this table.
func (t *Table) findModule() (module, bool) {
	names := t.order.Uint64(t.data[8+3*pointerSize:]) + t.vaddr
	pattern := make([]byte, 2*pointerSize)
	t.order.PutUint64(pattern, t.vaddr)
	t.order.PutUint64(pattern[pointerSize:], names)

	tries := 0
	for _, prog := range t.file.Progs {
		if prog.Type != elf.PT_LOAD || prog.Flags&elf.PF_W == 0 {
			continue
		}
		size := min(prog.Filesz, uint64(t.file.Size()))
		for base := uint64(0); base < size; base += scanChunk {
			chunk, err := view(t.file, prog.Off+base, min(scanChunk+uint64(len(pattern)), size-base))
			if err != nil {
				break
			}
			for from := 0; tries < maxModuleTries; {
				i := bytes.Index(chunk[from:], pattern)
				if i < 0 {
					break
				}
				vaddr := prog.Vaddr + base + uint64(from+i)
				from += i + 1
				if vaddr%pointerSize != 0 {
					continue
				}
				tries++
				if m, ok := t.readModule(vaddr, nil); ok {
					return m, true
				}
			}
		}
	}
	return t.findRelocatedModule()
}

// findRelocatedModule finds the module data of a position-independent file
// whose linker left the words to the relocations.
func (t *Table) findRelocatedModule() (module, bool) {
	relocations := t.relativeRelocations()
	tries := 0
	for at := 0; at+relaSize <= len(relocations) && tries < maxModuleTries; at += relaSize {
		vaddr, addend := t.relocation(relocations[at:])
		if addend != t.vaddr || vaddr%pointerSize != 0 {
			continue
		}
		tries++
		if m, ok := t.readModule(vaddr, relocations); ok {
			return m, true
		}
	}
	return module{}, false
}

// readModule reads and checks the module data at vaddr; relocations stand in
// for words that they set.
func (t *Table) readModule(vaddr uint64, relocations []byte) (m module, found bool) {
	data, ok := t.read(vaddr, moduleWords*pointerSize)
	for i := range m.words {
		if ok {
			m.words[i] = t.order.Uint64(data[i*pointerSize:])
		} else if word, ok := t.read(vaddr+uint64(i)*pointerSize, pointerSize); ok {
			m.words[i] = t.order.Uint64(word)
		} // else the segment's contents end before the words that may follow
	}
	for at := 0; at+relaSize <= len(relocations); at += relaSize {
		target, addend := t.relocation(relocations[at:])
		if target >= vaddr && target-vaddr < moduleWords*pointerSize && target%pointerSize == 0 {
			m.words[(target-vaddr)/pointerSize] = addend
		}
	}
	functab := t.vaddr + uint64(len(t.data)-len(t.funcs))
	if m.words[moduleHeader] != t.vaddr || m.words[moduleFunctab] != functab || m.words[moduleFunctab+1] != uint64(t.count)+1 {
		return module{}, false
	}
	m.text = textMap{start: m.words[moduleText]}
	m.text.sections = t.textSections(m)
	if m.words[moduleMinPC] != m.text.vaddr(t.entryOff(0)) || m.words[moduleMaxPC] != m.text.vaddr(t.entryOff(t.count)) {
		return module{}, false
	}
	return m, true
}

// textSections reads textsectmap, which follows gofunc, where the text has
// more than one section.
func (t *Table) textSections(m module) []textSection {
	for at := moduleGofunc118 + 1; at < moduleGofunc120+4; at++ {
		vaddr, count := m.words[at], m.words[at+1]
		if count < 2 || count > maxTextSections || m.words[at+2] != count {
			continue
		}
		const entrySize = 3 * pointerSize
		data, ok := t.read(vaddr, count*entrySize)
		if !ok {
			continue
		}
		sections := make([]textSection, count)
		sorted := true
		for i := range sections {
			entry := data[i*entrySize:]
			sections[i] = textSection{
				off:   t.order.Uint64(entry),
				end:   t.order.Uint64(entry[pointerSize:]),
				vaddr: t.order.Uint64(entry[2*pointerSize:]),
			}
			sorted = sorted && sections[i].off < sections[i].end && sections[i].end <= noOffset &&
				(i == 0 || sections[i-1].end <= sections[i].off && sections[i-1].vaddr < sections[i].vaddr)
		}
		if sorted && sections[0].off == 0 && sections[0].vaddr == m.words[moduleText] {
			return sections
		}
	}
	return nil
}

// chooseGofunc returns the module's word that inline trees agree with: the
// one that its version has it in, else any other, so that a version that
// moves the word by a few still works.
func (t *Table) chooseGofunc(m module) uint64 {
	likely := moduleGofunc120
	if t.magic == magic118 {
		likely = moduleGofunc118
	}
	if t.checkGofunc(m.words[likely]) {
		return m.words[likely]
	}
	for i := moduleText; i < moduleWords; i++ {
		if t.checkGofunc(m.words[i]) {
			return m.words[i]
		}
	}
	return 0
}

const relaSize = 24 // Elf64_Rela: offset, info, addend

// relocation returns the vaddr that a relocation writes to and the value;
// for one that is not relative both are noOffset.
func (t *Table) relocation(entry []byte) (vaddr, value uint64) {
	relative := uint32(elf.R_X86_64_RELATIVE)
	if t.file.Machine == elf.EM_AARCH64 {
		relative = uint32(elf.R_AARCH64_RELATIVE)
	}
	if uint32(t.order.Uint64(entry[8:])) != relative {
		return noOffset, noOffset
	}
	return t.order.Uint64(entry), t.order.Uint64(entry[16:])
}

// relativeRelocations returns the dynamic relocation table, by DT_RELA and
// DT_RELASZ.
func (t *Table) relativeRelocations() []byte {
	const maxDynamic = 1 << 16
	var vaddr, size uint64
	for _, prog := range t.file.Progs {
		if prog.Type != elf.PT_DYNAMIC || prog.Filesz > maxDynamic {
			continue
		}
		dynamic, ok := t.read(prog.Vaddr, prog.Filesz)
		if !ok {
			continue
		}
		for ; len(dynamic) >= 2*pointerSize; dynamic = dynamic[2*pointerSize:] {
			value := t.order.Uint64(dynamic[pointerSize:])
			switch elf.DynTag(t.order.Uint64(dynamic)) {
			case elf.DT_RELA:
				vaddr = value
			case elf.DT_RELASZ:
				size = value
			}
		}
	}
	if size > uint64(t.file.Size()) {
		return nil
	}
	data, _ := t.read(vaddr, size)
	return data
}
