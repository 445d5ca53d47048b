package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/baseline"
)

type recordOptions struct {
	app *app
	sampling
	output  string
	command []string

	work workload
}

func newRecordCommand(a *app) *cobra.Command {
	o := recordOptions{app: a}
	cmd := &cobra.Command{
		Use:   "record [-o DIR] [--runs N] [FLAGS] [-- COMMAND...]",
		Short: "Run a command under sampling and keep its profiles",
		Long: `Run COMMAND under whole-system sampling, as often as --runs says, and write a recording: a directory
with one pprof profile a run and manifest.json. COMMAND runs as you, in your terminal and environment.
Without COMMAND it is a suite of tollgate.yaml: the one that --suite names, or the only one.

Standard output goes where it would without tollgate, unless the units of work stand in it: that of a Go
benchmark of fixed time, or with a pattern for it in tollgate.yaml. It then appears when a run ends.

Runs after the first one that fails do not take place; completed runs are kept. The failed or
interrupted run itself is kept only if there is no completed one.`,
		Example: `  tollgate record -- make test
  tollgate record -o base --runs 10 --warmup 1 -- ./bench --size 1000
  go tool pprof -top -relative_percentages -tagfocus=target=. base/run-001.pb.gz`,
		Args: wrappedOrConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "`DIR` of the recording (default: tollgate-SUITE-DATE-TIME)")
	o.register(cmd, 1, "run the command `N` times; a verdict needs 5 or more", 0)
	return cmd
}

func (o *recordOptions) run(ctx context.Context) error {
	var err error
	if o.work, err = o.configure(o.command); err != nil {
		return err
	}
	if err := o.check(o.work.command); err != nil {
		return err
	}
	if o.output == "" {
		o.output = fmt.Sprintf("tollgate-%s-%s", fileName(o.name), time.Now().Format("20060102-150405"))
	}
	if err := o.findCommand(); err != nil {
		return err
	}
	if err := vacantDirectory(o.output); err != nil {
		return err
	}
	p := newProgress(o.app)
	p.warnOfWorkload(o.work)
	bench, err := o.app.openBench(ctx, &o.sampling, p)
	if err != nil {
		return err
	}
	defer bench.close()
	if err := bench.build(ctx, o.work); err != nil {
		return err
	}
	header, err := bench.header(ctx, o.work)
	if err != nil {
		return err
	}
	writer, err := baseline.Create(o.output, header, baseline.CreateOptions{})
	if err != nil {
		return recordingError(err)
	}
	p.warnOfAbandoned(writer)
	runs, err := o.keep(ctx, bench, writer)
	p.end()
	return o.finish(p, writer, runs, err)
}

// keep takes the runs and returns those that are in the recording.
func (o *recordOptions) keep(ctx context.Context, b *bench, w *baseline.Writer) ([]measuredRun, error) {
	var runs []measuredRun
	add := func(run measuredRun) error {
		if err := w.Add(run.info, run.profile); err != nil {
			return recordingError(err)
		}
		runs = append(runs, run)
		return nil
	}
	last, err := b.series(ctx, o.work, add)
	// What a failed or interrupted run did is worth a look where there is nothing else, and not fit
	// to stand beside completed runs.
	if err != nil && len(runs) == 0 && last.info.TargetSamples > 0 {
		if addErr := add(last); addErr != nil {
			return runs, errors.Join(err, addErr)
		}
	}
	return runs, err
}

// finish publishes what there is, whatever ended the series, and says so.
func (o *recordOptions) finish(p *progress, w *baseline.Writer, runs []measuredRun, cause error) error {
	if cause == nil {
		if err := w.Commit(); err != nil {
			return recordingError(err)
		}
		o.summarize(p, runs)
		return nil
	}
	var failed *commandFailure
	reason := cause.Error()
	if errors.As(cause, &failed) {
		reason = fmt.Sprintf("%s failed: %s", failed.what, failed.run.why(o.timeout))
	}
	kept, err := w.Salvage(reason)
	if err != nil {
		p.warn("%v", err)
	}
	if kept > 0 && err == nil {
		o.summarize(p, runs)
	}
	if failed == nil {
		return cause
	}
	hint := "nothing was kept, since the command used too little CPU to be sampled"
	switch {
	case kept > 0 && runs[0].failed():
		hint = "its profile was kept all the same, marked as failed"
	case kept > 0:
		hint = fmt.Sprintf("the %s before it %s kept", plural(kept, "run"), wasWere(kept))
	case o.timeout > 0 && failed.run.timedOut:
		hint = "give more time with --timeout"
	}
	return fail(failed.code(), errors.New(reason), hint)
}

// findCommand fails as a shell does when the command cannot be run, before anything is set up for it.
func (o *recordOptions) findCommand() error {
	err := o.app.findWorkload(o.work, &o.sampling)
	var typed *failure
	if errors.As(err, &typed) {
		code := exitCannotRun
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			code = exitNotFound
		}
		return fail(code, typed.err, typed.hint)
	}
	return nil
}

// findProgram returns a usage error if name is no program that could be executed.
func (a *app) findProgram(name string) error {
	var err error
	if strings.ContainsRune(name, '/') {
		_, err = exec.LookPath(name)
	} else {
		_, err = a.lookPath(name)
	}
	if err == nil {
		return nil
	}
	var inner *exec.Error
	if errors.As(err, &inner) {
		err = fmt.Errorf("%s: %w", name, inner.Err)
	}
	hint := "check the name and the PATH"
	switch {
	case strings.ContainsAny(name, " |;&<>"):
		hint = fmt.Sprintf("a command line for the shell goes as: -- sh -c '%s'", name)
	case errors.Is(err, os.ErrPermission):
		hint = "make it executable: chmod +x " + name
	default:
		if info, statErr := os.Stat(name); statErr == nil && !info.IsDir() && !strings.ContainsRune(name, '/') {
			hint = "did you mean ./" + name + "?"
		}
	}
	return usageError(hint, "run %w", err)
}

