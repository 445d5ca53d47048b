package diff

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func warned(res *Result, code string) bool {
	return slices.ContainsFunc(res.Warnings, func(w Warning) bool { return w.Code == code })
}

// regressed returns 5 pairs of runs with +2 % in a function of 5 %, which fail.
func regressed(t testing.TB) (base, head []Run) {
	t.Helper()
	p := newProgram(150, 10)
	base, head = pairs(newRand(1), p, p.with(4, 0.02), 5)
	if v := mustCompare(t, base, head, Options{Paired: true}).Verdict; v != Fail {
		t.Fatalf("the regression that the tests build on gives %v", v)
	}
	return base, head
}

// checkFinite fails when a number of the result is NaN or infinite, which JSON
// cannot hold.
func checkFinite(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			t.Errorf("%s is %v", path, v.Float())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			checkFinite(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkFinite(t, path, v.Index(i))
		}
	}
}

func TestOddRunsGiveTheRightWord(t *testing.T) {
	p := newProgram(150, 10)
	foreign := p
	foreign.exact, foreign.anchor = false, false
	unanchored := p
	unanchored.anchor = false
	renamed := func(runs []Run) []Run {
		for _, r := range runs {
			for i := range r.Counts.entries {
				r.Counts.entries[i].Name = "other/" + r.Counts.entries[i].Name
			}
		}
		return runs
	}
	short := func(runs []Run, factor float64) []Run {
		return slices.Collect(func(yield func(Run) bool) {
			for _, r := range runs {
				r.CPUSeconds *= factor
				if !yield(r) {
					return
				}
			}
		})
	}
	empty := Run{Counts: &Counts{event: "cpu", unit: "nanoseconds", period: 1e9 / p.hertz, scope: ScopeAll}}
	single := program{cost: []float64{5}, noise: []float64{0.01}, hertz: 999, exact: true, anchor: true, machine: 0.01}
	for _, tc := range []struct {
		name    string
		runs    func() (base, head []Run)
		options Options
		verdict Verdict
		reason  string
		warning string
	}{
		{"one run a side", func() ([]Run, []Run) { return pairs(newRand(2), p, p.with(4, 0.2), 1) }, Options{}, Inconclusive, ReasonAdvisory, WarnOneRun},
		{"one pair", func() ([]Run, []Run) { return pairs(newRand(2), p, p.with(4, 0.2), 1) }, Options{Paired: true}, Inconclusive, ReasonAdvisory, WarnOneRun},
		{"copies of one run", func() ([]Run, []Run) {
			b, h := pairs(newRand(3), p, p.with(4, 0.2), 1)
			return []Run{b[0], b[0], b[0], b[0]}, []Run{h[0], h[0], h[0], h[0]}
		}, Options{}, Inconclusive, ReasonAdvisory, WarnDuplicateRun},
		{"no common functions", func() ([]Run, []Run) {
			b, h := pairs(newRand(4), p, p, 5)
			return b, renamed(h)
		}, Options{Paired: true}, Inconclusive, ReasonNotComparable, WarnNoCommon},
		{"head did a tenth", func() ([]Run, []Run) {
			b, h := pairs(newRand(5), p, p, 5)
			return b, short(h, 0.1)
		}, Options{Paired: true}, Inconclusive, ReasonNotComparable, WarnLengthDiffers},
		{"a run without samples", func() ([]Run, []Run) {
			b, h := regressed(t)
			return append(b, empty), append(h, h[0])
		}, Options{Paired: true}, Fail, ReasonRegression, WarnNoSamples},
		{"a run of a tenth", func() ([]Run, []Run) {
			b, h := pairs(newRand(6), p, p, 6)
			h[2] = short(h[2:3], 0.1)[0]
			return b, h
		}, Options{Paired: true}, Inconclusive, ReasonWide, WarnUnevenRuns},
		{"foreign profiles, regression", func() ([]Run, []Run) { return pairs(newRand(7), foreign, foreign.with(4, 0.02), 10) }, Options{}, Fail, ReasonRegression, WarnSampledCPU},
		{"foreign profiles, twice as long", func() ([]Run, []Run) { return pairs(newRand(8), foreign, foreign.scaled(2), 10) }, Options{}, Inconclusive, ReasonTotalSampled, WarnSampledCPU},
		{"slower, unpaired and without anchor", func() ([]Run, []Run) { return pairs(newRand(9), unanchored, unanchored.scaled(1.4), 10) }, Options{}, Inconclusive, ReasonUnanchored, WarnNoAnchor},
		{"one function, slower", func() ([]Run, []Run) { return pairs(newRand(10), single, single.scaled(1.2), 10) }, Options{Paired: true}, Fail, ReasonRegression, WarnUnstableReference},
		{"one function, the same", func() ([]Run, []Run) { return pairs(newRand(11), single, single, 20) }, Options{Paired: true}, Inconclusive, ReasonWide, WarnUnstableReference},
		{"one head run against a history", func() ([]Run, []Run) {
			b, h := pairs(newRand(12), p, p.with(4, 0.03), 20)
			return b, h[:1]
		}, Options{}, Fail, ReasonRegression, ""},
		{"one head run like its history", func() ([]Run, []Run) {
			b, h := pairs(newRand(13), p, p, 20)
			return b, h[:1]
		}, Options{}, Inconclusive, ReasonWide, ""},
		{"a function that is new", func() ([]Run, []Run) {
			return pairs(newRand(14), p.with(4, -p.share(4)), p, 10)
		}, Options{Paired: true}, Fail, ReasonRegression, ""},
		{"most functions differ", func() ([]Run, []Run) {
			q := newProgram(150, 10)
			for f := range q.cost {
				q.cost[f] *= 1 + float64(f%2)
			}
			return pairs(newRand(15), p, q, 10)
		}, Options{}, Inconclusive, ReasonMachine, WarnUnstableReference},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base, head := tc.runs()
			if tc.name == "most functions differ" {
				for i := range base {
					base[i].Anchor, head[i].Anchor = 0, 0
				}
			}
			res := mustCompare(t, base, head, tc.options)
			if res.Verdict != tc.verdict || res.Reason.Code != tc.reason {
				t.Errorf("got %v (%s: %s), want %v (%s)", res.Verdict, res.Reason.Code, res.Reason.Text, tc.verdict, tc.reason)
			}
			if tc.warning != "" && !warned(res, tc.warning) {
				t.Errorf("warnings %v, want %s", res.Warnings, tc.warning)
			}
			checkFinite(t, "Result", reflect.ValueOf(*res))
			if res.Advisory && len(res.Findings) > 0 {
				t.Errorf("an advisory result has findings: %v", res.Findings)
			}
		})
	}
}

