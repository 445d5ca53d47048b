package baseline

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestReadGitTellsCommitBranchAndChanges(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	repo := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		command := exec.Command("git", args...)
		command.Dir = repo
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	read := func() Git {
		t.Helper()
		g, err := ReadGit(t.Context(), repo)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	run("init", "-q", "-b", "trunk")
	if g := read(); g != (Git{Branch: "trunk"}) {
		t.Errorf("before the first commit: %+v", g)
	}
	write(t, filepath.Join(repo, "file"), []byte("one\n"))
	run("add", "file")
	run("commit", "-q", "-m", "one")
	first := read()
	if len(first.Commit) != 40 || first.Branch != "trunk" || first.Dirty {
		t.Errorf("after a commit: %+v", first)
	}
	write(t, filepath.Join(repo, "untracked"), nil)
	if g := read(); g != first {
		t.Errorf("with an untracked file: %+v", g)
	}
	write(t, filepath.Join(repo, "file"), []byte("two\n"))
	if g := read(); !g.Dirty || g.Commit != first.Commit {
		t.Errorf("with a change: %+v", g)
	}
	run("checkout", "-q", "--detach", "-f")
	if g := read(); g.Branch != "" || g.Commit != first.Commit || g.Dirty {
		t.Errorf("with HEAD detached: %+v", g)
	}
}

func TestReadGitOutsideARepository(t *testing.T) {
	if _, err := ReadGit(t.Context(), "/proc/self"); !errors.Is(err, ErrNoGit) {
		t.Errorf("error %v, want %v", err, ErrNoGit)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := ReadGit(t.Context(), "."); !errors.Is(err, ErrNoGit) {
		t.Errorf("without git: error %v, want %v", err, ErrNoGit)
	}
}
