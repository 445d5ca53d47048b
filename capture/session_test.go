package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// fakeSampler hands out the records it was given.
type fakeSampler struct {
	*fakeKernel
	smu      sync.Mutex
	records  []bpf.Record
	enabled  bool
	armed    map[uint32]uint32
	usage    bpf.Usage
	tasks    []bpf.Task
	counters bpf.Counters
	polled   int // calls of Tasks
	onTasks  func(f *fakeSampler)
	drainErr error
	wake     chan struct{}
}

func newFakeSampler() *fakeSampler {
	return &fakeSampler{fakeKernel: newFakeKernel(1 << 20), armed: map[uint32]uint32{}, wake: make(chan struct{}, 1)}
}

func (f *fakeSampler) Enable() error {
	f.smu.Lock()
	defer f.smu.Unlock()
	f.enabled = true
	return nil
}
func (f *fakeSampler) Disable() error {
	f.smu.Lock()
	defer f.smu.Unlock()
	f.enabled = false
	return nil
}
func (f *fakeSampler) Close() error { return nil }

func (f *fakeSampler) Drain(handle func(bpf.Record)) error {
	f.smu.Lock()
	records, err := f.records, f.drainErr
	f.records = nil
	f.smu.Unlock()
	for _, r := range records {
		handle(r)
	}
	return err
}

func (f *fakeSampler) Wait(timeout time.Duration) (bool, error) {
	select {
	case <-f.wake:
		return true, nil
	case <-time.After(timeout):
		return false, nil
	}
}

func (f *fakeSampler) Arm(tgid, run uint32) error {
	f.smu.Lock()
	defer f.smu.Unlock()
	f.armed[tgid] = run
	return nil
}

func (f *fakeSampler) Disarm(tgid uint32) error {
	f.smu.Lock()
	defer f.smu.Unlock()
	if _, ok := f.armed[tgid]; !ok {
		return fmt.Errorf("process %d is not armed", tgid)
	}
	delete(f.armed, tgid)
	return nil
}

func (f *fakeSampler) Runtime(uint32) (bpf.Usage, uint64, error) {
	f.smu.Lock()
	defer f.smu.Unlock()
	return f.usage, 0, nil
}

func (f *fakeSampler) Tasks(uint32) ([]bpf.Task, error) {
	f.smu.Lock()
	defer f.smu.Unlock()
	f.polled++
	tasks := slices.Clone(f.tasks)
	if f.onTasks != nil {
		f.onTasks(f)
	}
	return tasks, nil
}

func (f *fakeSampler) Counters() (bpf.Counters, error) { return f.counters, nil }

func (f *fakeSampler) give(records ...bpf.Record) {
	f.smu.Lock()
	defer f.smu.Unlock()
	f.records = append(f.records, records...)
}

// fakeProc is a /proc with one thread, process 50.
func fakeProc(t *testing.T, runtime string) string {
	t.Helper()
	root := t.TempDir()
	task := filepath.Join(root, "50", "task", "50")
	if err := os.MkdirAll(task, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string]string{
		"stat":                 "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1\n",
		"50/comm":              "daemon\n",
		"50/task/50/schedstat": runtime + " 5 6\n",
		"50/task/50/stat":      "50 (a) b) S 1 50 50 0 -1 4194560 0 0 0 0 10 30 0 0 20 0 1 0\n",
		"50/task/50/status":    "Name:\ta\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n",
	} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func startFake(t *testing.T, f *fakeSampler, procRoot string) *Session {
	t.Helper()
	s := startWith(t.Context(), Options{Event: EventCPUClock, Frequency: 100}, f, procRoot, func() {})
	t.Cleanup(func() { s.Close() })
	return s
}

func later() uint64 { return monotonic() + 1e9 }

func labelled(p *profile.Profile, key, value string) (samples []*profile.Sample) {
	for _, s := range p.Sample {
		if slices.Contains(s.Label[key], value) {
			samples = append(samples, s)
		}
	}
	return samples
}

func names(s *profile.Sample) string {
	var out []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			out = append(out, line.Function.Name)
		}
	}
	return strings.Join(out, " < ")
}

