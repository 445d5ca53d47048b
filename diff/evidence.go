package diff

import (
	"cmp"
	"math"
	"slices"
)

// collect turns estimates into the evidence of the result: tests, intervals,
// bounds and detectable effects of all functions, and the total's.
func (c *comparison) collect() {
	m, o := c.matrix, c.options
	res := &Result{
		Advisory: m.df() <= 0, Paired: o.Paired,
		FunctionAlpha: o.FunctionBudget * o.spend(), TotalAlpha: o.TotalBudget * o.spend(),
		Confidence: o.Confidence, Equivalence: o.Equivalence, TotalEquivalence: o.TotalEquivalence,
		Reference: c.reference.Reference,
		Prior:     Prior{A: c.prior.trend.a * c.prior.scale, B: c.prior.trend.b * c.prior.scale, DF: c.prior.df, Functions: c.prior.used},
	}
	c.result = res
	res.Total = newTotal(m, c.reference.factors, c.anchors, o)
	res.Total.Sampled = c.sampled
	res.Total.detectable(m, res.TotalAlpha, o)

	res.Functions = make([]Delta, len(m.functions))
	res.Renames = c.names.renamed
	was := make(map[functionKey]string)
	for from, to := range c.names.former {
		was[functionKey{to, from.kernel}] = from.name
	}
	c.markTouched()
	watched := 0
	for f := range m.functions {
		d := &res.Functions[f]
		d.Function = m.functions[f]
		d.Touched = c.touched != nil && c.touched[f]
		d.Was = was[functionKey{d.Name, d.Kernel}]
		d.ShareBase, d.ShareHead = m.shares(f, 0)
		d.SamplesBase, d.SamplesHead = m.sides(m.n[f])
		pooled := (d.ShareBase*float64(m.base) + d.ShareHead*float64(m.head())) / float64(m.runs())
		d.Tested = pooled >= o.MinShare && !res.Advisory
		if d.Tested {
			res.Tested++
		}
		if math.Max(d.ShareBase, d.ShareHead) >= o.MinShare {
			watched++
		}
	}
	// The bounds of all looks of one function must hold together as well: with
	// fewer functions than looks the looks decide.
	bound := (1 - o.Confidence) / float64(max(watched, o.looks()))
	c.shift = c.unmatched()
	shifted := c.shift.equivalent(o)
	for f := range res.Functions {
		c.fill(&res.Functions[f], f, bound)
		if shifted && c.shift.members[f] {
			res.Functions[f].Shifted, res.Functions[f].domain = true, c.shift
		}
	}
	c.correct()
	c.excuse()
	c.findShifts()
	c.testFamilies()
	c.summarisePower()
}

// fill completes the evidence on one function. bound is the level of its part
// of the simultaneous upper bounds.
func (c *comparison) fill(d *Delta, f int, bound float64) {
	o, e := c.options, c.estimates[f]
	grown, shrunk := c.drifted(e)
	reported := grown
	if e.ratio < 0 {
		reported = shrunk
	}
	d.Effect = reported.effect(reported.ratio)
	d.CI = reported.interval(o.Confidence, c.quantiles)
	d.LogRatio, d.StdErr, d.DF = reported.ratio, reported.stdErr, reported.df
	d.Margin = math.Log1p(e.margin / e.share)
	d.OwnVariance, d.PriorVariance = e.own, e.prior
	d.P, d.Q, d.PImprove, d.QImprove, d.Weight = 1, 1, 1, 1, 1
	// Without an anchor a faster reference may be a faster machine: then the
	// growth relative to it has to be ruled out too.
	d.Upper = e.upper(bound, c.quantiles)
	if c.trusted() {
		d.Upper = grown.upper(bound, c.quantiles)
	}
	if d.Tested {
		d.P, d.PImprove = grown.grows(), shrunk.shrinks()
		d.Weight = math.Max(0, c.weight(f))
		alpha := c.result.FunctionAlpha / float64(c.result.Tested)
		d.MDE = e.detectable(alpha, o, c.quantiles)
		d.PairsNeeded = e.pairs(alpha, o, c.quantiles)
	}
}

// drifted returns the estimates for growth and for shrinking. They differ
// where the reference set itself moved: what held still while most of the
// program got faster has not grown, and what held still while most got slower
// has not shrunk.
func (c *comparison) drifted(e estimate) (grown, shrunk estimate) {
	grown, shrunk = e, e
	switch {
	case c.drift.ratio < 0:
		grown = e.shifted(c.drift.ratio, c.drift.stdErr, c.drift.df)
	case c.drift.ratio > 0:
		shrunk = e.shifted(c.drift.ratio, c.drift.stdErr, c.drift.df)
	}
	return grown, shrunk
}

// correct fills in q-values: one family for growth, one for shrinking.
func (c *comparison) correct() {
	var tested []*Delta
	for f := range c.result.Functions {
		if d := &c.result.Functions[f]; d.Tested {
			tested = append(tested, d)
		}
	}
	p, improve, weights := make([]float64, len(tested)), make([]float64, len(tested)), make([]float64, len(tested))
	for i, d := range tested {
		p[i], improve[i], weights[i] = d.P, d.PImprove, d.Weight
	}
	for i, q := range benjaminiHochberg(p, weights) {
		tested[i].Q = q
	}
	for i, q := range benjaminiHochberg(improve, weights) {
		tested[i].QImprove = q
	}
}

// summarisePower states what the comparison could have found.
func (c *comparison) summarisePower() {
	res := c.result
	var all []float64
	needed, reachable := res.Total.PairsNeeded, res.Total.PairsNeeded > 0 || !res.Total.Tested
	for _, d := range res.Functions {
		if !d.Tested {
			continue
		}
		all = append(all, d.MDE)
		if d.MDE > res.MDE {
			res.MDE, res.MDEFunction = d.MDE, d.Name
		}
		needed = max(needed, d.PairsNeeded)
		reachable = reachable && d.PairsNeeded > 0
	}
	if len(all) > 0 {
		slices.Sort(all)
		res.MDEMedian = median(all)
	}
	if reachable {
		res.PairsNeeded = needed
	}
}

// describe summarises the sides and states doubts about them, and orders
// functions by the size of their effect.
func (c *comparison) describe() {
	res, m := c.result, c.matrix
	res.Base, res.Head = summarise(c.base, m.logCPU[:m.base]), summarise(c.head, m.logCPU[m.base:])
	c.doubtRuns()
	c.doubtFunctions()
	slices.SortStableFunc(res.Functions, func(a, b Delta) int {
		return cmp.Compare(math.Abs(b.Effect), math.Abs(a.Effect))
	})
}

func summarise(runs []observed, logCPU []float64) Side {
	s := Side{Runs: len(runs), Event: runs[0].counts.event, Period: runs[0].counts.period}
	cpu := make([]float64, len(runs))
	seen := make(map[functionKey]bool)
	for i, run := range runs {
		s.Samples += run.counts.total
		cpu[i] = math.Exp(logCPU[i])
		for _, e := range run.counts.entries {
			seen[functionKey{e.Name, e.Kernel}] = true
		}
	}
	s.Functions = len(seen)
	s.CPUSeconds = mean(cpu)
	if len(runs) > 1 {
		sum := 0.0
		for _, v := range cpu {
			sum += (v - s.CPUSeconds) * (v - s.CPUSeconds)
		}
		s.CV = math.Sqrt(sum/float64(len(runs)-1)) / s.CPUSeconds
	}
	return s
}
