package diff

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// nullPrograms are the mixed nulls of the false-red tests.
func nullPrograms() map[string]program {
	ordinary := newProgram(150, 10)
	short := newProgram(80, 1.5)
	noisy := newProgram(150, 10)
	for f := range noisy.noise {
		if f%3 == 1 { // variance 4 to 30 times the sampling limit
			noisy.noise[f] = math.Sqrt(float64(4+f%27) / (noisy.cost[f] * noisy.hertz))
		}
	}
	loud := newProgram(150, 10)
	loud.machine, loud.drift = 0.15, 0.2
	dominated := newProgram(60, 10)
	dominated.cost[0] *= 20
	foreign := newProgram(100, 10)
	foreign.exact, foreign.anchor = false, false
	return map[string]program{"packages": packaged(), "ordinary": ordinary, "short": short, "noisy": noisy, "loud": loud, "dominated": dominated, "foreign": foreign}
}

func TestNullGatesStayGreen(t *testing.T) {
	gates := heavy(300, 5000)
	reds, all := 0, 0
	programs := nullPrograms()
	for i, name := range slices.Sorted(mapsKeys(programs)) {
		p := programs[name]
		rng := newRand(uint64(100 + i))
		red, pass := 0, 0
		for g := range gates {
			o := Options{Paired: g%2 == 0}
			b, h := pairs(rng, p, p, []int{5, 10}[g/2%2])
			switch mustCompare(t, b, h, o).Verdict {
			case Fail:
				red++
			case Pass:
				pass++
			}
		}
		t.Logf("%s: %d red and %d passed of %d", name, red, pass, gates)
		reds, all = reds+red, all+gates
	}
	_, high := clopperPearson(reds, all)
	t.Logf("%d red of %d null gates: at most %.2f %% with 95 %% confidence", reds, all, 100*high)
	if high > 0.01 {
		t.Errorf("%d red of %d null gates: the rate may be %.2f %%, want at most 1 %%", reds, all, 100*high)
	}
}

// mapsKeys returns an iterator over the keys of m.
func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestSequencesStayGreen takes away the margins, so that the budgets alone hold
// the false-red rate: three looks must not spend more than one.
func TestSequencesStayGreen(t *testing.T) {
	gates := heavy(700, 5000)
	rng := newRand(200)
	p := newProgram(60, 10)
	for f := range p.noise {
		p.noise[f] = 0.02
	}
	o := Options{Paired: true, MinEffect: -1, RelativeMinEffect: -1, FailEffect: -1, TotalMinEffect: -1, FutilityP: 1, Equivalence: 1e-9}
	sequence, single := 0, 0
	for range gates {
		b, h := pairs(rng, p, p, 20)
		s, err := NewSequence(20, o)
		if err != nil {
			t.Fatal(err)
		}
		for n := s.Next(); n > 0; n = s.Next() {
			res, err := s.Compare(b[:n], h[:n])
			if err != nil {
				t.Fatal(err)
			}
			if res.Stop == StopFail {
				sequence++
				break
			}
		}
		if mustCompare(t, b, h, o).Verdict == Fail {
			single++
		}
	}
	low, _ := clopperPearson(sequence, gates)
	t.Logf("zero margins: %d red with three looks, %d with one, of %d", sequence, single, gates)
	if low > 0.009 {
		t.Errorf("%d red of %d sequences at zero margin: above the 0.9 %% of the budgets", sequence, gates)
	}
}

