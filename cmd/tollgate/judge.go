package main

import (
	"errors"
	"fmt"

	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
)

// judgedRuns returns the runs of a recording that did their work, and how many did not.
func judgedRuns(r *baseline.Recording) (runs []diff.Run, failed int, err error) {
	for i, info := range r.Manifest.Runs {
		if info.ExitCode != 0 {
			failed++
			continue
		}
		runs = append(runs, diff.Run{
			Profile:    r.Profiles[i].Profile,
			CPUSeconds: info.CPUSeconds,
			Work:       info.WorkUnits,
			Anchor:     info.AnchorSeconds,
			Label:      info.File,
		})
	}
	if len(runs) == 0 {
		return nil, failed, usageError("record again once the command succeeds",
			"compare %s: every run in it failed", r.Source)
	}
	return runs, failed, nil
}

// judge compares two recordings. Recordings of different suites are an error; a difference of machine
// or event makes the result inconclusive, since nothing can be told from it.
func judge(base, head *baseline.Recording, o diff.Options) (*diff.Result, error) {
	if err := baseline.Comparable(base, head); err != nil {
		if errors.Is(err, baseline.ErrSuite) {
			return nil, inputError(err)
		}
		return incomparable(err), nil
	}
	return judgeRuns(base, head, o)
}

// judgeRuns compares recordings that are known to be comparable.
func judgeRuns(base, head *baseline.Recording, o diff.Options) (*diff.Result, error) {
	baseRuns, baseFailed, err := judgedRuns(base)
	if err != nil {
		return nil, err
	}
	headRuns, headFailed, err := judgedRuns(head)
	if err != nil {
		return nil, err
	}
	if o.Paired && len(baseRuns) != len(headRuns) {
		return nil, usageError("leave --paired out", "pair %d runs of %s with %d of %s",
			len(baseRuns), base.Source, len(headRuns), head.Source)
	}
	result, err := diff.Compare(baseRuns, headRuns, o)
	if errors.Is(err, diff.ErrNoSamples) {
		return nil, fail(exitInconclusive, err, "the command used too little CPU to be sampled; let it do more work, or raise --frequency")
	}
	if err != nil {
		return nil, fail(exitUsage, err, "")
	}
	for _, side := range []struct {
		recording *baseline.Recording
		failed    int
	}{{base, baseFailed}, {head, headFailed}} {
		if side.failed > 0 {
			result.Warnings = append(result.Warnings, diff.Warning{
				Code: "failed-runs",
				Text: fmt.Sprintf("%s of %s ended with an error and %s left out", plural(side.failed, "run"), side.recording.Source, wasWere(side.failed)),
			})
		}
	}
	return result, nil
}

// incomparable is the result of a comparison that must not be made.
func incomparable(cause error) *diff.Result {
	hint := ""
	var hinter interface{ Hint() string }
	if errors.As(cause, &hinter) {
		hint = hinter.Hint()
	}
	text := cause.Error()
	var env *baseline.EnvError
	if errors.As(cause, &env) {
		text = env.Error()
	}
	return &diff.Result{
		Verdict:  diff.Inconclusive,
		Reason:   diff.Reason{Code: diff.ReasonNotComparable, Text: text},
		Stop:     diff.StopExhausted,
		Warnings: []diff.Warning{{Code: "environment", Text: text, Hint: hint}},
	}
}

// verdictCode is the exit code of a verdict.
func verdictCode(v diff.Verdict) error {
	switch v {
	case diff.Pass:
		return nil
	case diff.Fail:
		return silent(exitRegression)
	default:
		return silent(exitInconclusive)
	}
}
