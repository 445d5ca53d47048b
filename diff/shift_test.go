package diff

import (
	"strings"
	"testing"
)

// TestCostThatMovesIsAWarning: 2 % of the total move between two functions that
// both sides have.
func TestCostThatMovesIsAWarning(t *testing.T) {
	p := packaged()
	for f := range p.noise {
		p.noise[f] = 0.01
	}
	for f := range p.names {
		p.names[f].File = "/src/" + packageOf(p.names[f].Name) + "/all.go"
		if f == 4 || f == 8 {
			p.names[f].File = "/src/shared.go"
		}
	}
	for _, tc := range []struct {
		name     string
		from, to int
		grows    float64 // besides
		moved    bool
		text     string
	}{
		{"in a package", 6, 16, 0, true, "all.go"},
		{"in a file of two packages", 4, 8, 0, true, "shared.go"},
		{"and grows by as much", 6, 16, 0.02, false, ""},
		{"to another package and file", 6, 15, 0, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := newRand(1000)
			for range heavy(20, 300) {
				b, h := pairs(rng, p, p.with(tc.from, -0.02).with(tc.to, 0.02+tc.grows), 10)
				res := mustCompare(t, b, h, Options{Paired: true})
				if (res.Verdict == Fail) == tc.moved {
					t.Fatalf("got %v: %s", res.Verdict, res.Reason.Text)
				}
				if !tc.moved {
					continue
				}
				kinds := make(map[string]Finding)
				for _, f := range res.Findings {
					kinds[f.Function] = f
				}
				to, from := kinds[p.names[tc.to].Name], kinds[p.names[tc.from].Name]
				if to.Kind != CostShift || to.Severity != Warns || !strings.Contains(to.Text, tc.text) {
					t.Fatalf("%+v, want a cost shift that warns, in %s", to, tc.text)
				}
				if from.Kind != CostShift || from.Severity != Informs {
					t.Fatalf("%+v, want the other half of the cost shift", from)
				}
			}
		})
	}
}

// TestCostThatMovesBelowACallerIsAWarning: between packages and files, below
// one caller.
func TestCostThatMovesBelowACallerIsAWarning(t *testing.T) {
	rng := newRand(1010)
	p := newTree()
	p.add("near.a http.admin main.main", 0.2)
	p.add("near.b http.admin main.main", 0.3)
	p.add("far.g http.admin main.main", 0.1)
	moved := p.with(0.2, func(frames string) bool { return strings.HasPrefix(frames, "far.g ") }).
		with(-0.2, func(frames string) bool { return strings.HasPrefix(frames, "near.b ") })
	for range heavy(20, 300) {
		b, h := treePairs(rng, p, moved, 10, Options{})
		res := mustCompare(t, b, h, Options{Paired: true})
		if res.Verdict == Fail {
			t.Fatalf("failed: %s", res.Reason.Text)
		}
		seen := false
		for _, f := range res.Findings {
			seen = seen || f.Function == "far.g" && f.Kind == CostShift && strings.Contains(f.Text, "callers")
		}
		if !seen {
			t.Fatalf("findings %+v, want far.g as a cost shift among what its callers call", res.Findings)
		}
	}
}

// TestLittleThatGotCheaperExcusesLittle: +2 % in a function of a package that
// lost 0.5 pp elsewhere, though growth by 5 pp is ruled out.
func TestLittleThatGotCheaperExcusesLittle(t *testing.T) {
	p := packaged()
	for f := range p.noise {
		p.noise[f] = 0.01
	}
	b, h := pairs(newRand(1020), p, p.with(16, 0.02).with(6, -0.005), 10)
	if res := mustCompare(t, b, h, Options{Paired: true, Equivalence: 0.05}); res.Verdict != Fail || res.Findings[0].Function != p.names[16].Name {
		t.Errorf("got %v, findings %+v, want %s to fail", res.Verdict, res.Findings, p.names[16].Name)
	}
}

// TestNoiseExcusesNothing: a function of the package varies by 80 %, and had
// cheap runs on head by chance.
func TestNoiseExcusesNothing(t *testing.T) {
	rng := newRand(1030)
	p := packaged()
	for f := range p.noise {
		p.noise[f] = 0.01
	}
	p.noise[6] = 0.8
	excused, gates := 0, heavy(150, 2000)
	for range gates {
		b, h := pairs(rng, p, p.with(16, 0.012), 10)
		for _, f := range mustCompare(t, b, h, Options{Paired: true, Equivalence: 0.05}).Findings {
			if f.Kind == CostShift && f.Function == p.names[16].Name {
				excused++
			}
		}
	}
	low, _ := clopperPearson(excused, gates)
	t.Logf("excused %d of %d", excused, gates)
	if low > 0.05 {
		t.Errorf("excused %d of %d by noise", excused, gates)
	}
}
