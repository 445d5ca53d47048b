// Package gopclntab reads the function table that every Go program carries
// for its own tracebacks: function boundaries and names, lines, inlined
// calls and stack depths. The table survives stripping. Go 1.18 and later.
//
// The format is not documented; it is what cmd/link/internal/ld/pcln.go
// writes and runtime/symtab.go reads.
package gopclntab

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// ErrNotFound reports a file without a Go function table.
var ErrNotFound = errors.New("no Go function table")

// magic is the version at the start of a table (internal/abi/symtab.go).
type magic uint32

const (
	magic118 magic = 0xfffffff0 // Go 1.18 and 1.19
	magic120 magic = 0xfffffff1 // Go 1.20 and later
)

const (
	headerSize   = 8 + 8*8 // magic, padding, quantum, pointer size; eight words
	pointerSize  = 8
	functabEntry = 8 // entry offset and function offset, 32 bits each

	// noOffset marks absent funcdata and file names.
	noOffset = math.MaxUint32
)

// Table is the function table of one ELF file. It is immutable and safe for
// concurrent use. It looks at the file's bytes where safeelf maps them, so the
// file must stay open while the table is used, and what safeelf.File.View says
// about faults holds here.
type Table struct {
	file  *safeelf.File
	order binary.ByteOrder
	magic magic
	vaddr uint64 // of data
	data  []byte // from the header on

	quantum   uint64 // bytes of the shortest instruction
	count     int    // functions
	funcnames []byte
	files     []byte // .filetab
	units     []byte // .cutab: file offsets per compilation unit
	values    []byte // .pctab
	funcs     []byte // functab, and the function records after it

	text   textMap
	gofunc uint64 // vaddr of go:func.*, which holds the inline trees; 0 where unknown
}

// New finds and validates the table of file. It returns ErrNotFound for a
// file that is not a Go program, and another error for a table of a version
// that it cannot read or one that is malformed.
func New(file *safeelf.File) (*Table, error) {
	if file.Class != elf.ELFCLASS64 || (file.Machine != elf.EM_X86_64 && file.Machine != elf.EM_AARCH64) {
		return nil, fmt.Errorf("read Go function table: %v %v is not supported", file.Class, file.Machine)
	}
	found, err := locate(file)
	if err != nil {
		return nil, fmt.Errorf("read Go function table: %w", err)
	}
	// Where headers are gone, data that looks like a header may come first.
	for _, place := range found {
		var table *Table
		if table, err = newTable(file, place); err == nil {
			return table, nil
		}
	}
	return nil, fmt.Errorf("read Go function table: %w", err)
}

// newTable validates the table at place.
func newTable(file *safeelf.File, at place) (*Table, error) {
	t := &Table{file: file, order: file.ByteOrder, vaddr: at.vaddr}
	header, err := view(file, at.off, headerSize)
	if err != nil {
		return nil, err
	}
	if t.magic, err = checkHeader(file, header); err != nil {
		return nil, err
	}
	word := func(i int) uint64 { return t.order.Uint64(header[8+i*pointerSize:]) }
	// Words 0 to 7: functions, files, start of the text (0 since Go 1.26,
	// and only a relocation in position-independent files), and the offsets
	// of five parts, in this order.
	var starts [6]uint64
	for i := range 5 {
		starts[i] = word(3 + i)
	}
	starts[5] = at.size
	for i := range 5 {
		if starts[i] < headerSize || starts[i] > starts[i+1] {
			return nil, fmt.Errorf("malformed header: part %d is at %d", i, starts[i])
		}
	}
	functions := word(0)
	if functions == 0 || functions > (at.size-starts[4])/functabEntry {
		return nil, fmt.Errorf("malformed header: %d functions in %d bytes", functions, at.size-starts[4])
	}
	t.count = int(functions)
	t.quantum = uint64(header[6])
	if t.data, err = view(file, at.off, at.size); err != nil {
		return nil, err
	}
	part := func(i int) []byte { return t.data[starts[i]:starts[i+1]] }
	t.funcnames, t.units, t.files, t.values, t.funcs = part(0), part(1), part(2), part(3), part(4)
	if len(t.funcs) < t.count*functabEntry+4 {
		return nil, fmt.Errorf("malformed header: %d functions in %d bytes", t.count, len(t.funcs))
	}
	return t, t.relocate(word(2))
}

// checkHeader validates what does not depend on the table's size.
func checkHeader(file *safeelf.File, header []byte) (magic, error) {
	version := magic(file.ByteOrder.Uint32(header))
	if version != magic118 && version != magic120 {
		return 0, fmt.Errorf("unknown version %#x", uint32(version))
	}
	quantum := byte(1)
	if file.Machine == elf.EM_AARCH64 {
		quantum = 4
	}
	if header[4] != 0 || header[5] != 0 || header[6] != quantum || header[7] != pointerSize {
		return 0, fmt.Errorf("malformed header: % x", header[:8])
	}
	return version, nil
}

// relocate finds where the text and the function data are; headerText is
// the header's word for the first.
func (t *Table) relocate(headerText uint64) error {
	module, ok := t.findModule()
	if ok {
		t.text = module.text
	} else {
		t.text = textMap{start: t.textStart(headerText)}
	}
	last := t.entryOff(t.count)
	// Everything that walks the text is bounded by it, so it must be there.
	end := t.text.vaddr(last)
	if t.entryOff(0) > last || !t.text.inside(t.file, end) {
		return fmt.Errorf("its functions end at %#x, outside the executable segments", end)
	}
	if ok {
		t.gofunc = t.chooseGofunc(module)
	} else {
		t.gofunc = t.symbol("go:func.*", "go.func.*")
	}
	return nil
}

// Len returns the number of functions.
func (t *Table) Len() int { return t.count }

// Text returns the vaddrs between which the functions lie.
func (t *Table) Text() (start, end uint64) {
	return t.text.vaddr(t.entryOff(0)), t.text.vaddr(t.entryOff(t.count))
}

// entryOff returns the text offset at which function i starts, or the last
// one ends when i is Len.
func (t *Table) entryOff(i int) uint32 {
	return t.order.Uint32(t.funcs[i*functabEntry:])
}

// Find returns the function that contains the instruction at vaddr pc.
func (t *Table) Find(pc uint64) (Func, bool) {
	off, ok := t.text.offset(pc)
	if !ok || off >= t.entryOff(t.count) {
		return Func{}, false
	}
	after := sort.Search(t.count, func(i int) bool { return t.entryOff(i) > off })
	if after == 0 {
		return Func{}, false
	}
	return t.Func(after - 1)
}

// read returns size bytes at vaddr.
func (t *Table) read(vaddr, size uint64) ([]byte, bool) {
	if off := vaddr - t.vaddr; vaddr >= t.vaddr && off <= uint64(len(t.data)) && size <= uint64(len(t.data))-off {
		return t.data[off : off+size], true
	}
	off, ok := t.file.Offset(vaddr)
	if !ok {
		return nil, false
	}
	data, err := view(t.file, off, size)
	return data, err == nil
}

// view returns size bytes of the file at off, without a copy where it can.
func view(file *safeelf.File, off, size uint64) ([]byte, error) {
	return file.View(&safeelf.Section{SectionHeader: elf.SectionHeader{
		Name: "of the Go function table", Type: elf.SHT_PROGBITS, Offset: off, Size: size, FileSize: size,
	}})
}
