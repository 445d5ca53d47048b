package diff

import "math"

// maxPairs is the largest number of pairs worth recommending; more is
// reported as out of reach.
const maxPairs = 100000

// detectable returns the minimum detectable effect of a function,
// m_f + s_f (t_alpha + t_power) * SE, as a fraction of the baseline's total.
// alpha is the level that the function has to meet. 0: unknown.
func (e estimate) detectable(alpha float64, o Options, q quantiles) float64 {
	if e.df <= 0 {
		return 0
	}
	return e.margin + e.share*e.reach(alpha, o, q)*e.stdErr
}

// reach is the distance, in standard errors, from the margin to an effect that
// is found at level alpha with the wanted power.
func (e estimate) reach(alpha float64, o Options, q quantiles) float64 {
	return q.upper(alpha, e.df) + q.upper(1-o.PowerTarget, e.df)
}

// pairs returns the number of pairs that brings the minimum detectable effect
// to Options.Equivalence, 0 when none does: a function of a third of the total
// has a margin as large as that. The quantiles are kept as they are, which
// is on the safe side: they fall as runs are added.
func (e estimate) pairs(alpha float64, o Options, q quantiles) int {
	if e.df <= 0 {
		return 0
	}
	return pairsFor((o.Equivalence-e.margin)/e.share, e.reach(alpha, o, q), e.used)
}

// pairsFor solves q * sqrt(2 variance / R) <= room for R, at least 2.
func pairsFor(room, q, variance float64) int {
	if !(room > 0) {
		return 0
	}
	r := 2 * variance * (q / room) * (q / room)
	if math.IsNaN(r) || r > maxPairs {
		return 0
	}
	return max(2, int(math.Ceil(r)))
}

// detectable fills in the total's minimum detectable effect and the pairs that
// bring it to Options.TotalEquivalence. Where that equals the margin, no number
// of pairs does, and the bound alone has to be met.
func (t *Total) detectable(m *matrix, alpha float64, o Options) {
	if !t.Tested {
		return
	}
	q := upperQuantile(alpha, t.DF) + upperQuantile(1-o.PowerTarget, t.DF)
	margin := math.Log1p(o.TotalMinEffect)
	t.MDE = math.Expm1(math.Min(margin+q*t.StdErr, maxRatio))
	room := math.Log1p(o.TotalEquivalence) - margin
	if !(room > 0) {
		room = math.Log1p(o.TotalEquivalence)
		q = upperQuantile(1-o.Confidence, t.DF) + upperQuantile(1-o.PowerTarget, t.DF)
	}
	deviation := t.StdErr / m.scale()
	t.PairsNeeded = pairsFor(room, q, deviation*deviation)
}
