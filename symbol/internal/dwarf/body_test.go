package dwarf

import (
	"debug/elf"
	"errors"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// load reads the debug sections of an ELF file.
func load(t testing.TB, file string, options Options) *Data {
	t.Helper()
	f, err := safeelf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	section := func(name string) []byte {
		s := f.Section(name)
		if s == nil {
			return nil
		}
		data, err := f.Data(s)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, s := range f.Sections {
		if s.Name == ".text" && s.Flags&elf.SHF_EXECINSTR != 0 {
			options.CodeLow, options.CodeHigh = s.Addr, s.Addr+s.Size
		}
	}
	d, err := New(Sections{
		Info: section(".debug_info"), Abbrev: section(".debug_abbrev"), Str: section(".debug_str"),
		LineStr: section(".debug_line_str"), StrOffsets: section(".debug_str_offsets"), Addr: section(".debug_addr"),
		Ranges: section(".debug_ranges"), Rnglists: section(".debug_rnglists"), Line: section(".debug_line"),
	}, options)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWalkAgreesWithParsedBody looks every address of a program up in both
// ways: walking to it, and in the parsed body of its function.
func TestWalkAgreesWithParsedBody(t *testing.T) {
	for _, compiler := range []string{"g++", "clang++-14"} {
		t.Run(compiler, func(t *testing.T) {
			if _, err := exec.LookPath(compiler); err != nil {
				t.Skipf("%s is missing", compiler)
			}
			program := filepath.Join(t.TempDir(), "program")
			source := filepath.Join("..", "..", "testdata", "shapes.cc")
			// g++ -std=c++17 -O2 -g -o program shapes.cc
			out, err := exec.Command(compiler, "-std=c++17", "-O2", "-g", "-o", program, source).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", compiler, err, out)
			}
			d := load(t, program, Options{})
			d.indexUnits()
			d.indexed = true
			deepest := 0
			for i := range d.units {
				u := &d.units[i]
				for _, r := range d.functionIndex(u, true).ranges {
					f := &u.functions.functions[r.function]
					parsed := d.parseBody(u, f)
					for pc := r.low; pc < r.high; pc++ {
						var want []inlined
						for n := parsed.at(pc); n >= 0; n = parsed.nodes[n].parent {
							want = append([]inlined{parsed.nodes[n]}, want...)
						}
						got := d.walkBody(nil, u, f, pc)
						for i := range want {
							want[i].parent = 0
						}
						if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
							t.Fatalf("%#x: walked to %+v, parsed %+v", pc, got, want)
						}
						deepest = max(deepest, len(got))
					}
				}
			}
			if deepest < 5 {
				t.Errorf("functions are inlined %d deep, want 5 at least for the test to mean something", deepest)
			}
		})
	}
}

func TestFlatten(t *testing.T) {
	at := func(low, high uint64, node int32) nodeRange { return nodeRange{addrRange{low, high}, node} }
	tests := []struct {
		name   string
		ranges []nodeRange
		want   map[uint64]int32
	}{
		{"nested", []nodeRange{at(10, 40, 0), at(20, 30, 1)}, map[uint64]int32{9: -1, 10: 0, 19: 0, 20: 1, 29: 1, 30: 0, 39: 0, 40: -1}},
		{"same extent", []nodeRange{at(10, 20, 0), at(10, 20, 1)}, map[uint64]int32{10: 1, 19: 1, 20: -1}},
		{"adjacent", []nodeRange{at(10, 20, 0), at(20, 30, 1)}, map[uint64]int32{19: 0, 20: 1, 30: -1}},
		{"with a gap", []nodeRange{at(10, 20, 0), at(25, 30, 1)}, map[uint64]int32{20: -1, 24: -1, 25: 1}},
		{"out of order", []nodeRange{at(25, 30, 1), at(10, 20, 0)}, map[uint64]int32{10: 0, 25: 1}},
		{"child beyond its parent", []nodeRange{at(10, 20, 0), at(15, 25, 1)}, map[uint64]int32{14: 0, 15: 1, 24: 1, 25: -1}},
		{"ends together", []nodeRange{at(10, 40, 0), at(20, 40, 1), at(30, 40, 2)}, map[uint64]int32{39: 2, 40: -1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b body
			b.low, b.segments = flatten(test.ranges)
			for pc, want := range test.want {
				if got := b.at(pc); got != want {
					t.Errorf("at %d is %d, want %d", pc, got, want)
				}
			}
		})
	}
}

func TestNoDebugInformation(t *testing.T) {
	if _, err := New(Sections{}, Options{}); !errors.Is(err, ErrNoInfo) {
		t.Errorf("error is %v, want ErrNoInfo", err)
	}
	if _, err := New(Sections{Info: []byte{1, 2, 3}, Abbrev: []byte{0}}, Options{}); err == nil {
		t.Error("a truncated unit header is accepted")
	}
}
