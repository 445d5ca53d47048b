package diff

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestCallerThatCallsMoreIsNamed: memmove is to be blamed on the handler that
// copies more, and not on the frames that every copy goes through.
func TestCallerThatCallsMoreIsNamed(t *testing.T) {
	rng := newRand(900)
	p := newTree()
	slow := p.with(0.2, func(frames string) bool {
		return strings.HasPrefix(frames, "runtime.memmove") && under("http.handle1")(frames)
	})
	found, gates := 0, heavy(15, 300)
	for range gates {
		b, h := treePairs(rng, p, slow, 10, Options{})
		res := mustCompare(t, b, h, Options{Paired: true})
		f := res.Findings[0]
		if res.Verdict != Fail || f.Function != "runtime.memmove" {
			t.Fatalf("%v, %+v: want memmove blamed", res.Verdict, f)
		}
		if f.Through == nil {
			continue
		}
		found++
		if f.Through.Function != "http.handle1" || f.Through.File != "http.go" || f.Through.Line != 7 || f.Through.Coverage < 0.8 || f.Through.ShareBase > 0.4 {
			t.Errorf("through %+v, want http.handle1", *f.Through)
		}
		for _, c := range f.Callers {
			if c.Function == "lib.copy" || c.Function == "main.main" {
				t.Errorf("%s, which is on every stack, explains nothing: %+v", c.Function, c)
			}
		}
	}
	t.Logf("explained in %d of %d", found, gates)
	if found < gates {
		t.Errorf("explained in %d of %d", found, gates)
	}
}

// TestDeepestCallerIsNamed: all of a new function's callers explain it.
func TestDeepestCallerIsNamed(t *testing.T) {
	c := &comparison{options: DefaultOptions(), matrix: &matrix{base: 1, totals: ones(2), logCPU: make([]float64, 2)}, calls: &callTree{}}
	for _, name := range []string{"main", "serve", "render", "[truncated:no_rule]", "other"} {
		c.calls.frames = append(c.calls.frames, Function{Name: name})
	}
	above := []calling{
		{frame: 0, n: []float64{100, 140}, distance: 3},
		{frame: 1, n: []float64{50, 88}, distance: 2},
		{frame: 2, n: []float64{10, 45}, distance: 1},
		{frame: 3, n: []float64{0, 40}, distance: 4},
		{frame: 4, n: []float64{10, 15}, distance: 1},
	}
	callers, through := c.explainBy([]float64{100, 140}, above, ones(2))
	if through == nil || through.Function != "render" || !near(through.Coverage, 35.0/40, 1e-9) || !near(through.ShareBase, 0.1, 1e-9) {
		t.Errorf("through %+v, want render", through)
	}
	if len(callers) != 2 || callers[0].Function != "serve" || callers[1].Function != "render" {
		t.Errorf("callers %+v, want serve before render", callers)
	}
	if callers, through := c.explainBy([]float64{140, 100}, above, ones(2)); callers != nil || through != nil {
		t.Errorf("%+v explains a function that shrank", callers)
	}
}

// TestGrowthBelowACallerIsFound: +2 % of the total spread over the services of
// one handler and the library below it, none of which gains 0.1 pp.
func TestGrowthBelowACallerIsFound(t *testing.T) {
	rng := newRand(910)
	p := newTree()
	slow := p.with(0.2, under("http.handle2"))
	found, gates := 0, heavy(25, 500)
	for range gates {
		b, h := treePairs(rng, p, slow, 10, Options{})
		res := mustCompare(t, b, h, Options{Paired: true})
		for _, f := range res.Findings {
			if f.Severity != Fails || f.Group != GroupCalls {
				continue
			}
			// main.do is called by every handler, and holds the growth too.
			if f.Function != "http.handle2" {
				t.Fatalf("blamed %s: %+v", f.Subject(), f)
			}
			found++
		}
	}
	t.Logf("found in %d of %d", found, gates)
	if _, high := clopperPearson(found, gates); high < 0.8 {
		t.Errorf("found in %d of %d, want 80 %%", found, gates)
	}
}

