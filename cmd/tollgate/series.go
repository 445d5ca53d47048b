package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tollgate-dev/tollgate/baseline"
)

// take builds the workload and takes a series of it into memory, and into the directory output unless
// that is "". The recording is called source in reports, and purpose, such as "a check", in errors. Runs
// that completed are kept on disk whatever ends the series.
func (b *bench) take(ctx context.Context, w workload, output, source, purpose string) (*baseline.Recording, error) {
	if err := b.build(ctx, w); err != nil {
		return nil, err
	}
	header, err := b.header(ctx, w)
	if err != nil {
		return nil, err
	}
	store := &recorder{recording: &baseline.Recording{Source: source, Manifest: header}, progress: b.progress}
	if output != "" {
		if err := store.create(output); err != nil {
			return nil, err
		}
	}
	_, err = b.series(ctx, w, store.add)
	var failed *commandFailure
	if errors.As(err, &failed) {
		err = fail(exitCommand, fmt.Errorf("%s of %s failed: %s", failed.what, w, failed.run.why(b.options.timeout)),
			purpose+" needs a command that succeeds; try it alone first")
	}
	if keepErr := store.finish(err, ""); err == nil {
		err = keepErr
	}
	return store.recording, err
}

// series runs the workload as often as the options say and hands every completed run to add. It ends with
// the first run that fails (*commandFailure) or is interrupted (errInterrupted), and then returns that
// run beside the error.
func (b *bench) series(ctx context.Context, w workload, add func(measuredRun) error) (measuredRun, error) {
	o := b.options
	for i := range o.warmup {
		what := fmt.Sprintf("warm-up %d/%d", i+1, o.warmup)
		b.progress.begin(b.yields(), "%s", what)
		run, err := b.measure(ctx, w)
		b.progress.end()
		if err != nil {
			return measuredRun{}, err
		}
		if run.failed() {
			return measuredRun{}, &commandFailure{run: run, what: what}
		}
	}
	for i := range o.runs {
		what := fmt.Sprintf("run %d/%d", i+1, o.runs)
		if o.runs > 1 {
			b.progress.begin(b.yields(), "%s", what)
		} else if !b.yields() {
			b.progress.busy("running")
		}
		run, err := b.measure(ctx, w)
		b.progress.end()
		if err != nil {
			return run, err
		}
		if run.failed() {
			return run, &commandFailure{run: run, what: what}
		}
		if err := add(run); err != nil {
			return measuredRun{}, err
		}
	}
	return measuredRun{}, nil
}

// commandFailure ends a series because the measured command did not do its work.
type commandFailure struct {
	run  measuredRun
	what string // which run, for people
}

func (e *commandFailure) Error() string { return e.what + " failed" }

// code is what record returns: the command's own code, or that of timeout(1).
func (e *commandFailure) code() int {
	if e.run.timedOut {
		return exitTimeout
	}
	return e.run.info.ExitCode
}
