package unwind

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// buildGo builds a Go program of testdata.
func buildGo(t *testing.T, dir string, env []string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	args := append([]string{"build", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, "./testdata/"+dir)...)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, text)
	}
	return out
}

// goRoot is the outer end of the main goroutine's stack.
var goRoot = []string{"main.main", "runtime.main", "runtime.goexit"}

func TestWalkReachesTheStartOfGoPrograms(t *testing.T) {
	builds := []struct {
		name  string
		env   []string
		flags []string
	}{
		{"default", []string{"CGO_ENABLED=0"}, []string{"-ldflags=-checklinkname=0"}},
		{"stripped", []string{"CGO_ENABLED=0"}, []string{"-ldflags=-checklinkname=0 -s -w"}},
		{"PIE", []string{"CGO_ENABLED=0"}, []string{"-buildmode=pie", "-ldflags=-checklinkname=0"}},
	}
	paths := []struct {
		arg  string
		want []string
		root []string
	}{
		{"recurse", []string{"main.bottom", "main.recurse*41"}, goRoot},
		{"large", []string{"main.bottom", "main.recurse*6", "main.large"}, goRoot},
		{"callback", []string{"main.bottom", "main.callback.func1", "main.callback"}, goRoot},
		{"goroutine", []string{"main.bottom", "main.recurse*6", "main.main.func1", "runtime.goexit"}, nil},
		{"systemstack", []string{"main.bottom", "main.switched.func1", "runtime.systemstack*2", "main.switched"}, goRoot},
		{"fault", []string{"main.bottom", "main.fault.func1", "runtime.sigpanic", "main.fault"}, goRoot},
	}
	for _, build := range builds {
		t.Run(build.name, func(t *testing.T) {
			program := buildGo(t, "gocalls", build.env, build.flags...)
			for _, path := range paths {
				t.Run(path.arg, func(t *testing.T) {
					checkGoStack(t, program, []string{path.arg}, append(path.want, path.root...))
				})
			}
		})
	}
}

func TestWalkCrossesCgo(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	t.Run("system linker", func(t *testing.T) {
		program := buildGo(t, "cgocalls", []string{"CGO_ENABLED=1"}, "-ldflags=-linkmode=external")
		want := []string{
			"c_bottom", "runtime.asmcgocall", "runtime.cgocallback", "crosscall2", "goCallback",
			"c_recurse*6", "c_enter", "runtime.asmcgocall", "main.callC",
		}
		checkGoStack(t, program, nil, append(want, goRoot...))
	})
	// Go's own linker drops the call frame information of C code. Where that
	// does not use the frame pointer the Go frames below it are still found.
	t.Run("internal linker", func(t *testing.T) {
		program := buildGo(t, "cgocalls", []string{"CGO_ENABLED=1"}, "-ldflags=-linkmode=internal")
		want := []string{"c_bottom", "runtime.cgocall", "main.callLeaf"}
		checkGoStack(t, program, []string{"leaf"}, append(want, goRoot...))
	})
}

// checkGoStack stops program at its breakpoint and checks its stack.
func checkGoStack(t *testing.T, program string, args, want []string) {
	t.Helper()
	p, regs := stopAtTrap(t, program, args...)
	frames, reason := Walk(nil, regs, p, p)
	var names []string
	for _, name := range p.names(frames) {
		name, _, _ = strings.Cut(name, ".abi")
		names = append(names, name)
	}
	if reason != StopComplete {
		t.Errorf("stopped: %v", reason)
	}
	if !containsInOrder(names, want) {
		t.Errorf("stack %q\nlacks %q", names, want)
	}
}

// TestGoRowsAgreeWithDebugFrame compares the stack depths of pclntab with the
// call frame information that the Go linker makes for debuggers, wherever a
// frame is not one of the runtime's special ones.
func TestGoRowsAgreeWithDebugFrame(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			program := buildGo(t, "gocalls", []string{"CGO_ENABLED=0", "GOARCH=" + arch}, "-ldflags=-checklinkname=0")
			f, err := safeelf.Open(program)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			rules := NewRuleSet()
			table, err := NewTable(f, rules)
			if err != nil || table.Stats.GoError != nil {
				t.Fatal(err, table.Stats.GoError)
			}
			compared, special := 0, 0
			for _, fde := range readelfRows(t, program) {
				for i, row := range fde.rows {
					if i+1 < len(fde.rows) && fde.rows[i+1].at == row.at || row.at >= fde.end {
						continue
					}
					_, off, found := strings.Cut(row.cells["CFA"], "sp")
					if !found {
						t.Fatalf("readelf shows a CFA of %q at %#x", row.cells["CFA"], row.at)
					}
					at, ok := f.Offset(row.at)
					if !ok {
						t.Fatalf("no code at %#x", row.at)
					}
					rule := table.Lookup(rules, at)
					if rule.CFA != CFASP {
						special++
					} else if compared++; "+"+strconv.Itoa(int(rule.CFAOff)) != off {
						t.Errorf("rule at %#x: %v, readelf shows sp%s", row.at, rule, off)
					}
				}
			}
			if compared < 3000 || special > 100 {
				t.Errorf("compared %d rows, %d are special", compared, special)
			}
		})
	}
}
