package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/report"
)

type checkOptions struct {
	app *app
	sampling
	baseline string
	store    string
	output   string
	json     jsonFile
	command  []string

	work workload

	runsGiven, frequencyGiven, eventGiven, warmupGiven bool
}

func newCheckCommand(a *app) *cobra.Command {
	o := checkOptions{app: a}
	cmd := &cobra.Command{
		Use:   "check [--baseline NAME] [--store URL] [FLAGS] [-- COMMAND...]",
		Short: "Measure a command and compare it with a saved baseline",
		Long: `Measure COMMAND as its baseline was measured, and compare the two. Without --baseline it is the one
baseline in the store that was recorded from a suite of this name. Without COMMAND it is a suite of
tollgate.yaml, whose thresholds, scope and accepted regressions hold: the one that --suite names, or the
only one.

A baseline from another machine cannot tell: then the verdict is inconclusive, and says what differs.
tollgate compare, which runs both versions here, does not have that problem.`,
		Example: `  tollgate record -o base --runs 10 -- ./bench
  tollgate baseline save main base
  tollgate check --baseline main -- ./bench`,
		Args: wrappedOrConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			changed := cmd.Flags().Changed
			o.runsGiven, o.warmupGiven = changed("runs"), changed("warmup")
			o.frequencyGiven, o.eventGiven = changed("frequency"), changed("event")
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.baseline, "baseline", "", "`NAME` of the baseline (default: the one of this suite)")
	flags.StringVar(&o.store, "store", baseline.DefaultStore, "directory or file: `URL` of the store")
	flags.StringVarP(&o.output, "output", "o", "", "keep the recording in `DIR`")
	o.json.register(cmd)
	o.register(cmd, enoughRuns, "run the command `N` times (default: as often as the baseline, from 5 to 10)", 0)
	for _, name := range []string{"runs", "frequency", "event", "warmup"} {
		// The default is in the baseline; a zero is not shown.
		flag := flags.Lookup(name)
		if flag.DefValue = "0"; name == "event" {
			flag.DefValue = ""
		}
	}
	return cmd
}

func (o *checkOptions) run(ctx context.Context) error {
	nameGiven := o.name != ""
	var err error
	if o.work, err = o.configure(o.command); err != nil {
		return err
	}
	nameGiven = nameGiven || o.suite != nil
	o.runsGiven = o.runsGiven || o.suite != nil && o.suite.Runs > 0
	if err := o.sampling.check(o.work.command); err != nil {
		return err
	}
	if err := o.json.check(); err != nil {
		return err
	}
	if err := o.app.findWorkload(o.work, &o.sampling); err != nil {
		return err
	}
	if o.output != "" {
		if err := vacantDirectory(o.output); err != nil {
			return err
		}
	}
	base, err := o.load(ctx)
	if err != nil {
		return err
	}
	p := newProgress(o.app)
	o.adopt(base, nameGiven, p)
	app := *o.app
	if o.json.toStdout() {
		app.stdout = app.stderr
	}
	// Whether the machines agree is known before anything runs.
	env, err := baseline.CurrentEnv(baseline.Toolchain(ctx, o.work.command, o.work.where()))
	if err != nil {
		return fail(exitEnvironment, err, "")
	}
	head := &baseline.Recording{Source: "this run", Manifest: baseline.Manifest{
		Suite: o.name, Command: o.work.command, Env: env, Frequency: o.frequency, Event: o.event,
	}}
	if err := baseline.Comparable(base, head); err != nil {
		if errors.Is(err, baseline.ErrSuite) {
			return inputError(err)
		}
		return o.app.present(incomparable(err), o.meta(base, head), &o.json)
	}
	head, err = o.measure(ctx, &app, p)
	if err != nil {
		return err
	}
	result, err := policy{o.suite}.judge(base, head, diff.Options{})
	if err != nil {
		return err
	}
	return o.app.present(result, o.meta(base, head), &o.json)
}

// load finds the baseline that the user named, or the one of this suite.
func (o *checkOptions) load(ctx context.Context) (*baseline.Recording, error) {
	if o.baseline != "" {
		return loadBaseline(ctx, o.store, o.baseline)
	}
	store, err := baseline.Open(o.store)
	if err != nil {
		return nil, storeError(err)
	}
	entries, err := store.List(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	var names []string
	for _, e := range entries {
		if e.Err == nil && e.Manifest.Suite == o.name {
			names = append(names, e.Name)
		}
	}
	switch {
	case len(names) == 0:
		return nil, fail(exitInconclusive, fmt.Errorf("no baseline of suite %s in %s", o.name, o.store), otherBaselines(ctx, store))
	case len(names) > 1 && !slices.Contains(names, o.name):
		return nil, usageError("choose one with --baseline", "%d baselines are of suite %s: %s", len(names), o.name,
			shorten(strings.Join(names, ", "), 60))
	case len(names) > 1:
		names[0] = o.name
	}
	o.baseline = names[0]
	return loadBaseline(ctx, o.store, o.baseline)
}

// adopt measures as the baseline was measured where the user did not say otherwise.
func (o *checkOptions) adopt(base *baseline.Recording, nameGiven bool, p *progress) {
	m := &base.Manifest
	if !o.runsGiven {
		o.runs = min(max(len(m.Runs), enoughRuns), 2*enoughRuns)
	}
	if !o.warmupGiven {
		o.warmup = m.Warmup
	}
	if !o.frequencyGiven {
		o.frequency = m.Frequency
	}
	if !o.eventGiven {
		o.event = m.Event
	}
	if !nameGiven {
		// Who names the baseline says what to compare with.
		o.name = m.Suite
	}
	if !slices.Equal(m.Command, o.work.command) {
		p.warn("baseline %s measured another command: %s", o.baseline, shorten(commandLine(m.Command), 60))
	}
}

// measure takes the runs into a recording in memory, and on disk if asked for.
func (o *checkOptions) measure(ctx context.Context, a *app, p *progress) (*baseline.Recording, error) {
	defer p.end()
	p.warnOfWorkload(o.work)
	b, err := a.openBench(ctx, &o.sampling, p)
	if err != nil {
		return nil, err
	}
	defer b.close()
	return b.take(ctx, o.work, o.output, "this run", "a check")
}

// meta adds how to get this result again, and how to live with it.
func (o *checkOptions) meta(base, head *baseline.Recording) report.Meta {
	m := metaOf(base, head)
	m.Base.Source = "baseline " + o.baseline
	m.Reproduce = o.app.again()
	if o.output != "" {
		m.Accept = fmt.Sprintf("tollgate baseline save --store %s %s %s", commandLine([]string{o.store}), o.baseline, commandLine([]string{o.output}))
	}
	return m
}
