package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// worktreePrefix begins the names of our worktrees, in the temporary
	// directory and in the repository.
	worktreePrefix = "tollgate-base-"
	// lockName is the file in a worktree's administrative directory that the
	// process which uses the worktree holds locked.
	lockName = "tollgate.lock"
	// abandoned is the age from which an empty directory of our name is
	// nobody's.
	abandoned = time.Hour
	// closePatience is what Close waits for other processes.
	closePatience = 10 * time.Second
)

// Worktree is a commit, checked out in a directory of its own until Close.
type Worktree struct {
	Dir    string // without symbolic links; only its owner can read it
	Commit string
	// Notes say what the worktree lacks.
	Notes []string

	repository *Repository
	admin      string // its directory in the repository
	lock       *os.File
}

// Checkout makes a worktree of commit in the temporary directory. It removes
// what killed processes have left behind first.
func (r *Repository) Checkout(ctx context.Context, commit string) (*Worktree, error) {
	r.options.Progress("checking out the base")
	fail := func(err error, advice string) error {
		return &Error{"check out", short(commit), because(ErrWorktree, err), advice}
	}
	release, err := r.exclusive(ctx)
	if err != nil {
		return nil, fail(err, "")
	}
	defer release()
	r.prune()
	dir, err := os.MkdirTemp(r.options.TempDir, worktreePrefix+"*")
	if err != nil {
		return nil, fail(err, "set TMPDIR to a directory you can write to")
	}
	w := &Worktree{Dir: dir, Commit: commit, repository: r}
	if w.Dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, errors.Join(fail(err, ""), os.RemoveAll(dir))
	}
	if err := w.add(ctx); err != nil {
		cause, advice := err, ""
		if errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "No space left") {
			advice = "free some space, or set TMPDIR to a directory with more"
		}
		if ctx.Err() == nil {
			cause = fail(err, advice)
		}
		return nil, errors.Join(cause, w.remove())
	}
	w.note(ctx)
	return w, nil
}

