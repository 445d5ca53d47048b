package symbol

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// addressOf returns the address of a symbol of .symtab.
func addressOf(t *testing.T, file, name string) uint64 {
	t.Helper()
	addr, ok := symbolsByName(t, file)[name]
	if !ok {
		t.Fatalf("%s has no symbol %s", file, name)
	}
	return addr
}

// buildSort builds testdata/sort.c with a build ID of the test's choice.
func buildSort(t *testing.T, flags string) (dir, program string) {
	t.Helper()
	dir = t.TempDir()
	run(t, dir, "gcc -O2 -g "+flags+" -o program $T/sort.c")
	return dir, filepath.Join(dir, "program")
}

// sameAs checks that a binary tells the same as a reference on a sample.
func sameAs(t *testing.T, got, want *Binary, sample string) {
	t.Helper()
	known := 0
	for _, addr := range sampleVaddrs(t, sample, 500) {
		w, g := want.Lines(addr), got.Lines(addr)
		if !reflect.DeepEqual(w, g) {
			t.Fatalf("%#x: got%s\nwant%s", addr, frames(g), frames(w))
		}
		if len(w) > 0 && w[0].Line > 0 {
			known++
		}
	}
	if known < 100 {
		t.Errorf("only %d addresses have lines", known)
	}
}

