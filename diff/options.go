package diff

import (
	"fmt"
	"math"
)

// Scope says which samples of a profile are judged.
type Scope uint8

const (
	// ScopeAuto judges the samples labelled "target" on a side where any run
	// has such samples, and every sample otherwise.
	ScopeAuto Scope = iota
	// ScopeTarget judges the samples labelled "target" only.
	ScopeTarget
	// ScopeAll judges every sample of the machine.
	ScopeAll
)

// TouchedWeight is the weight of functions that the change under test touches,
// and of their call neighbours.
const TouchedWeight = 5

// Options holds every constant of the decision. The zero value of a field
// means its default, which DefaultOptions shows; a negative number means zero
// where zero is meaningful (margins, winsorising, futility). Effects are
// fractions: of the baseline's total CPU unless said otherwise.
type Options struct {
	// Paired tells that base[i] and head[i] ran next to each other on one
	// machine: differences are taken pair by pair. Needs as many base runs as
	// head runs.
	Paired bool

	// Scope and SampleType select what is counted. SampleType "" prefers
	// "samples", then any type that measures CPU.
	Scope      Scope
	SampleType string

	// Look is the 1-based position in Looks of a sequential comparison; 0
	// spends the whole budget at once.
	Look  int
	Looks []Look

	// Weight gives the prior weight of a function in the Benjamini-Hochberg
	// procedure (TouchedWeight for functions touched by the change); nil is 1
	// for all. Weights are renormalised to mean 1 over the tested functions.
	Weight func(Function) float64

	// Touched tells the functions that the change under test touches, by
	// canonical name, file and line. They and their direct callers and callees
	// get TouchedWeight, on top of Weight. Count has to be given it too: only
	// whole stacks show all neighbours.
	Touched func(Function) bool

	// Limits, where set, gives functions thresholds of their own. It is asked by
	// canonical name.
	Limits func(Function) Limits
	// Excuse, where set, says in a clause why the growth of a function does not
	// count, "" where it does. low is the low end of the interval of its effect.
	// Excused growth is reported as a warning, and its bound does not stand
	// against a pass. The Function of a group has only the group's name, that of
	// the total is zero.
	Excuse func(f Function, low float64) string

	// MinEffect (0.0025) and RelativeMinEffect (0.03, of the function's own
	// cost) make the margin m_f = max(MinEffect, RelativeMinEffect*s_f) that
	// a function has to exceed significantly.
	MinEffect         float64
	RelativeMinEffect float64
	// FailEffect (0.005) is the estimated effect from which a rejected
	// function fails the gate.
	FailEffect float64
	// Equivalence (0.01) is the effect that must be ruled out for every
	// function before the gate passes: epsilon_1.
	Equivalence float64
	// TotalMinEffect and TotalEquivalence are the same two for the total CPU
	// per unit of work: 0.01 and 0.03 when paired, else 0.05 for both.
	TotalMinEffect   float64
	TotalEquivalence float64

	// FunctionBudget (0.007), GroupBudget (0.001) and TotalBudget (0.002) are
	// the false-red rates that the three families of tests may spend per gate.
	// Groups are packages, shared objects, the garbage collector and the
	// kernel, and functions with all that they call.
	FunctionBudget float64
	GroupBudget    float64
	TotalBudget    float64

	// MinShare (0.005) is the pooled mean share from which a function is
	// tested. It says nothing about the difference between the sides, so that
	// the filter costs no error.
	MinShare float64
	// Confidence (0.95) of the reported two-sided intervals and of the
	// simultaneous upper bounds that a pass needs.
	Confidence float64
	// FutilityP (0.02): a sequence stops when no raw p-value is below it.
	FutilityP float64
	// PowerTarget (0.95) is the power at which the minimum detectable effect
	// is stated.
	PowerTarget float64

	// ReferenceTrim (0.30) is the part of the functions, those that moved
	// most, that is left out of the reference set; ReferenceCap (0.05) is the
	// most that one function weighs in it, as a part of all samples.
	// ReferenceMinCount (5) is the mean count from which a function is a
	// candidate.
	ReferenceTrim     float64
	ReferenceCap      float64
	ReferenceMinCount float64
	// ReferenceMoved (0.40) is the part of the weight that may have moved by
	// more than ReferenceShift (0.10 of a function's own cost; code layout
	// alone moves functions by 5-10 %) before the reference set is given up.
	ReferenceMoved float64
	ReferenceShift float64

	// CoverIncrease (0.80) is the part of a function's growth that a calling
	// context has to cover to explain it, CoverBaseline (0.50) the most that
	// it may hold of the function's baseline samples: a frame that is on every
	// stack explains nothing.
	CoverIncrease float64
	CoverBaseline float64

	// LayoutVariance (0.0001) is the variance that another layout of the same
	// code gives the log cost of a function, times its share of the total: 10 %
	// of the cost of a function of 1 %, 3.5 % of one of 8 %, as relinking SQLite
	// in another order with another alignment showed. It counts for functions
	// that the change does not touch (see Touched) in objects that were rebuilt.
	LayoutVariance float64

	// RenameCosine (0.80) is the least similarity of the callers and callees
	// of a function under another name, RenameRatio (2) the most that its share
	// may differ by.
	RenameCosine float64
	RenameRatio  float64

	// TrendMinCount (10) is the mean count from which a function takes part
	// in the fit of the variance trend.
	TrendMinCount float64
	// WinsorLow (0.05) and WinsorHigh (0.90) are the quantiles at which
	// residuals of the trend are clamped. Negative WinsorLow: no clamping
	// below; WinsorHigh 1: none above.
	WinsorLow, WinsorHigh float64
	// NoisyRatio (3): a function whose own variance is above this multiple of
	// its prior keeps its own variance and degrees of freedom.
	NoisyRatio float64
	// VarianceFloor (0.25) is the least variance of a log count, as a multiple
	// of the sampling limit 1/n. Runs that agree better than that agree by
	// chance, or are copies.
	VarianceFloor float64
}

