package symbol

import (
	"debug/elf"
	"encoding/binary"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// stubTable names the entries of a procedure linkage table. They have no
// symbols: each is named after the function whose address it loads, name@plt.
type stubTable struct {
	sections []stubSection
	slots    map[uint64]string // name by vaddr of its slot in the GOT
}

// stubSection is one section of stubs of equal size.
type stubSection struct {
	vaddr uint64
	code  []byte
	size  uint64 // bytes of a stub
}

// stubLines names an address in a PLT.
func (b *Binary) stubLines(vaddr uint64) []Line {
	if !b.loaded.stubs {
		b.loaded.stubs = true
		b.stubs = loadStubs(b.file)
	}
	if b.stubs == nil {
		return nil
	}
	name, ok := b.stubs.find(vaddr, b.file.Machine)
	if !ok {
		return nil
	}
	return []Line{{Function: Demangle(name) + "@plt", System: name + "@plt"}}
}

// loadStubs reads the PLT sections and the relocations of their slots.
func loadStubs(file *safeelf.File) *stubTable {
	if file.ByteOrder != binary.LittleEndian || file.Class != elf.ELFCLASS64 {
		return nil
	}
	t := &stubTable{slots: make(map[uint64]string)}
	for i := range file.Sections {
		s := &file.Sections[i]
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Name != ".plt" && !strings.HasPrefix(s.Name, ".plt.") && s.Name != ".iplt" {
			continue
		}
		code, err := file.View(s)
		if err != nil || len(code) == 0 {
			continue
		}
		size := uint64(16)
		if s.Name == ".plt.got" && s.Entsize == 8 {
			size = 8
		}
		t.sections = append(t.sections, stubSection{s.Addr, code, size})
	}
	if len(t.sections) == 0 {
		return nil
	}
	names := &symbolTable{}
	for i := range file.Sections {
		if s := &file.Sections[i]; s.Type == elf.SHT_RELA && s.Flags&elf.SHF_ALLOC != 0 {
			t.readSlots(file, s, names)
		}
	}
	return t
}

// readSlots notes the symbols of the relocations that fill GOT slots.
func (t *stubTable) readSlots(file *safeelf.File, section *safeelf.Section, names *symbolTable) {
	const relaSize, symbolSize = 24, 24
	if section.Link == 0 || int(section.Link) >= len(file.Sections) {
		return
	}
	dynsym := &file.Sections[section.Link]
	if dynsym.Link == 0 || int(dynsym.Link) >= len(file.Sections) {
		return
	}
	relas, err := file.View(section)
	if err != nil {
		return
	}
	symbols, err := file.View(dynsym)
	if err != nil {
		return
	}
	if len(names.names) == 0 {
		text, err := file.View(&file.Sections[dynsym.Link])
		if err != nil {
			return
		}
		names.names = [][]byte{text}
	}
	for ; len(relas) >= relaSize; relas = relas[relaSize:] {
		info := binary.LittleEndian.Uint64(relas[8:])
		kind, symbol := uint32(info), info>>32
		switch {
		case file.Machine == elf.EM_X86_64 && (kind == uint32(elf.R_X86_64_JMP_SLOT) || kind == uint32(elf.R_X86_64_GLOB_DAT)):
		case file.Machine == elf.EM_AARCH64 && (kind == uint32(elf.R_AARCH64_JUMP_SLOT) || kind == uint32(elf.R_AARCH64_GLOB_DAT)):
		default:
			continue
		}
		at := symbol * symbolSize
		if at+symbolSize > uint64(len(symbols)) {
			continue
		}
		name := names.text(binary.LittleEndian.Uint32(symbols[at:]), 0)
		if len(name) > 0 && len(name) <= maxMangled {
			t.slots[binary.LittleEndian.Uint64(relas)] = string(name)
		}
	}
}

// find returns the name of the function that the stub at vaddr jumps to.
func (t *stubTable) find(vaddr uint64, machine elf.Machine) (name string, ok bool) {
	for _, s := range t.sections {
		if vaddr < s.vaddr || vaddr-s.vaddr >= uint64(len(s.code)) {
			continue
		}
		off := (vaddr - s.vaddr) / s.size * s.size
		stub := s.code[off:min(off+s.size, uint64(len(s.code)))]
		// The header and the first stubs differ in size on arm64: 32, then 16.
		slot, found := stubSlot(stub, s.vaddr+off, machine)
		if !found {
			return "", false
		}
		name, ok = t.slots[slot]
		return name, ok
	}
	return "", false
}

// stubSlot returns the address of the GOT slot that a stub loads.
func stubSlot(stub []byte, vaddr uint64, machine elf.Machine) (slot uint64, ok bool) {
	switch machine {
	case elf.EM_X86_64:
		// jmp *disp32(%rip), after an endbr64 or a bnd prefix at most.
		for i := 0; i+6 <= len(stub) && i <= 5; i++ {
			if stub[i] == 0xff && stub[i+1] == 0x25 {
				disp := int32(binary.LittleEndian.Uint32(stub[i+2:]))
				return vaddr + uint64(i) + 6 + uint64(int64(disp)), true
			}
		}
	case elf.EM_AARCH64:
		// adrp x16, page; ldr x17, [x16, #offset], after a bti at most.
		for i := 0; i+8 <= len(stub); i += 4 {
			adrp, ldr := binary.LittleEndian.Uint32(stub[i:]), binary.LittleEndian.Uint32(stub[i+4:])
			if adrp&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
				continue
			}
			imm := int64(adrp>>29&3|adrp>>3&0x1ffffc) << 43 >> 43 // 21 bits, signed
			page := (vaddr+uint64(i))&^0xfff + uint64(imm<<12)
			return page + uint64(ldr>>10&0xfff)*8, true
		}
	}
	return 0, false
}