func TestDebugFileByLink(t *testing.T) {
	dir, program := buildSort(t, "-Wl,--build-id=none")
	run(t, dir, "cp program full")
	run(t, dir, "objcopy --only-keep-debug full program.debug")
	run(t, dir, "strip program")
	run(t, dir, "objcopy --add-gnu-debuglink=program.debug program")
	full := open(t, filepath.Join(dir, "full"), Options{Name: "program", DebugDirs: noDebugDirs(t)})

	t.Run("beside the binary", func(t *testing.T) {
		b := open(t, program, Options{DebugDirs: noDebugDirs(t)})
		if b.Source() != "dwarf" {
			t.Fatalf("source is %q, want dwarf", b.Source())
		}
		sameAs(t, b, full, program)
	})
	t.Run("below a debug directory", func(t *testing.T) {
		debug, elsewhere := t.TempDir(), t.TempDir()
		run(t, dir, "cp program "+elsewhere)
		if err := os.MkdirAll(filepath.Join(debug, elsewhere), 0o755); err != nil {
			t.Fatal(err)
		}
		run(t, dir, "cp program.debug "+filepath.Join(debug, elsewhere))
		b := open(t, filepath.Join(elsewhere, "program"), Options{DebugDirs: []string{debug}})
		sameAs(t, b, full, program)
	})
	t.Run("of another build", func(t *testing.T) {
		other := t.TempDir()
		run(t, dir, "cp program "+other)
		data, err := os.ReadFile(filepath.Join(dir, "program.debug"))
		if err != nil {
			t.Fatal(err)
		}
		// One bit past the headers: the file is good ELF, but its CRC differs.
		data[len(data)/2] ^= 1
		if err := os.WriteFile(filepath.Join(other, "program.debug"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		b := open(t, filepath.Join(other, "program"), Options{DebugDirs: noDebugDirs(t)})
		if b.Source() == "dwarf" {
			t.Error("a debug file with the wrong CRC was used")
		}
	})
}

func TestDebugFileByBuildID(t *testing.T) {
	dir, program := buildSort(t, "-Wl,--build-id=0xab0123456789cdef")
	run(t, dir, "cp program full")
	run(t, dir, "strip program")
	full := open(t, filepath.Join(dir, "full"), Options{Name: "program", DebugDirs: noDebugDirs(t)})
	if full.BuildID() != "ab0123456789cdef" {
		t.Errorf("build ID is %q", full.BuildID())
	}
	place := filepath.Join(dir, "debug", ".build-id", "ab")
	if err := os.MkdirAll(place, 0o755); err != nil {
		t.Fatal(err)
	}
	debugFile := filepath.Join(place, "0123456789cdef.debug")
	dirs := []string{t.TempDir(), filepath.Join(dir, "debug")}

	run(t, dir, "objcopy --only-keep-debug --compress-debug-sections full "+debugFile)
	sameAs(t, open(t, program, Options{DebugDirs: dirs}), full, program)

	// A file in that place that belongs to another build is not used.
	run(t, dir, "gcc -O2 -g -Wl,--build-id=0xab99 -o "+debugFile+" $T/sort.c")
	if b := open(t, program, Options{DebugDirs: dirs}); b.Source() == "dwarf" {
		t.Error("a debug file with another build ID was used")
	}
}

// TestSupplementaryDebugFile moves what two programs share to a third file, as
// distributions do.
func TestSupplementaryDebugFile(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "g++ -std=c++17 -O2 -g -gdwarf-4 -Wl,--build-id -o program $T/shapes.cc")
	run(t, dir, "g++ -std=c++17 -O1 -g -gdwarf-4 -Wl,--build-id -o second $T/shapes.cc")
	run(t, dir, "cp program full")
	run(t, dir, "dwz -m shared.debug -M "+filepath.Join(dir, "shared.debug")+" program second")
	f, err := safeelf.Open(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, ok := f.AltLink(); !ok {
		t.Fatal("dwz left no .gnu_debugaltlink")
	}
	full := open(t, filepath.Join(dir, "full"), Options{Name: "program", DebugDirs: noDebugDirs(t)})
	b := open(t, filepath.Join(dir, "program"), Options{DebugDirs: noDebugDirs(t)})
	sameAs(t, b, full, filepath.Join(dir, "full"))
}

func TestStrippedBinaryHasFunctionBoundaries(t *testing.T) {
	dir, program := buildSort(t, "")
	start := addressOf(t, program, "heap_sort")
	run(t, dir, "strip program")
	b := open(t, program, Options{Name: "libsort.so.1", DebugDirs: noDebugDirs(t)})
	first, inside := b.Lines(start), b.Lines(start+5)
	if len(first) != 1 || !strings.HasPrefix(first[0].Function, "libsort.so.1+0x") {
		t.Fatalf("lines are %+v, want one named libsort.so.1+0x...", first)
	}
	if !reflect.DeepEqual(first, inside) {
		t.Errorf("one function has two names: %+v and %+v", first, inside)
	}
	if lines := b.Lines(1); lines != nil {
		t.Errorf("an address in the ELF header has lines: %+v", lines)
	}
}

func TestSymbolTable(t *testing.T) {
	dir, program := buildSort(t, "")
	start := addressOf(t, program, "heap_sort")
	cold := addressOf(t, program, "complain")
	run(t, dir, "strip --strip-debug program")
	b := open(t, program, Options{DebugDirs: noDebugDirs(t)})
	if b.Source() != "symtab" {
		t.Errorf("source is %q, want symtab", b.Source())
	}
	for addr, want := range map[uint64]string{start: "heap_sort", start + 9: "heap_sort", cold: "complain"} {
		if lines := b.Lines(addr); len(lines) != 1 || lines[0].Function != want {
			t.Errorf("%#x: %+v, want %s", addr, lines, want)
		}
	}
}

func TestDynamicSymbolTable(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "gcc -O2 -g -shared -fPIC -o full $T/sort.c")
	run(t, dir, "strip -o program full")
	exported := addressOf(t, filepath.Join(dir, "full"), "depth")
	local := addressOf(t, filepath.Join(dir, "full"), "complain")
	b := open(t, filepath.Join(dir, "program"), Options{DebugDirs: noDebugDirs(t)})
	if b.Source() != "dynsym" {
		t.Errorf("source is %q, want dynsym", b.Source())
	}
	if lines := b.Lines(exported); len(lines) != 1 || lines[0].Function != "depth" {
		t.Errorf("exported function: %+v, want depth", lines)
	}
	// Not exported: only its boundaries are known, and no neighbour's name.
	if lines := b.Lines(local); len(lines) != 1 || !strings.HasPrefix(lines[0].Function, "program+0x") {
		t.Errorf("local function: %+v, want program+0x...", lines)
	}
}

func TestMiniDebugInfo(t *testing.T) {
	dir, program := buildSort(t, "")
	local := addressOf(t, program, "complain")
	run(t, dir, "objcopy --strip-debug program mini")
	run(t, dir, "xz mini")
	run(t, dir, "strip program")
	run(t, dir, "objcopy --add-section .gnu_debugdata=mini.xz program")
	b := open(t, program, Options{DebugDirs: noDebugDirs(t)})
	if lines := b.Lines(local); len(lines) != 1 || lines[0].Function != "complain" {
		t.Errorf("%+v, want complain", lines)
	}
}

func TestLinkageStubs(t *testing.T) {
	for _, flags := range []string{"-fcf-protection=none", "-fcf-protection=full -Wl,-z,ibtplt", "-Wl,-z,lazy"} {
		dir, program := buildSort(t, flags)
		run(t, dir, "strip program")
		b := open(t, program, Options{DebugDirs: noDebugDirs(t)})
		f, err := safeelf.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var names []string
		for _, s := range f.Sections {
			if s.Name != ".plt" && s.Name != ".plt.sec" {
				continue
			}
			for addr := s.Addr; addr < s.Addr+s.Size; addr += 16 {
				if lines := b.Lines(addr + 4); len(lines) == 1 && strings.HasSuffix(lines[0].Function, "@plt") {
					names = append(names, lines[0].Function)
				}
			}
		}
		for _, want := range []string{"calloc@plt", "abort@plt", "memcmp@plt"} {
			if !slices.Contains(names, want) {
				t.Errorf("%s: stubs are %v, want %s among them", flags, names, want)
			}
		}
	}
}

func TestZstandardSections(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "rustc -O -g -o full $T/words.rs")
	out, err := exec.Command("objcopy", "--compress-debug-sections=zstd", filepath.Join(dir, "full"), filepath.Join(dir, "program")).CombinedOutput()
	if err != nil {
		t.Skipf("objcopy cannot compress with Zstandard (binutils 2.40 or later, built with it): %s", out)
	}
	full := open(t, filepath.Join(dir, "full"), Options{Name: "program", DebugDirs: noDebugDirs(t)})
	b := open(t, filepath.Join(dir, "program"), Options{DebugDirs: noDebugDirs(t)})
	if b.Source() != "dwarf" {
		t.Errorf("source is %q, want dwarf", b.Source())
	}
	sameAs(t, b, full, filepath.Join(dir, "full"))
}