// TestFlaggedLeafIsNotItsCallersFault: what calls a function that grew alone
// did not grow besides.
func TestFlaggedLeafIsNotItsCallersFault(t *testing.T) {
	rng := newRand(920)
	p := newTree()
	for range heavy(15, 300) {
		b, h := treePairs(rng, p, p.with(0.25, func(frames string) bool { return strings.HasPrefix(frames, "work.f3 ") }), 10, Options{})
		res := mustCompare(t, b, h, Options{Paired: true})
		if len(res.Findings) != 1 || res.Findings[0].Function != "work.f3" {
			t.Fatalf("findings %+v, want work.f3 alone", res.Findings)
		}
	}
}

// TestMovedCallIsACostShift: what handler 0 had its services do is done on
// behalf of handler 2.
func TestMovedCallIsACostShift(t *testing.T) {
	rng := newRand(930)
	p := newTree()
	moved := p
	moved.paths = append([]treePath(nil), p.paths...)
	for i := range moved.paths {
		path := &moved.paths[i]
		if strings.HasPrefix(path.frames, "lib.f") {
			path.frames = strings.Replace(path.frames, "http.handle0", "http.handle2", 1)
		}
	}
	shifts, gates := 0, heavy(15, 300)
	for range gates {
		b, h := treePairs(rng, p, moved, 10, Options{})
		res := mustCompare(t, b, h, Options{Paired: true})
		if res.Verdict == Fail {
			t.Fatalf("failed: %s", res.Reason.Text)
		}
		for _, f := range res.Findings {
			if f.Kind == CostShift && f.Function == "http.handle2" && f.Severity == Warns {
				shifts++
			}
		}
	}
	if shifts < gates*3/4 {
		t.Errorf("reported in %d of %d", shifts, gates)
	}
}

// TestTreesStayGreen: nulls with stacks, the budget of groups alone and
// without margins.
func TestTreesStayGreen(t *testing.T) {
	rng := newRand(940)
	p := newTree()
	o := Options{MinEffect: -1, RelativeMinEffect: -1, FailEffect: -1, FunctionBudget: -1, TotalBudget: -1, GroupBudget: 0.02}
	red, gates := 0, heavy(60, 1500)
	for g := range gates {
		o.Paired = g%2 == 0
		b, h := treePairs(rng, p, p, 6, Options{})
		if mustCompare(t, b, h, o).Verdict == Fail {
			red++
		}
	}
	low, _ := clopperPearson(red, gates)
	t.Logf("%d red of %d at a budget of 2 %%", red, gates)
	if low > 0.02 {
		t.Errorf("%d red of %d gates at a budget of 2 %%", red, gates)
	}
}

// TestInnocentCallersAreNotBlamed: one handler's services got faster, alone or
// with most of the program.
func TestInnocentCallersAreNotBlamed(t *testing.T) {
	p := newTree()
	for name, fast := range map[string]func(string) bool{
		"a handler": under("http.handle0"), "all handlers": under("main.serve"), "the loop": under("main.loop"),
	} {
		t.Run(name, func(t *testing.T) {
			rng := newRand(950)
			q := p
			q.paths = append([]treePath(nil), p.paths...)
			for i := range q.paths {
				if fast(q.paths[i].frames) {
					q.paths[i].cost *= 0.7
				}
			}
			improved := 0
			for g := range heavy(12, 300) {
				b, h := treePairs(rng, p, q, 10, Options{})
				for _, f := range mustCompare(t, b, h, Options{Paired: g%2 == 0}).Findings {
					if f.Severity == Fails {
						t.Fatalf("blamed %s: %+v", f.Subject(), f)
					}
					if f.Effect < 0 {
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

// TestNestedCallersAreReportedOnce: what grew below a handler also grew below
// everything that calls it; growth elsewhere is another finding.
func TestNestedCallersAreReportedOnce(t *testing.T) {
	p := newTree()
	for i := range 40 {
		p.add(fmt.Sprintf("task.f%d main.tasks main.main", i), 0.05)
	}
	slow := p.with(0.6, under("http.handle2")).with(0.35, under("main.tasks"))
	b, h := treePairs(newRand(960), p, slow, 10, Options{})
	res := mustCompare(t, b, h, Options{Paired: true})
	found := make(map[string]bool)
	for _, f := range res.Findings {
		if f.Group == GroupCalls {
			found[f.Function] = true
		}
	}
	outer := false
	for _, g := range res.Groups {
		outer = outer || g.Name == "main.serve" && g.Growth && g.Q <= res.GroupAlpha
	}
	if !outer {
		t.Error("growth below main.serve is not significant: the test cannot tell")
	}
	if want := map[string]bool{"http.handle2": true, "main.tasks": true}; !maps.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}
