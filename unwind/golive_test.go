package unwind

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
