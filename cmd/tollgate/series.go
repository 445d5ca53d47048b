package main

import (
	"context"
	"fmt"
)

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
