package bpf

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// drainUntil drains until done returns true.
func drainUntil(t *testing.T, s *Sampler, handle func(Record), done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("not done within %v", patience)
		}
		if _, err := s.Wait(5 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := s.Drain(handle); err != nil {
			t.Fatal(err)
		}
	}
}

// silence is how long the kernel is given to report the end of threads that
// have exited. It does not report all of them, see retire() in processes.h.
const silence = 3 * time.Second

// freed tells whether the kernel has freed all threads of the run, or has been
// silent about those that exited.
func freed(t *testing.T, s *Sampler, run uint32) func() bool {
	var since time.Time
	return func() bool {
		tasks, err := s.Tasks(run)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if !task.Exited {
				since = time.Time{}
				return false
			}
		}
		if since.IsZero() {
			since = time.Now()
		}
		return len(tasks) == 0 || time.Since(since) > silence
	}
}

// runtimeOf is the CPU time of the run, with that of the threads that exited
// and whose end was not reported.
func runtimeOf(t *testing.T, s *Sampler, run uint32) (Usage, uint64) {
	t.Helper()
	usage, samples, err := s.Runtime(run)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := s.Tasks(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		usage.Runtime += task.Usage.Runtime
		usage.UTime += task.Usage.UTime
		usage.STime += task.Usage.STime
		usage.VoluntarySwitches += task.Usage.VoluntarySwitches
		usage.InvoluntarySwitches += task.Usage.InvoluntarySwitches
		usage.Threads++
	}
	return usage, samples
}

// missedTime is what Runtime may lack of threads whose end was not reported:
// a tick each, of 10 ms where the kernel has the fewest.
func missedTime(t *testing.T, s *Sampler) time.Duration {
	t.Helper()
	return time.Duration(missed(t, s)) * 10 * time.Millisecond
}

// missed is the number of threads whose end was not reported.
func missed(t *testing.T, s *Sampler) uint64 {
	t.Helper()
	counters, err := s.Counters()
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := s.Tasks(lastRun.Load())
	if err != nil {
		t.Fatal(err)
	}
	return counters.MissedFrees + uint64(len(tasks))
}

// runTarget runs a shell script as run to its end.
func runTarget(t *testing.T, s *Sampler, run uint32, script string) *os.ProcessState {
	t.Helper()
	if err := s.Arm(uint32(os.Getpid()), run); err != nil {
		t.Fatal(err)
	}
	defer s.Disarm(uint32(os.Getpid()))
	command := exec.Command("sh", "-c", script)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("sh -c %q: %v: %s", script, err, output)
	}
	return command.ProcessState
}

const burn = `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; `

func TestRuntimeIsThatOfTheWholeTree(t *testing.T) {
	s := load(t, Options{Frequency: 999})
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	run := lastRun.Add(1)
	// A child, its child, and one that outlives its parent.
	state := runTarget(t, s, run, burn+`sh -c '`+burn+`sh -c "`+burn+`"'; (`+burn+`); wait`)
	samples := 0
	var events []ProcessEvent
	handle := func(record Record) {
		switch record := record.(type) {
		case *Sample:
			if record.Run == run {
				samples++
			}
		case *ProcessEvent:
			if record.Run == run {
				events = append(events, *record)
			}
		}
	}
	drainUntil(t, s, handle, freed(t, s, run))
	if err := s.Drain(handle); err != nil {
		t.Fatal(err)
	}
	usage, counted := runtimeOf(t, s, run)
	// wait4 rounds to microseconds, once for each of the processes, and is
	// asked before the last instants of them.
	want := state.UserTime() + state.SystemTime()
	got := time.Duration(usage.Runtime)
	if math.Abs(float64(got-want)) > float64(want)/100+float64(5*time.Millisecond+missedTime(t, s)) {
		t.Errorf("runtime %v, wait4 says %v; %+v of %+v", got, want, usage, events)
	}
	if counted != uint64(samples) {
		t.Errorf("%d samples counted, %d drained", counted, samples)
	}
	// Samples are the second account of the same time. Where the processes
	// share CPUs with others, which of them a sample hits is chance.
	if want := got.Seconds() * 999; math.Abs(float64(samples)-want) > 5*math.Sqrt(want)+5 {
		t.Errorf("%d samples of %v at 999 Hz, want about %.0f", samples, got, want)
	}
	if usage.Threads < 4 {
		t.Errorf("%d threads, want at least 4", usage.Threads)
	}
	if usage.UTime+usage.STime == 0 || usage.VoluntarySwitches == 0 {
		t.Errorf("usage %+v lacks times or switches", usage)
	}
}

