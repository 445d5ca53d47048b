package gopclntab

import (
	"debug/dwarf"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// oracle is what DWARF says about a program.
type oracle struct {
	functions []dwarfFunc
	lines     []dwarf.LineEntry
}

// sameName compares names. Before Go 1.21 the linker elided brackets.
func sameName(got, want string) bool {
	return got == want || strings.Contains(got, "[...]") && got == PrintName(want)
}

// dwarfFunc is a physical function, or a call inlined into one.
type dwarfFunc struct {
	name    string
	ranges  [][2]uint64
	inlined []dwarfFunc
}

func readDWARF(t *testing.T, file *safeelf.File) *oracle {
	t.Helper()
	data, err := file.Raw().DWARF()
	if err != nil {
		t.Fatal(err)
	}
	o := new(oracle)
	reader := data.Reader()
	for {
		entry, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		if entry == nil {
			break
		}
		switch entry.Tag {
		case dwarf.TagCompileUnit:
			const langGo = 22
			if language, _ := entry.Val(dwarf.AttrLanguage).(int64); language != langGo {
				reader.SkipChildren()
				continue
			}
			o.readLines(t, data, entry)
		case dwarf.TagSubprogram:
			f := dwarfFunc{name: entryName(t, data, entry)}
			f.ranges, err = data.Ranges(entry)
			if err != nil {
				t.Fatal(err)
			}
			if entry.Children {
				f.inlined = readInlined(t, data, reader)
			}
			if len(f.ranges) > 0 {
				o.functions = append(o.functions, f)
			}
		default:
			reader.SkipChildren()
		}
	}
	if len(o.functions) < 1000 || len(o.lines) < 10000 {
		t.Fatalf("DWARF has %d functions and %d lines: too few to compare with", len(o.functions), len(o.lines))
	}
	return o
}

func (o *oracle) readLines(t *testing.T, data *dwarf.Data, unit *dwarf.Entry) {
	reader, err := data.LineReader(unit)
	if err != nil {
		t.Fatal(err)
	}
	if reader == nil {
		return
	}
	for {
		var entry dwarf.LineEntry
		if err := reader.Next(&entry); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		o.lines = append(o.lines, entry)
	}
}

// readInlined reads the children of an entry up to the one that ends them.
func readInlined(t *testing.T, data *dwarf.Data, reader *dwarf.Reader) (calls []dwarfFunc) {
	for {
		entry, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		if entry == nil || entry.Tag == 0 {
			return calls
		}
		var children []dwarfFunc
		if entry.Children {
			children = readInlined(t, data, reader)
		}
		if entry.Tag != dwarf.TagInlinedSubroutine {
			calls = append(calls, children...) // of a lexical block
			continue
		}
		call := dwarfFunc{name: entryName(t, data, entry), inlined: children}
		if call.ranges, err = data.Ranges(entry); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
}

// entryName returns the name of a function, which may be that of its
// abstract origin.
func entryName(t *testing.T, data *dwarf.Data, entry *dwarf.Entry) string {
	if name, ok := entry.Val(dwarf.AttrName).(string); ok {
		return name
	}
	off, ok := entry.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
	if !ok {
		return ""
	}
	reader := data.Reader()
	reader.Seek(off)
	origin, err := reader.Next()
	if err != nil {
		t.Fatal(err)
	}
	name, _ := origin.Val(dwarf.AttrName).(string)
	return name
}

// chain returns the names of the calls at pc, the innermost first.
func (f dwarfFunc) chain(pc uint64) []string {
	for _, call := range f.inlined {
		for _, r := range call.ranges {
			if pc >= r[0] && pc < r[1] {
				return append(call.chain(pc), f.name)
			}
		}
	}
	return []string{f.name}
}

func (o *oracle) compareFunctions(t *testing.T, table *Table) {
	t.Helper()
	wrong := 0
	for _, want := range o.functions {
		start, end := want.ranges[0][0], want.ranges[0][1]
		got, ok := table.Find(start)
		last, _ := table.Find(end - 1)
		if !ok || got.Entry != start || got.End < end || got.End-end >= 64 || last.Entry != start || !sameName(got.Name(), want.name) {
			if wrong++; wrong < 5 {
				t.Errorf("function at %#x is %s [%#x, %#x), want %s [%#x, %#x)", start, got.Name(), got.Entry, got.End, want.name, start, end)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d functions differ", wrong, len(o.functions))
	}
}

func (o *oracle) compareLines(t *testing.T, table *Table) {
	t.Helper()
	compared, wrong := 0, 0
	for i, want := range o.lines {
		if want.EndSequence || i+1 < len(o.lines) && o.lines[i+1].Address == want.Address {
			continue // the next row speaks for this address
		}
		f, ok := table.Find(want.Address)
		if !ok {
			continue
		}
		compared++
		if f.Line(want.Address) != want.Line || f.File(want.Address) != want.File.Name {
			if wrong++; wrong < 5 {
				t.Errorf("%s+%#x is at %s:%d, want %s:%d", f.Name(), want.Address-f.Entry,
					f.File(want.Address), f.Line(want.Address), want.File.Name, want.Line)
			}
		}
	}
	if wrong > 0 || compared < len(o.lines)/2 {
		t.Errorf("%d of %d lines compared, %d differ", compared, len(o.lines), wrong)
	}
}

func (o *oracle) compareInlines(t *testing.T, table *Table) {
	t.Helper()
	compared, inlined, wrong := 0, 0, 0
	for _, f := range o.functions {
		for pc := f.ranges[0][0]; pc < f.ranges[0][1]; pc += 4 {
			want := f.chain(pc)
			lines := table.Lines(pc)
			compared++
			if len(want) > 1 {
				inlined++
			}
			same := len(want) == len(lines)
			for i := 0; same && i < len(want); i++ {
				same = sameName(lines[i].System, want[i])
			}
			if !same {
				if wrong++; wrong < 5 {
					t.Logf("%s+%#x: %v, DWARF has %q", f.name, pc-f.ranges[0][0], lines, want)
				}
			}
		}
	}
	t.Logf("%d addresses, %d in inlined calls, %d differ", compared, inlined, wrong)
	if inlined < 1000 {
		t.Errorf("only %d addresses in inlined calls: too few to compare", inlined)
	}
	if wrong*100 > inlined {
		t.Errorf("%d of %d inlined calls differ", wrong, inlined)
	}
}
