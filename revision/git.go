package revision

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// quiet are settings for every call: nothing of the repository's is run, no
// background work is started in it.
var quiet = []string{
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.fsmonitor=false",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "submodule.recurse=false",
	"-c", "worktree.useRelativePaths=false",
}

// waitDelay is how long git's children may keep its output open after it ended.
const waitDelay = 2 * time.Second

// unlocal are the variables by which git tells its hooks about the repository
// they run in. They would override the directory of a call.
var unlocal = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_IMPLICIT_WORK_TREE",
	"GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE",
}

// CleanEnv returns env without the variables that bind git to a repository, as
// hooks have them. Builds and measured commands of another worktree must not
// see them.
func CleanEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(unlocal, name)
	})
}

// git runs the git command line.
type git struct {
	env []string // nil: the process's own
}

// command prepares a call in dir.
func (g *git) command(ctx context.Context, dir string, args []string) *exec.Cmd {
	command := exec.CommandContext(ctx, "git", slices.Concat(quiet, args)...)
	command.Dir = dir
	command.WaitDelay = waitDelay
	if subcommand(args) != "fetch" {
		// A group of its own, to end filters along with git. A fetch stays in
		// ours: ssh may ask for a password on the terminal.
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	}
	if g.env != nil {
		command.Env = g.env
	}
	command.Env = append(CleanEnv(command.Environ()),
		"LC_ALL=C",              // messages are told apart by their words
		"GIT_OPTIONAL_LOCKS=0",  // do not refresh the index
		"GIT_TERMINAL_PROMPT=0", // a fetch must not wait for a password
		"GIT_LFS_SKIP_SMUDGE=1", // no downloads
	)
	return command
}

// read returns what git prints, without the final newline.
func (g *git) read(ctx context.Context, dir string, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.stream(ctx, dir, func(r io.Reader) error {
		_, err := out.ReadFrom(r)
		return err
	}, args...)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// stream hands git's output to consume while it comes.
func (g *git) stream(ctx context.Context, dir string, consume func(io.Reader) error, args ...string) error {
	command := g.command(ctx, dir, args)
	stderr := &tail{most: 16 << 10}
	command.Stderr = stderr
	failed := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, exec.ErrNotFound) {
			return &Error{"run", "git", ErrNoGit, "install git"}
		}
		return &gitError{command: subcommand(args), stderr: string(stderr.bytes()), err: err}
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return failed(err)
	}
	if err := command.Start(); err != nil {
		return failed(err)
	}
	consumeErr := consume(stdout)
	if consumeErr != nil {
		// Let git go on to its end rather than wait for a reader.
		_, _ = io.Copy(io.Discard, stdout)
	}
	if err := command.Wait(); err != nil {
		return failed(err)
	}
	return consumeErr
}

// subcommand finds the first word that is no setting.
func subcommand(args []string) string {
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" {
			i++
			continue
		}
		return args[i]
	}
	return ""
}

// exitCode returns the code of a git that ran to its end, else -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// tail keeps the end of what is written to it.
type tail struct {
	most int // bytes
	data []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if len(t.data) > 2*t.most {
		t.data = append(t.data[:0], t.data[len(t.data)-t.most:]...)
		t.cut = true
	}
	return len(p), nil
}

// bytes returns the last lines, whole ones if something was cut off.
func (t *tail) bytes() []byte {
	data := t.data
	cut := t.cut
	if len(data) > t.most {
		data, cut = data[len(data)-t.most:], true
	}
	if cut {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			data = data[i+1:]
		}
	}
	return data
}
