package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/report"
)

const defaultPairs = 20

type compareOptions struct {
	app *app
	sampling
	baseCommand string
	output      string
	seed        uint64
	json        jsonFile
	command     []string
}

func newCompareCommand(a *app) *cobra.Command {
	o := compareOptions{app: a}
	cmd := &cobra.Command{
		Use:   "compare --base-command 'A' [--runs PAIRS] [FLAGS] -- COMMAND...",
		Short: "Run two commands in turn, here and now, and compare them",
		Long: `Run the base command and COMMAND in turn under one collector, and give the verdict on COMMAND. Pairs of
runs are taken in blocks ABBA or BAAB, drawn at random, after one warm-up each, so that what happens
to the machine meanwhile happens to both.

After 5, 10 and 20 pairs the result is looked at, and the comparison ends as soon as it is clear; --runs
is the most it may take. A calm comparison takes 5 pairs.

The base command is a command line: words are split and quotes respected as a shell does it, and the
program is run directly. A line with more than that (pipes, variables, redirections) goes to sh -c.`,
		Example: `  tollgate compare --base-command './old --size 1000' -- ./new --size 1000
  tollgate compare --base-command 'xz -9 -k -c big >/dev/null' -- sh -c './xz -9 -k -c big >/dev/null'`,
		Args: wrapped,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			if !cmd.Flags().Changed("seed") {
				o.seed = rand.Uint64N(1 << 32)
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.baseCommand, "base-command", "", "the command `LINE` to compare with")
	flags.StringVarP(&o.output, "output", "o", "", "keep both recordings in `DIR`/base and DIR/head")
	flags.Uint64Var(&o.seed, "seed", 0, "seed `N` of the order of the runs (default: drawn, and printed)")
	o.json.register(cmd)
	o.register(cmd, defaultPairs, "most `PAIRS` of runs to take", 1)
	return cmd
}

func (o *compareOptions) run(ctx context.Context) error {
	if o.baseCommand == "" {
		return usageError("write tollgate compare --base-command './old' -- ./new", "--base-command is missing")
	}
	if err := o.sampling.check(o.command); err != nil {
		return err
	}
	if err := o.json.check(); err != nil {
		return err
	}
	c := &comparison{
		app:      o.app,
		options:  &o.sampling,
		commands: [2][]string{base: shellCommand(o.baseCommand), head: o.command},
		output:   o.output,
		seed:     o.seed,
	}
	for _, command := range c.commands {
		if err := o.app.findProgram(command[0]); err != nil {
			return err
		}
	}
	app := *o.app
	if o.json.toStdout() {
		// What the commands print must not end up inside the JSON.
		app.stdout = app.stderr
		c.app = &app
	}
	result, err := c.run(ctx)
	if err != nil {
		return err
	}
	meta := c.meta()
	meta.Reproduce = o.app.again("--seed", strconv.FormatUint(o.seed, 10))
	return o.app.present(result, meta, &o.json)
}

// comparison runs two commands in turn until the result is clear.
type comparison struct {
	app      *app
	options  *sampling
	commands [2][]string
	names    [2]string                   // what to call them; empty is their command line
	setup    func(context.Context) error // makes the commands, as the invoking user; may be nil
	output   string                      // directory for both recordings; empty keeps none
	seed     uint64

	progress *progress
	bench    *bench
	sides    [2]*recorder
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
	c.progress = newProgress(c.app)
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
	c.progress.warnOfWorkload(c.commands[head])
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
		header, err := c.bench.header(ctx, c.commands[s])
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
	plan := diff.Schedule(c.options.runs)
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
		result, err := judge(c.sides[base].recording, c.sides[head].recording, diff.Options{Paired: true, Look: look + 1, Looks: plan})
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
	run, err := c.bench.measure(ctx, c.commands[s])
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
	m := metaOf(c.sides[base].recording, c.sides[head].recording)
	// Both sides were run from one checkout, whose commit says nothing about either.
	m.Base.Commit, m.Head.Commit = "", ""
	return m
}

// name is what to call a side's command in a line.
func (c *comparison) name(s side) string {
	if c.names[s] != "" {
		return c.names[s]
	}
	return shorten(commandLine(c.commands[s]), 60)
}
