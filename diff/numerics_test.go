package diff

import (
	"math"
	"testing"
)

func TestTrigammaInverse(t *testing.T) {
	for _, x := range []float64{1e-4, 0.01, 0.3, 1, 4, 77, 1e4} {
		if got := trigammaInverse(trigamma(x)); !near(got, x, 1e-8) {
			t.Errorf("inverse of trigamma(%v) is %v", x, got)
		}
	}
	if got := trigamma(1); !near(got, math.Pi*math.Pi/6, 1e-12) {
		t.Errorf("trigamma(1) = %v, want pi^2/6", got)
	}
}

func TestUpperTailFarOut(t *testing.T) {
	for _, tc := range []struct{ t, df, want float64 }{
		{0, 5, 0.5}, {math.Inf(1), 5, 0}, {math.Inf(-1), 5, 1}, {math.NaN(), 5, 1}, {3, 0, 1},
		{40, math.Inf(1), 0}, {1, 1, 0.25},
		{8, math.Inf(1), 6.220960574271786e-16},
	} {
		got := upperTail(tc.t, tc.df)
		if math.Abs(got-tc.want) > 1e-9*tc.want+1e-300 {
			t.Errorf("P(T > %v) with %v df is %v, want %v", tc.t, tc.df, got, tc.want)
		}
	}
	// At the border to the normal distribution the two must agree.
	if a, b := upperTail(5, manyDF*0.999), upperTail(5, manyDF); !near(a, b, 1e-2) {
		t.Errorf("tails %v and %v on the sides of %v df", a, b, manyDF)
	}
}

// TestTrendFindsItsParameters: exact on noiseless data, and robust against a
// fifth of functions that are a hundred times as variable.
func TestTrendFindsItsParameters(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b float64
		odd  int
	}{{"sampling only", 0, 1.2, 0}, {"both", 4e-4, 1.2, 0}, {"run to run only", 0.01, 0, 0}, {"with collectors", 4e-4, 1.2, 5}} {
		t.Run(tc.name, func(t *testing.T) {
			var s2, n []float64
			for i := range 100 {
				x := 10 * math.Pow(1.07, float64(i))
				v := tc.a + tc.b/x
				if tc.odd > 0 && i%tc.odd == 2 {
					v *= 100
				}
				s2, n = append(s2, v), append(n, x)
			}
			got := fitTrend(s2, n, 0)
			for _, x := range []float64{20, 300, 5000} {
				if want := tc.a + tc.b/x; !near(got.at(x), want, 0.02) {
					t.Errorf("trend at %v is %v, want %v (fit %+v)", x, got.at(x), want, got)
				}
			}
			if got.a < 0 || got.b < 0 {
				t.Errorf("fit %+v is negative", got)
			}
		})
	}
}

func TestTrendKeepsTheFactorsNoise(t *testing.T) {
	n := []float64{10, 20, 40, 80, 160, 320, 640, 1280}
	s2 := make([]float64, len(n))
	for i := range n {
		s2[i] = 1 / n[i]
	}
	if got := fitTrend(s2, n, 1e-3); got.a < 1e-3*got.b {
		t.Errorf("fit %+v, want a >= 0.001 b", got)
	}
}

func TestWinsoriseClamps(t *testing.T) {
	x := []float64{-100, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100}
	winsorise(x, 0.1, 0.9)
	if x[0] != 1 || x[10] != 9 || x[5] != 5 {
		t.Errorf("got %v", x)
	}
}

// TestBenjaminiHochbergWeights checks the weighted procedure by its definition:
// reject the k smallest p/w with p/w <= level * k / m.
func TestBenjaminiHochbergWeights(t *testing.T) {
	p := []float64{0.01, 0.02, 0.03, 0.5}
	for i, want := range []float64{0.04, 0.04, 0.04, 0.5} {
		if got := benjaminiHochberg(p, nil)[i]; !near(got, want, 1e-12) {
			t.Errorf("q[%d] = %v, want %v", i, got, want)
		}
	}
	weights := []float64{0, 5, 1, 1} // mean 1.75
	q := benjaminiHochberg(p, weights)
	for i, want := range []float64{1, 0.02 * 1.75 / 5 * 4, 0.03 * 1.75 * 4 / 2, 1} {
		if !near(q[i], want, 1e-12) {
			t.Errorf("weighted q[%d] = %v, want %v", i, q[i], want)
		}
	}
	if q := benjaminiHochberg(p, []float64{3, 3, 3, 3}); q[0] != 0.04 {
		t.Errorf("equal weights change q to %v", q)
	}
	if q := benjaminiHochberg(nil, nil); len(q) != 0 {
		t.Errorf("no tests give %v", q)
	}
}

// TestNoisyIsNotShrunkDown: above three times the prior a function keeps its
// own variance.
func TestNoisyIsNotShrunkDown(t *testing.T) {
	p := prior{df: 40, all: 1000}
	if v, df := p.moderate(3.1, 1, 8, 3); v != 3.1 || df != 8 {
		t.Errorf("moderated to %v with %v df, want 3.1 with 8", v, df)
	}
	if v, df := p.moderate(2, 1, 8, 3); !near(v, (8*2+40)/48.0, 1e-12) || df != 48 {
		t.Errorf("moderated to %v with %v df, want %v with 48", v, df, (8*2+40)/48.0)
	}
	p.all = 30
	if _, df := p.moderate(2, 1, 8, 3); df != 30 {
		t.Errorf("%v df, want the 30 of all functions together", df)
	}
}

