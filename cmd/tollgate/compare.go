package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/report"
	"github.com/tollgate-dev/tollgate/revision"
)

const (
	defaultPairs        = 20
	defaultBuildTimeout = 30 * time.Minute
)

type compareOptions struct {
	app *app
	sampling
	ref          string // compared by revision, else by baseCommand
	baseCommand  string
	build        string
	buildTimeout time.Duration
	output       string
	seed         uint64
	json         jsonFile
	command      []string

	work workload // of head
}

func newCompareCommand(a *app) *cobra.Command {
	o := compareOptions{app: a}
	cmd := &cobra.Command{
		Use:   "compare REF [--build CMD] [--runs PAIRS] [FLAGS] [-- COMMAND...]",
		Short: "Run two versions in turn, here and now, and compare them",
		Long: `Compare the working tree with a git revision, or one command with another.

With REF, a branch, tag or commit, base is the merge base of HEAD and REF, checked out in a temporary
worktree, and head is the working tree as it is. Both are built once by --build, and COMMAND runs in the
same directory of either tree. Nothing that git tracks is changed, and the worktree is removed in the
end. Functions that the change touches are watched more closely, and marked in the report.

Without COMMAND it is a suite of tollgate.yaml, with its build, directory, thresholds and accepted
regressions: the one that --suite names, or the only one.

With --base-command instead of REF, that command is compared with COMMAND.

Pairs of runs are taken under one collector in blocks ABBA or BAAB, drawn at random, after one warm-up
each, so that what happens to the machine meanwhile happens to both. After 5, 10 and 20 pairs the result
is looked at, and the comparison ends as soon as it is clear; --runs is the most it may take. A calm
comparison takes 5 pairs.

The build and the base command are command lines: words are split and quotes respected as a shell does
it, and the program is run directly. A line with more than that (pipes, variables, redirections) goes to
sh -c.`,
		Example: `  tollgate compare main --build 'make bench' -- ./bench
  tollgate compare origin/main --build 'go test -c -o bench.test ./parser' -- ./bench.test -test.bench=. -test.benchtime=100x
  tollgate compare --base-command './old --size 1000' -- ./new --size 1000`,
		Args: func(cmd *cobra.Command, args []string) error {
			// REF stands before the dashes, the command after them.
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0 && len(args) == 1:
				o.ref = args[0]
				return nil
			case dash < 0 && len(args) > 1:
				return usageError(fmt.Sprintf("write tollgate compare %s -- %s", args[0], commandLine(args[1:])),
					"the command to measure must stand after --")
			case dash != 1:
				return wrappedOrConfigured(cmd, args)
			}
			o.ref = args[0]
			if len(args) == 1 || args[1] == "" {
				return usageError("write it after two dashes: tollgate compare "+o.ref+" -- COMMAND ARGUMENTS...", "no command to measure")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.command = args; o.ref != "" {
				o.command = args[1:]
			}
			if !cmd.Flags().Changed("seed") {
				o.seed = rand.Uint64N(1 << 32)
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.baseCommand, "base-command", "", "the command `LINE` to compare with")
	flags.StringVar(&o.build, "build", "", "the command `LINE` that builds a side, run once in each tree")
	flags.DurationVar(&o.buildTimeout, "build-timeout", defaultBuildTimeout, "end a build that takes longer than `TIME`")
	flags.StringVarP(&o.output, "output", "o", "", "keep both recordings in `DIR`/base and DIR/head")
	flags.Uint64Var(&o.seed, "seed", 0, "seed `N` of the order of the runs (default: drawn, and printed)")
	o.json.register(cmd)
	o.register(cmd, defaultPairs, "most `PAIRS` of runs to take", 1)
	return cmd
}

func (o *compareOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	app := *o.app
	if o.json.toStdout() {
		// What the commands print must not end up inside the JSON.
		app.stdout = app.stderr
	}
	c := &comparison{app: &app, options: &o.sampling, output: o.output, seed: o.seed, progress: newProgress(&app)}
	if o.ref != "" {
		return o.runRevisions(ctx, c)
	}
	c.workloads = [2]workload{base: o.work, head: o.work}
	c.workloads[base].command = shellCommand(o.baseCommand)
	for _, w := range c.workloads {
		if err := o.app.findWorkload(w, &o.sampling); err != nil {
			return err
		}
	}
	c.setup = func(ctx context.Context) error { return c.bench.build(ctx, o.work) }
	result, err := c.run(ctx)
	if err != nil {
		return err
	}
	meta := c.meta()
	// Both sides were run from one checkout, whose commit says nothing about either.
	meta.Base.Commit, meta.Head.Commit = "", ""
	return o.present(result, meta)
}

func (o *compareOptions) check() error {
	switch {
	case o.ref == "" && o.baseCommand == "":
		return usageError("write tollgate compare main -- ./bench, or tollgate compare --base-command './old' -- ./new",
			"nothing to compare with: no REF and no --base-command")
	case o.ref != "" && o.baseCommand != "":
		return usageError("leave out one of them", "REF %s and --base-command are both given", o.ref)
	case o.ref == "" && o.build != "":
		return usageError("build both programs first", "--build goes with REF, not with --base-command")
	case o.buildTimeout <= 0:
		return usageError("give a time such as 10m", "--build-timeout is %s", o.buildTimeout)
	}
	var err error
	if o.work, err = o.configure(o.command); err != nil {
		return err
	}
	if err := o.sampling.check(o.work.command); err != nil {
		return err
	}
	return o.json.check()
}

// runRevisions compares the working tree with REF. The worktree is removed whatever happens.
func (o *compareOptions) runRevisions(ctx context.Context, c *comparison) (err error) {
	// Git's hooks point at the repository by variables that would hold for both trees.
	c.app.env = revision.CleanEnv(c.app.env)
	r := &revisions{app: c.app, progress: c.progress, ref: o.ref, work: o.work, build: o.buildCommand(), buildTimeout: o.buildTimeout}
	if o.suite != nil && !o.flags.Changed("build-timeout") {
		r.buildTimeout = o.suite.BuildTimeout
	}
	if o.build != "" {
		r.build = shellCommand(o.build)
	}
	defer func() {
		if closeErr := r.close(); err == nil {
			err = closeErr
		}
	}()
	who, err := o.app.sudoInvoker()
	if err != nil {
		return err
	}
	if who == nil {
		// Under sudo it has to wait until this process is the invoking user's.
		if err := r.find(ctx); err != nil {
			return err
		}
	}
	c.names = [2]string{base: o.ref, head: "the working tree"}
	c.setup = func(ctx context.Context) error {
		if err := r.find(ctx); err != nil {
			return err
		}
		var err error
		c.workloads, err = r.make(ctx)
		return err
	}
	c.touched = r.touched
	result, err := c.run(ctx)
	if err != nil {
		return err
	}
	meta := c.meta()
	r.describe(&meta)
	return o.present(result, meta)
}

func (o *compareOptions) present(result *diff.Result, meta report.Meta) error {
	meta.Reproduce = o.app.again("--seed", strconv.FormatUint(o.seed, 10))
	return o.app.present(result, meta, &o.json)
}

// comparison runs two commands in turn until the result is clear.
type comparison struct {
	app       *app
	options   *sampling
	workloads [2]workload
	names     [2]string                   // what to call them; empty is their command line
	setup     func(context.Context) error // makes the workloads, as the invoking user; may be nil
	output    string                      // directory for both recordings; empty keeps none
	seed      uint64
	progress  *progress
	// touched tells the functions that the change between the sides touches; nil where nothing is known
	// about it.
	touched func(sides [2]*baseline.Recording) func(diff.Function) bool

	bench *bench
	sides [2]*recorder
}

// run takes pairs until a look says that it is enough.
func (c *comparison) run(ctx context.Context) (*diff.Result, error) {
	if c.output != "" {
		for _, s := range []side{base, head} {
			if err := vacantDirectory(filepath.Join(c.output, s.String())); err != nil {
				return nil, err
			}
		}
	}
	defer c.progress.end()
	var err error
	if c.bench, err = c.app.openBench(ctx, c.options, c.progress); err != nil {
		return nil, err
	}
	defer c.bench.close()
	if c.setup != nil {
		if err := c.setup(ctx); err != nil {
			return nil, err
		}
	}
	c.progress.warnOfWorkload(c.workloads[head])
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	result, err := c.pairs(ctx)
	if keepErr := c.keep(err); err == nil {
		err = keepErr
	}
	return result, err
}

// prepare makes the two recordings that the runs go to, in memory and, if asked for, on disk.
func (c *comparison) prepare(ctx context.Context) error {
	for _, s := range []side{base, head} {
		header, err := c.bench.header(ctx, c.workloads[s])
		if err != nil {
			return err
		}
		c.sides[s] = &recorder{
			recording: &baseline.Recording{Manifest: header, Source: s.String()},
			progress:  c.progress,
		}
	}
	if c.output == "" {
		return nil
	}
	for s, recorder := range c.sides {
		if err := recorder.create(filepath.Join(c.output, side(s).String())); err != nil {
			return errors.Join(err, c.keep(err))
		}
	}
	return nil
}

// pairs takes the warm-ups and the pairs, and judges at every look.
func (c *comparison) pairs(ctx context.Context) (*diff.Result, error) {
	c.progress.note("comparing %s with %s: up to %s, seed %d", c.name(head), c.name(base), plural(c.options.runs, "pair"), c.seed)
	order := newSchedule(c.seed)
	for i := range c.options.warmup {
		c.progress.begin(c.bench.yields(), "warm-up %d/%d", i+1, c.options.warmup)
		for _, s := range order.next() {
			if _, err := c.take(ctx, s, "the warm-up"); err != nil {
				return nil, err
			}
		}
	}
	order = newSchedule(c.seed)
	by := policy{c.options.suite}
	plan := by.looks(c.options.runs)
	for pair, look := 1, 0; ; pair++ {
		var cpu [2]float64
		for _, s := range order.next() {
			if !c.bench.yields() {
				c.progress.busy(fmt.Sprintf("pair %d/%d, %s", pair, plan[look].Pairs, s))
			}
			run, err := c.take(ctx, s, fmt.Sprintf("run %d", pair))
			if err != nil {
				return nil, err
			}
			if err := c.sides[s].add(run); err != nil {
				return nil, err
			}
			cpu[s] = run.info.CPUSeconds
		}
		if !c.progress.live || c.bench.yields() {
			c.progress.note("pair %d/%d: %s of CPU in base, %s in head", pair, plan[look].Pairs, seconds(cpu[base]), seconds(cpu[head]))
		}
		if pair < plan[look].Pairs {
			continue
		}
		c.progress.busy("judging " + plural(pair, "pair"))
		options := diff.Options{Paired: true, Look: look + 1, Looks: plan}
		if c.touched != nil {
			options.Touched = c.touched([2]*baseline.Recording{c.sides[base].recording, c.sides[head].recording})
		}
		// One machine made both; a toolchain that the change replaces is part of the change.
		result, err := by.judgeRuns(c.sides[base].recording, c.sides[head].recording, options)
		c.progress.end()
		if err != nil {
			return nil, err
		}
		if result.Stop != diff.StopContinue || look+1 == len(plan) {
			c.progress.note("%s", stopReason(result.Stop, pair, c.options.runs))
			return result, nil
		}
		look++
	}
}

// stopReason says why no further pairs were taken.
func stopReason(stop diff.Stop, pairs, most int) string {
	taken := fmt.Sprintf("stopped after %s of at most %d", plural(pairs, "pair"), most)
	if pairs == most {
		taken = "took all " + plural(pairs, "pair")
	}
	switch stop {
	case diff.StopFail:
		return taken + ": a regression is shown"
	case diff.StopPass:
		return taken + ": a regression is ruled out"
	case diff.StopFutile:
		return taken + ": nothing hints at a regression, and more pairs would not find one"
	default:
		return taken
	}
}

// take runs one side once; a command that fails ends the comparison.
func (c *comparison) take(ctx context.Context, s side, what string) (measuredRun, error) {
	run, err := c.bench.measure(ctx, c.workloads[s])
	c.progress.end()
	if err != nil {
		return run, err
	}
	if run.failed() {
		return run, fail(exitCommand, fmt.Errorf("%s of %s (%s) failed: %s", what, s, c.name(s), run.why(c.options.timeout)),
			"a comparison needs commands that succeed; try it alone first")
	}
	return run, nil
}

// keep publishes the recordings on disk, with what was completed if cause ended the comparison.
func (c *comparison) keep(cause error) error {
	var errs []error
	for _, s := range c.sides {
		enough := ""
		if len(s.recording.Manifest.Runs) < c.options.runs {
			enough = "the comparison was clear before"
		}
		errs = append(errs, s.finish(cause, enough))
	}
	return errors.Join(errs...)
}

// meta describes the comparison for a report.
func (c *comparison) meta() report.Meta {
	return metaOf(c.sides[base].recording, c.sides[head].recording)
}

// name is what to call a side's command in a line.
func (c *comparison) name(s side) string {
	if c.names[s] != "" {
		return c.names[s]
	}
	return c.workloads[s].String()
}
