package revision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/spelling"
)

// Options of a repository.
type Options struct {
	// Env is the environment of git; nil is the process's own.
	Env []string
	// TempDir is where worktrees are made; "" is os.TempDir().
	TempDir string
	// Progress is told, in a few words, about what takes long; may be nil.
	Progress func(doing string)
}

// Repository is a git repository with a working tree.
type Repository struct {
	// Root is the top of the working tree, without symbolic links.
	Root string
	// Prefix is the directory that was opened, relative to Root; "." for the
	// root itself.
	Prefix string

	// named is Root as the directory was named, with symbolic links: what
	// compilers see in PWD.
	named   string
	common  string // the directory that all worktrees share
	git     *git
	options Options
}

// Open finds the repository of dir. Errors are ErrNoGit, ErrNoRepository,
// ErrUnsafe and ErrBare.
func Open(ctx context.Context, dir string, o Options) (*Repository, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
	}
	r := &Repository{git: &git{env: o.Env}, options: o}
	fail := func(err error, advice string) (*Repository, error) {
		return nil, &Error{"open repository of", dir, err, advice}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fail(ErrNoRepository, "there is no such directory")
	}
	inside, err := r.git.read(ctx, dir, "rev-parse", "--is-inside-work-tree")
	var failed *gitError
	switch {
	case err == nil:
	case !errors.As(err, &failed):
		return nil, err
	case strings.Contains(failed.stderr, "dubious ownership"):
		return fail(ErrUnsafe, "git config --global --add safe.directory "+quoteShell(dir))
	case strings.Contains(failed.stderr, "not a git repository"):
		return fail(ErrNoRepository, "compare REF needs one; tollgate compare --base-command compares any two commands")
	default:
		return fail(because(ErrNoRepository, err), "")
	}
	if inside != "true" {
		return fail(ErrBare, "run it in a clone or in a worktree of the repository")
	}
	top, err := r.git.read(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return fail(err, "")
	}
	common, err := r.git.read(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return fail(err, "git 2.31 or newer is needed")
	}
	for path, to := range map[string]*string{top: &r.Root, common: &r.common} {
		if *to, err = filepath.EvalSymlinks(path); err != nil {
			return fail(err, "")
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		r.Prefix, err = filepath.Rel(r.Root, real)
	}
	if err != nil {
		return fail(err, "")
	}
	r.named = r.Root
	if r.Prefix == "." {
		r.named = dir
	} else if top, ok := strings.CutSuffix(dir, "/"+r.Prefix); ok {
		r.named = top
	}
	return r, nil
}

// Head is the state of the working tree.
type Head struct {
	Commit    string // what it is based on
	Branch    string // empty when HEAD is detached
	Changed   int    // tracked files that differ from Commit, staged or not
	Untracked int    // untracked files and directories that are not ignored
}

// Dirty reports whether the working tree is anything but Commit.
func (h Head) Dirty() bool { return h.Changed+h.Untracked > 0 }

// Head reads the state of the working tree. It is ErrNoCommit that there is no
// commit.
func (r *Repository) Head(ctx context.Context) (Head, error) {
	var h Head
	var err error
	if h.Commit, err = r.git.read(ctx, r.Root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		if exitCode(err) < 0 {
			return h, err
		}
		return h, &Error{"read head of", r.Root, ErrNoCommit, "commit something first: the base of a comparison is a commit"}
	}
	// Fails when HEAD is detached.
	if h.Branch, err = r.git.read(ctx, r.Root, "symbolic-ref", "--quiet", "--short", "HEAD"); err != nil && exitCode(err) < 0 {
		return h, err
	}
	status, err := r.git.read(ctx, r.Root, "status", "--porcelain=v1", "-z", "--untracked-files=normal",
		"--no-renames", "--ignore-submodules=all")
	if err != nil {
		return h, &Error{"read head of", r.Root, err, ""}
	}
	for entry := range strings.SplitSeq(status, "\x00") {
		switch {
		case entry == "":
		case strings.HasPrefix(entry, "??"):
			h.Untracked++
		default:
			h.Changed++
		}
	}
	return h, nil
}

// resolve returns the commit that ref names. A branch of a remote that was
// never fetched, as in the clones of CI, is fetched.
func (r *Repository) resolve(ctx context.Context, ref string) (commit string, notes []string, err error) {
	fail := func(err error, advice string) (string, []string, error) {
		return "", nil, &Error{"find revision", ref, err, advice}
	}
	if ref == "" || strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, "\x00\n") {
		return fail(ErrNoRevision, "name a branch, a tag or a commit")
	}
	verify := func() (string, error) {
		return r.git.read(ctx, r.Root, "rev-parse", "--verify", "--quiet", ref+"^{commit}")
	}
	if commit, err = verify(); err == nil {
		return commit, nil, nil
	}
	if exitCode(err) < 0 {
		return "", nil, err
	}
	if remote, branch, ok := r.remoteBranch(ctx, ref); ok {
		if r.fetchBranch(ctx, remote, branch) == nil {
			if commit, err = verify(); err == nil {
				return commit, []string{fmt.Sprintf("fetched %s, which this clone did not have", ref)}, nil
			}
		}
		if ctx.Err() != nil {
			return "", nil, context.Cause(ctx)
		}
	}
	refs, err := r.git.read(ctx, r.Root, "for-each-ref", "--count=5000", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
	if err != nil {
		return "", nil, err
	}
	advice := "git branch -a and git tag list what there is"
	if near := nearestRef(ref, strings.Split(refs, "\n")); near != "" {
		advice = fmt.Sprintf("did you mean %q?", near)
	} else if r.shallow(ctx) {
		advice = "this clone is shallow and may lack it: fetch it, or clone with full history (fetch-depth: 0)"
	}
	return fail(ErrNoRevision, advice)
}

// nearestRef prefers the branch of that name at a remote.
func nearestRef(ref string, refs []string) string {
	for _, known := range refs {
		if strings.HasSuffix(known, "/"+ref) {
			return known
		}
	}
	return spelling.Nearest(ref, refs)
}

// remoteBranch splits REMOTE/BRANCH, if there is such a remote.
func (r *Repository) remoteBranch(ctx context.Context, ref string) (remote, branch string, ok bool) {
	remotes, err := r.git.read(ctx, r.Root, "remote")
	if err != nil {
		return "", "", false
	}
	for name := range strings.SplitSeq(remotes, "\n") {
		if branch, ok := strings.CutPrefix(ref, name+"/"); ok && name != "" && branch != "" && !strings.ContainsAny(branch, "~^:?*[@ ") {
			return name, branch, true
		}
	}
	return "", "", false
}

func (r *Repository) shallow(ctx context.Context) bool {
	answer, err := r.git.read(ctx, r.Root, "rev-parse", "--is-shallow-repository")
	return err == nil && answer == "true"
}

// quoteShell quotes a word for a POSIX shell where it needs it.
func quoteShell(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("/._-+=:@%,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
