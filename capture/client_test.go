package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

// collectorEnv makes this test binary a collector: "real", or a fake that
// behaves as its value says.
const collectorEnv = "TOLLGATE_TEST_COLLECTOR"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(collectorEnv); mode {
	case "":
		os.Exit(m.Run())
	case "real":
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "client":
		os.Exit(clientMain())
	default:
		os.Exit(fakeCollector(mode))
	}
	os.Exit(0)
}

// fakeRecorder answers as a Session does, without the kernel.
type fakeRecorder struct {
	mode string
	tgid uint32
	runs []uint32
	run  uint32 // active
}

func (f *fakeRecorder) Begin(run, tgid uint32) error {
	if f.run != 0 {
		return fmt.Errorf("run %d is active", f.run)
	}
	f.runs, f.tgid, f.run = append(f.runs, run), tgid, run
	return nil
}

func (f *fakeRecorder) Disarm(run uint32) error {
	if f.mode == "dies-in-second-run" && len(f.runs) == 2 {
		fmt.Fprintln(os.Stderr, "some warning")
		fmt.Fprintln(os.Stderr, "panic: out of cheese")
		fmt.Fprintln(os.Stderr, "goroutine 1 [running]:")
		os.Exit(2)
	}
	return nil
}

// Members returns the client's descendants but this process.
func (f *fakeRecorder) Members(run uint32) ([]uint32, error) {
	var pids []uint32
	for _, pid := range descendants("/proc", int(f.tgid)) {
		if pid != int(f.tgid) && pid != os.Getpid() {
			pids = append(pids, uint32(pid))
		}
	}
	return pids, nil
}

func (f *fakeRecorder) End(run uint32) (*profile.Profile, Stats, error) {
	f.run = 0
	if f.mode == "fails-first-end" && len(f.runs) == 1 {
		return nil, Stats{}, &Error{Code: CodeInternal, Message: "end run 1: no luck", Hint: "try again"}
	}
	p := newProfile(99, 0, 0)
	b := newBuilder(p, nil, nil)
	p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{b.synthetic("main")}, Value: []int64{1, 1}})
	return p, Stats{TargetSamples: uint64(run)}, nil
}

func (f *fakeRecorder) Discard(run uint32) error { f.run = 0; return nil }
func (f *fakeRecorder) Close() error             { return nil }

func fakeCollector(mode string) int {
	if mode == "exits" {
		fmt.Fprintln(os.Stderr, "sudo: a password is required")
		return 1
	}
	out := io.Writer(os.Stdout)
	if mode == "truncates" {
		out = &cuttingWriter{os.Stdout}
	}
	s := &server{
		out: out, allowed: isAncestor,
		start: func(_ context.Context, o Options) (recorder, error) {
			if mode == "no-bpf" {
				return nil, &Error{Code: CodeEnvironment, Message: "load sampler: operation not permitted", Hint: "run as root"}
			}
			o.Progress(Progress{Stage: StageTables, Object: "libc.so.6"})
			return &fakeRecorder{mode: mode}, nil
		},
	}
	if err := s.serve(context.Background(), os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// cuttingWriter dies in the middle of a profile.
type cuttingWriter struct{ w io.Writer }

func (c *cuttingWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), `"type":"profile"`) {
		c.w.Write(p[:len(p)-10])
		os.Exit(3)
	}
	return c.w.Write(p)
}

func dialFake(t *testing.T, mode string) (*Client, error) {
	t.Helper()
	return dialMode(t, mode, nil)
}

func dialMode(t *testing.T, mode string, progress func(Progress)) (*Client, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), DialOptions{
		Options: Options{Progress: progress},
		Command: []string{self}, Env: append(os.Environ(), collectorEnv+"="+mode),
	})
	if err == nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return c, err
}