func TestRuntimeOfThreads(t *testing.T) {
	s := load(t, Options{})
	program := build(t, "threads.c")
	run := lastRun.Add(1)
	state := runTarget(t, s, run, "exec "+program)
	drainUntil(t, s, func(Record) {}, freed(t, s, run))
	usage, _ := runtimeOf(t, s, run)
	if usage.Threads != 5 {
		t.Errorf("%d threads, want 5", usage.Threads)
	}
	want := state.UserTime() + state.SystemTime()
	if got := time.Duration(usage.Runtime); math.Abs(float64(got-want)) > float64(want)/100+float64(5*time.Millisecond+missedTime(t, s)) {
		t.Errorf("runtime %v, wait4 says %v", got, want)
	}
}

func TestProcessEventsTellTheTree(t *testing.T) {
	s := load(t, Options{})
	run := lastRun.Add(1)
	over := freed(t, s, run)
	type key struct {
		kind EventKind
		comm string
	}
	counts := make(map[key]int)
	parents := make(map[uint32]uint32)
	codes := make(map[string]int32)
	state := runTarget(t, s, run, "/bin/true; sh -c 'exit 3' || true")
	var last uint64
	frees := uint64(0)
	drainUntil(t, s, func(record Record) {
		event, ok := record.(*ProcessEvent)
		if !ok || event.Run != run {
			return
		}
		if event.Time < last {
			t.Errorf("%+v comes after an event at %d", event, last)
		}
		last = event.Time
		counts[key{event.Kind, event.Comm}]++
		switch event.Kind {
		case Fork:
			parents[event.PID] = event.Parent
		case Exit:
			codes[event.Comm] = max(codes[event.Comm], event.ExitCode)
		case Free:
			frees++
			if event.Usage.Runtime == 0 {
				t.Errorf("%+v has no runtime", event)
			}
		}
	}, func() bool { return over() && frees+missed(t, s) >= 3 })
	root := uint32(state.Pid())
	if parents[root] != uint32(os.Getpid()) {
		t.Errorf("parent of %d is %d, want %d", root, parents[root], os.Getpid())
	}
	for pid, parent := range parents {
		if pid != root && parent != root {
			t.Errorf("parent of %d is %d, want %d", pid, parent, root)
		}
	}
	if len(parents) != 3 || counts[key{Exec, "true"}] != 1 || counts[key{Exec, "sh"}] != 2 {
		t.Errorf("events %v of processes %v", counts, parents)
	}
	if got := syscall.WaitStatus(codes["sh"]).ExitStatus(); got != 3 {
		t.Errorf("exit status %d, want 3", got)
	}
}

// What is not forked by the armed process is no target, and an armed process
// is none itself.
func TestOnlyTheTreeIsTagged(t *testing.T) {
	s := load(t, Options{Frequency: 1999})
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	run := lastRun.Add(1)
	outsider := exec.Command("sh", "-c", "while :; do :; done")
	if err := outsider.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { outsider.Process.Kill(); outsider.Wait() }()
	runTarget(t, s, run, burn)
	inside, outside := 0, 0
	drainUntil(t, s, func(record Record) {
		sample, ok := record.(*Sample)
		switch {
		case !ok:
		case sample.Run == run:
			inside++
			if sample.PID == uint32(outsider.Process.Pid) || sample.PID == uint32(os.Getpid()) {
				t.Fatalf("%+v is no target", sample)
			}
		case sample.PID == uint32(outsider.Process.Pid):
			outside++
		}
	}, func() bool { return inside > 0 && outside > 0 })
}

func TestOthersAreCountedByName(t *testing.T) {
	s := load(t, Options{})
	if output, err := exec.Command("sh", "-c", burn).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	drainUntil(t, s, func(Record) {}, func() bool {
		others, err := s.Others()
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range others {
			if other.Comm == "sh" && other.Usage.Runtime > uint64(time.Millisecond) {
				return true
			}
		}
		return false
	})
}

func TestUnknownRuns(t *testing.T) {
	s := load(t, Options{})
	if _, _, err := s.Runtime(4711); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("Runtime of a run that was not armed: %v", err)
	}
	if err := s.Arm(1, 0); err == nil {
		t.Error("Arm accepts run 0")
	}
	if err := s.Arm(1<<22, 7); err != nil {
		t.Fatal(err)
	}
	if err := s.Arm(1<<22, 7+1024); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Runtime(7); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("Runtime of a run whose place was taken: %v", err)
	}
	if _, _, err := s.Runtime(7 + 1024); err != nil {
		t.Error(err)
	}
	if err := s.Disarm(1 << 22); err != nil {
		t.Error(err)
	}
	if err := s.Disarm(1 << 22); err != nil {
		t.Errorf("Disarm again: %v", err)
	}
}