func TestSamplesBecomeAProfileWithLabelsAndRoots(t *testing.T) {
	f := newFakeSampler()
	s := startFake(t, f, fakeProc(t, "0"))
	if err := s.Begin(3, 7); err != nil {
		t.Fatal(err)
	}
	if f.armed[7] != 3 || !f.enabled {
		t.Fatalf("armed %v, enabled %v", f.armed, f.enabled)
	}
	if err := s.Disarm(3); err != nil || len(f.armed) != 0 {
		t.Fatalf("disarm: %v, armed %v", err, f.armed)
	}
	at := later()
	f.give(
		&bpf.ProcessEvent{Kind: bpf.Fork, PID: 10, TID: 10, Parent: 7, Run: 3, Comm: "sh"},
		&bpf.ProcessEvent{Kind: bpf.Exec, PID: 10, TID: 10, Run: 3, Comm: "gzip"},
		// The same stack twice, then one that ends early, one at exit.
		&bpf.Sample{Time: at, PID: 10, TID: 11, CPU: 1, Run: 3, Comm: "worker", UserFrames: []bpf.Frame{0x1234}},
		&bpf.Sample{Time: at, PID: 10, TID: 11, CPU: 1, Run: 3, Comm: "worker", UserFrames: []bpf.Frame{0x1234}},
		&bpf.Sample{Time: at, PID: 10, TID: 10, Run: 3, Comm: "gzip", Reason: uint8(unwind.StopNoRule), UserFrames: []bpf.Frame{0x1234}},
		&bpf.Sample{Time: at, PID: 10, TID: 10, Run: 3, Comm: "gzip", Reason: uint8(unwind.StopNoMM), Kernel: true, Class: bpf.ClassExit},
		// Outside: a kernel thread on two CPUs, a process, another run's leftover.
		&bpf.Sample{Time: at, PID: 2, TID: 2, CPU: 0, Comm: "kworker/0:1", Class: bpf.ClassKernelThread, Reason: uint8(unwind.StopKernelThread), Kernel: true, KernelFrames: []uint64{1}},
		&bpf.Sample{Time: at, PID: 3, TID: 3, CPU: 1, Comm: "kworker/1:0", Class: bpf.ClassKernelThread, Reason: uint8(unwind.StopKernelThread), Kernel: true, KernelFrames: []uint64{1}},
		&bpf.Sample{Time: at, PID: 50, TID: 51, Comm: "thread", UserFrames: []bpf.Frame{0x1234}},
		&bpf.Sample{Time: at, PID: 50, TID: 50, Run: 2, Comm: "thread", UserFrames: []bpf.Frame{0x1234}},
		// Before the run.
		&bpf.Sample{Time: 1, PID: 10, TID: 10, Run: 3, Comm: "gzip"},
	)
	f.counters.Lost = 5
	p, stats, err := s.End(3)
	if err != nil {
		t.Fatal(err)
	}
	if f.enabled {
		t.Error("sampling goes on after the run")
	}
	if stats.Samples != 8 || stats.TargetSamples != 4 || stats.Complete != 2 || stats.Lost != 5 || stats.SampledSeconds != 0.04 {
		t.Errorf("statistics %+v", stats)
	}
	if got := stats.Truncated; got["no_rule"] != 1 || got["no_mm"] != 1 || len(got) != 2 {
		t.Errorf("truncated %v", got)
	}
	if got := fmt.Sprint(stats.Others); got != "[{daemon 0.02} {kworker 0.02}]" {
		t.Errorf("others %s", got)
	}
	target := labelled(p, "target", "1")
	if len(target) != 3 || len(p.Sample) != 5 {
		t.Fatalf("%d samples of the target, %d in all\n%s", len(target), len(p.Sample), p)
	}
	first := target[0]
	if first.Value[0] != 2 || first.Value[1] != 2e7 || names(first) != "[anonymous]" {
		t.Errorf("first sample %v %s", first.Value, names(first))
	}
	if first.Label["comm"][0] != "gzip" || first.Label["thread"][0] != "worker" ||
		first.NumLabel["pid"][0] != 10 || first.NumLabel["tid"][0] != 11 || first.NumLabel["cpu"][0] != 1 || first.NumLabel["second"][0] != 1 {
		t.Errorf("labels %v %v", first.Label, first.NumLabel)
	}
	if got := names(target[1]); got != "[anonymous] < [truncated: no_rule]" {
		t.Errorf("truncated stack %s", got)
	}
	if got := names(target[2]); got != "[exit]" {
		t.Errorf("stack at exit %s", got)
	}
	if merged := labelled(p, "comm", "kworker"); len(merged) != 1 || merged[0].Value[0] != 2 || len(merged[0].NumLabel) != 0 {
		t.Errorf("kernel threads %v", merged)
	}
	if merged := labelled(p, "comm", "daemon"); len(merged) != 1 || merged[0].Value[0] != 2 {
		t.Errorf("process outside the target %v", merged)
	}
	if p.Period != 1e7 {
		t.Errorf("period %d", p.Period)
	}
}

