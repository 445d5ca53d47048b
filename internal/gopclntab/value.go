package gopclntab

import "iter"

// Kind says what a value that changes along a function's code means.
type Kind uint8

const (
	// SPDelta is the depth of the stack in bytes: SP at the entry minus SP.
	// It leaves out the return address that amd64's call pushed.
	SPDelta Kind = iota
	// FileIndex is an index into the compilation unit's files; see File.
	FileIndex
	// LineNumber is a line number.
	LineNumber
	// UnsafePoint tells where the runtime must not preempt.
	UnsafePoint
	// StackMap is an index of the garbage collector's.
	StackMap
	// InlineIndex is an index into the function's inline tree, -1 outside
	// of inlined calls; see Table.Lines.
	InlineIndex
)

// Span is a run of code with one value.
type Span struct {
	Start, End uint64 // vaddr
	Value      int32
}

// Values returns the spans of a kind in order of address; none where the
// function has no such table. They lie inside the function.
func (f Func) Values(kind Kind) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		data := f.values(kind)
		span := Span{Start: f.Entry, Value: -1}
		for first := true; span.Start < f.End; first = false {
			delta, rest, ok := cutVarint(data)
			// A value that does not change ends the table, except at its start.
			if !ok || delta == 0 && !first {
				return
			}
			length, rest, ok := cutVarint(rest)
			if !ok || length == 0 {
				return
			}
			data = rest
			span.Value += int32(delta>>1) ^ -int32(delta&1) // zigzag
			span.End = min(span.Start+uint64(length)*f.table.quantum, f.End)
			if !yield(span) {
				return
			}
			span.Start = span.End
		}
	}
}

// Value returns the value of a kind at vaddr pc; ok is false where there is
// none.
func (f Func) Value(kind Kind, pc uint64) (value int32, ok bool) {
	for span := range f.Values(kind) {
		if pc < span.End {
			return span.Value, pc >= span.Start
		}
	}
	return 0, false
}

// values returns the encoded table of a kind, or nil.
func (f Func) values(kind Kind) []byte {
	var off uint32
	switch kind {
	case SPDelta:
		off = f.field(recordSP)
	case FileIndex:
		off = f.field(recordFile)
	case LineNumber:
		off = f.field(recordLine)
	case UnsafePoint:
		off = f.pcdata(pcdataUnsafePoint)
	case StackMap:
		off = f.pcdata(pcdataStackMap)
	case InlineIndex:
		off = f.pcdata(pcdataInline)
	}
	// Offset 0 stands for no table.
	if off == 0 || uint64(off) >= uint64(len(f.table.values)) {
		return nil
	}
	return f.table.values[off:]
}

// cutVarint splits a number of up to 32 bits, seven to a byte and the lowest
// first, off data.
func cutVarint(data []byte) (value uint32, rest []byte, ok bool) {
	for i, b := range data[:min(len(data), 5)] {
		value |= uint32(b&0x7f) << (7 * i)
		if b < 0x80 {
			return value, data[i+1:], true
		}
	}
	return 0, nil, false
}
