package diff

import "math"

// estimate is what the runs say about one function, on the log scale.
type estimate struct {
	ratio  float64 // d_f, ln of head's cost over base's
	stdErr float64
	df     float64
	own    float64 // variance between runs, of the function itself
	prior  float64 // and of functions of its size
	used   float64 // the moderated one
	share  float64 // s_f of the baseline, > 0
	margin float64 // m_f, a fraction of the baseline's total
}

// medianExcess is how much more the sides' difference of the run factors varies
// than the factors do within a side, as a part of the latter: choosing the
// reference set around a median makes the difference vary as a median does,
// pi/2 times as much as a mean.
const medianExcess = math.Pi/2 - 1

// newEstimates estimates every function from z. borrow is false where the
// runs share a factor that has not been removed: then functions are not
// independent, and every function has to rely on the larger of its own variance
// and the prior, with its own degrees of freedom. noise is what the run factors
// add to the variance of a log count.
func newEstimates(m *matrix, z [][]float64, p prior, noise float64, borrow bool, o Options) []estimate {
	d, scale := m.df(), m.scale()
	noise *= medianExcess * math.Max(p.scale*p.trend.b, 1)
	list := make([]estimate, len(z))
	for f := range z {
		e := &list[f]
		e.ratio, e.own = m.contrast(z[f])
		// The share carries the same half sample as the logs, so that the
		// effect on a function that the baseline lacks comes out as its share
		// of head.
		e.share, _ = m.shares(f, 0.5)
		e.margin = math.Max(o.MinEffect, o.RelativeMinEffect*e.share)
		n := m.count(f) + 0.5
		switch {
		case d <= 0:
			// One run a side: sampling noise is all that can be known.
			e.prior, e.used = 1/n, 1/n
		case borrow:
			e.prior = p.at(n)
			e.used, e.df = p.moderate(e.own, e.prior, d, o.NoisyRatio)
			if m.paired {
				e.keepNoisy(m.within(z[f]), d, o.NoisyRatio)
			}
		default:
			e.prior = p.at(n)
			e.used, e.df = math.Max(e.own, e.prior), d
		}
		e.used = math.Max(e.used, o.VarianceFloor/n)
		e.stdErr = scale * math.Sqrt(e.used+noise)
	}
	if m.machines != nil {
		m.machines.addMachines(m, z, list, o.MinShare)
	}
	return list
}

// keepNoisy keeps the variance of a noisy function by the runs of both sides,
// not by their differences alone: on the few degrees of freedom of paired
// differences a collector that varies tenfold passes for a calm function every
// hundredth time, and is then tested with the certainty of the prior. Once the
// run factors are removed the runs of a pair are next to independent, so that
// the variance within the sides has the degrees of freedom of both; where
// differences vary more than that, theirs stands.
func (e *estimate) keepNoisy(within, d, ratio float64) {
	if within <= ratio*e.prior {
		return
	}
	e.used, e.df = within, 2*d
	if e.own > within {
		e.used, e.df = e.own, d
	}
}

// maxRatio cuts log ratios before they are exponentiated, at a factor of a
// million: quantiles at one degree of freedom would overflow.
const maxRatio = 13.815510557964274

// effect converts a log ratio to a fraction of the baseline's total.
func (e estimate) effect(ratio float64) float64 {
	return e.share * math.Expm1(math.Min(ratio, maxRatio))
}

// grows returns the one-sided p-value of growth beyond the margin.
func (e estimate) grows() float64 {
	if e.df <= 0 {
		return 1
	}
	return upperTail((e.ratio-math.Log1p(e.margin/e.share))/e.stdErr, e.df)
}

// shrinks returns the one-sided p-value of shrinking beyond the margin; 1 for
// a function that is smaller than its margin.
func (e estimate) shrinks() float64 {
	if e.df <= 0 || e.margin >= e.share {
		return 1
	}
	return upperTail((math.Log1p(-e.margin/e.share)-e.ratio)/e.stdErr, e.df)
}

// interval returns the two-sided confidence interval of the effect.
func (e estimate) interval(confidence float64, q quantiles) Interval {
	df := e.df
	if df <= 0 {
		df = manyDF // the error is known from theory, not estimated
	}
	t := q.upper((1-confidence)/2, df)
	return Interval{e.bound(-t), e.bound(t)}
}

// upper returns the upper bound of the effect at the one-sided level alpha, 0
// when nothing is known about it.
func (e estimate) upper(alpha float64, q quantiles) float64 {
	if e.df <= 0 {
		return 0
	}
	return e.bound(q.upper(alpha, e.df))
}

// bound returns the effect t standard errors away. The baseline's share is an
// estimate too, and errs against the ratio: in s(exp(d)-1) = 2 M sinh(d/2) the
// geometric mean M of both sides' costs is independent of d. Its own error, half
// that of d, widens the interval by sqrt(cosh d)/cosh(d/2).
func (e estimate) bound(t float64) float64 {
	d := math.Max(math.Min(e.ratio, maxRatio), -maxRatio)
	middle := e.share * math.Exp(d/2)
	x := d + t*e.stdErr*math.Sqrt(math.Cosh(d))/math.Cosh(d/2)
	return 2 * middle * math.Sinh(math.Max(math.Min(x, 2*maxRatio), -2*maxRatio)/2)
}

// shifted returns the estimate after adding a log ratio that is itself
// uncertain.
func (e estimate) shifted(ratio, stdErr, df float64) estimate {
	e.ratio += ratio
	e.stdErr = math.Hypot(e.stdErr, stdErr)
	e.df = math.Min(e.df, df)
	return e
}
