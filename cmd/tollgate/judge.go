package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/suite"
)

// judge compares two recordings. Recordings of different suites are an error; a difference of machine
// or event makes the result inconclusive, since nothing can be told from it.
func (p policy) judge(base, head *baseline.Recording, o diff.Options) (*diff.Result, error) {
	if err := baseline.Comparable(base, head); err != nil {
		if errors.Is(err, baseline.ErrSuite) {
			return nil, inputError(err)
		}
		return incomparable(err), nil
	}
	return p.judgeRuns(base, head, o)
}

// judgeRuns compares recordings that are known to be comparable.
func (p policy) judgeRuns(base, head *baseline.Recording, o diff.Options) (*diff.Result, error) {
	baseRuns, baseInfos, err := p.runs(base)
	if err != nil {
		return nil, err
	}
	headRuns, headInfos, err := p.runs(head)
	if err != nil {
		return nil, err
	}
	if o.Paired && len(baseRuns) != len(headRuns) {
		return nil, usageError("leave --paired out", "pair %d runs of %s with %d of %s",
			len(baseRuns), base.Source, len(headRuns), head.Source)
	}
	units, unknown := unitsOfWork(baseInfos, headInfos)
	for i, w := range units {
		if i < len(baseRuns) {
			baseRuns[i].Work = w
		} else {
			headRuns[i-len(baseRuns)].Work = w
		}
	}
	result, err := diff.Compare(baseRuns, headRuns, p.options(o))
	if errors.Is(err, diff.ErrNoSamples) {
		return nil, fail(exitInconclusive, err, "the command used too little CPU to be sampled; let it do more work, or raise --frequency")
	}
	if err != nil {
		return nil, fail(exitUsage, err, "")
	}
	if warning, fixed := suite.FixedTime(head.Command); fixed && units == nil && unknown == nil && uncounted(baseInfos, headInfos) {
		result.Warnings = append(result.Warnings, diff.Warning{Code: "fixed-time", Text: warning})
	}
	if unknown != nil {
		result.Warnings = append(result.Warnings, diff.Warning{
			Code: "no-work", Text: unknown.Error(), Hint: "run the same benchmarks on both sides, with fixed work as in -benchtime=100x",
		})
	}
	for _, side := range []struct {
		recording *baseline.Recording
		failed    int
	}{{base, len(base.Manifest.Runs) - len(baseRuns)}, {head, len(head.Manifest.Runs) - len(headRuns)}} {
		if side.failed > 0 {
			result.Warnings = append(result.Warnings, diff.Warning{
				Code: "failed-runs",
				Text: fmt.Sprintf("%s of %s ended with an error and %s left out", plural(side.failed, "run"), side.recording.Source, wasWere(side.failed)),
			})
		}
	}
	return result, nil
}

// uncounted reports whether every run counts as one unit of work.
func uncounted(sides ...[]baseline.RunInfo) bool {
	for _, runs := range sides {
		if slices.ContainsFunc(runs, func(info baseline.RunInfo) bool { return info.WorkUnits != 1 }) {
			return false
		}
	}
	return true
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
