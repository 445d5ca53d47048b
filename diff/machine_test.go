package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestMachineVarianceByHand: machines of 3, 2 and 1 runs, head on a fourth.
func TestMachineVarianceByHand(t *testing.T) {
	names := []string{"a", "a", "a", "b", "b", "c", "d"}
	d := newMachines(names, 6)
	x := []float64{1, 2, 3, 5, 7, 9, 20}
	// Means 2, 6, 9 and 27/6; squares between 3*6.25+2*2.25+20.25 = 43.5.
	if !near(d.within(x), (2.0+2)/3, 1e-12) || !near(d.between(x), 43.5/2, 1e-12) || d.df() != 3 {
		t.Errorf("within %v on %v, between %v, want 4/3 on 3 and 21.75", d.within(x), d.df(), d.between(x))
	}
	if !near(d.unit, (6-14.0/6)/2, 1e-12) {
		t.Errorf("n0 = %v, want (6 - 14/6)/2", d.unit)
	}
	if !near(d.weight, 1+14.0/36, 1e-12) {
		t.Errorf("unseen machine: weight %v, want 1 + 14/36", d.weight)
	}
	names[6] = "a"
	if d := newMachines(names, 6); !near(d.weight, 0.25+5.0/36, 1e-12) {
		t.Errorf("machine of half of the history: weight %v, want 1/4 + 5/36", d.weight)
	}
	// Satterthwaite: (1+2)^2 / (1/2 + 4/8).
	d = &machines{weight: 1}
	if v, df := d.combine(8, 8, 0.5, 1, 2); !near(v, 3, 1e-12) || !near(df, 9, 1e-12) {
		t.Errorf("variance %v on %v, want 3 on 9", v, df)
	}
	d = &machines{base: 3}
	if got := d.shrink(3, 0.6); !near(got, (2*3+4*0.6)/6, 1e-12) {
		t.Errorf("variance 3 shrunk to %v, want 2/6 of it and 4/6 of 0.6", got)
	}
}

func TestMachinesNeedSeveralWithSeveralRuns(t *testing.T) {
	for _, tc := range []struct {
		names []string
		base  int
		want  bool
	}{
		{[]string{"a", "a", "b", "b", "b"}, 4, true},
		{[]string{"a", "a", "a", "b"}, 3, false},
		{[]string{"a", "b", "c", "c"}, 3, false},
		{[]string{"", "", "", ""}, 2, false},
	} {
		if got := newMachines(tc.names, tc.base) != nil; got != tc.want {
			t.Errorf("%v with %d of base: machines used %v, want %v", tc.names, tc.base, got, tc.want)
		}
	}
}

// on returns p as it runs on one machine: every function is slower or faster
// by its own log-normal factor.
func (p program) on(rng *rand.Rand, deviation float64) program {
	p.cost = append([]float64(nil), p.cost...)
	for f := range p.cost {
		p.cost[f] *= math.Exp(deviation * rng.NormFloat64())
	}
	return p
}

// history draws runs on several machines, and one run on another.
func history(rng *rand.Rand, p, head program, count, each int, deviation float64, named bool) (b, h []Run) {
	name := func(r Run, m int) Run {
		if named {
			r.Machine = fmt.Sprint("machine", m)
		}
		return r
	}
	for m := range count {
		q, speed := p.on(rng, deviation), 0.1*rng.NormFloat64()
		for range each {
			b = append(b, name(q.run(rng, speed+0.02*rng.NormFloat64()), m))
		}
	}
	return b, append(h, name(head.on(rng, deviation).run(rng, 0.1*rng.NormFloat64()), count))
}

// TestHistoryOfMachinesIsNotBlamed: functions differ by 10 % between machines
// and by 1 % between runs. One run on a machine that the history lacks must not
// be judged by the variance between runs.
func TestHistoryOfMachinesIsNotBlamed(t *testing.T) {
	p := newProgram(80, 20)
	for f := range p.noise {
		p.noise[f] = 0.01
	}
	p.anchor = false
	gates := heavy(200, 3000)
	extreme := func(named bool) (rate float64, low float64) {
		rng := newRand(1200)
		n, all := 0, 0
		for range gates {
			b, h := history(rng, p, p, 2, 8, 0.1, named)
			for _, d := range mustCompare(t, b, h, Options{MinEffect: -1, RelativeMinEffect: -1}).Functions {
				if d.Name == functionName(1) || d.Name == functionName(4) {
					all++
					if d.P < 0.01 {
						n++
					}
				}
			}
		}
		low, _ = clopperPearson(n, all)
		return float64(n) / float64(all), low
	}
	with, low := extreme(true)
	without, _ := extreme(false)
	t.Logf("null p-values below 1 %%: %.1f %% with machines, %.1f %% without", 100*with, 100*without)
	if low > 0.015 {
		t.Errorf("%.1f %% of null p-values are below 1 %%", 100*with)
	}
	if without < 2*with {
		t.Errorf("%.1f %% below 1 %% without machines, %.1f %% with: the test cannot tell", 100*without, 100*with)
	}
}

// TestHistoryOfMachinesFindsRegressions of +3 % of the total in a function of
// 5 %, and says that a run on a machine of the history is worth more.
func TestHistoryOfMachinesFindsRegressions(t *testing.T) {
	rng := newRand(1210)
	p := newProgram(80, 20)
	p.anchor = false
	found, gates := 0, heavy(60, 1000)
	for range gates {
		b, h := history(rng, p, p.with(2, 0.03), 4, 5, 0.03, true)
		if res := mustCompare(t, b, h, Options{}); res.Verdict == Fail && res.Findings[0].Function == functionName(2) {
			found++
		}
	}
	t.Logf("found %d of %d", found, gates)
	if _, high := clopperPearson(found, gates); high < 0.9 {
		t.Errorf("found %d of %d, want 90 %%", found, gates)
	}
}

// TestTotalCountsMachines: by hand, with the numbers above.
func TestTotalCountsMachines(t *testing.T) {
	d := newMachines([]string{"a", "a", "a", "b", "b", "c", "d"}, 6)
	m := &matrix{base: 6, totals: ones(7), machines: d}
	got := newContrastTest(m, []float64{1, 2, 3, 5, 7, 9, 20})
	want := (1+14.0/36)*(21.75-4.0/3)/d.unit + (1+1.0/6)*4.0/3
	if !near(got.stdErr*got.stdErr, want, 1e-9) || !near(got.ratio, 20-27.0/6, 1e-12) || got.df > 3 {
		t.Errorf("variance %v of %v on %v df, want %v of 15.5 on 3 at most", got.stdErr*got.stdErr, got.ratio, got.df, want)
	}
}
