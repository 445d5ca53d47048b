package baseline

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Git is where a working directory stands in its repository.
type Git struct {
	Commit string // full hash; empty before the first commit
	Branch string // empty when HEAD is detached
	Dirty  bool   // tracked files differ from Commit
}

// ErrNoGit says that git is not installed or that the directory belongs to no repository.
var ErrNoGit = errors.New("no git repository")

// ReadGit asks the git command line about dir. A machine without git, or a directory outside a
// repository, is ErrNoGit.
func ReadGit(ctx context.Context, dir string) (Git, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var g Git
	if _, err := git(ctx, dir, "rev-parse", "--git-dir"); err != nil {
		return g, fmt.Errorf("read git state of %s: %w: %w", dir, ErrNoGit, err)
	}
	// Each of these fails in a state that has a meaning: no commit yet, a detached HEAD.
	if commit, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err == nil {
		g.Commit = commit
	}
	if branch, err := git(ctx, dir, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil {
		g.Branch = branch
	}
	status, err := git(ctx, dir, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return g, fmt.Errorf("read git state of %s: %w", dir, err)
	}
	g.Dirty = status != ""
	return g, nil
}

// git runs git in dir and returns its output without the final newline.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	// Neither locks nor the repository's own hooks: reading must not disturb or run anything.
	args = append([]string{"--no-optional-locks", "-c", "core.fsmonitor=false"}, args...)
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			line, _, _ := strings.Cut(string(exit.Stderr), "\n")
			return "", fmt.Errorf("git: %s", strings.TrimPrefix(line, "fatal: "))
		}
		return "", fmt.Errorf("git: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
