package calibration

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/diff"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// highestFrequency is where the variance between runs prevails over that
	// of sampling: more runs beat more samples from there on.
	highestFrequency = 4999
	// worthFrequency is the part of the pairs that a higher frequency has to
	// save to be worth what it costs.
	worthFrequency = 0.15
	// patientPairs are recommended where nothing else helps, and no more.
	patientPairs = 200
	// excessLevel is the confidence with which a function varies more than
	// others do before that is held against it.
	excessLevel = 0.99
	// mostNeeded stands for out of reach.
	mostNeeded = 100_000
	// enoughPairs can be dealt in more ways than DefaultGates.
	enoughPairs = 10
)

// frequencies are the ones recommended: next to the round numbers, so that
// samples do not march in step with timers.
var frequencies = [...]int{999, 1999, 2999, highestFrequency}

// longer are the multiples of a run's work that are tried where no frequency
// suffices.
var longer = [...]int{1, 2, 3, 5, 10, 20, 50}

// recommend chooses the pairs and the frequency that show the goal in every
// function; where none do, how much more work a run should do; and where that does
// not help, more pairs than usual. The total is left out of it: its noise is that
// of the machine's speed, which next to no number of pairs makes small on a shared
// machine.
func (s *study) recommend(r *diff.Result) {
	rec := Recommendation{Frequency: s.options.Frequency, Work: 1, Why: "no number of pairs is enough"}
	for _, work := range longer {
		if best, ok := s.best(r, work, MostPairs); ok {
			rec = best
			break
		}
	}
	if rec.Pairs == 0 {
		if best, ok := s.best(r, 1, patientPairs); ok {
			rec = best
		}
	}
	rec.Seconds = 2 * float64(rec.Pairs*rec.Work) * s.result.Wall.Mean
	s.result.Recommended = rec
}

// best returns the frequency that takes the fewest pairs, at most that many. A
// higher one has to save what it costs.
func (s *study) best(r *diff.Result, work, most int) (best Recommendation, ok bool) {
	now := s.options.Frequency
	for _, f := range append([]int{now}, frequencies[:]...) {
		if f < now || now == 0 && f > 0 || best.Pairs == LeastPairs {
			continue
		}
		more := float64(work)
		if now > 0 {
			more *= float64(f) / float64(now)
		}
		pairs, why := s.need(r, more)
		if pairs == 0 || pairs > most {
			continue
		}
		if !ok || float64(pairs) <= (1-worthFrequency)*float64(best.Pairs) {
			best, ok = Recommendation{Pairs: pairs, Frequency: f, Work: work, Why: why}, true
		}
	}
	return best, ok
}

// need returns the pairs that show the goal in every function when there are
// more samples of the same work by a factor, and a clause on what decides; 0 where
// nothing is tested.
func (s *study) need(r *diff.Result, more float64) (pairs int, why string) {
	pairs, why = LeastPairs, fmt.Sprintf("%d pairs are the least for a verdict", LeastPairs)
	tested := false
	for _, d := range r.Functions {
		if !d.Tested || !(d.MDE > 0) {
			continue
		}
		tested = true
		if need := s.pairsFor(d, more); need > pairs {
			pairs, why = need, fmt.Sprintf("%s needs most", d.Name)
		}
	}
	if !tested {
		return 0, ""
	}
	return pairs, why
}

// goal returns the regression of a function that should be found: the one that
// must be ruled out for a pass. Close to the margin, which nobody can see below,
// it is twice the margin.
func (s *study) goal(d diff.Delta) float64 {
	return math.Max(s.settled(func(o diff.Options) float64 { return o.Equivalence }), 2*marginOf(d))
}

// marginOf returns the margin of a function as a fraction of the total.
func marginOf(d diff.Delta) float64 { return d.ShareBase * math.Expm1(d.Margin) }

// pairsFor returns the pairs that show the goal. What is above the margin falls
// with the root of the pairs.
func (s *study) pairsFor(d diff.Delta, more float64) int {
	margin := marginOf(d)
	reach := math.Max(d.MDE-margin, 0) / (s.goal(d) - margin)
	need := float64(s.pairs) * reach * reach * shrink(s.excess(d), more)
	return int(math.Ceil(math.Min(need, mostNeeded)))
}