// TestCalmSequenceEndsEarly: mean pairs spent on a null pull request.
func TestCalmSequenceEndsEarly(t *testing.T) {
	gates := heavy(200, 2000)
	rng := newRand(210)
	spent := 0
	for range gates {
		p := newProgram(150, 10)
		b, h := pairs(rng, p, p, 20)
		s, err := NewSequence(20, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for n := s.Next(); n > 0; n = s.Next() {
			res, err := s.Compare(b[:n], h[:n])
			if err != nil {
				t.Fatal(err)
			}
			if res.Stop != StopContinue {
				spent += n
				break
			}
		}
	}
	average := float64(spent) / float64(gates)
	t.Logf("%.2f pairs per null sequence", average)
	if average > 6 {
		t.Errorf("%.2f pairs per null sequence, want at most 6", average)
	}
}

// TestPowerOnOnePercent: +1 % of the total in a function of 5 % share, ten
// pairs, 100,000 samples a side.
func TestPowerOnOnePercent(t *testing.T) {
	gates := heavy(300, 3000)
	rng := newRand(300)
	p := newProgram(150, 10)
	f := 0
	for p.share(f) > 0.05 {
		f++
	}
	slow := p.with(f, 0.01)
	found, first := 0, 0
	for range gates {
		b, h := pairs(rng, p, slow, 10)
		res := mustCompare(t, b, h, Options{Paired: true})
		if res.Verdict == Fail && res.Reason.Code == ReasonRegression {
			found++
			if res.Findings[0].Function == functionName(f) {
				first++
			}
		}
	}
	_, high := clopperPearson(found, gates)
	t.Logf("share %.1f %%: found %d of %d, culprit first in %d", 100*p.share(f), found, gates, first)
	if high < 0.95 {
		t.Errorf("found %d of %d, want 95 %%", found, gates)
	}
	if _, high := clopperPearson(first, found); high < 0.95 {
		t.Errorf("the culprit was first in %d of %d, want 95 %%", first, found)
	}
}

// TestUniformSlowdownIsFound: +5 % in every function fails as uniform, without
// a function being blamed.
func TestUniformSlowdownIsFound(t *testing.T) {
	gates := heavy(200, 2000)
	rng := newRand(310)
	p := packaged()
	found := 0
	for range gates {
		b, h := pairs(rng, p, p.scaled(1.05), 20)
		res := mustCompare(t, b, h, Options{Paired: true})
		if res.Verdict == Fail && res.Reason.Code == ReasonUniform {
			found++
		}
		for _, finding := range res.Findings {
			if finding.Kind == Regression {
				t.Fatalf("%s was blamed for a uniform slowdown: %+v", finding.Function, finding)
			}
		}
	}
	_, high := clopperPearson(found, gates)
	t.Logf("uniform +5 %% found in %d of %d", found, gates)
	if high < 0.95 {
		t.Errorf("uniform +5 %% found in %d of %d, want 95 %%", found, gates)
	}
}

// TestSlowMachineIsNotBlamed: head's machine is slower, and so is its
// calibration kernel.
func TestSlowMachineIsNotBlamed(t *testing.T) {
	rng := newRand(320)
	p := packaged()
	p.machine, p.drift = 0.005, 0.005
	for range heavy(100, 1000) {
		var b, h []Run
		for range 10 {
			b = append(b, p.run(rng, 0.005*rng.NormFloat64()))
			h = append(h, p.run(rng, 0.08+0.005*rng.NormFloat64()))
		}
		for _, paired := range []bool{true, false} {
			res := mustCompare(t, b, h, Options{Paired: paired})
			if res.Verdict != Inconclusive || paired && res.Reason.Code != ReasonMachine {
				t.Fatalf("paired %v: got %v (%s)", paired, res.Verdict, res.Reason.Text)
			}
		}
	}
}

// TestInnocentsAreNotBlamed: where functions only got cheaper no other may be
// called a regression, although every other's share rises.
func TestInnocentsAreNotBlamed(t *testing.T) {
	gates := heavy(100, 1000)
	broad := packaged()
	broad.cost = slices.Clone(broad.cost)
	for f := range broad.cost {
		if f%5 != 3 { // most of the program, by a compiler option
			broad.cost[f] *= 0.8
		}
	}
	p := packaged()
	vanished := p.with(2, -p.share(2))
	cases := map[string]program{
		"a large function halves": p.with(0, -p.share(0)/2),
		"a function vanishes":     vanished,
		"most functions shrink":   broad,
	}
	for i, name := range slices.Sorted(mapsKeys(cases)) {
		t.Run(name, func(t *testing.T) {
			rng := newRand(uint64(330 + i))
			improved := 0
			for g := range gates {
				b, h := pairs(rng, p, cases[name], 10)
				res := mustCompare(t, b, h, Options{Paired: g%2 == 0})
				for _, f := range res.Findings {
					if f.Kind == Regression || f.Kind == Uniform && f.Effect > 0 {
						t.Fatalf("blamed %q: %+v", f.Function, f)
					}
					if f.Kind == Improvement || f.Kind == Uniform {
						improved++
					}
				}
			}
			if improved == 0 {
				t.Error("the improvement was never reported")
			}
		})
	}
}

// TestNullPValuesAreUniform: against no effect at zero margin, one function per
// gate, where the model of the variance holds.
func TestNullPValuesAreUniform(t *testing.T) {
	for _, tc := range []struct {
		name   string
		runs   int
		paired bool
	}{{"5 pairs", 5, true}, {"10 pairs", 10, true}, {"4 against 4", 4, false}, {"10 against 10", 10, false}} {
		t.Run(tc.name, func(t *testing.T) {
			rng := newRand(uint64(400 + tc.runs))
			p := newProgram(80, 10)
			for f := range p.noise {
				p.noise[f] = 0.02
			}
			o := Options{Paired: tc.paired, MinEffect: -1, RelativeMinEffect: -1}
			var values []float64
			for range heavy(500, 5000) {
				b, h := pairs(rng, p, p, tc.runs)
				for _, d := range mustCompare(t, b, h, o).Functions {
					if d.Name == functionName(12) {
						values = append(values, d.P)
					}
				}
			}
			slices.Sort(values)
			if distance, pvalue := kolmogorovSmirnov(values); pvalue < 0.001 {
				t.Errorf("distance %.3f from the uniform distribution, p = %.2g", distance, pvalue)
			}
			t.Logf("5 %% quantile %.4f, 1 %% %.4f", quantile(values, 0.05), quantile(values, 0.01))
		})
	}
}

// TestIntervalsCover: the 95 % intervals hold the true effect of functions that
// moved and of functions that did not.
func TestIntervalsCover(t *testing.T) {
	rng := newRand(500)
	p := newProgram(120, 10)
	for f := range p.noise {
		p.noise[f] = 0.02
	}
	slow := p.with(1, 0.01).with(9, 0.02).with(12, -0.005)
	truth := make(map[string]float64)
	for _, f := range []int{1, 4, 9, 12} {
		truth[functionName(f)] = p.share(f) * (slow.cost[f]/p.cost[f] - 1)
	}
	covered, simultaneous, all, gates := 0, 0, 0, heavy(1200, 4000)
	for g := range gates {
		b, h := pairs(rng, p, slow, []int{5, 10}[g%2])
		res := mustCompare(t, b, h, Options{Paired: g%4 < 2})
		held := true
		for _, d := range res.Functions {
			effect, judged := truth[d.Name]
			if judged {
				all++
				if d.CI.Low <= effect && effect <= d.CI.High {
					covered++
				}
			}
			if math.Max(d.ShareBase, d.ShareHead) >= 0.005 {
				held = held && effect <= d.Upper
			}
		}
		if held {
			simultaneous++
		}
	}
	low, high := clopperPearson(covered, all)
	t.Logf("%d of %d intervals cover, %d of %d sets of bounds hold together", covered, all, simultaneous, gates)
	if high < 0.94 || low > 0.985 {
		t.Errorf("%d of %d intervals cover the truth: %.3f to %.3f, want 0.95", covered, all, low, high)
	}
	if _, high := clopperPearson(simultaneous, gates); high < 0.95 {
		t.Errorf("the upper bounds held together in %d of %d, want 95 %%", simultaneous, gates)
	}
}

// TestEquivalentIsNotPassedWrongly: an effect of exactly what has to be ruled
// out passes in at most 5 % of sequences.
func TestEquivalentIsNotPassedWrongly(t *testing.T) {
	gates := heavy(200, 2000)
	rng := newRand(600)
	p := newProgram(150, 20)
	p.machine, p.drift = 0.005, 0.005
	for f := range p.noise {
		p.noise[f] = 0.02
	}
	slow := p.with(20, 0.01)
	passed, calm := 0, 0
	run := func(base, head program) Verdict {
		b, h := pairs(rng, base, head, 20)
		s, err := NewSequence(20, Options{FutilityP: -1})
		if err != nil {
			t.Fatal(err)
		}
		for n := s.Next(); n > 0; n = s.Next() {
			res, err := s.Compare(b[:n], h[:n])
			if err != nil {
				t.Fatal(err)
			}
			if res.Stop != StopContinue {
				return res.Verdict
			}
		}
		t.Fatal("the sequence did not end")
		return Inconclusive
	}
	for range gates {
		if run(p, slow) == Pass {
			passed++
		}
	}
	for range 40 {
		if run(p, p) == Pass {
			calm++
		}
	}
	t.Logf("false passes %d of %d, true passes %d of 40", passed, gates, calm)
	if low, _ := clopperPearson(passed, gates); low > 0.05 {
		t.Errorf("%d of %d sequences with +1 %% passed", passed, gates)
	}
	if calm < 20 {
		t.Errorf("%d of 40 calm sequences of 20 CPU-seconds a run passed, want most", calm)
	}
}

// TestNoisyFunctionKeepsItsVariance: a collector that varies by 40 % is not
// made certain by its quiet neighbours.
func TestNoisyFunctionKeepsItsVariance(t *testing.T) {
	rng := newRand(700)
	p := newProgram(100, 10)
	p.noise[7] = 0.4
	b, h := pairs(rng, p, p, 10)
	for _, d := range mustCompare(t, b, h, Options{}).Functions {
		if d.Name == functionName(7) {
			if d.DF != 18 || !near(d.StdErr, math.Sqrt(d.OwnVariance/5), 0.01) {
				t.Errorf("standard error %v with %v df, own variance %v: want its own with 18", d.StdErr, d.DF, d.OwnVariance)
			}
		} else if strings.HasSuffix(d.Name, "0") && d.Tested && d.DF <= 18 {
			t.Errorf("%s: %v df, want more than its own 18", d.Name, d.DF)
		}
	}
}
