package revision

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const holderVariable = "TOLLGATE_TEST_HOLD_WORKTREE"

// TestMain is also the program of TestLeftoversOfAKilledRun: it makes a
// worktree, says where, and waits to be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(holderVariable); dir != "" {
		os.Exit(holdWorktree(dir))
	}
	os.Exit(m.Run())
}

func holdWorktree(dir string) int {
	ctx := context.Background()
	r, err := Open(ctx, dir, Options{})
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		return 1
	}
	w, err := r.Checkout(ctx, "HEAD")
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		return 1
	}
	os.Stdout.WriteString(w.Dir + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

func (s *sandbox) checkout(r *Repository, commit string) *Worktree {
	s.t.Helper()
	w, err := r.Checkout(s.t.Context(), commit)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { w.Close() })
	return w
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCheckoutHasTheFilesOfTheCommit(t *testing.T) {
	s := newSandbox(t)
	s.write("with space/ünï \"q\".txt", "old\n")
	first := s.commit("names")
	s.write("with space/ünï \"q\".txt", "new\n")
	s.commit("second")
	before := s.state()
	w := s.checkout(s.open(), first)
	if got := readFile(t, filepath.Join(w.Path("with space"), "ünï \"q\".txt")); got != "old\n" {
		t.Errorf("content is %q", got)
	}
	if head := s.at(w.Dir).git("rev-parse", "HEAD"); head != first || w.Commit != first {
		t.Errorf("at %s, want %s", head, first)
	}
	info, err := os.Stat(w.Dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v, %v: others can read it", info.Mode(), err)
	}
	if len(w.Notes) != 0 {
		t.Errorf("notes %q", w.Notes)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("the second time: %v", err)
	}
	s.unchanged(before)
	if list := s.git("worktree", "list"); strings.Contains(list, "\n") {
		t.Errorf("worktrees: %s", list)
	}
}

// Worktrees of a repository that is itself opened in a worktree.
func TestCheckoutFromALinkedWorktree(t *testing.T) {
	s := newSandbox(t)
	linked := filepath.Join(t.TempDir(), "linked")
	s.git("worktree", "add", "--quiet", "-b", "feature", linked)
	before := s.state()
	w := s.checkout(s.at(linked).open(), "main")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.unchanged(before)
	if list := s.git("worktree", "list"); strings.Count(list, "\n") != 1 {
		t.Errorf("worktrees: %s", list)
	}
}

func TestCheckoutThatFailsLeavesNothing(t *testing.T) {
	s := newSandbox(t)
	before := s.state()
	_, err := s.open().Checkout(t.Context(), strings.Repeat("0", 40))
	if !errors.Is(err, ErrWorktree) || !strings.Contains(err.Error(), "git worktree: ") {
		t.Errorf("a commit that is not there: %v", err)
	}
	s.unchanged(before)

	r := s.open()
	r.options.TempDir = filepath.Join(s.tmp, "none")
	if _, err := r.Checkout(t.Context(), "HEAD"); !errors.Is(err, ErrWorktree) || !strings.Contains(hintOf(err), "TMPDIR") {
		t.Errorf("no temporary directory: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.open().Checkout(ctx, "HEAD"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted before: %v", err)
	}
	s.unchanged(before)
}

// A filter that never ends stands for a checkout that takes long.
func TestCheckoutCanBeInterrupted(t *testing.T) {
	s := newSandbox(t)
	started := filepath.Join(t.TempDir(), "started")
	if out, err := exec.Command("mkfifo", started).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	s.write(".gitattributes", "slow.txt filter=slow\n")
	s.write("slow.txt", "x\n")
	s.commit("slow")
	s.git("config", "filter.slow.smudge", "echo yes >"+quoteShell(started)+"; exec sleep 1000")
	before := s.state()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error)
	go func() {
		_, err := s.open().Checkout(ctx, "HEAD")
		result <- err
	}()
	readFile(t, started) // until the filter runs
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	s.unchanged(before)
}

func TestLeftoversOfAKilledRun(t *testing.T) {
	s := newSandbox(t)
	before := s.state()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hold := func() (dir string, kill func()) {
		t.Helper()
		holder := exec.Command(self)
		holder.Env = append(s.env, holderVariable+"="+s.dir, "TMPDIR="+s.tmp)
		stdin, err := holder.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := holder.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, s.tmp) {
			t.Fatalf("the holder says %q, %v", line, err)
		}
		kill = sync.OnceFunc(func() {
			_ = holder.Process.Kill()
			_ = holder.Wait()
			stdin.Close()
		})
		t.Cleanup(kill)
		return strings.TrimSpace(line), kill
	}
	killed, kill := hold()
	alive, end := hold()
	kill()
	if _, err := os.Stat(killed); err != nil {
		t.Fatalf("nothing is left of the killed run: %v", err)
	}
	w := s.checkout(s.open(), "HEAD")
	if _, err := os.Stat(killed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover was not removed: %v", err)
	}
	if _, err := os.Stat(filepath.Join(alive, "README")); err != nil {
		t.Errorf("the worktree of a living run was removed: %v", err)
	}
	if list := s.git("worktree", "list"); strings.Count(list, worktreePrefix) != 2 {
		t.Errorf("worktrees: %s", list)
	}
	end()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.checkout(s.open(), "HEAD").Close(); err != nil {
		t.Fatal(err)
	}
	s.unchanged(before)
}

