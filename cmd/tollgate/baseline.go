package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/baseline"
)

// enoughRuns is how many runs a side needs before a verdict is to be expected.
const enoughRuns = 5

type baselineOptions struct {
	app   *app
	store string
}

func newBaselineCommand(a *app) *cobra.Command {
	o := baselineOptions{app: a}
	cmd := &cobra.Command{
		Use:   "baseline COMMAND",
		Short: "Save recordings as baselines, and look at them",
		Long:  "Save recordings under names that tollgate check compares with, and look at what is saved.",
		Args:  cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.PersistentFlags().StringVar(&o.store, "store", baseline.DefaultStore, "directory or file: `URL` of the store")
	cmd.AddCommand(
		&cobra.Command{
			Use:   "save NAME RECORDING",
			Short: "Save a recording as the baseline NAME",
			Long: `Save a recording, a directory written by tollgate record, as the baseline NAME. A baseline of that name
is replaced.`,
			Example: "  tollgate record -o base --runs 10 -- ./bench\n  tollgate baseline save main base",
			Args:    exactArgs("NAME", "RECORDING"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return o.save(cmd.Context(), args[0], args[1])
			},
		},
		&cobra.Command{
			Use:   "list",
			Short: "List the baselines of the store",
			Long:  "List the baselines of the store.",
			Args:  exactArgs(),
			RunE:  func(cmd *cobra.Command, _ []string) error { return o.list(cmd.Context()) },
		},
		&cobra.Command{
			Use:   "show NAME",
			Short: "Show what a baseline was recorded from, where and how",
			Long:  "Show what a baseline was recorded from, where and how.",
			Args:  exactArgs("NAME"),
			RunE:  func(cmd *cobra.Command, args []string) error { return o.show(cmd.Context(), args[0]) },
		},
	)
	return cmd
}

func (o *baselineOptions) save(ctx context.Context, name, path string) error {
	if err := baseline.CheckName(name); err != nil {
		return fail(exitUsage, err, "")
	}
	recording, err := baseline.Load(path)
	if err != nil {
		return missingError(err, path)
	}
	usable, bad := 0, 0
	for _, run := range recording.Manifest.Runs {
		if run.ExitCode == 0 {
			usable++
		} else {
			bad++
		}
	}
	if usable == 0 {
		return usageError("record again once the command succeeds", "save baseline %s: every run in %s failed", name, path)
	}
	store, err := baseline.Open(o.store)
	if err != nil {
		return storeError(err)
	}
	if err := store.Save(ctx, name, recording); err != nil {
		return storeError(err)
	}
	p := newProgress(o.app)
	p.note("saved %s of %s as baseline %s in %s", plural(len(recording.Manifest.Runs), "run"), recording.Name(), name, o.store)
	if bad > 0 {
		p.warn("%s in it failed and will be left out of comparisons", plural(bad, "run"))
	}
	if usable < enoughRuns {
		p.warn("%s can hardly give a verdict; record with --runs %d or more", plural(usable, "run"), enoughRuns)
	}
	return nil
}

func (o *baselineOptions) list(ctx context.Context) error {
	store, err := baseline.Open(o.store)
	if err != nil {
		return storeError(err)
	}
	entries, err := store.List(ctx)
	if err != nil {
		return storeError(err)
	}
	if len(entries) == 0 {
		newProgress(o.app).note("no baselines in %s; tollgate baseline save NAME RECORDING makes one", o.store)
		return nil
	}
	t := tabwriter.NewWriter(o.app.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSUITE\tRUNS\tCPU A RUN\tCOMMIT\tRECORDED\tMACHINE")
	damaged := 0
	for _, e := range entries {
		if e.Err != nil {
			damaged++
			fmt.Fprintf(t, "%s\tdamaged: %s\n", e.Name, oneLine(e.Err.Error()))
			continue
		}
		mean, _ := meanCPU(e.Manifest.Runs)
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", e.Name, oneLine(e.Manifest.Suite), len(e.Manifest.Runs), seconds(mean),
			shortCommit(&e.Manifest), e.Manifest.Time.Format("2006-01-02 15:04"), shorten(oneLine(e.Manifest.Env.CPUModel), 40))
	}
	if err := t.Flush(); err != nil {
		return fail(exitEnvironment, fmt.Errorf("write list: %w", err), "")
	}
	if damaged > 0 {
		return fail(exitStore, fmt.Errorf("list baselines: %s damaged", plural(damaged, "baseline")), "save it again from its recording")
	}
	return nil
}

func (o *baselineOptions) show(ctx context.Context, name string) error {
	recording, err := loadBaseline(ctx, o.store, name)
	if err != nil {
		return err
	}
	m := &recording.Manifest
	mean, cv := meanCPU(m.Runs)
	state := ""
	if m.Dirty {
		state = ", with uncommitted changes"
	}
	commit := "none, outside of a git repository"
	if m.Commit != "" {
		commit = m.Commit
		if m.Branch != "" {
			commit += " on " + m.Branch
		}
	}
	runs := plural(len(m.Runs), "run")
	if m.Partial != "" {
		runs += fmt.Sprintf(" of %d: %s", m.RequestedRuns, m.Partial)
	}
	cpu := fmt.Sprintf("%s a run", seconds(mean))
	if len(m.Runs) > 1 {
		cpu += fmt.Sprintf(", varying by %.1f %%", 100*cv)
	}
	for _, line := range [][2]string{
		{"baseline", name},
		{"suite", m.Suite},
		{"command", commandLine(m.Command)},
		{"commit", commit + state},
		{"recorded", m.Time.Format("2006-01-02 15:04:05 MST") + " by tollgate " + m.ToolVersion},
		{"machine", m.Env.String()},
		{"sampling", fmt.Sprintf("%s at %d Hz", m.Event, m.Frequency)},
		{"runs", runs},
		{"CPU", cpu},
	} {
		if _, err := fmt.Fprintf(o.app.stdout, "%-9s %s\n", line[0], oneLine(line[1])); err != nil {
			return fail(exitEnvironment, fmt.Errorf("write baseline: %w", err), "")
		}
	}
	return nil
}

// loadBaseline reads a baseline from a store. One that is not there is no failure of the store: there
// is nothing to compare with.
func loadBaseline(ctx context.Context, location, name string) (*baseline.Recording, error) {
	if err := baseline.CheckName(name); err != nil {
		return nil, fail(exitUsage, err, "")
	}
	store, err := baseline.Open(location)
	if err != nil {
		return nil, storeError(err)
	}
	recording, err := store.Load(ctx, name)
	if errors.Is(err, baseline.ErrNotFound) {
		return nil, fail(exitInconclusive, fmt.Errorf("no baseline %s in %s", name, location), otherBaselines(ctx, store))
	}
	if err != nil {
		return nil, storeError(err)
	}
	return recording, nil
}

// otherBaselines is the hint for a baseline that does not exist.
func otherBaselines(ctx context.Context, store baseline.Store) string {
	const save = "save one with tollgate baseline save NAME RECORDING"
	entries, err := store.List(ctx)
	if err != nil || len(entries) == 0 {
		return save
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return fmt.Sprintf("there is %s; or %s", shorten(strings.Join(names, ", "), 60), save)
}

// storeError gives an error of a store its exit code.
func storeError(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fail(exitStore, err, "name a store that you may use with --store")
	}
	return fail(exitStore, err, "")
}

// meanCPU returns the mean CPU-seconds of the runs and their coefficient of variation.
func meanCPU(runs []baseline.RunInfo) (mean, cv float64) {
	if len(runs) == 0 {
		return 0, 0
	}
	for _, r := range runs {
		mean += r.CPUSeconds / float64(len(runs))
	}
	if len(runs) < 2 || mean == 0 {
		return mean, 0
	}
	sum := 0.0
	for _, r := range runs {
		sum += (r.CPUSeconds - mean) * (r.CPUSeconds - mean)
	}
	return mean, math.Sqrt(sum/float64(len(runs)-1)) / mean
}

func shortCommit(m *baseline.Manifest) string {
	commit := m.Commit
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if m.Dirty {
		commit += "+"
	}
	return commit
}
