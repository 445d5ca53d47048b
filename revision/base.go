package revision

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Base is what the working tree is compared with.
type Base struct {
	Ref    string // as it was asked for
	Commit string
	// Fallback: the merge base could not be found in what the clone has and
	// can get, and Commit is Ref itself. The comparison then blames head for
	// what happened on Ref since, and credits it as well.
	Fallback bool
	// Deepened is the number of commits by which history was deepened, 0 when
	// it did not have to be.
	Deepened int
	// Notes are sentences for the user, most important first.
	Notes []string
}

// deepenBy are the steps by which a shallow clone gets more history. Together
// they reach further back than branches live, and stay far from a full clone
// of a large repository.
var deepenBy = []int{50, 250, 1000, 4000}

// fetchTimeout is what one fetch may take.
const fetchTimeout = 5 * time.Minute

// Base returns the merge base of HEAD and ref, deepening a shallow clone where
// that is needed. Errors are ErrNoCommit, ErrNoRevision, and ErrNoMergeBase
// when both histories are complete and have nothing in common.
func (r *Repository) Base(ctx context.Context, ref string) (Base, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return Base{}, err
	}
	commit, notes, err := r.resolve(ctx, ref)
	if err != nil {
		return Base{}, err
	}
	base := Base{Ref: ref, Notes: notes}
	bases, err := r.mergeBases(ctx, commit)
	if err == nil && len(bases) == 0 && r.shallow(ctx) {
		bases, err = r.deepen(ctx, &base, head.Commit, commit)
	}
	switch {
	case err != nil:
		return Base{}, err
	case len(bases) > 0:
		base.Commit = bases[0]
	case r.shallow(ctx):
		base.Commit, base.Fallback = commit, true
		base.Notes = append([]string{fmt.Sprintf("compared with %s itself: its merge base with HEAD is not in this shallow clone", ref)}, base.Notes...)
	default:
		return Base{}, &Error{"find merge base of HEAD and", ref, ErrNoMergeBase, "the histories are unrelated; is it the right branch?"}
	}
	if len(bases) > 1 {
		base.Notes = append(base.Notes, fmt.Sprintf("HEAD and %s have %d merge bases, the first was taken", ref, len(bases)))
	}
	if base.Commit == head.Commit && !head.Dirty() {
		base.Notes = append(base.Notes, fmt.Sprintf("HEAD has nothing that %s does not have: both sides are the same", ref))
	}
	return base, nil
}

// mergeBases returns all best common ancestors of HEAD and commit.
func (r *Repository) mergeBases(ctx context.Context, commit string) ([]string, error) {
	out, err := r.git.read(ctx, r.Root, "merge-base", "--all", "HEAD", commit)
	if exitCode(err) == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{"find merge base of HEAD and", commit, err, ""}
	}
	return strings.Fields(out), nil
}

// deepen fetches history in steps until a merge base appears. A fetch that
// fails ends it, with a note.
func (r *Repository) deepen(ctx context.Context, base *Base, head, commit string) ([]string, error) {
	remote := r.remoteOf(ctx, base.Ref)
	if remote == "" {
		base.Notes = append(base.Notes, "the clone is shallow and has no remote to get history from")
		return nil, nil
	}
	for _, step := range deepenBy {
		r.options.Progress(fmt.Sprintf("fetching %d more commits from %s", step, remote))
		// Both tips by name, which touches no ref and gets no other branch; a
		// server that does not know HEAD's commit is asked for its branches.
		err := r.fetch(ctx, remote, "--refmap=", "--deepen="+strconv.Itoa(step), remote, head, commit)
		if err != nil && ctx.Err() == nil {
			err = r.fetch(ctx, remote, "--deepen="+strconv.Itoa(step), remote)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			base.Notes = append(base.Notes, fmt.Sprintf("history could not be deepened: %v", err))
			return nil, nil
		}
		base.Deepened += step
		bases, err := r.mergeBases(ctx, commit)
		if err != nil || len(bases) > 0 {
			base.Notes = append(base.Notes, fmt.Sprintf("deepened the shallow clone by up to %d commits", base.Deepened))
			return bases, err
		}
		if !r.shallow(ctx) {
			return nil, nil
		}
	}
	base.Notes = append(base.Notes, fmt.Sprintf("deepened the shallow clone by %d commits in vain", base.Deepened))
	return nil, nil
}

// fetch runs git fetch without anything that is not asked for.
func (r *Repository) fetch(ctx context.Context, remote string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, fmt.Errorf("fetch from %s: not done after %s", remote, fetchTimeout))
	defer cancel()
	args = append([]string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"}, args...)
	_, err := r.git.read(ctx, r.Root, args...)
	return err
}

// fetchBranch gets a remote branch that the clone does not have. In a shallow
// clone it comes with as much history as HEAD has, since less would cut HEAD's
// off, too.
func (r *Repository) fetchBranch(ctx context.Context, remote, branch string) error {
	r.options.Progress(fmt.Sprintf("fetching %s from %s", branch, remote))
	args := []string{remote, "+refs/heads/" + branch + ":refs/remotes/" + remote + "/" + branch}
	if r.shallow(ctx) {
		depth := deepenBy[0]
		if count, err := r.git.read(ctx, r.Root, "rev-list", "--count", "HEAD"); err == nil {
			if n, err := strconv.Atoi(count); err == nil {
				depth = max(depth, n)
			}
		}
		args = append([]string{"--depth=" + strconv.Itoa(depth)}, args...)
	}
	return r.fetch(ctx, remote, args...)
}

// remoteOf returns the remote to get history from: that of ref, of the current
// branch, origin, or the only one.
func (r *Repository) remoteOf(ctx context.Context, ref string) string {
	if remote, _, ok := r.remoteBranch(ctx, ref); ok {
		return remote
	}
	out, err := r.git.read(ctx, r.Root, "remote")
	if err != nil || out == "" {
		return ""
	}
	remotes := strings.Split(out, "\n")
	if branch, err := r.git.read(ctx, r.Root, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil {
		if remote, err := r.git.read(ctx, r.Root, "config", "--get", "branch."+branch+".remote"); err == nil && remote != "." {
			return remote
		}
	}
	for _, remote := range remotes {
		if remote == "origin" {
			return remote
		}
	}
	return remotes[0]
}