// TestIntervalCountsTheBaselinesError: the interval of a large change has the
// width that the delta method gives head - base with equal relative errors.
func TestIntervalCountsTheBaselinesError(t *testing.T) {
	for _, ratio := range []float64{-2, -0.7, 0, 0.7, 2} {
		e := estimate{ratio: ratio, stdErr: 1e-4 * math.Sqrt2, df: 1e9, share: 0.1}
		head := 0.1 * math.Exp(ratio)
		want := e.effect(ratio) + 2*1e-4*math.Hypot(0.1, head)
		if got := e.bound(2); math.Abs(got-want) > 1e-4*(want-e.effect(ratio)) {
			t.Errorf("ratio %v: bound %v, want %v", ratio, got, want)
		}
	}
}

// TestReferenceIgnoresTheFunctionThatMoved: one function doubles, the factors
// stay at what the machine did.
func TestReferenceIgnoresTheFunctionThatMoved(t *testing.T) {
	const functions = 20
	m := &matrix{base: 2, functions: make([]Function, functions)}
	machine := []float64{0, 0.1, 0.3, 0.2}
	m.totals = make([]float64, 4)
	for f := range functions {
		row := make([]float64, 4)
		for r := range row {
			row[r] = 100000 * math.Exp(machine[r])
			if f == 3 && r >= 2 {
				row[r] *= 2
			}
			m.totals[r] += row[r]
		}
		m.n = append(m.n, row)
	}
	m.logCPU = make([]float64, 4)
	for r := range m.totals {
		m.logCPU[r] = math.Log(m.totals[r])
	}
	o := DefaultOptions()
	ref := newReference(m, m.logCosts(), o)
	if ref.Functions != 14 {
		t.Errorf("%d functions in the set, want 14 of 20: 30 %% are left out", ref.Functions)
	}
	for r, want := range machine {
		if got := ref.factors[r]; math.Abs(got-(want-0.15)) > 1e-4 {
			t.Errorf("factor of run %d is %v, want %v", r, got, want-0.15)
		}
	}
}

// TestReferenceCapsTheWeightOfAFunction: a function of most of the samples
// wobbles between the runs and hardly moves the factors.
func TestReferenceCapsTheWeightOfAFunction(t *testing.T) {
	m := &matrix{base: 2, functions: make([]Function, 21), totals: make([]float64, 4)}
	for f := range m.functions {
		row := []float64{1000, 1000, 1000, 1000}
		if f == 0 {
			row = []float64{80000, 88000, 80000, 88000}
		}
		for r := range row {
			m.totals[r] += row[r]
		}
		m.n = append(m.n, row)
	}
	m.logCPU = make([]float64, 4)
	for r := range m.totals {
		m.logCPU[r] = math.Log(m.totals[r])
	}
	ref := newReference(m, m.logCosts(), DefaultOptions())
	// The large function is held at 5 % of the samples: a quarter of the set's
	// weight, where its samples are 85 %.
	if wobble := ref.factors[1] - ref.factors[0]; math.Abs(wobble) > 0.35*math.Log(1.1) {
		t.Errorf("the factors follow the large function by %v of its %v", wobble, math.Log(1.1))
	}
}

// TestReferenceIsGivenUpBeyondFortyPercent of the weight.
func TestReferenceIsGivenUpBeyondFortyPercent(t *testing.T) {
	p := newProgram(100, 50)
	for f := range p.noise {
		p.noise[f] = 0.01
	}
	for _, tc := range []struct {
		part   int // of 10 functions that double, the lightest of every ten
		stable bool
	}{{2, true}, {3, true}, {5, false}} {
		q := p.scaled(1)
		for f := range q.cost {
			if f%10 >= 10-tc.part {
				q.cost[f] *= 2
			}
		}
		b, h := pairs(newRand(800), p, q, 5)
		res := mustCompare(t, b, h, Options{Paired: true})
		if res.Reference.Stable != tc.stable || warned(res, WarnUnstableReference) == tc.stable {
			t.Errorf("%d of 10 functions moved: stable %v (%.0f %% of the weight), want %v",
				tc.part, res.Reference.Stable, 100*res.Reference.Moved, tc.stable)
		}
		if !tc.stable {
			for _, d := range res.Functions {
				if d.Tested && d.DF > 4 {
					t.Errorf("%s: %v df without a reference set, want at most its own 4", d.Name, d.DF)
				}
			}
		}
	}
}

// TestAnchorMoved pins the rule by its borders.
func TestAnchorMoved(t *testing.T) {
	for _, tc := range []struct {
		name        string
		cpu, anchor contrastTest
		want        bool
	}{
		{"still", contrastTest{0.05, 0.005, 9}, contrastTest{0.001, 0.002, 9}, false},
		{"half as much", contrastTest{0.05, 0.005, 9}, contrastTest{0.025, 0.05, 9}, true},
		{"a third, significantly", contrastTest{0.05, 0.005, 9}, contrastTest{0.017, 0.002, 9}, true},
		{"a third, by chance", contrastTest{0.05, 0.005, 9}, contrastTest{0.017, 0.017, 9}, false},
		{"a tenth, significantly", contrastTest{0.05, 0.005, 9}, contrastTest{0.005, 0.001, 9}, false},
		{"the other way", contrastTest{0.05, 0.005, 9}, contrastTest{-0.05, 0.001, 9}, false},
		{"both down", contrastTest{-0.05, 0.005, 9}, contrastTest{-0.04, 0.001, 9}, true},
	} {
		if got := anchorMoved(tc.cpu, tc.anchor); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