// TestLittleMemoryIsEnough looks addresses up with almost no cache.
func TestLittleMemoryIsEnough(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "g++ -std=c++17 -O2 -g -o program $T/shapes.cc")
	program := filepath.Join(dir, "program")
	full := open(t, program, Options{DebugDirs: noDebugDirs(t)})
	little := open(t, program, Options{DebugDirs: noDebugDirs(t), Memory: 1})
	sameAs(t, little, full, program)
}

func TestTruncatedFileIsNoPanic(t *testing.T) {
	_, program := buildSort(t, "")
	start := addressOf(t, program, "heap_sort")
	b := open(t, program, Options{Name: "program", DebugDirs: noDebugDirs(t)})
	if len(b.Lines(start)) == 0 {
		t.Fatal("nothing is known before the truncation")
	}
	if err := os.Truncate(program, 64); err != nil {
		t.Fatal(err)
	}
	b.Lines(start + 1) // what it answers is not specified
}

func TestClosedBinaryKnowsNothing(t *testing.T) {
	_, program := buildSort(t, "")
	start := addressOf(t, program, "heap_sort")
	b := open(t, program, Options{DebugDirs: noDebugDirs(t)})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if lines := b.Lines(start); lines != nil {
		t.Errorf("lines after Close: %+v", lines)
	}
}
