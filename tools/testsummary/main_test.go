package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const pkg = "github.com/tollgate-dev/tollgate/capture"

func passing(name string) []event {
	return []event{
		{Action: "run", Package: pkg, Test: name},
		{Action: "output", Package: pkg, Test: name, Output: "=== RUN   " + name + "\n"},
		{Action: "pass", Package: pkg, Test: name},
	}
}

func skipped(name, reason string) []event {
	return []event{
		{Action: "output", Package: pkg, Test: name, Output: "    a_test.go:7: " + reason + "\n"},
		{Action: "output", Package: pkg, Test: name, Output: "--- SKIP: " + name + " (0.00s)\n"},
		{Action: "skip", Package: pkg, Test: name},
	}
}

func failing(name, reason string) []event {
	return []event{
		{Action: "output", Package: pkg, Test: name, Output: "    a_test.go:7: " + reason + "\n"},
		{Action: "fail", Package: pkg, Test: name},
	}
}

var packagePassed = []event{
	{Action: "output", Package: pkg, Output: "PASS\n"},
	{Action: "output", Package: pkg, Output: "ok  \t" + pkg + "\t0.1s\n"},
	{Action: "pass", Package: pkg},
}

func TestSummary(t *testing.T) {
	must := filepath.Join(t.TempDir(), "must.txt")
	if err := os.WriteFile(must, []byte("# these need root\ncapture TestRoot\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		events [][]event
		must   string
		code   int
		want   []string
	}{
		{"passes", [][]event{passing("TestA"), packagePassed}, "", 0,
			[]string{"ok  \t" + pkg, "ok: 1 passed, 0 failed, 0 skipped\n"}},
		{"names a skip and its reason", [][]event{passing("TestA"), skipped("TestB", "needs gcc"), packagePassed}, "", 0,
			[]string{"skipped: capture TestB: needs gcc\n", "ok: 1 passed, 0 failed, 1 skipped\n"}},
		{"shows a failure", [][]event{passing("TestA"), failing("TestB", "want 1"), {{Action: "fail", Package: pkg}}}, "", 1,
			[]string{"want 1", "FAIL: 1 passed, 1 failed, 0 skipped\n"}},
		{"required test ran", [][]event{passing("TestRoot"), packagePassed}, must, 0,
			[]string{"privileged: 1 of 1 tests ran\nok: 1 passed, 0 failed, 0 skipped\n"}},
		{"required test skipped", [][]event{passing("TestA"), skipped("TestRoot", "needs root"), packagePassed}, must, 1,
			[]string{"did not run: capture TestRoot\n", "privileged: 0 of 1 tests ran\nFAIL: 1 passed, 0 failed, 1 skipped\n"}},
		{"required test is gone", [][]event{passing("TestA"), packagePassed}, must, 1,
			[]string{"did not run: capture TestRoot\n"}},
		{"does not build", [][]event{passing("TestA"), {
			{Action: "build-output", ImportPath: pkg, Output: "a.go:1: syntax error\n"},
			{Action: "build-fail", ImportPath: pkg},
		}}, "", 1, []string{"a.go:1: syntax error\n", "FAIL: 1 passed"}},
		{"panics in the middle", [][]event{passing("TestA"), {
			{Action: "output", Package: pkg, Test: "TestB", Output: "panic: oh\n"},
			{Action: "fail", Package: pkg},
		}}, "", 1, []string{"panic: oh\n", "FAIL: 1 passed"}},
		{"nothing ran", nil, "", 1, []string{"FAIL: 0 passed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var in, out bytes.Buffer
			encoder := json.NewEncoder(&in)
			for _, events := range test.events {
				for _, e := range events {
					if err := encoder.Encode(e); err != nil {
						t.Fatal(err)
					}
				}
			}
			if code := run(&in, &out, test.must); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q:\n%s", want, &out)
				}
			}
		})
	}
}

// TestRealOutput reads what the go command prints about a package whose only
// tests pass, skip and fail.
func TestRealOutput(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/tollgate/three\n\ngo 1.21\n",
		"three_test.go": `package three

import "testing"

func TestPass(t *testing.T) {}
func TestSkip(t *testing.T) { t.Skip("needs: a reason") }
func TestFail(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("it is wrong") }) }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local")
	in, err := cmd.Output()
	if err == nil {
		t.Fatal("the failing test did not fail")
	}
	var out bytes.Buffer
	if code := run(bytes.NewReader(in), &out, ""); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"it is wrong", "TestSkip: needs: a reason", "FAIL\texample.com/tollgate/three", "FAIL: 1 passed, 2 failed, 1 skipped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
}
