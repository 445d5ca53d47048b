package gopclntab

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// FuzzTable reads arbitrary tables behind the headers of a minimal ELF file:
// nothing may panic, hang or leave the text.
func FuzzTable(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed.table, seed.arm64, seed.sections)
	}
	f.Fuzz(func(t *testing.T, table []byte, arm64, sections bool) {
		image := elfImage(table, arm64, sections)
		file, err := safeelf.New(bytes.NewReader(image), int64(len(image)))
		if err != nil {
			t.Fatalf("the test's own headers: %v", err)
		}
		parsed, err := New(file)
		if err != nil {
			return
		}
		walk(t, parsed)
	})
}

// walk uses everything that a table offers.
func walk(t *testing.T, table *Table) {
	start, end := table.Text()
	if start < textVaddr || end > textVaddr+textSize || start > end {
		t.Fatalf("text [%#x, %#x) is outside of the segment", start, end)
	}
	for f := range table.Funcs() {
		_ = f.Name()
		for kind := SPDelta; kind <= InlineIndex; kind++ {
			at := f.Entry
			for span := range f.Values(kind) {
				if span.Start != at || span.End <= span.Start || span.End > f.End {
					t.Fatalf("span [%#x, %#x) of [%#x, %#x) after %#x", span.Start, span.End, f.Entry, f.End, at)
				}
				at = span.End
			}
		}
		for _, pc := range []uint64{f.Entry, (f.Entry + f.End) / 2, f.End} {
			if lines := table.Lines(pc); len(lines) > maxInlineDepth+1 {
				t.Fatalf("%d lines at %#x", len(lines), pc)
			}
		}
	}
	table.Find(end - 1)
	table.Lines(^uint64(0))
}

const (
	textVaddr  = 0x401000
	textSize   = 0x1000
	tableVaddr = 0x500000
	dataVaddr  = 0x600000
)

// elfImage returns an ELF file with one page of text, the table, and module
// data that points to the table.
func elfImage(table []byte, arm64, sections bool) []byte {
	const headers = 0x1000
	machine := elf.EM_X86_64
	if arm64 {
		machine = elf.EM_AARCH64
	}
	tableOff := uint64(headers + textSize)
	dataOff := (tableOff + uint64(len(table)) + 7) &^ 7
	data := moduleData(table)
	namesOff := dataOff + uint64(len(data))
	names := "\x00.gopclntab\x00.shstrtab\x00"
	sectionsOff := (namesOff + uint64(len(names)) + 7) &^ 7

	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: textVaddr,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 3, Shentsize: 64,
	}
	copy(header.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	if sections {
		header.Shoff, header.Shnum, header.Shstrndx = sectionsOff, 3, 2
	}
	var out bytes.Buffer
	put := func(values ...any) {
		for _, value := range values {
			if err := binary.Write(&out, binary.LittleEndian, value); err != nil {
				panic(err)
			}
		}
	}
	segment := func(flags elf.ProgFlag, off, vaddr, size uint64) elf.Prog64 {
		return elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(flags), Off: off, Vaddr: vaddr, Filesz: size, Memsz: size}
	}
	put(header,
		segment(elf.PF_R|elf.PF_X, headers, textVaddr, textSize),
		segment(elf.PF_R, tableOff, tableVaddr, uint64(len(table))),
		segment(elf.PF_R|elf.PF_W, dataOff, dataVaddr, uint64(len(data))))
	out.Write(make([]byte, int(tableOff)-out.Len()))
	out.Write(table)
	out.Write(make([]byte, int(dataOff)-out.Len()))
	out.Write(data)
	out.WriteString(names)
	out.Write(make([]byte, int(sectionsOff)-out.Len()))
	put(elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Addr: tableVaddr, Off: tableOff, Size: uint64(len(table))},
		elf.Section64{Name: 12, Type: uint32(elf.SHT_STRTAB), Off: namesOff, Size: uint64(len(names))})
	return out.Bytes()
}