func TestMissedLeafIsNamedInTheEnd(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeSampler()
	s := startFake(t, f, "/proc")
	if err := s.Begin(1, 7); err != nil {
		t.Fatal(err)
	}
	off := fileOffset(t, TestMissedLeafIsNamedInTheEnd)
	m := bpf.Mapping{Start: 0x7f0000400000, End: 0x7f0000400000 + 64<<20, Key: keyOf(t, self)}
	f.give(&bpf.Mmap{PID: uint32(os.Getpid()), Path: self, Mapping: bpf.Mapping{Start: m.Start, End: m.End, Key: withoutMtime(m.Key)}},
		&bpf.Sample{
			Time: later(), PID: uint32(os.Getpid()), TID: 1, Run: 1, Reason: uint8(unwind.StopTablePending),
			UserFrames: []bpf.Frame{bpf.Frame(m.Start + off)}, Miss: &m,
		})
	p, stats, err := s.End(1)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Unsymbolized != 0 || stats.Truncated["table_pending"] != 1 {
		t.Errorf("statistics %+v", stats)
	}
	if len(p.Sample) != 1 || !strings.Contains(names(p.Sample[0]), "TestMissedLeafIsNamedInTheEnd < [truncated: table_pending]") {
		t.Fatalf("profile %v", p)
	}
	location := p.Sample[0].Location[0]
	if file := location.Line[0].Function.Filename; filepath.Base(file) != "session_test.go" {
		t.Errorf("file %s", file)
	}
	if m := location.Mapping; m.File != self || !m.HasLineNumbers || location.Address < m.Start || location.Address >= m.Limit {
		t.Errorf("mapping %+v, address %#x", m, location.Address)
	}
}

func TestRunsAreOneAfterTheOther(t *testing.T) {
	f := newFakeSampler()
	s := startFake(t, f, fakeProc(t, "0"))
	if err := s.Begin(1, 7); err != nil {
		t.Fatal(err)
	}
	var typed *Error
	if err := s.Begin(2, 7); !errors.As(err, &typed) || typed.Code != CodeRequest {
		t.Errorf("second run at once: %v", err)
	}
	if _, _, err := s.End(2); !errors.Is(err, errNoRun) {
		t.Errorf("end of another run: %v", err)
	}
	if err := s.Discard(1); err != nil || f.enabled || len(f.armed) != 0 {
		t.Errorf("discard: %v, enabled %v, armed %v", err, f.enabled, f.armed)
	}
	if err := s.Begin(3, 7); err != nil {
		t.Errorf("run after a discarded one: %v", err)
	}
}

func TestUsageSumsFreedAndLiveThreads(t *testing.T) {
	f := newFakeSampler()
	f.usage = bpf.Usage{Runtime: 2e9, UTime: 100e6, STime: 100e6, VoluntarySwitches: 10, Threads: 4}
	f.tasks = []bpf.Task{{PID: 50, TID: 50}, {PID: 60, TID: 60, Exited: true, Usage: bpf.Usage{Runtime: 5e8}}}
	f.onTasks = func(f *fakeSampler) {
		// The thread that left /proc is freed, with its last tick, after a while.
		if f.polled == 3 {
			f.tasks = f.tasks[:1]
			f.usage.Runtime += 6e8
			f.usage.Threads++
		}
	}
	s := startFake(t, f, fakeProc(t, "400000000"))
	if err := s.Begin(1, 7); err != nil {
		t.Fatal(err)
	}
	_, stats, err := s.End(1)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%.3f", stats.CPUSeconds); got != "3.000" {
		t.Errorf("CPU seconds %s, want 2.0 freed + 0.6 freed late + 0.4 alive", got)
	}
	// (100+100) ms of user, (100+300) ms of system time by ticks.
	if got := fmt.Sprintf("%.3f %.3f", stats.UserSeconds, stats.SystemSeconds); got != "1.000 2.000" {
		t.Errorf("user and system seconds %s", got)
	}
	if stats.ContextSwitches != (ContextSwitches{13, 4}) || stats.OutstandingThreads != 0 {
		t.Errorf("statistics %+v", stats)
	}
}