// Look is one interim analysis of a sequence: after how many pairs, and which
// part of every budget it spends. The parts of a sequence add up to 1.
type Look struct {
	Pairs int     `json:"pairs"`
	Spend float64 `json:"spend"`
}

// DefaultOptions returns the documented defaults, for unpaired runs and one
// look.
func DefaultOptions() Options {
	o, _ := Options{}.normalised()
	return o
}

// normalised fills in defaults and checks ranges.
func (o Options) normalised() (Options, error) {
	if o.TotalMinEffect == 0 {
		o.TotalMinEffect = 0.05
		if o.Paired {
			o.TotalMinEffect = 0.01
		}
	}
	if o.TotalEquivalence == 0 {
		o.TotalEquivalence = 0.05
		if o.Paired {
			o.TotalEquivalence = 0.03
		}
	}
	fields := []struct {
		name     string
		value    *float64
		standard float64
		max      float64
	}{
		{"MinEffect", &o.MinEffect, 0.0025, 1},
		{"RelativeMinEffect", &o.RelativeMinEffect, 0.03, 10},
		{"FailEffect", &o.FailEffect, 0.005, 1},
		{"Equivalence", &o.Equivalence, 0.01, 1},
		{"TotalMinEffect", &o.TotalMinEffect, 0, 10},
		{"TotalEquivalence", &o.TotalEquivalence, 0, 10},
		{"FunctionBudget", &o.FunctionBudget, 0.007, 1},
		{"GroupBudget", &o.GroupBudget, 0.001, 1},
		{"TotalBudget", &o.TotalBudget, 0.002, 1},
		{"MinShare", &o.MinShare, 0.005, 1},
		{"Confidence", &o.Confidence, 0.95, 0.9999},
		{"FutilityP", &o.FutilityP, 0.02, 1},
		{"PowerTarget", &o.PowerTarget, 0.95, 0.9999},
		{"ReferenceTrim", &o.ReferenceTrim, 0.30, 0.9},
		{"ReferenceCap", &o.ReferenceCap, 0.05, 1},
		{"ReferenceMinCount", &o.ReferenceMinCount, 5, math.Inf(1)},
		{"ReferenceMoved", &o.ReferenceMoved, 0.40, 1},
		{"ReferenceShift", &o.ReferenceShift, 0.10, math.Inf(1)},
		{"CoverIncrease", &o.CoverIncrease, 0.80, 1},
		{"CoverBaseline", &o.CoverBaseline, 0.50, 1},
		{"LayoutVariance", &o.LayoutVariance, 0.0001, 1},
		{"RenameCosine", &o.RenameCosine, 0.80, 1},
		{"RenameRatio", &o.RenameRatio, 2, math.Inf(1)},
		{"TrendMinCount", &o.TrendMinCount, 10, math.Inf(1)},
		{"WinsorLow", &o.WinsorLow, 0.05, 0.5},
		{"WinsorHigh", &o.WinsorHigh, 0.90, 1},
		{"NoisyRatio", &o.NoisyRatio, 3, math.Inf(1)},
		{"VarianceFloor", &o.VarianceFloor, 0.25, 100},
	}
	for _, f := range fields {
		if *f.value == 0 {
			*f.value = f.standard
		}
		*f.value = math.Max(*f.value, 0)
		if math.IsNaN(*f.value) || *f.value > f.max {
			return o, fmt.Errorf("check options: %s is %v, must be at most %v", f.name, *f.value, f.max)
		}
	}
	if o.Confidence < 0.5 {
		return o, fmt.Errorf("check options: Confidence is %v, must be at least 0.5", o.Confidence)
	}
	if o.Equivalence < o.MinEffect {
		return o, fmt.Errorf("check options: Equivalence %v is below MinEffect %v", o.Equivalence, o.MinEffect)
	}
	if o.TotalEquivalence < o.TotalMinEffect {
		return o, fmt.Errorf("check options: TotalEquivalence %v is below TotalMinEffect %v", o.TotalEquivalence, o.TotalMinEffect)
	}
	return o, o.checkLooks()
}

func (o Options) checkLooks() error {
	if o.Look == 0 {
		return nil
	}
	if o.Look < 0 || o.Look > len(o.Looks) {
		return fmt.Errorf("check options: look %d of %d", o.Look, len(o.Looks))
	}
	sum, previous := 0.0, 0
	for i, look := range o.Looks {
		if look.Pairs <= previous || !(look.Spend >= 0) {
			return fmt.Errorf("check options: look %d: %d pairs spending %v after %d pairs", i+1, look.Pairs, look.Spend, previous)
		}
		sum, previous = sum+look.Spend, look.Pairs
	}
	if sum > 1+1e-9 {
		return fmt.Errorf("check options: the looks spend %v of the budget, must be at most 1", sum)
	}
	return nil
}

// spend is the part of every budget that this comparison may use.
func (o Options) spend() float64 {
	if o.Look == 0 {
		return 1
	}
	return o.Looks[o.Look-1].Spend
}

// looks is the number of comparisons of the sequence, 1 without one.
func (o Options) looks() int {
	if o.Look == 0 {
		return 1
	}
	return len(o.Looks)
}
