package gopclntab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// build compiles testdata/prog with the go command's environment and
// arguments, and opens the result.
func build(t *testing.T, env []string, args ...string) *safeelf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prog")
	run(t, env, append([]string{"build", "-o", path}, args...)...)
	return open(t, path)
}

func run(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = "testdata/prog"
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func open(t testing.TB, path string) *safeelf.File {
	t.Helper()
	file, err := safeelf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func newTestTable(t testing.TB, file *safeelf.File) *Table {
	t.Helper()
	table, err := New(file)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// variant is one way to build testdata/prog.
type variant struct {
	name string
	env  []string
	args []string
}

func variants(t *testing.T) []variant {
	all := []variant{
		{"amd64", []string{"GOARCH=amd64"}, nil},
		{"amd64-pie", []string{"GOARCH=amd64"}, []string{"-buildmode=pie"}},
		{"arm64", []string{"GOARCH=arm64"}, nil},
		{"arm64-pie", []string{"GOARCH=arm64"}, []string{"-buildmode=pie"}},
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Log("gcc is not installed: files of a system linker are not tested")
		return all
	}
	native := []string{"CGO_ENABLED=1"}
	all = append(all,
		variant{"external", native, []string{"-ldflags=-linkmode=external"}},
		variant{"external-pie", native, []string{"-buildmode=pie", "-ldflags=-linkmode=external"}},
	)
	// One release per layout that the current one does not have: 1.18 has
	// its own magic number and records, 1.20 no inline trees in the table.
	for _, version := range []string{"go1.18.10", "go1.20.14", "go1.24.9"} {
		if !haveToolchain(version) {
			t.Logf("toolchain %s is not in the module cache: its layout is not tested (go env GOTOOLCHAIN=%[1]s go version gets it)", version)
			continue
		}
		env := []string{"GOTOOLCHAIN=" + version}
		all = append(all,
			variant{version, env, nil},
			variant{version + "-external-pie", []string{env[0], "CGO_ENABLED=1"}, []string{"-buildmode=pie", "-ldflags=-linkmode=external"}},
		)
	}
	return all
}

// haveToolchain reports whether the go command can switch to version without
// a download.
func haveToolchain(version string) bool {
	cmd := exec.Command("go", "version")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+version, "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	return err == nil && strings.Contains(string(out), version)
}

// stripped returns the variant with neither symbol table nor DWARF.
func (v variant) stripped() variant {
	args := []string{"-ldflags=-s -w"}
	for _, arg := range v.args {
		if flags, ok := strings.CutPrefix(arg, "-ldflags="); ok {
			args[0] += " " + flags
		} else {
			args = append(args, arg)
		}
	}
	return variant{v.name, v.env, args}
}

// TestTableOfStrippedFileAgreesWithDWARF compares the names, lines and inlined
// calls of a stripped file with the DWARF of its twin.
func TestTableOfStrippedFileAgreesWithDWARF(t *testing.T) {
	for _, v := range variants(t) {
		t.Run(v.name, func(t *testing.T) {
			full := build(t, v.env, v.args...)
			stripped := v.stripped()
			file := build(t, stripped.env, stripped.args...)
			if file.Section(".symtab") != nil || file.Section(".debug_info") != nil {
				t.Fatal("the stripped file has symbols")
			}
			table := newTestTable(t, file)
			oracle := readDWARF(t, full)
			oracle.compareFunctions(t, table)
			oracle.compareLines(t, table)
			oracle.compareInlines(t, table)
		})
	}
}

// TestTableIsFoundWithoutSectionHeaders removes the section headers, as
// sstrip does.
func TestTableIsFoundWithoutSectionHeaders(t *testing.T) {
	for _, v := range variants(t) {
		t.Run(v.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "prog")
			run(t, v.env, append([]string{"build", "-o", path}, v.args...)...)
			want := newTestTable(t, open(t, path))

			image, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			clear(image[0x28:0x30]) // e_shoff
			clear(image[0x3a:0x40]) // e_shentsize, e_shnum, e_shstrndx
			bare := filepath.Join(t.TempDir(), "bare")
			if err := os.WriteFile(bare, image, 0o600); err != nil {
				t.Fatal(err)
			}
			file := open(t, bare)
			if len(file.Sections) != 0 {
				t.Fatalf("the file still has %d sections", len(file.Sections))
			}
			got := newTestTable(t, file)
			if got.Len() != want.Len() {
				t.Fatalf("%d functions, want %d", got.Len(), want.Len())
			}
			for i := range want.Len() {
				wantFunc, _ := want.Func(i)
				gotFunc, ok := got.Func(i)
				if !ok || gotFunc.Entry != wantFunc.Entry || gotFunc.End != wantFunc.End || gotFunc.Name() != wantFunc.Name() {
					t.Fatalf("function %d is %#x %s, want %#x %s", i, gotFunc.Entry, gotFunc.Name(), wantFunc.Entry, wantFunc.Name())
				}
				middle := (wantFunc.Entry + wantFunc.End) / 2
				if got, want := fmt.Sprint(got.Lines(middle)), fmt.Sprint(want.Lines(middle)); got != want {
					t.Fatalf("lines at %#x are %s, want %s", middle, got, want)
				}
			}
		})
	}
}

func TestFileWithoutTableIsNotFound(t *testing.T) {
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh on this machine")
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		t.Fatal(err)
	}
	if _, err := New(open(t, path)); !errors.Is(err, ErrNotFound) {
		t.Fatalf("New(%s) = %v, want ErrNotFound", path, err)
	}
}

