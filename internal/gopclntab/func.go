package gopclntab

import (
	"bytes"
	"iter"
	"math"
)

// Flags are the properties of a function (internal/abi/symtab.go).
type Flags uint8

const (
	// FlagTopFrame marks a function at the outer end of its stack, such as
	// runtime.goexit and runtime.mstart.
	FlagTopFrame Flags = 1 << iota
	// FlagSPWrite marks a function that moves the stack pointer in ways
	// that its table of depths does not tell.
	FlagSPWrite
	// FlagAsm marks a function written in assembly.
	FlagAsm
)

// Func is one function: a physical one, not an inlined call.
type Func struct {
	Entry     uint64 // vaddr
	End       uint64 // vaddr of the next function, so with padding
	ID        uint8  // runtime's FuncID; 0 for most. Numbers differ between versions of Go
	Flags     Flags
	StartLine int // line of the func keyword; 0 before Go 1.20

	table *Table
	// record is the function's record (runtime._func) and what follows it.
	record []byte
}

// Offsets in a function's record, all of 32 bits.
const (
	recordName      = 4
	recordSP        = 16
	recordFile      = 20
	recordLine      = 24
	recordPCData    = 28 // how many tables there are
	recordUnit      = 32
	recordStartLine = 36 // since Go 1.20
)

// Numbers of a function's tables (internal/abi/symtab.go).
const (
	pcdataUnsafePoint = 0
	pcdataStackMap    = 1
	pcdataInline      = 2
	funcdataInline    = 3
)

// maxName bounds a name. Instantiated generic functions of real programs
// have names of some thousand bytes.
const maxName = 1 << 16

// recordSize returns the size of the fixed part of a record.
func (t *Table) recordSize() int {
	if t.magic == magic118 {
		return 40
	}
	return 44
}

// Func returns function i, in order of address; ok is false where the table
// is malformed.
func (t *Table) Func(i int) (f Func, ok bool) {
	if i < 0 || i >= t.count {
		return Func{}, false
	}
	entry, end := t.entryOff(i), t.entryOff(i+1)
	at := uint64(t.order.Uint32(t.funcs[i*functabEntry+4:]))
	size := t.recordSize()
	if entry > end || end > t.entryOff(t.count) || at > uint64(len(t.funcs)) || uint64(len(t.funcs))-at < uint64(size) {
		return Func{}, false
	}
	record := t.funcs[at:]
	f = Func{
		Entry: t.text.vaddr(entry), End: t.text.vaddr(end),
		ID: record[size-4], Flags: Flags(record[size-3]),
		table: t, record: record,
	}
	if t.magic != magic118 {
		f.StartLine = int(int32(t.order.Uint32(record[recordStartLine:])))
	}
	// The function's own copy of its entry must agree with the index.
	return f, t.order.Uint32(record) == entry && f.End >= f.Entry
}

// Funcs returns the functions in order of address.
func (t *Table) Funcs() iter.Seq[Func] {
	return func(yield func(Func) bool) {
		for i := range t.count {
			if f, ok := t.Func(i); ok && !yield(f) {
				return
			}
		}
	}
}

// Name returns the linkage name, such as main.(*T).Method or
// main.Map[go.shape.int], or "" where the table is malformed.
func (f Func) Name() string {
	return f.table.name(f.field(recordName))
}

// File returns the name of the source file at vaddr pc, or "".
func (f Func) File(pc uint64) string {
	index, ok := f.Value(FileIndex, pc)
	if !ok || index < 0 {
		return ""
	}
	at := 4 * (uint64(f.field(recordUnit)) + uint64(index))
	if at+4 > uint64(len(f.table.units)) {
		return ""
	}
	return cString(f.table.files, f.table.order.Uint32(f.table.units[at:]))
}

// Line returns the line number at vaddr pc, or 0.
func (f Func) Line(pc uint64) int {
	line, ok := f.Value(LineNumber, pc)
	if !ok || line < 0 {
		return 0
	}
	return int(line)
}

// field returns a 32-bit field of the fixed part of the record.
func (f Func) field(at int) uint32 { return f.table.order.Uint32(f.record[at:]) }

// pcdata returns the offset of a pcdata table among the values, or 0.
func (f Func) pcdata(i uint32) uint32 {
	if i >= f.field(recordPCData) {
		return 0
	}
	return f.variable(uint64(i), 0)
}

// funcdata returns the offset of funcdata i from go:func.*.
func (f Func) funcdata(i byte) (uint32, bool) {
	if i >= f.record[f.table.recordSize()-1] {
		return 0, false
	}
	off := f.variable(uint64(f.field(recordPCData))+uint64(i), noOffset)
	return off, off != noOffset
}

// variable returns word i after the fixed part of the record.
func (f Func) variable(i uint64, missing uint32) uint32 {
	at := uint64(f.table.recordSize()) + 4*i
	if at+4 > uint64(len(f.record)) {
		return missing
	}
	return f.table.order.Uint32(f.record[at:])
}

// name returns the function name at off.
func (t *Table) name(off uint32) string { return cString(t.funcnames, off) }

// cString returns the string at off that a zero byte ends, or "".
func cString(data []byte, off uint32) string {
	if uint64(off) >= uint64(len(data)) || off == math.MaxUint32 {
		return ""
	}
	data = data[off:]
	data = data[:min(len(data), maxName)]
	end := bytes.IndexByte(data, 0)
	if end < 0 {
		return ""
	}
	return string(data[:end])
}
