package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/capture"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/internal/demo"
)

type demoOptions struct {
	app    *app
	seed   uint64
	output string
	json   jsonFile
}

func newDemoCommand(a *app) *cobra.Command {
	o := demoOptions{app: a}
	cmd := &cobra.Command{
		Use:   "demo [FLAGS]",
		Short: "Plant a regression in a small program, and catch it",
		Long: `Build two versions of a small Go program, the second with a regression of a few per cent planted in one
function, and compare them as tollgate compare does. It takes less than a minute and leaves nothing
behind.

Ends with 0 when the planted regression was found and named first, and with 3 when it was not.`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				o.seed = rand.Uint64N(1 << 32)
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().Uint64Var(&o.seed, "seed", 0, "seed `N` of the order of the runs (default: drawn, and printed)")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "keep both recordings in `DIR`/base and DIR/head")
	o.json.register(cmd)
	return cmd
}

func (o *demoOptions) run(ctx context.Context) error {
	if err := o.json.check(); err != nil {
		return err
	}
	if _, err := o.app.lookPath("go"); err != nil {
		return fail(exitEnvironment, fmt.Errorf("build demo: %w", err), "install Go (https://go.dev/dl) and put it on the PATH")
	}
	var dir string
	var planted demo.Planted
	c := &comparison{
		app: o.app,
		options: &sampling{
			runs: defaultPairs, warmup: 1, name: "demo", discard: true,
			frequency: capture.DefaultFrequency, event: capture.EventCPUClock,
		},
		names:    [2]string{base: "the first version", head: "the second version"},
		output:   o.output,
		seed:     o.seed,
		progress: newProgress(o.app),
	}
	c.setup = func(ctx context.Context) error {
		var err error
		if dir, err = os.MkdirTemp(o.app.env.get("TMPDIR"), "tollgate-demo-"); err != nil {
			return fail(exitEnvironment, fmt.Errorf("make a directory for the demo: %w", err), "set TMPDIR to a directory you can write to")
		}
		c.progress.begin(false, "building both versions")
		defer c.progress.end()
		var old, new string
		if old, new, planted, err = demo.Build(ctx, dir); err != nil {
			if ctx.Err() != nil {
				return errInterrupted
			}
			return fail(exitEnvironment, err, "the demo needs Go 1.21 or later")
		}
		c.workloads = [2]workload{base: {command: []string{old}}, head: {command: []string{new}}}
		return nil
	}
	result, err := c.run(ctx)
	if dir != "" {
		if removeErr := os.RemoveAll(dir); err == nil && removeErr != nil {
			err = fail(exitEnvironment, fmt.Errorf("remove the demo's directory: %w", removeErr), "")
		}
	}
	if err != nil {
		return err
	}
	return o.conclude(result, c, planted)
}

// conclude prints the verdict, and what was to be found.
func (o *demoOptions) conclude(result *diff.Result, c *comparison, planted demo.Planted) error {
	meta := c.meta()
	meta.Base.Commit, meta.Head.Commit = "", ""
	// The programs are gone by now; their paths would only tell of a temporary directory.
	meta.Base.Command, meta.Head.Command = c.names[base], c.names[head]
	meta.Base.Source, meta.Head.Source = c.names[base], c.names[head]
	meta.Reproduce = o.app.again("--seed", fmt.Sprint(o.seed))
	err := o.app.presentBelow(filepath.Dir(planted.File), result, meta, &o.json)
	var verdict silent
	if err != nil && !errors.As(err, &verdict) {
		return err
	}
	text := o.app.stdout
	if o.json.toStdout() {
		text = o.app.stderr
	}
	at := fmt.Sprintf("%s at %s:%d", planted.Function, filepath.Base(planted.File), planted.Line)
	if !caught(result, planted) {
		fmt.Fprintf(text, "\nNot caught: the second version is slower in %s by about %.0f %%; %s.\n", at, 100*planted.Cost, planted.Change)
		return fail(exitInconclusive, errors.New("the planted regression was not found"),
			"a machine that is busy with other things hides small effects; try again when it is calm")
	}
	fmt.Fprintf(text, "\nCaught: %s was planted to be found; %s.\n", at, planted.Change)
	return nil
}

// caught reports whether the gate failed and blames the planted function first.
func caught(result *diff.Result, planted demo.Planted) bool {
	return result.Verdict == diff.Fail && len(result.Findings) > 0 &&
		result.Findings[0].Kind == diff.Regression && result.Findings[0].Function == planted.Function
}