func TestFindOutsideOfTheText(t *testing.T) {
	table := newTestTable(t, build(t, nil))
	start, end := table.Text()
	for _, pc := range []uint64{0, start - 1, end, end + 1, 1 << 63, ^uint64(0)} {
		if f, ok := table.Find(pc); ok {
			t.Errorf("Find(%#x) = %s, want none in [%#x, %#x)", pc, f.Name(), start, end)
		}
		if lines := table.Lines(pc); lines != nil {
			t.Errorf("Lines(%#x) = %v, want none", pc, lines)
		}
	}
}

func TestStackDepthsCoverFunctions(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		table := newTestTable(t, build(t, []string{"GOARCH=" + arch}))
		functions, deepest := 0, int32(0)
		for f := range table.Funcs() {
			at := f.Entry
			for span := range f.Values(SPDelta) {
				if span.Start != at || span.End <= span.Start || span.End > f.End {
					t.Fatalf("%s %s: span [%#x, %#x) after %#x", arch, f.Name(), span.Start, span.End, at)
				}
				if span.Start == f.Entry && span.Value != 0 && f.Flags&(FlagAsm|FlagTopFrame) == 0 {
					t.Errorf("%s %s: depth %d at its entry, want 0", arch, f.Name(), span.Value)
				}
				if span.Value%8 != 0 {
					t.Errorf("%s %s: depth %d is no multiple of the word", arch, f.Name(), span.Value)
				}
				at, deepest = span.End, max(deepest, span.Value)
			}
			// Padding up to the next function has no depth.
			if at != f.Entry && f.End-at >= 64 {
				t.Errorf("%s %s: depths end %d bytes before the function", arch, f.Name(), f.End-at)
			}
			functions++
		}
		if functions < 1000 || deepest < 1000 {
			t.Errorf("%s: %d functions with at most %d bytes of stack: too few for a program with package fmt", arch, functions, deepest)
		}
	}
}

func TestSpecialFunctionsHaveFlags(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		table := newTestTable(t, build(t, []string{"GOARCH=" + arch}))
		want := map[string]Flags{
			"runtime.goexit":      FlagTopFrame | FlagAsm,
			"runtime.mstart":      FlagTopFrame | FlagAsm,
			"runtime.gogo":        0,
			"runtime.systemstack": FlagSPWrite | FlagAsm,
			"main.guarded":        0,
		}
		for f := range table.Funcs() {
			flags, ok := want[f.Name()]
			if !ok {
				continue
			}
			delete(want, f.Name())
			if f.Flags&flags != flags {
				t.Errorf("%s %s: flags %b, want %b", arch, f.Name(), f.Flags, flags)
			}
			if special := f.Name() != "main.guarded"; special != (f.ID != 0) {
				t.Errorf("%s %s: ID %d", arch, f.Name(), f.ID)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s: not in the table: %v", arch, want)
		}
	}
}

func TestPrintNameElidesTypeArguments(t *testing.T) {
	for name, want := range map[string]string{
		"main.main":                                 "main.main",
		"main.apply[go.shape.int]":                  "main.apply[...]",
		"main.(*list[go.shape.int]).push":           "main.(*list[...]).push",
		"main.apply[map[string][]go.shape.int,int]": "main.apply[...]",
		"main.apply[int].func1":                     "main.apply[...].func1",
		"odd]name[":                                 "odd]name[",
		"":                                          "",
	} {
		if got := PrintName(name); got != want {
			t.Errorf("PrintName(%q) = %q, want %q", name, got, want)
		}
	}
}
