package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/capture"
)

// anchorFresh is how old a measurement of the calibration kernel may be to count as taken beside the
// run that follows it.
const anchorFresh = 500 * time.Millisecond

// bench runs commands under one collector, one after another.
type bench struct {
	app      *app
	options  *sampling
	client   *capture.Client
	progress *progress
	anchor   *anchor

	anchorAt   time.Time // of the last measurement
	anchorTime float64   // its CPU-seconds
}

// measuredRun is a run of the measured command that ended, well or not.
type measuredRun struct {
	info     baseline.RunInfo
	profile  []byte // gzipped pprof
	timedOut bool
}

// errInterrupted ends a series of runs after Ctrl-C or a request to terminate.
var errInterrupted = fail(exitInterrupted, errors.New("interrupted"), "")

// openBench starts the collector. From its return on this process is the invoking user's, also under
// `sudo tollgate`.
func (a *app) openBench(ctx context.Context, options *sampling, p *progress) (*bench, error) {
	who, err := a.sudoInvoker()
	if err != nil {
		return nil, err
	}
	command, err := a.collectorCommand()
	if err != nil {
		return nil, err
	}
	p.busy("starting the collector")
	defer p.end()
	client, err := capture.Dial(ctx, capture.DialOptions{
		Options: capture.Options{
			Event:     options.event,
			Frequency: options.frequency,
			DebugDirs: options.debugDirs,
			Progress:  p.collector,
		},
		Command: command,
		Env:     a.env,
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
		return nil, explainSudo(ctx, command, collectorError(err))
	}
	if err := a.drop(who); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &bench{app: a, options: options, client: client, progress: p, anchor: newAnchor()}, nil
}

func (b *bench) close() {
	if err := b.client.Close(); err != nil {
		b.progress.warn("%v", err)
	}
}

// collector shows what the collector is busy with.
func (p *progress) collector(at capture.Progress) {
	switch at.Stage {
	case capture.StageTables:
		p.within("building tables for " + filepath.Base(at.Object))
	case capture.StageSymbols:
		p.within(fmt.Sprintf("symbols of %d/%d files", at.Done, at.Total))
	default:
		p.within("")
	}
}

// measure runs command once. A command that fails is a run with a code, not an error; an end by
// Ctrl-C is errInterrupted, with the run as far as it came.
func (b *bench) measure(ctx context.Context, w workload) (measuredRun, error) {
	if ctx.Err() != nil {
		return measuredRun{}, errInterrupted
	}
	before, err := b.anchorBefore()
	if err != nil {
		return measuredRun{}, fail(exitEnvironment, err, "")
	}
	if err := rewind(b.app.stdin); err != nil {
		return measuredRun{}, fail(exitEnvironment, fmt.Errorf("rewind standard input: %w", err), "")
	}
	output, err := b.openOutput(w)
	if err != nil {
		return measuredRun{}, err
	}
	defer output.close()
	start := time.Now()
	// The client waits for the command after a signal; its context must not end with the signal.
	result, err := b.client.Run(context.WithoutCancel(ctx), capture.Command{
		Args:    w.command,
		Dir:     w.dir,
		Env:     b.app.env,
		Stdin:   fileOf(b.app.stdin),
		Stdout:  output.stdout(b),
		Stderr:  fileOf(b.app.stderr),
		Timeout: b.options.timeout,
	})
	if err != nil {
		if result.Interrupted != 0 || ctx.Err() != nil {
			return measuredRun{}, errInterrupted
		}
		return measuredRun{}, collectorError(err)
	}
	after, err := b.anchorAfter()
	if err != nil {
		return measuredRun{}, fail(exitEnvironment, err, "")
	}
	run := measuredRun{
		profile:  result.Profile,
		timedOut: result.TimedOut,
		info: baseline.RunInfo{
			Time:          start.UTC(),
			ExitCode:      result.ExitCode,
			Signal:        result.Signal,
			AnchorSeconds: (before + after) / 2,
			Accounting:    accounting(result.Stats),
		},
	}
	// From start to end of the command, without the collector's part around it.
	run.info.WallSeconds = result.Wall.Seconds()
	if err := output.count(b, w, &run); err != nil {
		return measuredRun{}, err
	}
	if result.Interrupted != 0 || ctx.Err() != nil {
		return run, errInterrupted
	}
	return run, nil
}

func (b *bench) anchorBefore() (float64, error) {
	if time.Since(b.anchorAt) < anchorFresh {
		return b.anchorTime, nil
	}
	return b.anchorAfter()
}

func (b *bench) anchorAfter() (float64, error) {
	t, err := b.anchor.measure()
	b.anchorTime, b.anchorAt = t, time.Now()
	return t, err
}

// commandStdout is where the measured command writes: nowhere if the user said so.
func (b *bench) commandStdout() *os.File {
	if b.options.discard {
		return nil
	}
	return fileOf(b.app.stdout)
}

// yields reports whether the measured command may write to the terminal that progress uses.
func (b *bench) yields() bool {
	return sameTerminal(b.app.stderr, b.app.stdout) && !b.options.discard
}

// failed reports whether the command did not do its work.
func (r *measuredRun) failed() bool { return r.info.ExitCode != 0 || r.timedOut }

// why says how a failed command ended, as in "exit code 3".
func (r *measuredRun) why(timeout time.Duration) string {
	switch {
	case r.timedOut:
		return fmt.Sprintf("it took longer than %s and was ended", timeout)
	case r.info.Signal != "":
		return "it was ended by " + r.info.Signal
	default:
		return fmt.Sprintf("it ended with exit code %d", r.info.ExitCode)
	}
}

// fileOf returns the file behind a stream, which is what a command can inherit; nil for others, which
// only tests have.
func fileOf(stream any) *os.File {
	file, _ := stream.(*os.File)
	return file
}

// rewind gives every run the same standard input where that can be done: where it is a file.
func rewind(stdin io.Reader) error {
	file := fileOf(stdin)
	if file == nil {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		_, err = file.Seek(0, io.SeekStart)
	}
	return err
}

func accounting(s capture.Stats) baseline.Accounting {
	others := make([]baseline.Consumer, len(s.Others))
	for i, o := range s.Others {
		others[i] = baseline.Consumer{Comm: o.Comm, CPUSeconds: o.CPUSeconds}
	}
	return baseline.Accounting{
		WallSeconds:         s.WallSeconds,
		CPUSeconds:          s.CPUSeconds,
		UserSeconds:         s.UserSeconds,
		SystemSeconds:       s.SystemSeconds,
		SampledSeconds:      s.SampledSeconds,
		Samples:             s.Samples,
		TargetSamples:       s.TargetSamples,
		Lost:                s.Lost,
		Complete:            s.Complete,
		CompletedLater:      s.CompletedLater,
		Truncated:           s.Truncated,
		Unsymbolized:        s.Unsymbolized,
		Unreadable:          s.Unreadable,
		OutstandingThreads:  s.OutstandingThreads,
		StealSeconds:        s.StealSeconds,
		CollectorCPUSeconds: s.CollectorCPUSeconds,
		ContextSwitches:     baseline.ContextSwitches(s.ContextSwitches),
		Others:              others,
	}
}

// collectorError gives an error of package capture its exit code. A command that cannot be started is
// a mistake in the command line; record turns it into what a shell returns.
func collectorError(err error) error {
	var typed *capture.Error
	if !errors.As(err, &typed) {
		return fail(exitEnvironment, err, "")
	}
	switch typed.Code {
	case capture.CodeRequest, capture.CodeCommand:
		return fail(exitUsage, err, typed.Hint)
	}
	hint := typed.Hint
	if hint == "" {
		hint = "tollgate doctor shows what is missing"
	}
	return fail(exitEnvironment, err, hint)
}

// header describes a recording that is about to be made of a workload.
func (b *bench) header(ctx context.Context, w workload) (baseline.Manifest, error) {
	env, err := baseline.CurrentEnv(baseline.Toolchain(ctx, w.command, w.where()))
	if err != nil {
		return baseline.Manifest{}, fail(exitEnvironment, err, "")
	}
	m := baseline.Manifest{
		ToolVersion:   toolVersion(),
		Suite:         b.options.name,
		Command:       w.command,
		Time:          time.Now().UTC(),
		Env:           env,
		Frequency:     b.options.frequency,
		Event:         b.options.event,
		Warmup:        b.options.warmup,
		RequestedRuns: b.options.runs,
	}
	switch git, err := baseline.ReadGit(ctx, w.where()); {
	case err == nil:
		m.Commit, m.Branch, m.Dirty = git.Commit, git.Branch, git.Dirty
	case !errors.Is(err, baseline.ErrNoGit):
		b.progress.warn("%v", err)
	}
	return m, nil
}
