package gopclntab

import (
	"os"
	"reflect"
	"runtime"
	"testing"
)

// TestTableAgreesWithTheRuntime compares the table of the running test
// program with what its runtime says, for instructions all over its text.
func TestTableAgreesWithTheRuntime(t *testing.T) {
	table := newTestTable(t, open(t, executable(t)))
	bias := loadBias(t, table)

	functions, instructions, inlined := 0, 0, 0
	unnamed := make(map[uint64]bool)
	for i := 0; i < table.Len(); i += 3 {
		f, ok := table.Func(i)
		if !ok {
			t.Fatalf("function %d is malformed", i)
		}
		// Padding may follow the instructions. The runtime takes it for the
		// last of them, a stack never leads there.
		end := f.Entry
		for span := range f.Values(LineNumber) {
			end = span.End
		}
		functions++
		for pc := f.Entry; pc < end; pc += 7 {
			want := runtimeLines(uintptr(pc + bias))
			got := table.Lines(pc)
			instructions++
			if len(got) > 1 {
				inlined++
			}
			for i := range got {
				got[i].System = "" // the runtime does not tell
				if i < len(want) && want[i].Function == "" {
					// It takes the first name of the table for none.
					got[i].Function = ""
					unnamed[f.Entry] = true
				}
			}
			if f.ID != 0 && len(got) == len(want)+1 {
				got = got[:len(want)] // the runtime leaves out wrappers
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s+%#x:\n got %v\nwant %v", f.Name(), pc-f.Entry, got, want)
			}
		}
	}
	t.Logf("%d functions, %d instructions, %d of them in inlined calls", functions, instructions, inlined)
	if len(unnamed) > 1 {
		t.Errorf("the runtime has no name for %d functions, want at most 1", len(unnamed))
	}
	if functions < 500 || inlined < 1000 {
		t.Errorf("%d functions and %d inlined calls are too few to compare", functions, inlined)
	}
}

func executable(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runtimeLines returns what the runtime knows about the instruction at pc.
func runtimeLines(pc uintptr) (lines []Line) {
	// CallersFrames takes return addresses and looks one byte before them. It
	// unpacks inlined calls only when another address follows; 0 has no frame.
	frames := runtime.CallersFrames([]uintptr{pc + 1, 0})
	for {
		frame, more := frames.Next()
		line := Line{Function: frame.Function, File: frame.File, Line: frame.Line}
		// Frame has no exported start line; reflection can read it.
		line.StartLine = int(reflect.ValueOf(frame).FieldByName("startLine").Int())
		lines = append(lines, line)
		if !more {
			return lines
		}
	}
}

// loadBias returns the distance of process addresses from vaddrs, not 0 for a
// position-independent test program.
func loadBias(t *testing.T, table *Table) uint64 {
	t.Helper()
	entry := reflect.ValueOf(runtimeLines).Pointer()
	name := runtime.FuncForPC(entry).Name()
	for f := range table.Funcs() {
		if f.Name() == name {
			return uint64(entry) - f.Entry
		}
	}
	t.Fatalf("no function %s in the table", name)
	return 0
}

// TestReturnAddressesOfThisStack looks up a stack as a sampler would.
func TestReturnAddressesOfThisStack(t *testing.T) {
	table := newTestTable(t, open(t, executable(t)))
	bias := loadBias(t, table)
	pcs := make([]uintptr, 1)
	runtime.Callers(1, pcs)
	lines := table.Lines(uint64(pcs[0]) - 1 - bias)
	_, file, line, _ := runtime.Caller(0)
	if len(lines) == 0 || lines[0].Function != "github.com/tollgate-dev/tollgate/internal/gopclntab.TestReturnAddressesOfThisStack" ||
		lines[0].File != file || lines[0].Line != line-2 {
		t.Fatalf("lines are %v, want %s:%d", lines, file, line-2)
	}
}

// BenchmarkLines looks up addresses all over the test program.
func BenchmarkLines(b *testing.B) {
	table := newTestTable(b, open(b, executable(b)))
	start, end := table.Text()
	pc := start
	for b.Loop() {
		table.Lines(pc)
		if pc += 4099; pc >= end {
			pc -= end - start
		}
	}
}

// BenchmarkStackDepths is the unwinder's use: every depth of every function.
func BenchmarkStackDepths(b *testing.B) {
	file := open(b, executable(b))
	for b.Loop() {
		table := newTestTable(b, file)
		start, end := table.Text()
		b.SetBytes(int64(end - start))
		for f := range table.Funcs() {
			for range f.Values(SPDelta) {
			}
		}
	}
}
