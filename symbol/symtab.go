package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"sort"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// symbolTable holds the code symbols of a file as ranges that do not overlap.
type symbolTable struct {
	spans []symbolSpan // sorted by low
	names [][]byte     // string tables
}

// symbolSpan is a range of addresses that one symbol names.
type symbolSpan struct {
	low, high uint64
	name      uint32 // offset in names[table]
	table     uint8
}

// codeSymbol is a symbol table entry that may name code.
type codeSymbol struct {
	value, size uint64
	limit       uint64 // end of its section
	name        uint32
	table       uint8
	info        uint8
}

// maxSymbols bounds the symbols read from one table.
const maxSymbols = 1 << 24

// symbolLines names an address by the symbol that covers it.
func (b *Binary) symbolLines(vaddr uint64) []Line {
	name, ok := b.symbolAt(vaddr)
	if !ok {
		return nil
	}
	lines := make([]Line, 1)
	b.name(&lines[0], name)
	return lines
}

// symbolAt returns the name of the symbol that covers vaddr.
func (b *Binary) symbolAt(vaddr uint64) (name string, ok bool) {
	if !b.loaded.symbols {
		b.loaded.symbols = true
		b.symbols = b.loadSymbols()
	}
	if b.symbols == nil {
		return "", false
	}
	return b.symbols.find(vaddr)
}

// symtabFile returns the file whose .symtab is to be read, or nil.
func (b *Binary) symtabFile() *safeelf.File {
	if b.file.Section(".symtab") != nil {
		return b.file
	}
	if b.separate != nil && b.separate.Section(".symtab") != nil {
		return b.separate
	}
	return nil
}

// loadSymbols merges the symbol tables there are: .symtab, or where it was
// stripped the one in .gnu_debugdata, and .dynsym.
func (b *Binary) loadSymbols() *symbolTable {
	t := &symbolTable{}
	var symbols []codeSymbol
	add := func(file *safeelf.File, name string) {
		if file != nil {
			symbols = t.read(symbols, file, name)
		}
	}
	full := b.symtabFile()
	if full == nil {
		full = openMiniDebugInfo(b.file)
	}
	add(full, ".symtab")
	add(b.file, ".dynsym")
	t.build(symbols)
	if len(t.spans) == 0 {
		return nil
	}
	return t
}

// read appends the code symbols of one table.
func (t *symbolTable) read(dst []codeSymbol, file *safeelf.File, name string) []codeSymbol {
	const entrySize = 24
	section := file.Section(name)
	if section == nil || file.Class != elf.ELFCLASS64 || file.ByteOrder != binary.LittleEndian {
		return dst
	}
	if section.Link == 0 || int(section.Link) >= len(file.Sections) {
		return dst
	}
	data, err := file.View(section)
	if err != nil {
		return dst
	}
	strings, err := file.View(&file.Sections[section.Link])
	if err != nil {
		return dst
	}
	table := uint8(len(t.names))
	t.names = append(t.names, strings)
	if len(data) > maxSymbols*entrySize {
		data = data[:maxSymbols*entrySize]
	}
	for ; len(data) >= entrySize; data = data[entrySize:] {
		info := data[4]
		switch elf.SymType(info & 0xf) {
		case elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_NOTYPE:
		default:
			continue
		}
		index := binary.LittleEndian.Uint16(data[6:])
		if index == uint16(elf.SHN_UNDEF) || int(index) >= len(file.Sections) {
			continue // undefined, absolute, or not in a section of the file
		}
		home := &file.Sections[index]
		value := binary.LittleEndian.Uint64(data[8:])
		if home.Flags&elf.SHF_EXECINSTR == 0 || value < home.Addr || value-home.Addr >= home.Size {
			continue
		}
		s := codeSymbol{
			value: value, size: binary.LittleEndian.Uint64(data[16:]), limit: home.Addr + home.Size,
			name: binary.LittleEndian.Uint32(data), table: table, info: info,
		}
		if text := t.text(s.name, table); len(text) == 0 || text[0] == '$' {
			continue // nameless, or a mapping symbol of the ARM ABI
		}
		dst = append(dst, s)
	}
	return dst
}

