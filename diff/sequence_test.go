package diff

import (
	"math"
	"testing"
)

func TestScheduleSpendsTheBudgetOnce(t *testing.T) {
	for pairs, want := range map[int][]Look{
		0:  nil,
		3:  {{3, 1}},
		5:  {{5, 1}},
		8:  {{5, 0.1}, {8, 0.9}},
		10: {{5, 0.1}, {10, 0.9}},
		14: {{5, 0.1}, {10, 0.3}, {14, 0.6}},
		20: {{5, 0.1}, {10, 0.3}, {20, 0.6}},
		40: {{5, 0.1}, {10, 0.3}, {20, 0.2}, {40, 0.4}},
	} {
		got := Schedule(pairs)
		if len(got) != len(want) {
			t.Errorf("%d pairs: %v, want %v", pairs, got, want)
			continue
		}
		for i := range want {
			if got[i].Pairs != want[i].Pairs || math.Abs(got[i].Spend-want[i].Spend) > 1e-12 {
				t.Errorf("%d pairs: %v, want %v", pairs, got, want)
			}
		}
	}
}

func TestLookScalesEveryBudget(t *testing.T) {
	base, head := regressed(t)
	res := mustCompare(t, base, head, Options{Paired: true, Look: 1, Looks: Schedule(20)})
	if !near(res.FunctionAlpha, 0.0007, 1e-9) || !near(res.TotalAlpha, 0.0002, 1e-9) {
		t.Errorf("levels %v and %v at the first look, want a tenth of 0.007 and 0.002", res.FunctionAlpha, res.TotalAlpha)
	}
	if res.Stop != StopFail {
		t.Errorf("stop %q, want fail", res.Stop)
	}
}

func TestSequenceGoesOnWhileThereIsAHint(t *testing.T) {
	p := newProgram(150, 10)
	rng := newRand(900)
	base, head := pairs(rng, p, p.with(4, 0.008), 20)
	s, err := NewSequence(20, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var stops []Stop
	for n := s.Next(); n > 0; n = s.Next() {
		res, err := s.Compare(base[:n], head[:n])
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, res.Stop)
		if res.Stop != StopContinue {
			break
		}
	}
	if len(stops) < 2 || stops[0] != StopContinue || stops[len(stops)-1] == StopContinue {
		t.Errorf("stops %q: want to go on at 5 pairs, and to end", stops)
	}
	if _, err := NewSequence(0, Options{}); err == nil {
		t.Error("a sequence of no pairs was accepted")
	}
}

func TestSequenceEndsWithItsLooks(t *testing.T) {
	base, head := regressed(t)
	s, err := NewSequence(5, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Looks()) != 1 || s.Next() != 5 {
		t.Fatalf("looks %v, next %d", s.Looks(), s.Next())
	}
	if _, err := s.Compare(base, head); err != nil {
		t.Fatal(err)
	}
	if s.Next() != 0 {
		t.Errorf("next %d after the last look, want 0", s.Next())
	}
	if _, err := s.Compare(base, head); err == nil {
		t.Error("a look beyond the last was allowed")
	}
}
