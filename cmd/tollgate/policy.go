package main

import (
	"fmt"

	"github.com/google/pprof/profile"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/suite"
)

// policy is how runs are judged: by the suite of tollgate.yaml that was chosen, else by the defaults.
type policy struct {
	suite *suite.Suite // nil: the defaults
}

// options adds what the suite says to how the runs were taken.
func (p policy) options(taken diff.Options) diff.Options {
	if p.suite == nil {
		return taken
	}
	o := p.suite.Options()
	o.Paired, o.Look, o.Looks, o.Touched = taken.Paired, taken.Look, taken.Looks, taken.Touched
	if len(p.suite.Thresholds.Functions) > 0 {
		o.Limits = func(f diff.Function) diff.Limits {
			l := p.suite.Thresholds.Limits(f.Name)
			return diff.Limits{
				MinEffect: given(l.Margin), RelativeMinEffect: given(l.RelativeMargin),
				FailEffect: given(l.Fail), Equivalence: given(l.Pass),
			}
		}
	}
	if len(p.suite.Ignore)+len(p.suite.Accept) > 0 {
		o.Excuse = p.excuse
	}
	return o
}

// given turns a threshold, of which zero is zero, into an option, of which zero is the default.
func given(x float64) float64 {
	if x == 0 {
		return -1
	}
	return x
}

// excuse says why growth does not count.
func (p policy) excuse(f diff.Function, low float64) string {
	var accepted *suite.Accept
	switch {
	case f.Name == "":
		accepted = p.suite.AcceptsTotal(low)
	case p.suite.Ignores(f.Name):
		return "ignored by " + suite.FileName
	default:
		accepted = p.suite.Accepts(f.Name, low)
	}
	if accepted == nil {
		return ""
	}
	return fmt.Sprintf("accepted until %s: %s", accepted.Expires, accepted.Reason)
}

// looks are those of a comparison of at most that many pairs.
func (p policy) looks(pairs int) []diff.Look {
	if p.suite == nil {
		return diff.Schedule(pairs)
	}
	var looks []diff.Look
	for _, look := range p.suite.Options().Looks {
		if look.Pairs <= pairs {
			looks = append(looks, look)
		}
	}
	if len(looks) == 0 {
		return diff.Schedule(pairs)
	}
	return looks
}

// profile returns what of a run is judged: all of it, or for a scope that names a process or a thread a
// copy in which only its samples are the target's.
func (p policy) profile(whole *profile.Profile) (judged *profile.Profile, part bool) {
	if p.suite == nil || p.suite.Scope.Kind != suite.ScopeProcess && p.suite.Scope.Kind != suite.ScopeThread {
		return whole, false
	}
	judged = &profile.Profile{
		SampleType: whole.SampleType, DefaultSampleType: whole.DefaultSampleType, PeriodType: whole.PeriodType, Period: whole.Period,
		Mapping: whole.Mapping, Location: whole.Location, Function: whole.Function,
	}
	for _, s := range whole.Sample {
		if p.suite.Scope.Keeps(s.Label) {
			judged.Sample = append(judged.Sample, s)
		}
	}
	return judged, true
}

// runs returns the runs of a recording that did their work, with what is known of each.
func (p policy) runs(r *baseline.Recording) (runs []diff.Run, infos []baseline.RunInfo, err error) {
	for i, info := range r.Manifest.Runs {
		if info.ExitCode != 0 {
			continue
		}
		judged, part := p.profile(r.Profiles[i].Profile)
		run := diff.Run{Profile: judged, CPUSeconds: info.CPUSeconds, Work: info.WorkUnits, Anchor: info.AnchorSeconds, Label: info.File}
		if part {
			run.CPUSeconds = 0 // known for the whole tree only
		}
		runs, infos = append(runs, run), append(infos, info)
	}
	if len(runs) == 0 {
		return nil, nil, usageError("record again once the command succeeds", "compare %s: every run in it failed", r.Source)
	}
	return runs, infos, nil
}
