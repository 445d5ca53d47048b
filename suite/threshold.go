package suite

import (
	"fmt"
	"slices"

	"github.com/tollgate-dev/tollgate/diff"
)

// Thresholds say how much growth matters, in percentage points of the
// baseline's CPU. nil is not given: diff's default holds.
type Thresholds struct {
	// Fail is the growth of a function that fails the gate when it is shown.
	Fail *Percent `yaml:"fail" min:"0" max:"1"`
	// Margin, and RelativeMargin as a part of the function's own cost, is the
	// growth that has to be exceeded significantly: the larger of the two.
	Margin         *Percent `yaml:"margin" min:"0" max:"1"`
	RelativeMargin *Percent `yaml:"relative_margin" min:"0" max:"10"`
	// Pass is the growth that must be ruled out for a pass.
	Pass *Percent `yaml:"pass" min:"0" max:"1"`
	// Total has the same for the CPU per unit of work as a whole.
	Total TotalThresholds `yaml:"total"`
	// Functions are exceptions; the first that matches a function holds.
	Functions []FunctionThresholds `yaml:"functions"`
}

// TotalThresholds are fractions of the baseline's CPU per unit of work.
type TotalThresholds struct {
	Margin *Percent `yaml:"margin" min:"0" max:"10"`
	Pass   *Percent `yaml:"pass" min:"0" max:"10"`
}

// FunctionThresholds replace those of the suite for the functions that the
// pattern selects. What is not given is the suite's.
type FunctionThresholds struct {
	Function       *Pattern `yaml:"function"`
	Fail           *Percent `yaml:"fail" min:"0" max:"1"`
	Margin         *Percent `yaml:"margin" min:"0" max:"1"`
	RelativeMargin *Percent `yaml:"relative_margin" min:"0" max:"10"`
	Pass           *Percent `yaml:"pass" min:"0" max:"1"`
}

// Limits are the thresholds of one function, resolved. They are fractions as
// in diff.Options: zero is zero.
type Limits struct {
	Fail           float64 // diff.Options.FailEffect
	Margin         float64 // diff.Options.MinEffect
	RelativeMargin float64 // diff.Options.RelativeMinEffect
	Pass           float64 // diff.Options.Equivalence
}

// Limits returns the thresholds that hold for a function.
func (t Thresholds) Limits(function string) Limits {
	defaults := diff.DefaultOptions()
	limits := Limits{defaults.FailEffect, defaults.MinEffect, defaults.RelativeMinEffect, defaults.Equivalence}
	limits.replace(t.Fail, t.Margin, t.RelativeMargin, t.Pass)
	for _, f := range t.Functions {
		if f.Function.Matches(function) {
			limits.replace(f.Fail, f.Margin, f.RelativeMargin, f.Pass)
			break
		}
	}
	return limits
}

func (l *Limits) replace(fail, margin, relative, pass *Percent) {
	for _, r := range []struct {
		to   *float64
		from *Percent
	}{{&l.Fail, fail}, {&l.Margin, margin}, {&l.RelativeMargin, relative}, {&l.Pass, pass}} {
		if r.from != nil {
			*r.to = float64(*r.from)
		}
	}
}

// over returns t with what it does not give taken from below. Exceptions of t
// come first.
func (t Thresholds) over(below Thresholds) Thresholds {
	for _, f := range []struct{ to, from **Percent }{
		{&t.Fail, &below.Fail}, {&t.Margin, &below.Margin}, {&t.RelativeMargin, &below.RelativeMargin}, {&t.Pass, &below.Pass},
		{&t.Total.Margin, &below.Total.Margin}, {&t.Total.Pass, &below.Total.Pass},
	} {
		if *f.to == nil {
			*f.to = *f.from
		}
	}
	t.Functions = slices.Concat(t.Functions, below.Functions)
	return t
}

// checkThresholds rejects a pass that is easier than the margin of a failure:
// growth in between would be both.
func (d *decoder) checkThresholds(path string, t Thresholds) {
	const hint = "what passes must be ruled out to grow by more than the margin: raise pass or lower margin"
	limits := t.Limits("")
	if limits.Pass < limits.Margin {
		d.reject(join(path, "pass"), hint, "pass is %s, below margin, which is %s", percent(limits.Pass), percent(limits.Margin))
	}
	for i, f := range t.Functions {
		at := fmt.Sprintf("%s.functions[%d]", path, i)
		if f.Function == nil {
			d.reject(at, "", "an entry needs a function")
			continue
		}
		if own := t.limitsOf(f); own.Pass < own.Margin {
			d.reject(at, hint, "pass of %s is %s, below margin, which is %s", f.Function, percent(own.Pass), percent(own.Margin))
		}
	}
	for _, paired := range []bool{false, true} {
		margin, pass := totalDefaults(paired)
		if t.Total.Margin != nil {
			margin = float64(*t.Total.Margin)
		}
		if t.Total.Pass != nil {
			pass = float64(*t.Total.Pass)
		}
		if pass < margin {
			kind := "against a baseline"
			if paired {
				kind = "in compare"
			}
			d.reject(join(path, "total"), hint, "pass is %s %s, below margin, which is %s", percent(pass), kind, percent(margin))
			return
		}
	}
}

func (t Thresholds) limitsOf(f FunctionThresholds) Limits {
	t.Functions = nil
	limits := t.Limits("")
	limits.replace(f.Fail, f.Margin, f.RelativeMargin, f.Pass)
	return limits
}

func percent(x float64) string { return trimFloat(x*100) + "%" }
