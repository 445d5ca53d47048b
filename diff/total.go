package diff

import (
	"math"
	"slices"
)

// contrastTest is a difference of log means with its own variance between
// runs.
type contrastTest struct{ ratio, stdErr, df float64 }

func newContrastTest(m *matrix, x []float64) contrastTest {
	ratio, variance := m.contrast(x)
	if m.machines != nil {
		return m.machines.contrast(ratio, x, m.scale())
	}
	return contrastTest{ratio: ratio, stdErr: m.scale() * math.Sqrt(variance), df: m.df()}
}

// above returns the one-sided p-value of a ratio above bound.
func (c contrastTest) above(bound float64) float64 {
	if c.df <= 0 {
		return 1
	}
	if c.stdErr == 0 {
		if c.ratio > bound {
			return 0
		}
		return 1
	}
	return upperTail((c.ratio-bound)/c.stdErr, c.df)
}

func (c contrastTest) below(bound float64) float64 {
	return contrastTest{-c.ratio, c.stdErr, c.df}.above(-bound)
}

// interval returns the two-sided confidence interval, as a fraction; the zero
// value when nothing is known about it.
func (c contrastTest) interval(confidence float64) Interval {
	if c.df <= 0 {
		return Interval{}
	}
	w := upperQuantile((1-confidence)/2, c.df) * c.stdErr
	return Interval{math.Expm1(c.ratio - w), math.Expm1(math.Min(c.ratio+w, maxRatio))}
}

// newTotal tests the CPU per unit of work: ln(C/W) for what the program costs,
// the run factors of the reference set for what all of it shares. anchors are
// the logarithms of the calibration kernel's times, nil where some run lacks
// one.
func newTotal(m *matrix, factors, anchors []float64, o Options) Total {
	cpu := newContrastTest(m, m.logCPU)
	t := Total{
		Effect: math.Expm1(cpu.ratio), CI: cpu.interval(o.Confidence), StdErr: cpu.stdErr, DF: cpu.df,
		Tested: cpu.df > 0, HasAnchor: anchors != nil,
	}
	t.P = cpu.above(math.Log1p(o.TotalMinEffect))
	t.PImprove = 1
	if o.TotalMinEffect < 1 {
		t.PImprove = cpu.below(math.Log1p(-o.TotalMinEffect))
	}
	if cpu.df > 0 {
		// Bonferroni across looks: a sequence has as many chances to pass.
		bound := cpu.ratio + upperQuantile((1-o.Confidence)/float64(o.looks()), cpu.df)*cpu.stdErr
		t.Upper = math.Expm1(math.Min(bound, maxRatio))
	}
	shared := newContrastTest(m, factors)
	t.ReferenceEffect, t.ReferenceCI = math.Expm1(shared.ratio), shared.interval(o.Confidence)
	if anchors != nil {
		anchor := newContrastTest(m, anchors)
		t.AnchorEffect, t.AnchorCI = math.Expm1(anchor.ratio), anchor.interval(o.Confidence)
		t.AnchorP = math.Min(1, 2*math.Min(anchor.above(0), anchor.below(0)))
		t.AnchorMoved = anchorMoved(cpu, anchor)
	}
	return t
}

// anchorMoved tells whether the calibration kernel accounts for the change of
// the total: it moved the same way by at least half as much, or significantly
// (at 5 %) by at least a quarter. A test against no change alone would blame
// the machine for 5 % of all true slowdowns; an estimate alone would be the
// toy of a noisy kernel.
func anchorMoved(cpu, anchor contrastTest) bool {
	size, towards, p := math.Abs(cpu.ratio), anchor.ratio, anchor.above(0)
	if cpu.ratio < 0 {
		towards, p = -anchor.ratio, anchor.below(0)
	}
	return towards >= size/2 && size > 0 || p < 0.05 && towards >= size/4
}

// drift is how much the reference set itself moved, where that is significantly
// (at 0.5 % on either side) more than margin and is not the machine's doing as
// far as the calibration kernel tells; the zero value otherwise. A function that
// held still while most of the program got faster grew relative to the rest, and
// must not be blamed for it. A drift below the margin cannot make an innocent
// function exceed its own.
func drift(m *matrix, factors, anchors []float64, margin float64) contrastTest {
	x := slices.Clone(factors)
	for r := range anchors {
		x[r] -= anchors[r]
	}
	c := newContrastTest(m, x)
	if math.Min(c.above(math.Log1p(margin)), c.below(-math.Log1p(margin))) > 0.005 {
		return contrastTest{}
	}
	return c
}