func TestThreadThatIsNeverFreedIsWaitedForBoundedlyAndReported(t *testing.T) {
	f := newFakeSampler()
	f.tasks = []bpf.Task{{PID: 60, TID: 60, Exited: true, Usage: bpf.Usage{Runtime: 5e8}}}
	s := startFake(t, f, fakeProc(t, "0"))
	if err := s.Begin(1, 7); err != nil {
		t.Fatal(err)
	}
	_, stats, err := s.End(1)
	if err != nil {
		t.Fatal(err)
	}
	if stats.CPUSeconds != 0.5 || stats.OutstandingThreads != 1 {
		t.Errorf("statistics %+v", stats)
	}
}

func TestFailureToDrainEndsTheRun(t *testing.T) {
	f := newFakeSampler()
	s := startFake(t, f, fakeProc(t, "0"))
	if err := s.Begin(1, 7); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("ring is broken")
	f.smu.Lock()
	f.drainErr = broken
	f.smu.Unlock()
	if _, _, err := s.End(1); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if f.enabled {
		t.Error("sampling goes on")
	}
}

func TestFilesAreReleasedByExecAndExit(t *testing.T) {
	f := newFakeSampler()
	s := startFake(t, f, fakeProc(t, "0"))
	path := program(t, "true", "")
	key := keyOf(t, path)
	m := mmapOf(path, key)
	m.PID = 10
	refs := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.drain(); err != nil {
			t.Fatal(err)
		}
		s.tables.mu.Lock()
		defer s.tables.mu.Unlock()
		return s.tables.files[1].refs
	}
	fork := func(parent, child uint32) *bpf.ProcessEvent {
		return &bpf.ProcessEvent{Kind: bpf.Fork, Parent: parent, PID: child, TID: child, Run: 1, Comm: "sh"}
	}
	mapped := func(pid uint32, at uint64) *bpf.Mmap {
		again := *m
		again.PID, again.Time = pid, at
		return &again
	}
	for i, step := range []struct {
		records []bpf.Record
		want    int
	}{
		{[]bpf.Record{fork(1, 10), m}, 1},
		{[]bpf.Record{m}, 1}, // a second segment of the file
		{[]bpf.Record{fork(10, 11), fork(10, 12)}, 3},
		{[]bpf.Record{&bpf.ProcessEvent{Kind: bpf.Exec, PID: 11, TID: 11, Run: 1, Comm: "gzip", Time: 1e9}}, 2},
		// The new program's mappings come before the event.
		{[]bpf.Record{mapped(11, 2e9), &bpf.ProcessEvent{Kind: bpf.Exec, PID: 11, TID: 11, Run: 1, Comm: "gzip", Time: 2e9 + 1e6}}, 3},
		{[]bpf.Record{&bpf.ProcessEvent{Kind: bpf.Exec, PID: 11, TID: 11, Run: 1, Comm: "cat", Time: 3e9}}, 2},
		{[]bpf.Record{&bpf.ProcessEvent{Kind: bpf.Free, PID: 12, TID: 13, Run: 1}}, 2}, // a thread
		{[]bpf.Record{&bpf.ProcessEvent{Kind: bpf.Exit, PID: 12, TID: 12, Run: 1}}, 1},
		{[]bpf.Record{fork(1, 10)}, 0}, // the number is used again, the exit was lost
		{[]bpf.Record{&bpf.ProcessEvent{Kind: bpf.Exit, PID: 99, TID: 99}}, 0},
	} {
		f.give(step.records...)
		if got := refs(); got != step.want {
			t.Fatalf("step %d: %d processes map the file, want %d", i, got, step.want)
		}
	}
}

func TestSessionNeedsTheInitialPIDNamespace(t *testing.T) {
	for target, ok := range map[string]bool{initialNamespace: true, "pid:[4026532201]": false} {
		link := filepath.Join(t.TempDir(), "pid")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		var typed *Error
		err := checkNamespace(link)
		if ok && err != nil || !ok && (!errors.As(err, &typed) || typed.Code != CodeEnvironment || typed.Hint == "") {
			t.Errorf("%s: %v", target, err)
		}
	}
}