func TestUnfitInputIsAnError(t *testing.T) {
	p := newProgram(20, 1)
	b, h := pairs(newRand(20), p, p, 3)
	with := func(change func(r *Run)) []Run {
		runs := slices.Clone(b)
		change(&runs[1])
		return runs
	}
	cycles := *b[1].Counts
	cycles.event = "cycles"
	for _, tc := range []struct {
		name       string
		base, head []Run
		options    Options
		want       string
	}{
		{"no base", nil, h, Options{}, "no base runs"},
		{"no head", b, nil, Options{}, "no head runs"},
		{"no profile", []Run{{Label: "x"}}, h, Options{}, "read x: no profile"},
		{"unequal pairs", b[:2], h, Options{Paired: true}, "2 base and 3 head"},
		{"NaN seconds", with(func(r *Run) { r.CPUSeconds = math.NaN() }), h, Options{}, "base run 2: CPU-seconds"},
		{"negative work", with(func(r *Run) { r.Work = -1 }), h, Options{}, "units of work"},
		{"infinite anchor", with(func(r *Run) { r.Anchor = math.Inf(1) }), h, Options{}, "calibration"},
		{"work of some runs", with(func(r *Run) { r.Work = 3 }), h, Options{}, "units of work"},
		{"other event", with(func(r *Run) { r.Counts = &cycles }), h, Options{}, `"cycles"`},
		{"no samples", []Run{{Profile: &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}}}}, h, Options{}, "no samples"},
		{"look out of range", b, h, Options{Look: 2, Looks: []Look{{5, 1}}}, "look 2 of 1"},
		{"overspent", b, h, Options{Look: 1, Looks: []Look{{5, 0.6}, {10, 0.6}}}, "spend"},
		{"NaN option", b, h, Options{MinShare: math.NaN()}, "MinShare"},
		{"bounds crossed", b, h, Options{Equivalence: 0.001}, "Equivalence"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Compare(tc.base, tc.head, tc.options)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if tc.name == "no samples" && !errors.Is(err, ErrNoSamples) {
				t.Errorf("got %v, want ErrNoSamples", err)
			}
		})
	}
}

