package revision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

const (
	// buildTail is how much of a build's output is kept for its error.
	buildTail = 64 << 10
	// buildGrace is what a build that is stopped gets to clean up.
	buildGrace = 5 * time.Second
)

// Build is a build of one side.
type Build struct {
	Side    string // "base" or "head", for messages
	Args    []string
	Dir     string
	Env     []string // nil: the process's own
	Timeout time.Duration
	// Output, where set, gets what the build prints while it does.
	Output io.Writer
	// Credential, where set, is whom the build runs as.
	Credential *syscall.Credential

	grace time.Duration // 0: buildGrace
}

// Run runs the build and whatever it started to their end. Its standard input
// is empty. The error is a *BuildError when the command failed or took too
// long, and the context's when that ended; both end all processes of the build.
func (b Build) Run(ctx context.Context) error {
	if len(b.Args) == 0 {
		return fmt.Errorf("build %s: no command", b.Side)
	}
	tooLong := errors.New("too long")
	running := ctx
	if b.Timeout > 0 {
		var cancel context.CancelFunc
		running, cancel = context.WithTimeoutCause(ctx, b.Timeout, tooLong)
		defer cancel()
	}
	command := exec.CommandContext(running, b.Args[0], b.Args[1:]...)
	command.Dir = b.Dir
	if b.Env != nil {
		command.Env = b.Env
	}
	command.Env = CleanEnv(command.Environ())
	output := &tail{most: buildTail}
	var to io.Writer = output
	if b.Output != nil {
		to = io.MultiWriter(output, b.Output)
	}
	// One writer for both, so that lines keep their order.
	command.Stdout, command.Stderr = to, to
	// A group of its own, to end compilers along with make.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: b.Credential}
	group := func(signal syscall.Signal) error { return syscall.Kill(-command.Process.Pid, signal) }
	command.Cancel = func() error { return group(syscall.SIGTERM) }
	command.WaitDelay = buildGrace
	if b.grace > 0 {
		command.WaitDelay = b.grace
	}
	err := command.Run()
	if command.Process != nil && running.Err() != nil {
		_ = group(syscall.SIGKILL)
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && running.Err() == nil {
		// A process that the build left behind keeps the output open.
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &BuildError{
		Side: b.Side, Command: b.Args, Dir: b.Dir, Output: output.bytes(), Err: err,
		Timeout: b.Timeout, TimedOut: errors.Is(context.Cause(running), tooLong),
	}
}
