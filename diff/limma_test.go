package diff

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// limma is testdata/limma.json, which testdata/limma.R wrote.
type limma struct {
	Squeeze []struct {
		Name     string
		DF       float64
		S2       []float64
		DFPrior  float64   `json:"df_prior"` // -1: infinite
		VarPrior float64   `json:"var_prior"`
		VarPost  []float64 `json:"var_post"`
	}
	Treat struct {
		LFC     float64
		Y       [][]float64
		DFTotal []float64 `json:"df_total"`
		S2Post  []float64 `json:"s2_post"`
		TreatT  []float64 `json:"treat_t"`
		PRight  []float64 `json:"p_right"`
		BH      []float64
	}
	Quantiles struct{ P, DF, T []float64 }
	LogF      []struct{ D, D0, Low, High, Mean, Variance float64 }
}

func readLimma(t *testing.T) limma {
	t.Helper()
	data, err := os.ReadFile("testdata/limma.json")
	if err != nil {
		t.Fatal(err)
	}
	var l limma
	if err := json.Unmarshal(data, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// near tells whether a and b agree to a relative error.
func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*math.Max(math.Abs(a), math.Abs(b))
}

func ones(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// uncapped estimates the prior without winsorising and without the bound on
// its certainty, as limma's squeezeVar does.
func uncapped(s2 []float64, d float64) (scale, d0 float64) {
	return fitPriorWithin(s2, ones(len(s2)), d, 0, 1, maxPriorDF)
}

func TestModerationAgreesWithLimma(t *testing.T) {
	for _, tc := range readLimma(t).Squeeze {
		scale, d0 := uncapped(tc.S2, tc.DF)
		if tc.DFPrior < 0 {
			if d0 < maxPriorDF {
				t.Errorf("%s: prior has %v df, limma's is certain", tc.Name, d0)
			}
		} else if !near(d0, tc.DFPrior, 1e-6) {
			t.Errorf("%s: prior has %v df, limma's %v", tc.Name, d0, tc.DFPrior)
		}
		// limma takes the plain mean where the prior is certain; the moment
		// estimate differs by its sampling error.
		tolerance := 1e-6
		if tc.DFPrior < 0 {
			tolerance = 0.05
		}
		if !near(scale, tc.VarPrior, tolerance) {
			t.Errorf("%s: prior variance %v, limma's %v", tc.Name, scale, tc.VarPrior)
		}
		p := prior{trend: trend{a: 1}, scale: scale, df: d0, all: tc.DF * float64(len(tc.S2))}
		for i, s2 := range tc.S2 {
			v, _ := p.moderate(s2, scale, tc.DF, math.Inf(1))
			if want := tc.VarPost[i]; !near(v, want, tolerance) {
				t.Errorf("%s: gene %d: moderated variance %v, limma's %v", tc.Name, i, v, want)
				break
			}
		}
	}
}

func TestMinimumEffectAgreesWithTreat(t *testing.T) {
	l := readLimma(t).Treat
	m := &matrix{base: 5, totals: ones(10)}
	var s2, p []float64
	for _, y := range l.Y {
		_, v := m.contrast(y)
		s2 = append(s2, v)
	}
	scale, d0 := uncapped(s2, m.df())
	moderated := prior{scale: scale, df: d0, all: m.df() * float64(len(s2))}
	for i, y := range l.Y {
		d, _ := m.contrast(y)
		v, df := moderated.moderate(s2[i], scale, m.df(), math.Inf(1))
		if !near(v, l.S2Post[i], 1e-6) || !near(df, l.DFTotal[i], 1e-6) {
			t.Fatalf("gene %d: variance %v with %v df, limma's %v with %v", i, v, df, l.S2Post[i], l.DFTotal[i])
		}
		// With margin e^lfc - 1 of a share of 1 the bound on the log scale is
		// treat's.
		e := estimate{ratio: d, stdErr: m.scale() * math.Sqrt(v), df: df, share: 1, margin: math.Expm1(l.LFC)}
		if got, want := e.grows(), l.PRight[i]; !near(got, want, 1e-5) {
			t.Fatalf("gene %d: p = %v, limma's %v", i, got, want)
		}
		if statistic := (d - l.LFC) / e.stdErr; l.TreatT[i] > 0 && !near(statistic, l.TreatT[i], 1e-6) {
			t.Fatalf("gene %d: t = %v, treat's %v", i, statistic, l.TreatT[i])
		}
		p = append(p, e.grows())
	}
	for i, q := range benjaminiHochberg(p, nil) {
		if !near(q, l.BH[i], 1e-5) {
			t.Fatalf("gene %d: q = %v, p.adjust's %v", i, q, l.BH[i])
		}
	}
}

func TestQuantilesAgreeWithR(t *testing.T) {
	l := readLimma(t).Quantiles
	for i, want := range l.T {
		if got := upperQuantile(l.P[i], l.DF[i]); !near(got, want, 1e-6) {
			t.Errorf("quantile at %v with %v df is %v, R's %v", l.P[i], l.DF[i], got, want)
		}
		if got := upperTail(want, l.DF[i]); !near(got, l.P[i], 1e-6) {
			t.Errorf("tail beyond %v with %v df is %v, R's %v", want, l.DF[i], got, l.P[i])
		}
	}
}

func TestWinsorisedMomentsAgreeWithR(t *testing.T) {
	for _, tc := range readLimma(t).LogF {
		l := logF{d: tc.D, low: tc.Low, high: tc.High}
		mean, variance := l.moments(tc.D0)
		if math.Abs(mean-tc.Mean) > 1e-4 || !near(variance, tc.Variance, 1e-3) {
			t.Errorf("log F(%v, %v): mean %v variance %v, by brute force %v and %v", tc.D, tc.D0, mean, variance, tc.Mean, tc.Variance)
		}
		if d0 := l.solve(tc.Variance); !near(d0, tc.D0, 0.02) {
			t.Errorf("log F(%v, %v): solved %v", tc.D, tc.D0, d0)
		}
	}
}
