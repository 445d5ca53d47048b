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

// excuse returns why growth does not count, "" where it does.
func (o Options) excuse(f Function, low float64) string {
	if o.Excuse == nil {
		return ""
	}
	return o.Excuse(f, low)
}
