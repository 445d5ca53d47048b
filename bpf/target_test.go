package bpf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for samples before it fails.
const patience = 20 * time.Second

var lastRun atomic.Uint32

// build compiles testdata/source with gcc and returns the program's path.
func build(t testing.TB, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("TOLLGATE_REQUIRE_PRIVILEGED") != "" {
			t.Fatal("needs gcc")
		}
		t.Skip("needs gcc")
	}
	program := filepath.Join(t.TempDir(), "program")
	args := append([]string{
		"-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread",
		"-o", program, filepath.Join("testdata", source),
	}, flags...)
	if output, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, output)
	}
	return program
}

// start runs a command as the root of a target, until the test ends.
func start(t testing.TB, s *Sampler, args ...string) (command *exec.Cmd, run uint32) {
	t.Helper()
	run = lastRun.Add(1)
	if err := s.Arm(uint32(os.Getpid()), run); err != nil {
		t.Fatal(err)
	}
	command = exec.Command(args[0], args[1:]...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Disarm(uint32(os.Getpid())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
		if t.Failed() && output.Len() > 0 {
			t.Logf("output of %v: %s", args, output.Bytes())
		}
	})
	return command, run
}

// sampleUntil hands the samples of the run to enough, binding what they miss,
// until it returns true.
func sampleUntil(t testing.TB, s *Sampler, r *resolver, run uint32, enough func(*Sample) bool) {
	t.Helper()
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	defer s.Disable()
	done := false
	var last Sample
	for deadline := time.Now().Add(patience); !done; {
		if time.Now().After(deadline) {
			t.Fatalf("not enough samples of run %d within %v; the last had reason %d: %s", run, patience, last.Reason, r.names(last.UserFrames))
		}
		if _, err := s.Wait(20 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		err := s.Drain(func(record Record) {
			sample, ok := record.(*Sample)
			if !ok || sample.Run != run || done {
				return
			}
			if sample.Miss != nil {
				r.bind(sample.PID, *sample.Miss)
			}
			last = *sample
			last.UserFrames = append([]Frame(nil), sample.UserFrames...)
			done = enough(sample)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