// moduleData returns module data that agrees with the table's header as far
// as the table lets it, with go:func.* at the table's start.
func moduleData(table []byte) []byte {
	var words [moduleWords]uint64
	word := func(off uint64) uint64 {
		if off+8 > uint64(len(table)) || off+8 < off {
			return 0
		}
		return binary.LittleEndian.Uint64(table[off:])
	}
	functab := word(8 + 7*8)
	count := word(8)
	words[moduleHeader] = tableVaddr
	words[moduleFuncnames] = tableVaddr + word(8+3*8)
	words[moduleFunctab] = tableVaddr + functab
	words[moduleFunctab+1] = count + 1
	words[moduleText] = textVaddr
	words[moduleMinPC] = textVaddr + word(functab)&0xffffffff
	words[moduleMaxPC] = textVaddr + word(functab+count*8)&0xffffffff
	words[moduleGofunc118], words[moduleGofunc120] = tableVaddr, tableVaddr
	return binary.LittleEndian.AppendUint64(wordBytes(words[:]), 0)
}

func wordBytes(words []uint64) (out []byte) {
	for _, word := range words {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	return out
}

type seed struct {
	table           []byte
	arm64, sections bool
}

func seeds() []seed {
	return []seed{
		{handTable(magic120, 1), false, true},
		{handTable(magic120, 1), false, false},
		{handTable(magic120, 4), true, true},
		{handTable(magic118, 1), false, false},
		{handTable(magic118, 4), true, false},
	}
}

// handTable assembles a table of two functions: a.outer, which has a call of
// a.inner inlined at its bytes 4 to 8, and a.last.
func handTable(version magic, quantum byte) []byte {
	names := "\x00a.outer\x00a.inner\x00a.last\x00"
	files := "\x00a.go\x00"
	le := binary.LittleEndian
	// File offset 1 for index 0.
	units := le.AppendUint32(nil, 1)
	scale := 4 / quantum // of pc deltas: 4 bytes
	values := []byte{
		0,
		2, 4 * scale, 0, // 1: value 0 for 16 bytes
		22, scale, 2, scale, 3, 2 * scale, 0, // 4: lines 10, 11, 9
		0, scale, 2, scale, 1, 2 * scale, 0, // 11: inline -1, 0, -1
		2, scale, 32, 3 * scale, 0, // 18: depth 0, 16
	}
	record := func(entry, name uint32) []byte {
		out := le.AppendUint32(nil, entry)
		for _, field := range []uint32{name, 0, 0, 18, 1, 4, 3, 0} {
			out = le.AppendUint32(out, field)
		}
		if version == magic120 {
			out = le.AppendUint32(out, 8)
		}
		out = append(out, 0, byte(FlagAsm), 0, 4)
		for _, word := range []uint32{0, 0, 11, noOffset, noOffset, noOffset} {
			out = le.AppendUint32(out, word)
		}
		return le.AppendUint32(out, headerSize) // the inline tree follows the header
	}
	call := []byte{0, 0, 0, 0}
	if version == magic118 {
		call = make([]byte, 12)
	}
	call = le.AppendUint32(call, 9) // a.inner
	call = le.AppendUint32(call, 0) // inlined at the entry
	if version == magic120 {
		call = le.AppendUint32(call, 20)
	}
	first, second := record(0, 1), record(16, 17)
	const functab = 2*functabEntry + 4
	var funcs []byte
	for _, word := range []int{0, functab, 16, functab + len(first), 32} {
		funcs = le.AppendUint32(funcs, uint32(word))
	}
	funcs = append(append(funcs, first...), second...)

	parts := [][]byte{[]byte(names), units, []byte(files), values, funcs}
	out := le.AppendUint32(nil, uint32(version))
	out = append(out, 0, 0, quantum, pointerSize)
	off := headerSize + len(call)
	for _, word := range []uint64{2, 1, 0} {
		out = le.AppendUint64(out, word)
	}
	for _, part := range parts {
		out = le.AppendUint64(out, uint64(off))
		off += len(part)
	}
	out = append(out, call...)
	for _, part := range parts {
		out = append(out, part...)
	}
	return out
}
