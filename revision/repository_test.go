package revision

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// hermetic is an environment in which git knows nothing about the machine.
func hermetic(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "GIT_") })
	return append(env,
		"HOME="+t.TempDir(), "XDG_CONFIG_HOME=/nonexistent",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
		// Clones and submodules by file:// are off by default.
		"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always",
		"GIT_CONFIG_KEY_1=init.defaultBranch", "GIT_CONFIG_VALUE_1=main",
		"GIT_CONFIG_KEY_2=advice.detachedHead", "GIT_CONFIG_VALUE_2=false",
	)
}

// sandbox is a repository for a test.
type sandbox struct {
	t   *testing.T
	dir string
	env []string
	tmp string // where worktrees go
}

// newSandbox makes a repository with one commit on main.
func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	s := &sandbox{t: t, dir: filepath.Join(t.TempDir(), "repo"), env: hermetic(t), tmp: t.TempDir()}
	s.mkdir(s.dir)
	s.git("init", "--quiet")
	s.write("src/a.c", numbered(1, 40))
	s.write("README", "read me\n")
	s.commit("first")
	return s
}

func (s *sandbox) mkdir(dir string) {
	s.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// tryGit runs git in the repository.
func (s *sandbox) tryGit(args ...string) error {
	command := exec.Command("git", args...)
	command.Dir, command.Env = s.dir, s.env
	return command.Run()
}

// git runs git in the repository and returns what it prints.
func (s *sandbox) git(args ...string) string {
	s.t.Helper()
	command := exec.Command("git", args...)
	command.Dir, command.Env = s.dir, s.env
	out, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *sandbox) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	s.mkdir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// commit commits everything and returns the commit.
func (s *sandbox) commit(message string) string {
	s.t.Helper()
	s.git("add", "--all")
	s.git("commit", "--quiet", "--allow-empty", "-m", message)
	return s.git("rev-parse", "HEAD")
}

func (s *sandbox) open() *Repository {
	s.t.Helper()
	r, err := Open(s.t.Context(), s.dir, Options{Env: s.env, TempDir: s.tmp})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// at is the same sandbox for another directory.
func (s *sandbox) at(dir string) *sandbox {
	other := *s
	other.dir = dir
	return &other
}

// state has everything that must not change: the files with their times, and
// of the repository all but objects, history and what fetching is for.
func (s *sandbox) state() string {
	s.t.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(s.dir, path)
		if entry.IsDir() {
			if relative == filepath.Join(".git", "objects") {
				return filepath.SkipDir
			}
			fmt.Fprintln(&b, relative)
			return nil
		}
		if relative == filepath.Join(".git", "shallow") {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %v %x\n", relative, info.Mode(), info.ModTime(), sha256.Sum256(data))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return b.String()
}

// unchanged fails when the repository is not in that state, or when something
// is left in the temporary directory.
func (s *sandbox) unchanged(before string) {
	s.t.Helper()
	if after := s.state(); after != before {
		s.t.Errorf("the repository changed from\n%s\nto\n%s", before, after)
	}
	entries, err := os.ReadDir(s.tmp)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, entry := range entries {
		s.t.Errorf("%s is left behind", entry.Name())
	}
}

// numbered returns the lines "line N".
func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func hintOf(err error) string {
	var hinter interface{ Hint() string }
	if errors.As(err, &hinter) {
		return hinter.Hint()
	}
	return ""
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	s := newSandbox(t)
	bare := filepath.Join(t.TempDir(), "bare.git")
	s.git("clone", "--quiet", "--bare", s.dir, bare)
	for name, tt := range map[string]struct {
		dir, extra string
		want       error
		hint       string
	}{
		"elsewhere":       {dir: t.TempDir(), want: ErrNoRepository, hint: "--base-command"},
		"no directory":    {dir: filepath.Join(s.dir, "none"), want: ErrNoRepository, hint: "no such directory"},
		"bare":            {dir: bare, want: ErrBare, hint: "clone"},
		"inside .git":     {dir: filepath.Join(s.dir, ".git"), want: ErrBare, hint: "clone"},
		"of another user": {dir: s.dir, extra: "GIT_TEST_ASSUME_DIFFERENT_OWNER=1", want: ErrUnsafe, hint: "safe.directory " + s.dir},
	} {
		t.Run(name, func(t *testing.T) {
			env := s.env
			if tt.extra != "" {
				env = append(slices.Clone(env), tt.extra)
			}
			_, err := Open(t.Context(), tt.dir, Options{Env: env})
			if !errors.Is(err, tt.want) || !strings.Contains(hintOf(err), tt.hint) {
				t.Errorf("%v (hint %q), want %v", err, hintOf(err), tt.want)
			}
		})
	}
	t.Run("no git", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := Open(t.Context(), s.dir, Options{Env: s.env}); !errors.Is(err, ErrNoGit) || hintOf(err) == "" {
			t.Errorf("%v", err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Open(ctx, s.dir, Options{Env: s.env}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestOpenFindsTheRoot(t *testing.T) {
	s := newSandbox(t)
	// As a hook of another repository would have it.
	s.env = append(s.env, "GIT_DIR=/nonexistent", "GIT_INDEX_FILE=/nonexistent", "GIT_WORK_TREE=/")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.dir, link); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), filepath.Join(link, "src"), Options{Env: s.env})
	if err != nil {
		t.Fatal(err)
	}
	if r.Root != s.dir || r.Prefix != "src" || r.named != link {
		t.Errorf("root %s, prefix %s, named %s", r.Root, r.Prefix, r.named)
	}
}

func TestHeadCountsWhatIsNotCommitted(t *testing.T) {
	s := newSandbox(t)
	r := s.open()
	h, err := r.Head(t.Context())
	if err != nil || h.Dirty() || h.Branch != "main" || h.Commit != s.git("rev-parse", "HEAD") {
		t.Errorf("clean: %+v, %v", h, err)
	}
	s.write("README", "changed\n")
	s.write("src/staged file.c", "x\n")
	s.git("add", "src")
	s.write("new/ä.c", "y\n")
	s.git("checkout", "--quiet", "--detach")
	if h, err = r.Head(t.Context()); err != nil || h.Changed != 2 || h.Untracked != 1 || h.Branch != "" || !h.Dirty() {
		t.Errorf("dirty: %+v, %v", h, err)
	}

	empty := s.at(t.TempDir())
	empty.git("init", "--quiet")
	if _, err := empty.open().Head(t.Context()); !errors.Is(err, ErrNoCommit) || hintOf(err) == "" {
		t.Errorf("without a commit: %v", err)
	}
}

// The whole sequence of a comparison on a tree in every kind of disorder.
func TestTheRepositoryIsLeftAlone(t *testing.T) {
	s := newSandbox(t)
	s.git("checkout", "--quiet", "-b", "feature")
	s.write("src/b.c", "b\n")
	s.commit("second")
	s.write("README", "stashed\n")
	s.git("stash", "--quiet")
	s.write("src/staged.c", "staged\n")
	s.git("add", "src/staged.c")
	s.write("src/a.c", "changed\n")
	s.write("untracked", "untracked\n")
	// The same content with another time, which git would write to the index.
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(s.dir, "README"), old, old); err != nil {
		t.Fatal(err)
	}
	hook := "#!/bin/sh\ntouch " + filepath.Join(s.tmp, "hook-ran") + "\n"
	for _, name := range []string{"post-checkout", "reference-transaction", "post-index-change"} {
		if err := os.WriteFile(filepath.Join(s.dir, ".git", "hooks", name), []byte(hook), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := s.state()

	r := s.open()
	base, err := r.Base(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Checkout(t.Context(), base.Commit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Changes(t.Context(), base.Commit, w.Dir); err != nil {
		t.Fatal(err)
	}
	build := Build{Side: "base", Args: []string{"sh", "-c", "mkdir out && touch out/built"}, Dir: w.Dir, Env: s.env}
	if err := build.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.unchanged(before)
}
