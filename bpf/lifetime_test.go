package bpf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// loaded tells whether the kernel has a program with the id.
func loaded(t *testing.T, id ebpf.ProgramID) bool {
	t.Helper()
	program, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	program.Close()
	return true
}

// The process of TestNothingOutlivesAKilledProcess.
func TestHelperSampleUntilKilled(t *testing.T) {
	if os.Getenv("TOLLGATE_TEST_HELPER") != "sample" {
		t.Skip("a helper of TestNothingOutlivesAKilledProcess")
	}
	s := load(t, Options{Frequency: 999})
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	// The one is held by tracepoints, the other by perf events.
	for _, program := range []*ebpf.Program{s.objects.ProcessFork, s.objects.Sample} {
		info, err := program.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, ok := info.ID()
		if !ok {
			t.Fatal("the kernel does not tell the ids of programs")
		}
		fmt.Println("program", id)
	}
	select {}
}

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	requirePrivileges(t)
	command := exec.Command(os.Args[0], "-test.run=^TestHelperSampleUntilKilled$")
	command.Env = append(os.Environ(), "TOLLGATE_TEST_HELPER=sample")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []ebpf.ProgramID
	for lines := bufio.NewScanner(output); len(ids) < 2; {
		if !lines.Scan() {
			t.Fatal("the helper ended before it sampled")
		}
		var id ebpf.ProgramID
		if n, _ := fmt.Sscanf(lines.Text(), "program %d", &id); n == 1 {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if !loaded(t, id) {
			t.Errorf("program %d is not loaded while sampling", id)
		}
	}
	command.Process.Kill()
	command.Wait()
	// The kernel frees programs after a grace period.
	for deadline := time.Now().Add(patience); loaded(t, ids[0]) || loaded(t, ids[1]); {
		if time.Now().After(deadline) {
			t.Fatalf("programs %v are left", ids)
		}
		unix.Poll(nil, 20)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestFailedLoadLeavesNoFilesOpen(t *testing.T) {
	requirePrivileges(t)
	first, err := Load(Options{}) // what the libraries keep open from now on
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	cpus, err := onlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	options, err := Options{}.withDefaults(1)
	if err != nil {
		t.Fatal(err)
	}
	// withRoom calls f when n more files can be opened.
	open := openFiles(t)
	withRoom := func(n int, f func() error) error {
		low := unix.Rlimit{Cur: uint64(open + n), Max: limit.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		return f()
	}
	failures := 0
	for room := 0; ; room++ {
		err := withRoom(room, func() error {
			s := &Sampler{options: options}
			err := s.open(cpus, len(cpus))
			s.release()
			return err
		})
		if got := openFiles(t); got != open {
			t.Fatalf("with room for %d files: %d are open after %v, want %d", room, got, err, open)
		}
		if err == nil {
			break
		}
		failures++
	}
	if failures < 10 || failures > 2*len(cpus)+ownFiles {
		t.Errorf("needs %d files, want between 10 and %d", failures, 2*len(cpus)+ownFiles)
	}
	err = withRoom(failures, func() error {
		s, err := Load(Options{})
		if err == nil {
			s.Close()
		}
		return err
	})
	var typed *Error
	if !errors.Is(err, ErrOpenFiles) || !errors.As(err, &typed) || typed.Hint() == "" {
		t.Errorf("Load with room for %d files: %v, want ErrOpenFiles and a hint", failures, err)
	}
}

func TestUseAfterClose(t *testing.T) {
	s := load(t, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	_, waitErr := s.Wait(time.Hour)
	_, loadErr := s.LoadTable([]uint32{0}, []Page{{0, 1}})
	_, _, runErr := s.Runtime(1)
	_, taskErr := s.Tasks(1)
	_, otherErr := s.Others()
	_, countErr := s.Counters()
	for i, err := range []error{
		s.Enable(), s.Disable(), s.Drain(nil), waitErr, loadErr, runErr, taskErr, otherErr, countErr,
		s.Arm(1, 1), s.Disarm(1), s.Bind(VDSO(), 1, TableRef{}), s.Unbind(VDSO()), s.AppendRules(0, nil),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d after Close: %v", i, err)
		}
	}
	s.UnloadTable(TableRef{})
	s.Invalidate()
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{Frequency: -1}, {Frequency: MaxFrequency + 1}, {Event: 7}, {MaxRows: -1}, {MaxRows: 1<<30 + 1}, {RingBytes: -1}, {RingBytes: 1<<30 + 1},
	} {
		if _, err := Load(o); err == nil {
			t.Errorf("Load(%+v) succeeds", o)
		}
	}
	got, err := Options{MaxRows: 1, RingBytes: 70000}.withDefaults(2)
	if want := (Options{Frequency: DefaultFrequency, MaxRows: rowsPerChunk, RingBytes: 128 << 10}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// Machines without PMU say so; with one, cycles are sampled.
func TestCyclesOrATypedError(t *testing.T) {
	requirePrivileges(t)
	s, err := Load(Options{Event: Cycles})
	if err == nil {
		s.Close()
		return
	}
	var typed *Error
	if !errors.Is(err, ErrNoPMU) || !errors.As(err, &typed) || typed.Hint() == "" {
		t.Errorf("Load: %v, want ErrNoPMU and a hint", err)
	}
}

func TestFloorInterruptsAndCloses(t *testing.T) {
	requirePrivileges(t)
	f, err := LoadFloor(Options{Frequency: 999})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Enable(); err != nil {
		t.Fatal(err)
	}
	if err := f.Disable(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// The objects are those that the sources give. Needs the compiler that they
// are built with.
func TestObjectsAreGeneratedFromTheSources(t *testing.T) {
	for _, tool := range []string{"clang-14", "llvm-strip-14", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	if _, err := os.Stat("/usr/include/bpf/bpf_helpers.h"); err != nil {
		t.Skip("needs libbpf's headers (libbpf-dev)")
	}
	committed, err := filepath.Glob("*_bpfel.*")
	if err != nil || len(committed) != 8 {
		t.Fatalf("generated files %v, %v", committed, err)
	}
	// bpf2go writes where it is told to, so the checkout is not touched.
	dir := t.TempDir()
	text, err := os.ReadFile("generate.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		arguments, ok := strings.CutPrefix(strings.TrimSpace(line), "//go:generate go run ")
		if !ok {
			continue
		}
		tool, arguments, _ := strings.Cut(arguments, " ")
		command := exec.Command("go", append([]string{"run", tool, "-output-dir", dir, "-go-package", "bpf"}, strings.Fields(arguments)...)...)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, output)
		}
	}
	for _, name := range committed {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the sources give; run go generate ./bpf", name)
		}
		if bytes.Contains(got, []byte(dir)) {
			t.Errorf("%s holds a path of the machine", name)
		}
	}
}
