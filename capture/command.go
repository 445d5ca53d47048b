package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a command to run under sampling. Its streams are inherited,
// never piped through; nil is /dev/null.
type Command struct {
	Args                  []string // Args[0] is looked up in PATH
	Dir                   string   // "" is the current directory
	Env                   []string // nil inherits
	Stdin, Stdout, Stderr *os.File
	Identity              *Identity     // whom to run as; nil is the caller
	Timeout               time.Duration // 0 is none
	// Grace is the time between SIGTERM and SIGKILL after a timeout or a
	// cancelled context; 0 is 5 s.
	Grace time.Duration
}

// RunResult is the outcome of one run.
type RunResult struct {
	Profile  []byte // gzipped pprof
	Stats    Stats
	ExitCode int           // 128+n where signal n ended the command
	Signal   string        // "SIGTERM" where a signal ended the command
	Wall     time.Duration // from the start of the command to its end
	TimedOut bool
	// Interrupted is the signal that Tollgate itself got during the run, or
	// 0. The command was waited for; no further run should start.
	Interrupted syscall.Signal
}

const defaultGrace = 5 * time.Second

// Run runs one command under sampling and returns its profile when it ends.
// The command is a child in the caller's process group and terminal. A
// command that fails is a result, not an error.
//
// While it runs, SIGINT, SIGQUIT, SIGTERM and SIGHUP do not end the caller:
// those that the terminal sends reach the command by itself, the others are
// forwarded, and Run returns when the command ended. ctx must not be derived
// from these signals; when it ends, the whole process tree gets SIGTERM and
// then SIGKILL, as after a timeout. When it ends later, while the profile is
// made, the collector ends with it.
//
// No other process may be started by the caller until Run returns: it would
// be taken for the command.
func (c *Client) Run(ctx context.Context, command Command) (RunResult, error) {
	var result RunResult
	child, err := command.prepare()
	if err != nil {
		return result, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(signals)

	c.lastRun++
	run := c.lastRun
	if _, err := c.call(ctx, request{Op: opBegin, Run: run, TGID: uint32(os.Getpid())}); err != nil {
		return result, err
	}
	started := time.Now()
	if err := child.Start(); err != nil {
		c.discard(run)
		return result, startError(command.Args[0], err)
	}
	waited := make(chan error, 1)
	go func() { waited <- child.Wait() }()
	t := tree{client: c, run: run, root: child.Process, waited: waited, grace: command.Grace}
	if t.grace <= 0 {
		t.grace = defaultGrace
	}
	if _, err := c.call(ctx, request{Op: opDisarm, Run: run}); err != nil {
		err = both(err, t.stop())
		c.discard(run)
		return result, err
	}

	if err := t.wait(ctx, command.Timeout, signals, &result); err != nil {
		c.discard(run)
		return result, err
	}
	result.Wall = t.ended.Sub(started)
	var exit *exec.ExitError
	if t.waitErr != nil && !errors.As(t.waitErr, &exit) {
		c.discard(run)
		return result, newError(CodeInternal, fmt.Errorf("wait for %s: %w", command.Args[0], t.waitErr), "")
	}
	result.setStatus(child.ProcessState)

	answer, err := c.call(ctx, request{Op: opEnd, Run: run})
	if err != nil {
		return result, err
	}
	if answer.Type != replyProfile {
		return result, newError(CodeCollector, fmt.Errorf("collector answered end with %q", answer.Type), "")
	}
	result.Profile, result.Stats = answer.data, *answer.Stats
	return result, nil
}

// discard makes the collector forget a run that has no result, so that the
// next one can begin. It fails only where the collector is gone.
func (c *Client) discard(run uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _ = c.call(ctx, request{Op: opDiscard, Run: run})
}

// prepare resolves the command without starting it.
func (command Command) prepare() (*exec.Cmd, error) {
	if len(command.Args) == 0 || command.Args[0] == "" {
		return nil, newError(CodeRequest, errors.New("run: no command"), "")
	}
	child := exec.Command(command.Args[0], command.Args[1:]...)
	if child.Err != nil {
		return nil, startError(command.Args[0], child.Err)
	}
	child.Dir, child.Env = command.Dir, command.Env
	if command.Stdin != nil {
		child.Stdin = command.Stdin
	}
	if command.Stdout != nil {
		child.Stdout = command.Stdout
	}
	if command.Stderr != nil {
		child.Stderr = command.Stderr
	}
	if id := command.Identity; id != nil {
		child.Env = id.Environ(child.Environ())
		child.SysProcAttr = &syscall.SysProcAttr{Credential: id.Credential}
	}
	return child, nil
}

// startError gives the reason and what a shell would exit with (POSIX,
// "Exit Status for Commands").
func startError(name string, cause error) *Error {
	const notExecutable, notFound = 126, 127
	var path *fs.PathError
	if errors.As(cause, &path) && path.Op == "fork/exec" {
		cause = path.Err // its path is name
	}
	err := newError(CodeCommand, fmt.Errorf("run %s: %w", name, cause), "")
	err.ExitCode = notExecutable
	if errors.Is(cause, exec.ErrNotFound) || errors.Is(cause, fs.ErrNotExist) {
		err.ExitCode = notFound
		err.Hint = "check the name and PATH; a command is not run through a shell"
	}
	return err
}

func (r *RunResult) setStatus(state *os.ProcessState) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		r.Signal = unix.SignalName(status.Signal())
		r.ExitCode = 128 + int(status.Signal())
		return
	}
	r.ExitCode = state.ExitCode()
}

// inForeground tells whether the terminal sends its signals to this process
// group, and so to the command in it.
func inForeground() bool {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