// vacantDirectory tells early that a recording cannot be written there.
func vacantDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return usageError("choose another directory with -o", "write recording %s: it is not a directory", dir)
	}
	return usageError("choose another directory with -o, or remove this one", "write recording %s: it exists already", dir)
}

// recordingError gives an error about writing a recording its exit code: the disk's fault, unless
// something is in the way that the user chose.
func recordingError(err error) error {
	if errors.Is(err, baseline.ErrExists) {
		return fail(exitUsage, err, "")
	}
	return fail(exitEnvironment, err, "")
}

// inputError gives an error about reading what the user named its exit code.
func inputError(err error) error { return fail(exitUsage, err, "") }

// missingError does so for recordings, and tells where the runs are when a killed tollgate left them
// beside the name.
func missingError(err error, paths ...string) error {
	for _, path := range paths {
		if _, statErr := os.Stat(path); !errors.Is(statErr, os.ErrNotExist) {
			continue
		}
		if left := baseline.Abandoned(filepath.Clean(path)); len(left) > 0 {
			newest := left[len(left)-1]
			return fail(exitUsage, err, fmt.Sprintf("its recording was killed; the completed runs are in %s: name that instead, or keep them with: %s",
				newest, commandLine([]string{"mv", newest, path})))
		}
	}
	return inputError(err)
}

// warnOfAbandoned tells where killed recordings to the same place left their runs, and how to use them.
func (p *progress) warnOfAbandoned(w *baseline.Writer) {
	for _, dir := range w.Abandoned {
		p.warn("an earlier recording to this place was killed; its completed runs are in %s, which tollgate diff reads as it is and mv gives a name", dir)
	}
}

// fewSamples is where a warning about them begins: a function of 5 % has 10 samples then.
const fewSamples = 200

// summarize says in a few lines what was recorded.
func (o *recordOptions) summarize(p *progress, runs []measuredRun) {
	var total baseline.Accounting
	others := map[string]float64{}
	for _, run := range runs {
		total.WallSeconds += run.info.WallSeconds
		total.CPUSeconds += run.info.CPUSeconds
		total.SampledSeconds += run.info.SampledSeconds
		total.TargetSamples += run.info.TargetSamples
		total.Complete += run.info.Complete
		total.Lost += run.info.Lost
		total.Unsymbolized += run.info.Unsymbolized
		total.CollectorCPUSeconds += run.info.CollectorCPUSeconds
		for _, other := range run.info.Others {
			others[other.Comm] += other.CPUSeconds
		}
	}
	p.note("%s of %s, %s wall", plural(len(runs), "run"), o.name, seconds(total.WallSeconds))
	agreement := ""
	if total.CPUSeconds > 0 && total.TargetSamples >= 100 {
		agreement = fmt.Sprintf(" (%+.1f %%)", 100*(total.SampledSeconds/total.CPUSeconds-1))
	}
	p.note("  CPU      %s exact, %s by samples%s", seconds(total.CPUSeconds), seconds(total.SampledSeconds), agreement)
	if total.TargetSamples == 0 {
		p.warn("no samples: the command used too little CPU, or waited most of the time; nothing can be compared")
	} else {
		line := fmt.Sprintf("  samples  %d at %d Hz, %s with complete stacks, %d lost", total.TargetSamples, o.frequency,
			percent(total.Complete, total.TargetSamples), total.Lost)
		if total.Unsymbolized > 0 {
			line += fmt.Sprintf(", %s without a name", percent(total.Unsymbolized, total.TargetSamples))
		}
		p.note("%s", line)
		if mean := total.TargetSamples / uint64(len(runs)); mean < fewSamples {
			p.warn("%s a run are too few to tell much; let the command do more work", plural(int(mean), "sample"))
		}
	}
	delete(others, "tollgate") // the collector, which is told apart
	line := "the collector " + seconds(total.CollectorCPUSeconds)
	if busy := topConsumers(others, 3, 0.01*total.WallSeconds); busy != "" {
		line = busy + ", " + line
	}
	p.note("  others   %s", line)
	p.note("  kept in  %s", o.output)
	if total.TargetSamples > 0 {
		p.note("look at it with: go tool pprof -top -relative_percentages -tagfocus=target=. %s", filepath.Join(o.output, "run-001.pb.gz"))
	}
}

// topConsumers renders the n largest CPU users that took at least floor seconds.
func topConsumers(cpu map[string]float64, n int, floor float64) string {
	names := make([]string, 0, len(cpu))
	for name, t := range cpu {
		if t >= floor {
			names = append(names, name)
		}
	}
	sort.Slice(names, func(i, j int) bool {
		if cpu[names[i]] != cpu[names[j]] {
			return cpu[names[i]] > cpu[names[j]]
		}
		return names[i] < names[j]
	})
	if len(names) > n {
		names = names[:n]
	}
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %s", oneLine(name), seconds(cpu[name]))
	}
	return strings.Join(parts, ", ")
}

func percent(part, whole uint64) string {
	if part == whole {
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// plural renders a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func wasWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
