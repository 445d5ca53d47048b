package diff

import "cmp"

// Limits are thresholds of a single function. Their zero is the value of
// Options of the same name, a negative number is zero.
type Limits struct {
	MinEffect, RelativeMinEffect float64
	FailEffect                   float64
	Equivalence                  float64
}

// limits returns the thresholds that hold for a function. o is normalised.
func (o Options) limits(f Function) Limits {
	l := Limits{o.MinEffect, o.RelativeMinEffect, o.FailEffect, o.Equivalence}
	if o.Limits == nil {
		return l
	}
	own := o.Limits(f)
	return Limits{
		MinEffect:         max(cmp.Or(own.MinEffect, l.MinEffect), 0),
		RelativeMinEffect: max(cmp.Or(own.RelativeMinEffect, l.RelativeMinEffect), 0),
		FailEffect:        max(cmp.Or(own.FailEffect, l.FailEffect), 0),
		Equivalence:       max(cmp.Or(own.Equivalence, l.Equivalence), 0),
	}
}

// withMargins gives the estimates of m's functions the margins of their own.
func (o Options) withMargins(m *matrix, list []estimate) []estimate {
	for f := range list {
		l, e := o.limits(m.functions[f]), &list[f]
		e.margin = max(l.MinEffect, l.RelativeMinEffect*e.share)
	}
	return list
}

// excuse returns why growth does not count, "" where it does.
func (o Options) excuse(f Function, low float64) string {
	if o.Excuse == nil {
		return ""
	}
	return o.Excuse(f, low)
}

// excused is the growth of functions that does not count: a fraction of the
// baseline's total, and part of the total's growth.
func (c *comparison) excused() float64 {
	sum := 0.0
	for _, d := range c.result.Functions {
		if d.Tested && d.Q <= c.result.FunctionAlpha && c.options.excuse(d.Function, d.CI.Low) != "" {
			sum += max(d.Effect, 0)
		}
	}
	return sum
}

// excuseTotal returns why the growth of the total does not count, "" where it
// does.
func (c *comparison) excuseTotal() string {
	low := c.result.Total.CI.Low
	if excuse := c.options.excuse(Function{}, low); excuse != "" {
		return excuse
	}
	if sum := c.excused(); sum > 0 && low-sum <= c.options.TotalMinEffect {
		return "growth that does not count accounts for it"
	}
	return ""
}