// shrink is what remains of a variance of ratio times the sampling limit when
// there are more samples of the same work: its part above the limit stays, the
// limit falls.
func shrink(ratio, more float64) float64 {
	ratio = math.Max(ratio, 1)
	return (1/more + ratio - 1) / ratio
}

// excess is the variance of a function over the sampling limit. By its own runs
// alone every second function varies more than it does; what chance explains is
// replaced by the median of all, and where chance explains that, by 1.
func (s *study) excess(d diff.Delta) float64 {
	n, df := s.result.Noise, float64(len(s.runs)-2)
	common := math.Max(n.MedianRatio, 1)
	// The variance of a variance is 2/df, that of a median pi/2 times the mean's.
	if common-1 < 2*math.Sqrt(2/df*math.Pi/2/float64(n.Functions)) {
		common = 1
	}
	chance := distuv.ChiSquared{K: df}.Quantile(excessLevel) / df
	if own := s.ratios[key(d)]; own > chance*common {
		return own
	}
	return common
}

// doubt adds what speaks against the calibration itself.
func (s *study) doubt(r *diff.Result) {
	res := s.result
	warn := func(hint, format string, args ...any) {
		res.Warnings = append(res.Warnings, Warning{Text: fmt.Sprintf(format, args...), Hint: hint})
	}
	var open []string
	for _, g := range res.Gates {
		if g.Judged < s.options.Gates {
			warn(fmt.Sprintf("calibrate with %d pairs or more", enoughPairs), "the runs can be dealt to the sides of %s in %d ways only, which bounds its false-red rate by %.1f %%", g.Name, g.Judged, 100*g.High)
		}
		if 2*g.Pass < g.Judged-g.Red {
			open = append(open, g.Name)
		}
	}
	if len(open) > 0 {
		warn("let the program do more work in a run, or take more runs",
			"with %d runs a side, most comparisons of the program with itself by %s do not pass: they stay inconclusive", s.pairs, strings.Join(open, " and "))
	}
	if n := (r.Base.Samples + r.Head.Samples) / float64(len(s.runs)); hasWarning(r, diff.WarnFewSamples) {
		warn("let the program do more work in a run, or sample at a higher frequency", "%.0f samples a run see only large effects", n)
	}
	for _, w := range r.Warnings {
		switch w.Code {
		case diff.WarnAnchorMoved, diff.WarnReferenceMoved, diff.WarnFewRuns:
			// About the difference of two sides, which here is chance.
		case diff.WarnFewSamples:
			// Said already, of both sides at once.
		default:
			warn(w.Hint, "%s", w.Text)
		}
	}
}

func hasWarning(r *diff.Result, code string) bool {
	return slices.ContainsFunc(r.Warnings, func(w diff.Warning) bool { return w.Code == code })
}

// conclude gives the verdict.
func (s *study) conclude() {
	res := s.result
	d := res.Detectable
	budget := s.settled(func(o diff.Options) float64 { return o.FunctionBudget }) +
		s.settled(func(o diff.Options) float64 { return o.GroupBudget }) +
		s.settled(func(o diff.Options) float64 { return o.TotalBudget })
	for _, g := range res.Gates {
		if g.Low > budget {
			res.Verdict = Unsound
			res.Reason = fmt.Sprintf("%s is red for %.1f %% of comparisons of the program with itself, where %.1f %% are allowed.", g.Name, 100*g.Rate, 100*budget)
			return
		}
	}
	switch {
	case res.Noise.Functions == 0:
		res.Verdict = Noisy
		res.Reason = "No function has samples enough to be tested."
	default:
		res.Verdict = Fits
		if rec := res.Recommended; rec.Pairs == 0 || rec.Pairs > MostPairs || rec.Work > 1 {
			res.Verdict = Noisy
		}
		res.Reason = fmt.Sprintf("%d pairs show a regression from %.2f pp in half of the functions, from %.2f pp in all", s.pairs, 100*d.Median, 100*d.Worst)
		if d.Total.Effect > 0 {
			res.Reason += fmt.Sprintf(", and from %.1f %% of the total", 100*d.Total.Effect)
		}
		res.Reason += "."
	}
}
