package gopclntab

import "strings"

// Line is one frame at an instruction: a physical function, or a call that
// the compiler inlined.
type Line struct {
	Function  string // as runtime.Frame has it: main.Map[...]
	System    string // as the linker has it: main.Map[go.shape.int]
	File      string
	Line      int // in File; of the inlined call's site for an outer frame; 0 where unknown
	StartLine int // of the function; 0 before Go 1.20
}

// maxInlineDepth bounds the frames at one instruction. The compiler's budget
// keeps real ones below 50.
const maxInlineDepth = 200

// Lines returns the frames at vaddr pc, the innermost first; nil where no
// function is. pc is that of an instruction: for a return address pass the
// address before it.
func (t *Table) Lines(pc uint64) []Line {
	f, ok := t.Find(pc)
	if !ok {
		return nil
	}
	var lines []Line
	for range maxInlineDepth {
		index, ok := f.Value(InlineIndex, pc)
		if !ok || index < 0 {
			break
		}
		call, ok := t.inlinedCall(f, index)
		if !ok {
			break
		}
		name := t.name(call.name)
		lines = append(lines, Line{PrintName(name), name, f.File(pc), f.Line(pc), call.startLine})
		// Not strictly less than before: calls are laid out in any order.
		pc = f.Entry + uint64(call.parent)
	}
	name := f.Name()
	return append(lines, Line{PrintName(name), name, f.File(pc), f.Line(pc), f.StartLine})
}

// inlinedCall is runtime.inlinedCall.
type inlinedCall struct {
	name      uint32 // offset among the function names
	parent    uint32 // offset from the entry of an instruction of the caller
	startLine int
}

// inlinedCall reads entry index of the inline tree of f.
func (t *Table) inlinedCall(f Func, index int32) (call inlinedCall, ok bool) {
	return t.inlinedCallAt(t.gofunc, f, index)
}

// inlinedCallAt is inlinedCall with go:func.* at gofunc.
func (t *Table) inlinedCallAt(gofunc uint64, f Func, index int32) (call inlinedCall, ok bool) {
	tree, ok := f.funcdata(funcdataInline)
	if !ok || gofunc == 0 || index < 0 {
		return inlinedCall{}, false
	}
	// Go 1.18: parent int16, ID, padding, file, line, name, parent's PC.
	// Go 1.20: ID, padding, name, parent's PC, start line.
	size, name := uint64(16), 4
	if t.magic == magic118 {
		size, name = 20, 12
	}
	data, ok := t.read(gofunc+uint64(tree)+uint64(index)*size, size)
	if !ok {
		return inlinedCall{}, false
	}
	call.name = t.order.Uint32(data[name:])
	call.parent = t.order.Uint32(data[name+4:])
	if t.magic != magic118 {
		call.startLine = int(int32(t.order.Uint32(data[12:])))
		// Zeros are no call: every function starts on some line.
		ok = data[1] == 0 && data[2] == 0 && data[3] == 0 && call.startLine > 0
	}
	return call, ok && uint64(call.name) < uint64(len(t.funcnames)) && uint64(call.parent) < f.End-f.Entry
}

// checkGofunc reports whether the inline trees are where gofunc says, by the
// trees of the first functions that have one. True where none has.
func (t *Table) checkGofunc(gofunc uint64) bool {
	const enough = 32
	checked := 0
	for f := range t.Funcs() {
		if checked == enough {
			break
		}
		for span := range f.Values(InlineIndex) {
			if span.Value < 0 {
				continue
			}
			call, ok := t.inlinedCallAt(gofunc, f, span.Value)
			// Every name starts after the end of another.
			if !ok || call.name > 0 && t.funcnames[call.name-1] != 0 {
				return false
			}
			checked++
			break
		}
	}
	return true
}

// PrintName shortens a linkage name as the runtime does for people: type
// arguments become [...]. The shapes that the compiler picks are no names of
// the program's.
func PrintName(name string) string {
	open := strings.IndexByte(name, '[')
	if open < 0 {
		return name
	}
	end := strings.LastIndexByte(name, ']')
	if end <= open {
		return name
	}
	return name[:open] + "[...]" + name[end+1:]
}
