package revision

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrNoGit says that git cannot be run.
	ErrNoGit = errors.New("git is not installed")
	// ErrNoRepository says that a directory belongs to no repository.
	ErrNoRepository = errors.New("not a git repository")
	// ErrUnsafe says that git distrusts a repository of somebody else.
	ErrUnsafe = errors.New("git distrusts the owner of the repository")
	// ErrBare says that there is no working tree to measure.
	ErrBare = errors.New("no working tree")
	// ErrNoCommit says that HEAD has no commit yet.
	ErrNoCommit = errors.New("no commit yet")
	// ErrNoRevision says that a revision does not exist.
	ErrNoRevision = errors.New("no such revision")
	// ErrNoMergeBase says that two histories have nothing in common.
	ErrNoMergeBase = errors.New("no common ancestor")
	// ErrWorktree says that a worktree could not be made.
	ErrWorktree = errors.New("worktree not created")
)

// Error is an operation that failed on an object, its cause, and what to do
// about it.
type Error struct {
	Op     string // what was tried, as in "find base"
	Object string // on what
	Err    error
	Advice string // one sentence for the user; may be empty
}

func (e *Error) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do, or "".
func (e *Error) Hint() string { return e.Advice }

// because is a cause of a known kind with git's own words.
func because(kind, err error) error {
	var failed *gitError
	if errors.As(err, &failed) && failed.line() == "" {
		return kind
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// gitError is a git command that did not succeed.
type gitError struct {
	command string // the subcommand
	stderr  string
	err     error // of exec
}

func (e *gitError) Error() string {
	if line := e.line(); line != "" {
		return "git " + e.command + ": " + line
	}
	return "git " + e.command + ": " + e.err.Error()
}

func (e *gitError) Unwrap() error { return e.err }

// line returns the line of git's standard error that says most: the first
// fatal one, or else the last.
func (e *gitError) line() string {
	last := ""
	for line := range strings.Lines(e.stderr) {
		line = strings.TrimSpace(line)
		if fatal, ok := strings.CutPrefix(line, "fatal: "); ok {
			return fatal
		}
		if line != "" {
			last = strings.TrimPrefix(line, "error: ")
		}
	}
	return last
}

// BuildError is a build command that failed.
type BuildError struct {
	Side     string // "base" or "head"
	Command  []string
	Dir      string
	Output   []byte // the end of what it printed
	Timeout  time.Duration
	TimedOut bool
	Err      error
}

// Error names the side and the reason; Tail has the output.
func (e *BuildError) Error() string {
	if e.TimedOut {
		return fmt.Sprintf("build %s: not done after %s", e.Side, e.Timeout)
	}
	return fmt.Sprintf("build %s: %v", e.Side, e.Err)
}

func (e *BuildError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *BuildError) Hint() string {
	if e.TimedOut {
		return "raise build_timeout"
	}
	if e.Side == "base" {
		return "the base has to build as it is: compare with a revision that does, or check that the build needs nothing that git does not track"
	}
	return "mend the build, then compare again"
}

// Tail returns the last lines of the build's output, at most n.
func (e *BuildError) Tail(n int) []string {
	text := strings.TrimRight(string(e.Output), "\r\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):]
}
