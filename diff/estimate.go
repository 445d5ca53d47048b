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

// newEstimates estimates every function from z. borrow is false where the
// runs share a factor that has not been removed: then functions are not
// independent, and every function has to rely on the larger of its own variance
// and the prior, with its own degrees of freedom.
func newEstimates(m *matrix, z [][]float64, p prior, borrow bool, o Options) []estimate {
	d, scale := m.df(), m.scale()
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
			if w := m.within(z[f]); m.paired && w > o.NoisyRatio*e.prior {
				e.used, e.df = math.Max(e.own, w), d
			}
		default:
			e.prior = p.at(n)
			e.used, e.df = math.Max(e.own, e.prior), d
		}
		e.used = math.Max(e.used, o.VarianceFloor/n)
		e.stdErr = scale * math.Sqrt(e.used)
	}
	return list
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
	return Interval{e.effect(e.ratio - t*e.stdErr), e.effect(e.ratio + t*e.stdErr)}
}

// upper returns the upper bound of the effect at the one-sided level alpha, 0
// when nothing is known about it.
func (e estimate) upper(alpha float64, q quantiles) float64 {
	if e.df <= 0 {
		return 0
	}
	return e.effect(e.ratio + q.upper(alpha, e.df)*e.stdErr)
}

// shifted returns the estimate after adding a log ratio that is itself
// uncertain.
func (e estimate) shifted(ratio, stdErr, df float64) estimate {
	e.ratio += ratio
	e.stdErr = math.Hypot(e.stdErr, stdErr)
	e.df = math.Min(e.df, df)
	return e
}
