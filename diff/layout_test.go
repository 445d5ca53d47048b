package diff

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/pprof/profile"
	"gonum.org/v1/gonum/stat/distuv"
)

// relinked returns p under another layout of the same code: functions of 1 % of
// the total cost 10 % more or less, larger ones relatively less, with the tails
// of Student's t on 5 degrees of freedom up to the 30 % that were measured.
func (p program) relinked(rng *rand.Rand) program {
	tails := distuv.StudentsT{Sigma: math.Sqrt(3.0 / 5), Nu: 5, Src: rng}
	cost := append([]float64(nil), p.cost...)
	for f := range cost {
		moved := 0.1 * math.Sqrt(0.01/p.share(f)) * tails.Rand()
		cost[f] *= math.Exp(math.Max(-maxLayout, math.Min(maxLayout, moved)))
	}
	p.cost = cost
	return p
}

// built sets the build of the program that runs are of.
func built(runs []Run, id string) {
	for _, r := range runs {
		r.Counts.builds = map[string]string{"prog": id}
	}
}

// layoutGates draws gates between two layouts, with effect added to function
// culprit, which the change touches; it counts how many fail, and for culprit.
func layoutGates(t *testing.T, seed uint64, gates, culprit int, effect float64, o Options) (red, right int) {
	t.Helper()
	rng := newRand(seed)
	p := packaged()
	for range gates {
		head := p.relinked(rng)
		if effect > 0 {
			head = head.with(culprit, effect)
		}
		b, h := pairs(rng, p, head, 10)
		built(b, "1")
		built(h, "2")
		res := mustCompare(t, b, h, o)
		if res.Verdict == Fail {
			red++
			if res.Findings[0].Function == p.names[culprit].Name {
				right++
			}
		}
	}
	return red, right
}

// TestRelinkedCodeIsNotBlamed: the same functions in another layout, of which
// the change touches one. Without the layout component every eleventh gate is
// red.
func TestRelinkedCodeIsNotBlamed(t *testing.T) {
	const culprit = 2
	gates := heavy(90, 2000)
	touched := func(f Function) bool { return f.Name == packaged().names[culprit].Name }
	plain, _ := layoutGates(t, 1400, gates, culprit, 0, Options{Paired: true, Touched: touched, LayoutVariance: -1})
	aware, _ := layoutGates(t, 1400, gates, culprit, 0, Options{Paired: true, Touched: touched})
	_, right := layoutGates(t, 1410, gates, culprit, 0.015, Options{Paired: true, Touched: touched})
	_, elsewhere := layoutGates(t, 1420, gates, 3, 0.015, Options{Paired: true, Touched: touched})
	t.Logf("of %d gates: relinked null %d red without layout, %d with; +1.5 %% found %d when touched, %d when not", gates, plain, aware, right, elsewhere)
	if _, high := clopperPearson(plain, gates); high < 0.05 {
		t.Errorf("only %d of %d red without the layout component: the test cannot tell", plain, gates)
	}
	if low, _ := clopperPearson(aware, gates); low > 0.03 {
		t.Errorf("%d of %d relinked nulls are red", aware, gates)
	}
	if _, high := clopperPearson(right, gates); high < 0.8 {
		t.Errorf("+1.5 %% in the touched function found in %d of %d", right, gates)
	}
}

// TestLayoutCountsForRebuiltUntouchedCode only.
func TestLayoutCountsForRebuiltUntouchedCode(t *testing.T) {
	p := packaged()
	b, h := pairs(newRand(1430), p, p, 5)
	touched := func(f Function) bool { return f.Name == p.names[2].Name }
	for _, tc := range []struct {
		name       string
		base, head string
		options    Options
		want       bool
	}{
		{"another build", "1", "2", Options{Touched: touched}, true},
		{"the same build", "1", "1", Options{Touched: touched}, false},
		{"nothing known of the change", "1", "2", Options{}, false},
	} {
		built(b, tc.base)
		built(h, tc.head)
		for _, d := range mustCompare(t, b, h, tc.options).Functions {
			if d.Tested && (d.Layout > 0) != (tc.want && !touched(d.Function)) {
				t.Errorf("%s: layout of %s is %v", tc.name, d.Name, d.Layout)
			}
			if want := 0.01 / math.Sqrt(d.ShareBase); d.Layout > 0 && !near(d.Layout, want, 0.05) {
				t.Errorf("%s with a share of %v: layout %v, want %v", d.Name, d.ShareBase, d.Layout, want)
			}
		}
	}
}

// TestUntouchedGrowthWarns: what layout may explain is not silent, and large
// growth fails wherever it is.
func TestUntouchedGrowthWarns(t *testing.T) {
	p := packaged()
	o := Options{Paired: true, Touched: func(f Function) bool { return f.Name == p.names[2].Name }}
	for effect, want := range map[float64]Severity{0.01: Warns, 0.05: Fails} {
		b, h := pairs(newRand(1440), p, p.with(8, effect), 10)
		built(b, "1")
		built(h, "2")
		res := mustCompare(t, b, h, o)
		if len(res.Findings) == 0 || res.Findings[0].Function != p.names[8].Name || res.Findings[0].Severity != want {
			t.Errorf("%+.1f pp: findings %+v, want %s on %s", 100*effect, res.Findings, want, p.names[8].Name)
		}
		if res.Verdict == Pass {
			t.Errorf("%+.1f pp: passed", 100*effect)
		}
	}
}

func TestCountReadsBuildIDs(t *testing.T) {
	p := profileOf(t, stack{frames: "f main", value: 1})
	p.Mapping = append(p.Mapping, &profile.Mapping{ID: 3, File: "/usr/lib/libc.so.6", BuildID: "ab"})
	p.Mapping[0].BuildID = "cd"
	c, err := Count(p, Options{})
	if err != nil || len(c.builds) != 2 || c.builds["prog"] != "cd" || c.builds["libc.so.6"] != "ab" {
		t.Errorf("builds %v, %v", c.builds, err)
	}
}

// TestUntouchedGroupWarns: growth spread over a package that was only rebuilt
// warns, and fails where the change touches one of its functions.
func TestUntouchedGroupWarns(t *testing.T) {
	p := packaged()
	b, h := pairs(newRand(1450), p, spread(p, 0.015), 10)
	built(b, "1")
	built(h, "2")
	for name, want := range map[string]Severity{"p3.f003": Warns, "p6.f006": Fails} {
		o := Options{Paired: true, Touched: func(f Function) bool { return f.Name == name }}
		found := false
		for _, f := range mustCompare(t, b, h, o).Findings {
			if f.Group == GroupPackage && f.Function == "p6" {
				found = true
				if f.Severity != want {
					t.Errorf("%s touched: %s, want %s", name, f.Severity, want)
				}
			}
		}
		if !found {
			t.Errorf("%s touched: package p6 was not found", name)
		}
	}
}
