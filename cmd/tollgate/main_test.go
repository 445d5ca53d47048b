package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tollgate": main,
		"burn":     burn,
		"linger":   linger,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			env.Setenv("ROOT", repositoryRoot(t))
			program, err := exec.LookPath("tollgate")
			if err != nil {
				return err
			}
			env.Setenv("TOLLGATE", program)
			// Scripts have a home of their own; without the cache every `go tool` would be built anew.
			cache, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
			if err != nil {
				return err
			}
			build, modules, _ := strings.Cut(strings.TrimSpace(string(cache)), "\n")
			env.Setenv("GOCACHE", build)
			env.Setenv("GOMODCACHE", modules)
			return nil
		},
		Condition: scriptCondition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     scriptExits,
			"nothing":   scriptNothing,
			"open":      scriptOpen,
			"recording": scriptRecording,
			"signals":   scriptSignals,
		},
	})
}

// scriptExits is `exits CODE COMMAND...`: COMMAND must end with that exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s ended with exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// scriptOpen is `open`: gives the script's directory, and the programs under test, to everyone, for
// scripts that change the user.
func scriptOpen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: open")
	}
	for dir := ts.MkAbs("."); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		ts.Check(os.Chmod(dir, 0o777))
	}
	program, err := exec.LookPath("tollgate")
	ts.Check(err)
	for dir := filepath.Dir(program); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		ts.Check(os.Chmod(dir, 0o755))
	}
}

// scriptCondition knows [privileged]: whether this process may sample the system. Where the
// environment demands it, its absence is an error rather than a reason to skip.
func scriptCondition(condition string) (bool, error) {
	if condition != "privileged" {
		return false, fmt.Errorf("unknown condition %q", condition)
	}
	missing := missingCapabilities()
	if len(missing) > 0 && os.Getenv("TOLLGATE_REQUIRE_PRIVILEGED") == "1" {
		return false, fmt.Errorf("TOLLGATE_REQUIRE_PRIVILEGED is set, and this process lacks %s", strings.Join(missing, ", "))
	}
	return len(missing) == 0, nil
}

// scriptNothing is `nothing left DIR...`: the directories hold nothing hidden of ours, and no process
// started by this script is alive.
func scriptNothing(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || args[0] != "left" {
		ts.Fatalf("usage: nothing left [DIR...]")
	}
	// .tmp is the script's own $TMPDIR.
	if left, err := os.ReadDir(ts.MkAbs(".tmp")); err != nil || len(left) > 0 {
		ts.Fatalf("$TMPDIR holds %v (%v)", left, err)
	}
	for _, dir := range append(args[1:], ".") {
		entries, err := os.ReadDir(ts.MkAbs(dir))
		ts.Check(err)
		for _, entry := range entries {
			name := entry.Name()
			if strings.Contains(name, ".partial") || name != ".tmp" && strings.HasSuffix(name, ".tmp") {
				ts.Fatalf("%s was left in %s", name, dir)
			}
		}
	}
	// A collector whose client was killed learns of it from its stdin, and needs a moment to leave.
	const patience, poll = 10 * time.Second, 10 * time.Millisecond
	left := descendantsIn(ts.MkAbs("."))
	for deadline := time.Now().Add(patience); len(left) > 0 && time.Now().Before(deadline); time.Sleep(poll) {
		left = descendantsIn(ts.MkAbs("."))
	}
	if len(left) > 0 {
		ts.Fatalf("processes are still there: %s", strings.Join(left, ", "))
	}
}

// descendantsIn returns the processes whose working directory is dir, which all that a script starts
// inherit from it.
func descendantsIn(dir string) []string {
	var out []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		cwd, err := os.Readlink(process + "/cwd")
		if err != nil || !(cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
			continue
		}
		line, _ := os.ReadFile(process + "/cmdline")
		out = append(out, fmt.Sprintf("%s (%s)", filepath.Base(process), bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '})))
	}
	return out
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}