func TestOrderDoesNotMatter(t *testing.T) {
	base, head := regressed(t)
	want := mustCompare(t, base, head, Options{Paired: true})
	slices.Reverse(base)
	slices.Reverse(head)
	for _, r := range slices.Concat(base, head) {
		slices.Reverse(r.Counts.entries)
	}
	got := mustCompare(t, base, head, Options{Paired: true})
	for i, f := range want.Findings {
		if g := got.Findings[i]; g.Function != f.Function || !near(g.Effect, f.Effect, 1e-9) || !near(g.P, f.P, 1e-6) {
			t.Errorf("finding %d: %+v, in another order %+v", i, f, g)
		}
	}
}

// TestWorkIsDividedOut: twice the work at twice the cost is no regression.
func TestWorkIsDividedOut(t *testing.T) {
	p := newProgram(150, 10)
	b, h := pairs(newRand(30), p, p.scaled(2), 10)
	for i := range b {
		b[i].Work, h[i].Work = 1000, 2000
	}
	res := mustCompare(t, b, h, Options{Paired: true})
	if res.Verdict == Fail || math.Abs(res.Total.Effect) > 0.05 {
		t.Errorf("got %v, total %+v", res.Verdict, res.Total)
	}
}

// TestWeightMovesTheThreshold: a function that the change touches is found
// where it would not be among equals, and weights are renormalised.
func TestWeightMovesTheThreshold(t *testing.T) {
	base, head := regressed(t)
	culprit := functionName(4)
	plain := mustCompare(t, base, head, Options{Paired: true})
	touched := mustCompare(t, base, head, Options{Paired: true, Weight: func(f Function) float64 {
		if f.Name == culprit {
			return TouchedWeight
		}
		return 1
	}})
	q := func(res *Result) float64 {
		for _, d := range res.Functions {
			if d.Name == culprit {
				return d.Q
			}
		}
		return 1
	}
	average := (float64(plain.Tested) + TouchedWeight - 1) / float64(plain.Tested)
	if !near(q(touched), q(plain)/TouchedWeight*average, 1e-9) {
		t.Errorf("q is %v, with weight %v, want it divided by 5 and by the mean weight %v", q(plain), q(touched), average)
	}
}

func TestPairedVarianceIsOfDifferences(t *testing.T) {
	m := &matrix{base: 3, paired: true, totals: ones(6)}
	// Differences 1, 2, 3: variance 1, half of it per run.
	d, v := m.contrast([]float64{10, 20, 30, 11, 22, 33})
	if d != 2 || !near(v, 0.5, 1e-12) || m.df() != 2 {
		t.Errorf("difference %v, variance %v, %v df, want 2, 0.5, 2", d, v, m.df())
	}
	m.paired = false
	if _, v := m.contrast([]float64{1, 2, 3, 11, 13, 15}); !near(v, 2.5, 1e-12) || m.df() != 4 {
		t.Errorf("pooled variance %v, %v df, want 2.5 and 4", v, m.df())
	}
}

// TestHistoryUsesThePredictionForm: sqrt(1 + 1/N) and N - 1 degrees of freedom.
func TestHistoryUsesThePredictionForm(t *testing.T) {
	m := &matrix{base: 8, totals: ones(9)}
	if !near(m.scale(), math.Sqrt(1+1.0/8), 1e-12) || m.df() != 7 {
		t.Errorf("scale %v with %v df, want sqrt(9/8) with 7", m.scale(), m.df())
	}
}