func (t *symbolTable) text(name uint32, table uint8) []byte {
	names := t.names[table]
	if uint64(name) >= uint64(len(names)) {
		return nil
	}
	s := names[name:]
	end := bytes.IndexByte(s, 0)
	if end < 0 {
		return nil
	}
	return s[:end]
}

// find returns the name of the symbol that covers vaddr.
func (t *symbolTable) find(vaddr uint64) (name string, ok bool) {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].low > vaddr })
	if i == 0 || t.spans[i-1].high <= vaddr {
		return "", false
	}
	s := t.spans[i-1]
	text := string(t.text(s.name, s.table))
	// Versions stand in the name of dynamic symbols that an editor of binaries
	// rewrote: memcpy@@GLIBC_2.14.
	if at := strings.IndexByte(text, '@'); at > 0 {
		text = text[:at]
	}
	return text, true
}

// build picks one symbol for every address. A symbol with a size covers just
// that; one without (from assembler) covers what no other does up to the next
// symbol. Where symbols overlap the one that starts later is the closer.
func (t *symbolTable) build(symbols []codeSymbol) {
	sort.Slice(symbols, func(i, j int) bool {
		if symbols[i].value != symbols[j].value {
			return symbols[i].value < symbols[j].value
		}
		return t.better(&symbols[i], &symbols[j])
	})
	// One symbol for each start.
	n := 0
	for i := range symbols {
		if n == 0 || symbols[i].value != symbols[n-1].value {
			symbols[n] = symbols[i]
			n++
		}
	}
	symbols = symbols[:n]

	var open []codeSymbol // sized symbols around the current address, by nesting
	end := func(s *codeSymbol) uint64 {
		if s.size > s.limit-s.value {
			return s.limit
		}
		return s.value + s.size
	}
	emit := func(low, high uint64, s *codeSymbol) {
		if low < high {
			t.spans = append(t.spans, symbolSpan{low: low, high: high, name: s.name, table: s.table})
		}
	}
	at := uint64(0)
	// advance emits the spans from at up to addr.
	advance := func(addr uint64) {
		for len(open) > 0 {
			top := &open[len(open)-1]
			high := end(top)
			if high > addr {
				emit(at, addr, top)
				break
			}
			if high > at {
				emit(at, high, top)
				at = high
			}
			open = open[:len(open)-1]
		}
		at = addr
	}
	for i := range symbols {
		s := &symbols[i]
		advance(s.value)
		switch {
		case s.size > 0:
			open = append(open, *s)
		case len(open) == 0:
			next := s.limit
			if i+1 < len(symbols) {
				next = min(next, symbols[i+1].value)
			}
			emit(s.value, next, s)
		}
	}
	advance(^uint64(0))
}

// better orders symbols of one address, the one to print first: with a size,
// functions, global before weak before local, from the fuller table, fewer
// leading underscores; the name decides the rest, so that runs agree.
func (t *symbolTable) better(a, b *codeSymbol) bool {
	if (a.size > 0) != (b.size > 0) {
		return a.size > 0
	}
	if x, y := typeRank(a.info), typeRank(b.info); x != y {
		return x < y
	}
	if x, y := bindRank(a.info), bindRank(b.info); x != y {
		return x < y
	}
	nameA, nameB := t.text(a.name, a.table), t.text(b.name, b.table)
	if x, y := underscores(nameA), underscores(nameB); x != y {
		return x < y
	}
	if c := bytes.Compare(nameA, nameB); c != 0 {
		return c < 0
	}
	if a.size != b.size {
		return a.size > b.size
	}
	return a.table < b.table
}

func typeRank(info uint8) int {
	switch elf.SymType(info & 0xf) {
	case elf.STT_FUNC:
		return 0
	case elf.STT_GNU_IFUNC:
		return 1
	}
	return 2
}

func bindRank(info uint8) int {
	switch elf.SymBind(info >> 4) {
	case elf.STB_GLOBAL:
		return 0
	case elf.STB_WEAK:
		return 1
	}
	return 2
}

func underscores(name []byte) int {
	return len(name) - len(bytes.TrimLeft(name, "_"))
}