// States in which kill -9 can leave git and us, made by hand.
func TestHalfMadeLeftovers(t *testing.T) {
	s := newSandbox(t)
	before := s.state()
	records := filepath.Join(s.dir, ".git", "worktrees")
	// A record without anything in it.
	s.mkdir(filepath.Join(records, worktreePrefix+"1"))
	// A directory that was about to become a worktree, long ago, and one just now.
	old, young := filepath.Join(s.tmp, worktreePrefix+"2"), filepath.Join(s.tmp, worktreePrefix+"3")
	s.mkdir(old)
	s.mkdir(young)
	past := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	// A worktree that git was still filling: locked by it, and not by us.
	half := filepath.Join(s.tmp, worktreePrefix+"4")
	s.git("worktree", "add", "--quiet", "--detach", half)
	if err := os.WriteFile(filepath.Join(records, worktreePrefix+"4", "locked"), []byte("initializing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// A worktree whose files are gone.
	gone := filepath.Join(s.tmp, worktreePrefix+"5")
	s.git("worktree", "add", "--quiet", "--detach", gone)
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	// The user's own worktrees, one with files and one on a disk that is away.
	mine, away := filepath.Join(t.TempDir(), "mine"), filepath.Join(t.TempDir(), "away")
	s.git("worktree", "add", "--quiet", "--detach", mine)
	s.git("worktree", "add", "--quiet", "--detach", away)
	if err := os.RemoveAll(away); err != nil {
		t.Fatal(err)
	}
	// A directory that took the place of one of ours.
	other := filepath.Join(s.tmp, worktreePrefix+"6")
	s.git("worktree", "add", "--quiet", "--detach", other)
	if err := os.WriteFile(filepath.Join(other, ".git"), []byte("gitdir: /elsewhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	if err := s.checkout(s.open(), "HEAD").Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{old, half, filepath.Join(records, worktreePrefix+"1"), filepath.Join(records, worktreePrefix+"4"), filepath.Join(records, worktreePrefix+"5")} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	for _, dir := range []string{young, mine, filepath.Join(records, "mine"), filepath.Join(records, "away"), filepath.Join(other, "README")} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s was removed: %v", dir, err)
		}
	}
	for _, dir := range []string{young, other} {
		os.RemoveAll(dir)
	}
	os.RemoveAll(records)
	s.unchanged(before)
}

func TestManyAtOnce(t *testing.T) {
	s := newSandbox(t)
	before := s.state()
	const runs, rounds = 4, 3
	var group sync.WaitGroup
	for range runs {
		group.Go(func() {
			for range rounds {
				r, err := Open(t.Context(), s.dir, Options{Env: s.env, TempDir: s.tmp})
				if err != nil {
					t.Error(err)
					return
				}
				w, err := r.Checkout(t.Context(), "HEAD")
				if err != nil {
					t.Error(err)
					return
				}
				if data, err := os.ReadFile(w.Path("README")); err != nil || string(data) != "read me\n" {
					t.Errorf("%q, %v", data, err)
				}
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	s.unchanged(before)
}

func TestSubmodulesAndLFSAreNoted(t *testing.T) {
	s := newSandbox(t)
	library := newSandbox(t)
	s.git("submodule", "--quiet", "add", "file://"+library.dir, "third party/lib")
	s.write("data/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	s.write("data/big.bin", "version https://git-lfs.github.com/spec/v1\n")
	s.commit("submodule and LFS")
	// As git lfs install writes it, on a machine where it has gone.
	s.git("config", "filter.lfs.smudge", "false")
	s.git("config", "filter.lfs.clean", "false")
	s.git("config", "filter.lfs.required", "true")
	before := s.state()
	r := s.open()
	w := s.checkout(r, "HEAD")
	notes := strings.Join(w.Notes, "\n")
	if !strings.Contains(notes, "submodules") || !strings.Contains(notes, "LFS") {
		t.Errorf("notes %q", w.Notes)
	}
	if got := readFile(t, w.Path("data/big.bin")); !strings.HasPrefix(got, "version ") {
		t.Errorf("the pointer is %q", got)
	}
	if entries, err := os.ReadDir(w.Path("third party/lib")); err != nil || len(entries) != 0 {
		t.Errorf("the submodule has %v, %v", entries, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.unchanged(before)
}

// A build that fills a module cache leaves directories nobody may write to.
// root may, so that the test needs another user.
func TestReadOnlyDirectoriesAreRemoved(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root is not stopped by permissions")
	}
	s := newSandbox(t)
	before := s.state()
	w := s.checkout(s.open(), "HEAD")
	s.mkdir(w.Path("cache/mod@v1"))
	if err := os.WriteFile(w.Path("cache/mod@v1/a.go"), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"cache/mod@v1", "cache"} {
		if err := os.Chmod(w.Path(dir), 0o555); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.unchanged(before)
}
