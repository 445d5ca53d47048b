package symbol

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packageOf names the Debian package of a tool that fixtures need.
func packageOf(tool string) string {
	switch tool {
	case "gcc", "objcopy", "strip", "addr2line":
		return "build-essential"
	case "g++":
		return "g++"
	case "clang-14", "clang++-14":
		return "clang-14"
	case "rustc":
		return "rustc"
	case "xz":
		return "xz-utils"
	case "aarch64-linux-gnu-gcc":
		return "gcc-aarch64-linux-gnu"
	}
	return tool
}

// run runs a command line in dir; words are split at spaces, $T is
// symbol/testdata. It skips the test when the tool is missing.
func run(t testing.TB, dir, command string) {
	t.Helper()
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.ReplaceAll(command, "$T", testdata))
	if _, err := exec.LookPath(words[0]); err != nil {
		t.Skipf("%s is missing (package %s)", words[0], packageOf(words[0]))
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// open opens a fixture and closes it with the test.
func open(t testing.TB, path string, options Options) *Binary {
	t.Helper()
	b, err := Open(path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// noDebugDirs keeps the debug files of the machine out of a test.
func noDebugDirs(t testing.TB) []string { return []string{t.TempDir()} }
