package suite

import (
	"fmt"
	"reflect"

	"github.com/tollgate-dev/tollgate/diff"
)

// Statistics are the constants of the decision beyond the thresholds. Names
// and meaning are those of diff.Options; nil is diff's default.
type Statistics struct {
	FunctionBudget *Fraction `yaml:"function_budget" min:"0" max:"0.5"`
	GroupBudget    *Fraction `yaml:"group_budget" min:"0" max:"0.5"`
	TotalBudget    *Fraction `yaml:"total_budget" min:"0" max:"0.5"`

	MinShare    *Fraction `yaml:"min_share" min:"0" max:"0.5"`
	Confidence  *Fraction `yaml:"confidence" min:"0.5" max:"0.9999"`
	FutilityP   *Fraction `yaml:"futility_p" min:"0" max:"1"`
	PowerTarget *Fraction `yaml:"power_target" min:"0.5" max:"0.9999"`

	ReferenceTrim     *Fraction `yaml:"reference_trim" min:"0" max:"0.9"`
	ReferenceCap      *Fraction `yaml:"reference_cap" min:"0.001" max:"1"`
	ReferenceMinCount *float64  `yaml:"reference_min_count" min:"0" max:"1e6"`
	ReferenceMoved    *Fraction `yaml:"reference_moved" min:"0" max:"1"`
	ReferenceShift    *Fraction `yaml:"reference_shift" min:"0" max:"10"`

	CoverIncrease *Fraction `yaml:"cover_increase" min:"0" max:"1"`
	CoverBaseline *Fraction `yaml:"cover_baseline" min:"0" max:"1"`

	RenameCosine *Fraction `yaml:"rename_cosine" min:"0" max:"1"`
	RenameRatio  *float64  `yaml:"rename_ratio" min:"1" max:"1e6"`

	LayoutVariance *float64 `yaml:"layout_variance" min:"0" max:"1"`

	TrendMinCount *float64  `yaml:"trend_min_count" min:"0" max:"1e6"`
	WinsorLow     *Fraction `yaml:"winsor_low" min:"0" max:"0.5"`
	WinsorHigh    *Fraction `yaml:"winsor_high" min:"0.5" max:"1"`
	NoisyRatio    *float64  `yaml:"noisy_ratio" min:"1" max:"1e6"`
	VarianceFloor *float64  `yaml:"variance_floor" min:"0" max:"100"`

	Looks []Look `yaml:"looks"`
}

// Look is one interim analysis of compare: after so many pairs, spending that
// part of every budget.
type Look struct {
	Pairs int      `yaml:"pairs" min:"1" max:"10000"`
	Spend Fraction `yaml:"spend" min:"0" max:"1"`
}

// checkLooks holds looks to what diff demands of them.
func (d *decoder) checkLooks(looks []Look) {
	sum, previous := 0.0, 0
	for i, look := range looks {
		at := fmt.Sprintf("statistics.looks[%d]", i)
		if look.Pairs <= previous {
			d.reject(join(at, "pairs"), "", "a look after %d pairs follows one after %d", look.Pairs, previous)
		}
		sum, previous = sum+float64(look.Spend), look.Pairs
	}
	if sum > 1+1e-9 {
		d.reject("statistics.looks", "", "the looks spend %s of the budget, must be at most 1", trimFloat(sum))
	}
}

// Options returns the constants of the decision on the suite. Paired, Look and
// Weight are left to the caller, and so are the thresholds per function, which
// Limits resolves. Looks are nil where the file has none.
func (s *Suite) Options() diff.Options {
	var o diff.Options
	if s.statistics != nil {
		from, to := reflect.ValueOf(*s.statistics), reflect.ValueOf(&o).Elem()
		for i := range from.NumField() {
			if field := from.Field(i); field.Kind() == reflect.Pointer && !field.IsNil() {
				put(to.FieldByName(from.Type().Field(i).Name).Addr().Interface().(*float64), field.Elem().Float())
			}
		}
		for _, look := range s.statistics.Looks {
			o.Looks = append(o.Looks, diff.Look{Pairs: look.Pairs, Spend: float64(look.Spend)})
		}
	}
	t := s.Thresholds
	for _, p := range []struct {
		to   *float64
		from *Percent
	}{
		{&o.FailEffect, t.Fail}, {&o.MinEffect, t.Margin}, {&o.RelativeMinEffect, t.RelativeMargin}, {&o.Equivalence, t.Pass},
		{&o.TotalMinEffect, t.Total.Margin}, {&o.TotalEquivalence, t.Total.Pass},
	} {
		if p.from != nil {
			put(p.to, float64(*p.from))
		}
	}
	switch s.Scope.Kind {
	case ScopeTarget, ScopeProcess, ScopeThread:
		o.Scope = diff.ScopeTarget
	case ScopeSystem:
		o.Scope = diff.ScopeAll
	}
	return o
}

// put sets an option. To diff 0 is "not given", and below 0 is zero.
func put(to *float64, value float64) {
	if value == 0 {
		value = -1
	}
	*to = value
}

// totalDefaults returns diff's thresholds of the total.
func totalDefaults(paired bool) (margin, pass float64) {
	if paired {
		return 0.01, 0.03
	}
	o := diff.DefaultOptions()
	return o.TotalMinEffect, o.TotalEquivalence
}

func valueOf[T any](v *T) reflect.Value { return reflect.ValueOf(v).Elem() }