func mustDialFake(t *testing.T, mode string) *Client {
	t.Helper()
	c, err := dialFake(t, mode)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRunReportsHowTheCommandEnded(t *testing.T) {
	c := mustDialFake(t, "fake")
	for i, tt := range []struct {
		script string
		code   int
		signal string
	}{
		{"exit 0", 0, ""},
		{"exit 7", 7, ""},
		{"kill -KILL $$", 137, "SIGKILL"},
		{"kill -TERM $$", 143, "SIGTERM"},
	} {
		result, err := c.Run(t.Context(), Command{Args: []string{"sh", "-c", tt.script}})
		if err != nil {
			t.Fatalf("%s: %v", tt.script, err)
		}
		if result.ExitCode != tt.code || result.Signal != tt.signal || result.TimedOut || result.Interrupted != 0 {
			t.Errorf("%s: %+v, want code %d, signal %q", tt.script, result, tt.code, tt.signal)
		}
		if got := result.Stats.TargetSamples; got != uint64(i+1) {
			t.Errorf("%s: statistics of run %d, want %d", tt.script, got, i+1)
		}
		if p, err := profile.ParseData(result.Profile); err != nil || len(p.Sample) != 1 {
			t.Errorf("%s: profile %v: %v", tt.script, p, err)
		}
	}
}

func TestCommandInheritsStreamsDirectoryEnvironmentAndGroup(t *testing.T) {
	c := mustDialFake(t, "fake")
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := os.Open("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	script := `cat >/dev/null; pwd; echo "$GREETING"; set -- $(cat /proc/self/stat); echo "$5"; readlink /proc/$$/fd/0`
	_, err = c.Run(t.Context(), Command{
		Args: []string{"sh", "-c", script}, Dir: dir, Stdin: in, Stdout: out,
		Env: append(os.Environ(), "GREETING=hello"),
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s\nhello\n%d\n/proc/%d/comm\n", dir, unix.Getpgrp(), os.Getpid())
	if string(data) != want {
		t.Errorf("command saw %q, want %q", data, want)
	}
}

func TestCommandsThatCannotStartAreTypedErrors(t *testing.T) {
	c := mustDialFake(t, "fake")
	dir := t.TempDir()
	notExecutable := filepath.Join(dir, "data")
	if err := os.WriteFile(notExecutable, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	badFormat := filepath.Join(dir, "garbage")
	if err := os.WriteFile(badFormat, []byte("\x01\x02\x03"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code Code
		exit int
	}{
		{nil, CodeRequest, 0},
		{[]string{"no-such-command-anywhere"}, CodeCommand, 127},
		{[]string{"/no/such/file"}, CodeCommand, 127},
		{[]string{notExecutable}, CodeCommand, 126},
		{[]string{badFormat}, CodeCommand, 126},
	} {
		_, err := c.Run(t.Context(), Command{Args: tt.args})
		var typed *Error
		if !errors.As(err, &typed) || typed.Code != tt.code || typed.ExitCode != tt.exit {
			t.Errorf("%v: %#v, want code %s and exit code %d", tt.args, err, tt.code, tt.exit)
		}
	}
	if _, err := c.Run(t.Context(), Command{Args: []string{"true"}}); err != nil {
		t.Errorf("run after failed starts: %v", err)
	}
}

func TestTimeoutEndsTheWholeTree(t *testing.T) {
	c := mustDialFake(t, "fake")
	dir := t.TempDir()
	// A grandchild, and a child that ignores SIGTERM.
	script := `trap '' TERM; sh -c 'echo $$ >"$0/a"; exec sleep 100' "$0" & echo $$ >"$0/b"; while :; do sleep 1; done`
	started := time.Now()
	result, err := c.Run(t.Context(), Command{
		Args: []string{"sh", "-c", script, dir}, Timeout: 300 * time.Millisecond, Grace: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !result.TimedOut || result.Signal != "SIGKILL" {
		t.Errorf("got %+v, want a timeout that ended in SIGKILL", result)
	}
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	for _, name := range []string{"a", "b"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("process %s did not start: %v", name, err)
		}
		stat, err := readStat("/proc/" + strings.TrimSpace(string(data)) + "/stat")
		if err == nil && stat.state != 'Z' {
			t.Errorf("process %s is alive: %+v", name, stat)
		}
	}
}

func TestCancelledContextEndsTheCommand(t *testing.T) {
	c := mustDialFake(t, "fake")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
	_, err := c.Run(ctx, Command{Args: []string{"sleep", "100"}})
	if !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if _, err := c.Run(t.Context(), Command{Args: []string{"true"}}); err != nil {
		t.Errorf("run after a cancelled one: %v", err)
	}
}

func TestSignalsDoNotEndTheClientBeforeTheCommand(t *testing.T) {
	c := mustDialFake(t, "fake")
	dir := t.TempDir()
	// The command takes two of each and then ends on its own terms.
	script := `n=0; trap 'n=$((n+1))' TERM INT; : >"$0/ready"; while [ $n -lt 2 ]; do sleep 0.02; : >"$0/n$n"; done; exit 9`
	go func() {
		for _, file := range []string{"ready", "n1"} {
			for !exists(filepath.Join(dir, file)) {
				time.Sleep(5 * time.Millisecond)
			}
			unix.Kill(os.Getpid(), unix.SIGTERM)
		}
	}()
	result, err := c.Run(t.Context(), Command{Args: []string{"sh", "-c", script, dir}, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if result.ExitCode != 9 || result.Interrupted != syscall.SIGTERM || result.TimedOut {
		t.Errorf("got %+v, want exit code 9 after SIGTERM", result)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestDialExplainsWhyThereIsNoCollector(t *testing.T) {
	for _, tt := range []struct{ mode, message string }{
		{"exits", "sudo: a password is required"},
		{"no-bpf", "load sampler: operation not permitted"},
	} {
		_, err := dialFake(t, tt.mode)
		var typed *Error
		if !errors.As(err, &typed) || typed.Code != CodeEnvironment || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: %#v, want an environment error with %q", tt.mode, err, tt.message)
		}
	}
	_, err := Dial(t.Context(), DialOptions{Command: []string{"/no/such/collector"}})
	var typed *Error
	if !errors.As(err, &typed) || typed.Code != CodeEnvironment || typed.Hint == "" {
		t.Errorf("missing program: %#v, want an environment error with a hint", err)
	}
}

func TestProgressReachesTheClient(t *testing.T) {
	seen := make(chan Progress, 10)
	if _, err := dialMode(t, "fake", func(p Progress) { seen <- p }); err != nil {
		t.Fatal(err)
	}
	if p := <-seen; p != (Progress{Stage: StageTables, Object: "libc.so.6"}) {
		t.Errorf("got %+v", p)
	}
}

func TestCollectorThatDiesFailsTheRunAndStopsTheCommand(t *testing.T) {
	c := mustDialFake(t, "dies-in-second-run")
	if _, err := c.Run(t.Context(), Command{Args: []string{"true"}}); err != nil {
		t.Fatalf("first run: %v", err)
	}
	started := time.Now()
	_, err := c.Run(t.Context(), Command{Args: []string{"sleep", "100"}})
	var typed *Error
	if !errors.As(err, &typed) || typed.Code != CodeCollector || !strings.Contains(err.Error(), "out of cheese") {
		t.Errorf("got %#v, want a collector error with the panic's message", err)
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if left := descendants("/proc", os.Getpid()); len(left) > 1 {
		t.Errorf("processes %v are left", slices.DeleteFunc(left, func(pid int) bool { return pid == os.Getpid() }))
	}
	if _, err := c.Run(t.Context(), Command{Args: []string{"true"}}); !errors.As(err, &typed) || typed.Code != CodeCollector {
		t.Errorf("run without collector: %#v, want a collector error", err)
	}
}

func TestProfileCutOffIsAnError(t *testing.T) {
	c := mustDialFake(t, "truncates")
	result, err := c.Run(t.Context(), Command{Args: []string{"sh", "-c", "exit 3"}})
	var typed *Error
	if !errors.As(err, &typed) || typed.Code != CodeCollector || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %#v, want a collector error", err)
	}
	if result.ExitCode != 3 || result.Profile != nil {
		t.Errorf("got %+v, want the exit code and no profile", result)
	}
}

func TestErrorsKeepTheirHintAcrossTheWire(t *testing.T) {
	c := mustDialFake(t, "fails-first-end")
	_, err := c.Run(t.Context(), Command{Args: []string{"true"}})
	var typed *Error
	if !errors.As(err, &typed) || typed.Message != "end run 1: no luck" || typed.Hint != "try again" {
		t.Fatalf("got %#v", err)
	}
	if _, err := c.Run(t.Context(), Command{Args: []string{"true"}}); err != nil {
		t.Errorf("run after a failed one: %v", err)
	}
}

func TestOnlyAnAncestorMayBeArmed(t *testing.T) {
	if err := isAncestor(uint32(os.Getppid())); err != nil {
		t.Error(err)
	}
	if err := isAncestor(uint32(os.Getpid())); err == nil {
		t.Error("a process that is no ancestor was allowed")
	}
}

func TestServerEndsWithItsInput(t *testing.T) {
	for _, input := range []string{"", `{"op":"end"`, strings.Repeat("x", maxRequest+1)} {
		var out strings.Builder
		s := &server{out: &out, allowed: isAncestor}
		done := make(chan struct{})
		go func() {
			s.serve(context.Background(), strings.NewReader(input))
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("still serving after %.20q", input)
		}
	}
}

func TestRequestsOutOfOrderAreRefused(t *testing.T) {
	var out strings.Builder
	s := &server{
		out: &out, allowed: func(uint32) error { return nil },
		start: func(context.Context, Options) (recorder, error) { return &fakeRecorder{}, nil },
	}
	input := `{"op":"begin","run":1,"tgid":7}
{"op":"start","protocol":1}
{"op":"start","protocol":1}
nonsense
{"op":"begin","run":1,"tgid":7}
`
	if err := s.serve(context.Background(), strings.NewReader(input)); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range strings.Lines(out.String()) {
		kinds = append(kinds, strings.Split(line, `"`)[3])
	}
	if want := []string{"error", "ok", "error", "error", "ok"}; !slices.Equal(kinds, want) {
		t.Errorf("replies %v, want %v\n%s", kinds, want, out.String())
	}
}