// add lets git make the worktree, and locks it. The caller is exclusive.
func (w *Worktree) add(ctx context.Context) error {
	g := w.repository.git
	// Filters of LFS would download, or fail where it is not installed.
	_, err := g.read(ctx, w.repository.Root,
		"-c", "filter.lfs.smudge=", "-c", "filter.lfs.process=", "-c", "filter.lfs.required=false",
		"worktree", "add", "--quiet", "--detach", w.Dir, w.Commit)
	// The name in the repository is git's choice, and known even when it failed half-way.
	w.admin = w.repository.adminOf(w.Dir)
	if err != nil {
		return err
	}
	if w.admin == "" {
		return fmt.Errorf("git has no record of %s", w.Dir)
	}
	w.lock, err = os.OpenFile(filepath.Join(w.admin, lockName), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(w.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock worktree: %w", err)
	}
	return nil
}

// note finds what a checkout leaves out.
func (w *Worktree) note(ctx context.Context) {
	if _, err := os.Lstat(filepath.Join(w.Dir, ".gitmodules")); err == nil {
		w.Notes = append(w.Notes, "the base has submodules, which are not checked out")
	}
	files, err := w.repository.git.read(ctx, w.Dir, "grep", "-l", "--fixed-strings", "-e", "filter=lfs", "HEAD", "--", ":(glob)**/.gitattributes")
	if err == nil && files != "" {
		w.Notes = append(w.Notes, "the base has files in Git LFS, which are not downloaded")
	}
}

// Path returns the directory of the worktree that corresponds to one of the
// working tree, relative to its root.
func (w *Worktree) Path(relative string) string {
	return filepath.Join(w.Dir, filepath.FromSlash(relative))
}

// Close removes the worktree and git's record of it. It does not need git, and
// may be called more than once.
func (w *Worktree) Close() error {
	// Other processes look at the record while they are exclusive. That they
	// take too long is no reason to leave files behind.
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if release, err := w.repository.exclusive(ctx); err == nil {
		defer release()
	}
	return w.remove()
}

func (w *Worktree) remove() error {
	err := removeWorktree(w.Dir, w.admin)
	if w.lock != nil {
		// After the removal: until then the worktree is in use.
		err = errors.Join(err, w.lock.Close())
		w.lock = nil
	}
	if err != nil {
		return &Error{"remove worktree", w.Dir, err, "remove it by hand, then run git worktree prune"}
	}
	return nil
}

// removeWorktree removes the directory and its record.
func removeWorktree(dir, admin string) error {
	if err := removeTree(dir); err != nil {
		return err
	}
	if admin == "" {
		return nil
	}
	if err := os.RemoveAll(admin); err != nil {
		return err
	}
	// As git does: fails while there are others.
	_ = os.Remove(filepath.Dir(admin))
	return nil
}

// removeTree removes a directory, also where a build has made directories read
// only, as Go does with its module cache.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, _ error) error {
		// WalkDir calls before it reads a directory, and goes on after errors.
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// exclusive keeps other processes that make or remove worktrees of the
// repository waiting until release is called or the process ends.
func (r *Repository) exclusive(ctx context.Context) (release func(), err error) {
	dir, err := os.Open(r.common)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { dir.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			dir.Close()
			return nil, fmt.Errorf("lock %s: %w", r.common, err)
		}
		select {
		case <-ctx.Done():
			dir.Close()
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// adminOf returns the directory in the repository that records the worktree at
// dir: the one whose file gitdir names it (gitrepository-layout(5)).
func (r *Repository) adminOf(dir string) string {
	for _, admin := range r.admins() {
		if worktreeOf(admin) == dir {
			return admin
		}
	}
	return ""
}

// admins returns the records of our worktrees.
func (r *Repository) admins() []string {
	entries, err := os.ReadDir(filepath.Join(r.common, "worktrees"))
	if err != nil {
		return nil
	}
	var admins []string
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), worktreePrefix) {
			admins = append(admins, filepath.Join(r.common, "worktrees", entry.Name()))
		}
	}
	return admins
}

// worktreeOf returns the directory that a record is about, "" when it does not
// say.
func worktreeOf(admin string) string {
	data, err := os.ReadFile(filepath.Join(admin, "gitdir"))
	if err != nil {
		return ""
	}
	return filepath.Dir(strings.TrimSuffix(string(data), "\n"))
}

// prune removes worktrees that no living process uses. What cannot be removed
// stays for the next time. The caller is exclusive.
func (r *Repository) prune() {
	for _, admin := range r.admins() {
		if inUse(admin) {
			continue
		}
		dir := worktreeOf(admin)
		switch {
		case dir == "" || !strings.HasPrefix(filepath.Base(dir), worktreePrefix):
			// A record whose making was interrupted, or moved by its owner.
			if dir != "" {
				continue
			}
		case !ownedBy(dir, admin):
			continue
		default:
			if removeTree(dir) != nil {
				continue
			}
		}
		_ = os.RemoveAll(admin)
	}
	// A process that was killed before git had made a record.
	empty, err := filepath.Glob(filepath.Join(r.options.TempDir, worktreePrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range empty {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(dir) // fails unless it is empty
		}
	}
}

// inUse reports whether the process that made the worktree lives.
func inUse(admin string) bool {
	lock, err := os.Open(filepath.Join(admin, lockName))
	if err != nil {
		// Only ErrNotExist says that there is none: makers are exclusive until
		// they hold the lock.
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer lock.Close()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// ownedBy reports whether dir is the worktree of that record, or what is left
// of it.
func ownedBy(dir, admin string) bool {
	data, err := os.ReadFile(filepath.Join(dir, ".git"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	target, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte("gitdir: "))
	return ok && string(target) == admin
}

// short abbreviates a commit for messages.
func short(commit string) string {
	if len(commit) > 12 {
		return commit[:12]
	}
	return commit
}