// TestRenameIsACostShift: a function under another name is reported, and
// neither fails the gate nor stands against a pass; with growth it fails.
func TestRenameIsACostShift(t *testing.T) {
	p := newProgram(150, 40)
	for f := range p.noise {
		p.noise[f] = 0.02
	}
	p.machine, p.drift = 0.005, 0.005
	for _, tc := range []struct {
		name  string
		grows float64
		kind  Kind
		want  []Verdict
	}{
		{"renamed", 0, CostShift, []Verdict{Pass, Inconclusive}},
		{"renamed and slower", 0.02, Regression, []Verdict{Fail}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, h := pairs(newRand(40), p, p.with(20, tc.grows), 10)
			for _, r := range h {
				for i := range r.Counts.entries {
					if e := &r.Counts.entries[i]; e.Name == functionName(20) {
						e.Name = "pkg.renamed"
					}
				}
			}
			res := mustCompare(t, b, h, Options{Paired: true})
			if !slices.Contains(tc.want, res.Verdict) {
				t.Errorf("got %v (%s)", res.Verdict, res.Reason.Text)
			}
			found := false
			for _, f := range res.Findings {
				found = found || f.Function == "pkg.renamed" && f.Kind == tc.kind
			}
			if !found {
				t.Errorf("findings %+v, want pkg.renamed as %s", res.Findings, tc.kind)
			}
			if strings.Contains(res.Reason.Text, "renamed") != (tc.kind == Regression) {
				t.Errorf("reason: %s", res.Reason.Text)
			}
		})
	}
}

// quiet returns a program whose runs vary by little more than sampling.
func quiet() program {
	p := newProgram(150, 40)
	for f := range p.noise {
		p.noise[f] = 0.01
	}
	p.machine, p.drift, p.jitter = 0.001, 0.001, 0.001
	return p
}

// TestTotalNeedsMoreThanItsMargin: +0.7 % is significant and below the 1 % that
// fail, +3 % is above.
func TestTotalNeedsMoreThanItsMargin(t *testing.T) {
	p := quiet()
	for factor, want := range map[float64]bool{1.007: false, 1.03: true} {
		b, h := pairs(newRand(50), p, p.scaled(factor), 20)
		res := mustCompare(t, b, h, Options{Paired: true})
		if res.Total.CI.Low <= 0 {
			t.Fatalf("%+.1f %%: interval %v does not exclude 0, the test cannot tell", 100*(factor-1), res.Total.CI)
		}
		if (res.Verdict == Fail) != want {
			t.Errorf("%+.1f %%: %v (%s)", 100*(factor-1), res.Verdict, res.Reason.Text)
		}
	}
}

// TestSmallGrowthOnlyWarns: a rejected function below Options.FailEffect.
func TestSmallGrowthOnlyWarns(t *testing.T) {
	p := quiet()
	b, h := pairs(newRand(51), p, p.with(30, 0.004), 20)
	res := mustCompare(t, b, h, Options{Paired: true})
	if res.Verdict == Fail || len(res.Findings) != 1 || res.Findings[0].Severity != Warns || res.Findings[0].Function != functionName(30) {
		t.Errorf("got %v, findings %+v, want one warning on %s", res.Verdict, res.Findings, functionName(30))
	}
}

// TestFunctionMarginIsTheLargerOfTheTwo: 0.25 pp, or 3 % of the function.
func TestFunctionMarginIsTheLargerOfTheTwo(t *testing.T) {
	p := newProgram(60, 40)
	p.cost[0] *= 10
	b, h := pairs(newRand(52), p, p, 5)
	for _, d := range mustCompare(t, b, h, Options{Paired: true}).Functions {
		want := math.Log1p(0.0025 / d.ShareBase)
		if d.ShareBase > 0.0025/0.03 {
			want = math.Log1p(0.03)
		}
		if d.Tested && !near(d.Margin, want, 0.02) {
			t.Errorf("%s with a share of %.3f: margin %v, want %v", d.Name, d.ShareBase, d.Margin, want)
		}
	}
}

// TestNoisyFunctionInPairsIsKeptByBothSides: on the variance of the differences
// alone a collector passes for calm now and then, and is
// then certain of a difference that is noise.
func TestNoisyFunctionInPairsIsKeptByBothSides(t *testing.T) {
	rng := newRand(53)
	p := newProgram(60, 10)
	for f := range p.noise {
		p.noise[f] = 0.01
	}
	p.noise[7] = 0.3
	extreme, gates := 0, heavy(1500, 10000)
	for range gates {
		b, h := pairs(rng, p, p, 5)
		for _, d := range mustCompare(t, b, h, Options{Paired: true, MinEffect: -1, RelativeMinEffect: -1}).Functions {
			if d.Name == functionName(7) && math.Min(d.P, d.PImprove) < 1e-4 {
				extreme++
			}
		}
	}
	low, _ := clopperPearson(extreme, gates)
	t.Logf("%d of %d beyond 1e-4", extreme, gates)
	if low > 2e-3 {
		t.Errorf("%d of %d null p-values of a noisy function are below 1e-4", extreme, gates)
	}
}
