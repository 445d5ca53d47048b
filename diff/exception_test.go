package diff

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/pprof/profile"
)

// One function of 150 grows by 4 % of the total.
func TestExceptionsOfFunctions(t *testing.T) {
	p := newProgram(150, 20)
	const grown = 4
	name := functionName(grown)
	only := func(f Function, text string) string {
		if f.Name == name {
			return text
		}
		return ""
	}
	for _, tc := range []struct {
		name     string
		options  Options
		verdict  Verdict
		severity Severity // of the finding on the function; empty: there is none
		text     string
	}{
		{"no exception", Options{}, Fail, Fails, ""},
		{"excused", Options{Excuse: func(f Function, _ float64) string { return only(f, "known") }}, Pass, Warns, "known"}, // and with it the total
		{"total excused", Options{Excuse: func(f Function, _ float64) string {
			if f.Name == "" {
				return "known"
			}
			return ""
		}}, Fail, Fails, ""},
		{"excused up to a delta below the interval", Options{Excuse: func(f Function, low float64) string {
			if low <= 0.01 {
				return only(f, "known")
			}
			return ""
		}}, Fail, Fails, ""},
		{"another excused", Options{Excuse: func(f Function, _ float64) string {
			if f.Name == functionName(grown+1) {
				return "known"
			}
			return ""
		}}, Fail, Fails, ""},
		{"fails from 20 % on", Options{Limits: func(f Function) Limits {
			if f.Name == name {
				return Limits{FailEffect: 0.2}
			}
			return Limits{}
		}}, Fail, Warns, "the growth is significant, and smaller than the 20.00 pp that fail the gate"},
		{"margin of 20 %", Options{Limits: func(f Function) Limits {
			if f.Name == name {
				return Limits{MinEffect: 0.2}
			}
			return Limits{}
		}}, Fail, "", ""},
		{"other functions' limits", Options{Limits: func(f Function) Limits {
			if f.Name != name {
				return Limits{MinEffect: 0.2, FailEffect: 0.3}
			}
			return Limits{}
		}}, Fail, Fails, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.options.Paired = true
			b, h := pairs(newRand(77), p, p.with(grown, 0.04), 20)
			r := mustCompare(t, b, h, tc.options)
			if r.Verdict != tc.verdict {
				t.Errorf("verdict is %s (%s), want %s", r.Verdict, r.Reason.Text, tc.verdict)
			}
			severity, text := Severity(""), ""
			for _, f := range r.Findings {
				if f.Function == name && f.Group == "" {
					severity, text = f.Severity, f.Text
				}
			}
			if severity != tc.severity || text != tc.text {
				t.Errorf("the finding is %q (%s), want %q (%s)", severity, text, tc.severity, tc.text)
			}
		})
	}
}

// A function that may grow by 4 % needs no tighter bound to pass.
func TestBoundOfAFunctionIsItsOwn(t *testing.T) {
	p := newProgram(60, 10)
	p.noise[0] = 0.3
	b, h := pairs(newRand(78), p, p, 6)
	strict := mustCompare(t, b, h, Options{Paired: true})
	if strict.Verdict != Inconclusive || strict.Functions[0].Name == "" {
		t.Fatalf("a noisy function is %s: %s", strict.Verdict, strict.Reason.Text)
	}
	loose := mustCompare(t, b, h, Options{Paired: true, Limits: func(f Function) Limits {
		if f.Name == functionName(0) {
			return Limits{Equivalence: 1}
		}
		return Limits{}
	}})
	if loose.Reason.Text == strict.Reason.Text {
		t.Errorf("the bound of %s stands against a pass all the same: %s", functionName(0), loose.Reason.Text)
	}
}

// Sums of functions and calling contexts are more than the functions here, and
// have no limits of their own.
func TestMoreGroupsThanFunctions(t *testing.T) {
	run := func(rng *rand.Rand) Run {
		p := &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
			PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1_000_000,
		}
		at := func(name string) *profile.Location {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			p.Function = append(p.Function, f)
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 1}}}
			p.Location = append(p.Location, l)
			return l
		}
		var leaves []*profile.Location
		for l := range 8 {
			leaves = append(leaves, at(fmt.Sprintf("p%d.leaf%d", l/2, l)))
		}
		for c := range 16 {
			caller := at(fmt.Sprintf("c.caller%d", c))
			for _, leaf := range leaves {
				p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{leaf, caller}, Value: []int64{int64(poisson(rng, 100))}})
			}
		}
		return Run{Profile: p, CPUSeconds: 12.8}
	}
	rng := newRand(79)
	var base, head []Run
	for range 6 {
		base, head = append(base, run(rng)), append(head, run(rng))
	}
	asked := false
	r := mustCompare(t, base, head, Options{Paired: true, Limits: func(f Function) Limits {
		asked = true
		return Limits{}
	}})
	// Groups has those for growth and those for shrinking.
	if len(r.Groups) <= 2*len(r.Functions) || !asked {
		t.Errorf("%d groups of %d functions, limits asked for: %v, reference: %+v", len(r.Groups), len(r.Functions), asked, r.Reference)
	}
}
