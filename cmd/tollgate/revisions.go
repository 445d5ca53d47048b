package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/report"
	"github.com/tollgate-dev/tollgate/revision"
)

// revisions makes the two sides of compare REF: head is the working tree, base a worktree of the merge
// base with REF that lasts until close.
type revisions struct {
	app          *app
	progress     *progress
	ref          string
	work         workload // of head
	build        []string // empty builds nothing
	buildTimeout time.Duration

	repository *revision.Repository
	head       revision.Head
	base       revision.Base
	worktree   *revision.Worktree
	functions  *revision.Functions // that the profiles have, and whether the change touches them
	told       [2]int              // runs of each side whose lines functions knows
}

// find looks up both commits, which is quick unless history has to be fetched. It changes nothing that
// git tracks.
func (r *revisions) find(ctx context.Context) error {
	if r.repository != nil {
		return nil
	}
	options := revision.Options{Env: r.app.env, TempDir: r.app.env.get("TMPDIR"), Progress: r.progress.busy}
	defer r.progress.end()
	repository, err := revision.Open(ctx, r.work.where(), options)
	if err != nil {
		return revisionError(ctx, err)
	}
	if r.head, err = repository.Head(ctx); err != nil {
		return revisionError(ctx, err)
	}
	if r.base, err = repository.Base(ctx, r.ref); err != nil {
		return revisionError(ctx, err)
	}
	if program := r.work.command[0]; filepath.IsAbs(program) {
		if inside, err := filepath.Rel(repository.Root, program); err == nil && filepath.IsLocal(inside) {
			return usageError("name it relative to the current directory, as in ./"+filepath.Base(program),
				"run %s: both sides would run the working tree's program", program)
		}
	}
	if len(r.build) == 0 {
		if err := r.app.findProgram(r.work.program()); err != nil {
			return err
		}
	}
	r.repository = repository
	r.progress.end()
	for _, note := range r.base.Notes {
		r.progress.note("%s", note)
	}
	if r.head.Dirty() {
		r.progress.note("head is the working tree as it is, with %s and %s", plural(r.head.Changed, "uncommitted change"),
			plural(r.head.Untracked, "untracked file"))
	}
	return nil
}

// make checks the base out and builds both sides, base first: that is the one more likely to fail.
func (r *revisions) make(ctx context.Context) ([2]workload, error) {
	var sides [2]workload
	var err error
	if r.worktree, err = r.repository.Checkout(ctx, r.base.Commit); err != nil {
		return sides, revisionError(ctx, err)
	}
	for _, note := range r.worktree.Notes {
		r.progress.warn("%s", note)
	}
	changes, err := r.repository.Changes(ctx, r.base.Commit, r.worktree.Dir)
	if err != nil {
		return sides, revisionError(ctx, err)
	}
	r.functions = changes.Functions()
	sides = [2]workload{
		base: {command: r.work.command, dir: r.worktree.Path(r.repository.Prefix), work: r.work.work},
		head: r.work,
	}
	if info, err := os.Stat(sides[base].dir); err != nil || !info.IsDir() {
		return sides, usageError("run from a directory that both sides have", "base %s has no directory %s", shortHash(r.base.Commit), r.repository.Prefix)
	}
	for _, s := range []side{base, head} {
		if err := r.buildSide(ctx, s, sides[s]); err != nil {
			return sides, err
		}
	}
	if len(r.build) > 0 {
		if err := r.app.findProgram(r.work.program()); err != nil {
			return sides, err
		}
	}
	if program := r.work.command[0]; strings.ContainsRune(program, '/') && !filepath.IsAbs(program) {
		if _, err := os.Stat(filepath.Join(sides[base].dir, program)); err != nil {
			hint := "build it on both sides with --build 'make ...'"
			if len(r.build) > 0 {
				hint = "the build has to make it on both sides, in the tree that it runs in"
			}
			return sides, usageError(hint, "base %s has no %s", shortHash(r.base.Commit), program)
		}
	}
	return sides, nil
}

// buildSide builds one side.
func (r *revisions) buildSide(ctx context.Context, s side, w workload) error {
	if len(r.build) == 0 {
		return nil
	}
	return r.progress.build(ctx, revision.Build{
		Side: s.String(), Args: r.build, Dir: w.where(), Env: r.app.env, Timeout: r.buildTimeout,
	})
}

// close removes the worktree, whatever came before.
func (r *revisions) close() error {
	if r.worktree == nil {
		return nil
	}
	if err := r.worktree.Close(); err != nil {
		return fail(exitEnvironment, err, "")
	}
	return nil
}

// touched tells the functions that the change touches, by the lines that the profiles of both sides
// have of them.
func (r *revisions) touched(sides [2]*baseline.Recording) func(diff.Function) bool {
	for s, recording := range sides {
		for _, p := range recording.Profiles[r.told[s]:] {
			for _, location := range p.Location {
				for _, line := range location.Line {
					if f := line.Function; f != nil {
						for _, at := range []int64{f.StartLine, line.Line} {
							r.functions.Add(revision.Side(s), f.Name, f.Filename, int(at))
							r.functions.Add(revision.Side(s), diff.Canonical(f.Name), f.Filename, int(at))
						}
					}
				}
			}
		}
		r.told[s] = len(recording.Profiles)
	}
	return func(f diff.Function) bool { return r.functions.Touched(f.Name, f.File) }
}

// describe says in a report what was compared.
func (r *revisions) describe(m *report.Meta) {
	m.Base.Source, m.Base.Branch = "merge base with "+r.ref, ""
	if r.base.Fallback {
		m.Base.Source = r.ref
		m.Notes = append(m.Notes, diff.Warning{
			Code: "no-merge-base",
			Text: r.base.Notes[0],
			Hint: "fetch more history (fetch-depth: 0), so that changes on " + r.ref + " are not taken for changes of head",
		})
	}
	m.Base.Dirty = false // what a build leaves in the worktree
	m.Head.Source, m.Head.Dirty = "working tree", r.head.Dirty()
	m.Touched = true
}

// revisionError gives an error about revisions its exit code.
func revisionError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case errors.Is(err, revision.ErrNoGit), errors.Is(err, revision.ErrWorktree):
		return fail(exitEnvironment, err, "")
	}
	return fail(exitUsage, err, "")
}

func shortHash(commit string) string { return commit[:min(12, len(commit))] }
