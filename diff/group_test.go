package diff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPackageOfNames(t *testing.T) {
	for name, want := range map[string]string{
		"main.main":                                    "main",
		"encoding/json.(*Decoder).Decode":              "encoding/json",
		"example.com/m/v2.f.func1":                     "example.com/m/v2",
		"slices.Sort[go.shape.[]example.com/p.T]":      "slices",
		"runtime.mallocgc":                             "runtime",
		"alloc::vec::Vec<T>::push":                     "alloc",
		"<serde_json::Value as core::fmt::Debug>::fmt": "serde_json",
		"&mut core::iter::Map<I,F>::next":              "core",
		"<&mut core::iter::Map<I,F>>::next":            "core",
		"std::vector<int>::push_back(int const&)":      "std",
		"void ns::apply<other::T>(other::T)":           "ns",
		"sqlite3VdbeExec":                              "",
		"operator new(unsigned long)":                  "",
		"liblzma.so.5+0x16900":                         "",
		"prog.bin [unsymbolized]":                      "",
		"[no stack]":                                   "",
		"main(int, std::string)":                       "",
	} {
		if got := packageOf(name); got != want {
			t.Errorf("package of %s is %q, want %q", name, got, want)
		}
	}
}

func TestGroupsOfFunctions(t *testing.T) {
	functions := []Function{
		{Name: "a.f", Object: "prog"}, {Name: "a.g", Object: "prog"}, {Name: "b.f", Object: "prog"},
		{Name: "deflate", Object: "libz.so.1"}, {Name: "inflate", Object: "libz.so.1"},
		{Name: "copy_page", Kernel: true, Object: "[kernel.kallsyms]"}, {Name: "clear_page", Kernel: true, Object: "[kernel.kallsyms]"},
		{Name: "runtime.scanobject", Object: "prog"}, {Name: "runtime.(*gcWork).balance", Object: "prog"}, {Name: "runtime.gcDrain", Object: "prog"},
		{Name: "runtime.mallocgc", Object: "prog"},
	}
	var got []string
	for _, g := range groupsOf(functions) {
		got = append(got, fmt.Sprint(g.kind, " ", g.name, " ", g.members))
	}
	want := []string{
		"gc garbage collector [7 8 9]", "kernel kernel [5 6]", "package a [0 1]", "package runtime [7 8 9 10]",
		"object prog [0 1 2 7 8 9 10]", "object libz.so.1 [3 4]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSameGroupIsTestedOnce: a library that is one package.
func TestSameGroupIsTestedOnce(t *testing.T) {
	groups := groupsOf([]Function{{Name: "z::f", Object: "libz"}, {Name: "z::g", Object: "libz"}, {Name: "main"}})
	if len(groups) != 1 || groups[0].kind != GroupPackage {
		t.Errorf("got %+v, want one package", groups)
	}
}

// packaged returns a program whose functions are spread over ten packages.
func packaged() program {
	p := newProgram(150, 10)
	p.names = make([]Function, len(p.cost))
	for f := range p.names {
		p.names[f] = Function{Name: fmt.Sprintf("p%d.f%03d", f%10, f), Object: "prog"}
	}
	return p
}

// spread returns a copy of p in which every third function of package p6 grew,
// by effect in all.
func spread(p program, effect float64) program {
	var grown []int
	for f := 16; f < len(p.cost); f += 10 {
		grown = append(grown, f)
	}
	for _, f := range grown {
		p = p.with(f, effect/float64(len(grown)))
	}
	return p
}

// TestSpreadGrowthIsFound: +1.5 % of the total in a package, of which no
// function gained more than 0.11 pp.
func TestSpreadGrowthIsFound(t *testing.T) {
	gates := heavy(150, 2000)
	rng := newRand(800)
	p := packaged()
	slow := spread(p, 0.015)
	found, innocents := 0, 0
	for range gates {
		b, h := pairs(rng, p, slow, 10)
		res := mustCompare(t, b, h, Options{Paired: true})
		for _, f := range res.Findings {
			switch {
			case f.Kind != Regression || f.Severity != Fails:
			case f.Group == GroupPackage && f.Function == "p6":
				found++
				if res.Verdict != Fail || !strings.Contains(res.Reason.Text, "package p6") {
					t.Fatalf("got %v: %s", res.Verdict, res.Reason.Text)
				}
			default:
				innocents++
			}
		}
	}
	_, high := clopperPearson(found, gates)
	t.Logf("+1.5 %% spread over a package: found in %d of %d, %d innocents", found, gates, innocents)
	if high < 0.9 {
		t.Errorf("found %d of %d, want 90 %%", found, gates)
	}
	if low, _ := clopperPearson(innocents, gates); low > 0.01 {
		t.Errorf("%d innocents blamed in %d gates", innocents, gates)
	}
}

// TestGroupIsNotBlamedForItsFunction: +2 % in one function of a package.
func TestGroupIsNotBlamedForItsFunction(t *testing.T) {
	rng := newRand(810)
	p := packaged()
	for range heavy(60, 1000) {
		b, h := pairs(rng, p, p.with(16, 0.02), 10)
		res := mustCompare(t, b, h, Options{Paired: true})
		if len(res.Findings) == 0 || res.Findings[0].Function != p.names[16].Name {
			t.Fatalf("findings %+v, want %s first", res.Findings, p.names[16].Name)
		}
		for _, f := range res.Findings {
			if f.Group != "" {
				t.Fatalf("%s was blamed for its function", f.Subject())
			}
		}
	}
}

// TestSpreadImprovementIsReported, and blames nobody.
func TestSpreadImprovementIsReported(t *testing.T) {
	rng := newRand(820)
	p := packaged()
	found, gates := 0, heavy(50, 1000)
	for range gates {
		b, h := pairs(rng, spread(p, 0.02), p, 10)
		res := mustCompare(t, b, h, Options{Paired: true})
		for _, f := range res.Findings {
			if f.Kind == Regression {
				t.Fatalf("blamed %s: %+v", f.Subject(), f)
			}
			if f.Kind == Improvement && f.Function == "p6" && f.Severity == Informs {
				found++
			}
		}
	}
	if found < gates/2 {
		t.Errorf("reported %d of %d", found, gates)
	}
}

// TestSmallFunctionsThatMoveAreACostShift: half of a package moves to another
// one, in functions too small to be tested.
func TestSmallFunctionsThatMoveAreACostShift(t *testing.T) {
	rng := newRand(830)
	p := packaged()
	moved := p
	p.cost, moved.cost = slices.Clone(p.cost), slices.Clone(p.cost)
	for f := 96; f < 148; f += 10 {
		p.cost[f], moved.cost[f] = 1.2*p.cost[f], p.cost[f]-0.8*p.cost[f]
		p.cost[f+2], moved.cost[f+2] = p.cost[f+2]-0.8*p.cost[f+2], 1.2*p.cost[f+2]
	}
	shifts, gates := 0, heavy(40, 500)
	for range gates {
		b, h := pairs(rng, p, moved, 10)
		res := mustCompare(t, b, h, Options{Paired: true})
		for _, f := range res.Findings {
			if f.Severity == Fails {
				t.Fatalf("%s fails the gate: %+v", f.Subject(), f)
			}
			if f.Kind == CostShift && f.Function == "p8" {
				shifts++
			}
		}
	}
	if shifts < gates/2 {
		t.Errorf("%d shifts in %d gates", shifts, gates)
	}
}

// TestGroupsStayGreen spends the budget of groups alone, without margins.
func TestGroupsStayGreen(t *testing.T) {
	gates := heavy(400, 5000)
	rng := newRand(840)
	p := packaged()
	o := Options{MinEffect: -1, RelativeMinEffect: -1, FailEffect: -1, FunctionBudget: -1, TotalBudget: -1, GroupBudget: 0.02}
	red := 0
	for g := range gates {
		o.Paired = g%2 == 0
		b, h := pairs(rng, p, p, 8)
		if mustCompare(t, b, h, o).Verdict == Fail {
			red++
		}
	}
	low, _ := clopperPearson(red, gates)
	t.Logf("zero margins, budget 2 %%: %d red of %d", red, gates)
	if low > 0.02 {
		t.Errorf("%d red of %d gates at a budget of 2 %%", red, gates)
	}
}

// TestSpreadInjectionIsFound: +1.16 % of the total in three functions of a
// package, the largest of which gains 0.66 pp, in 14 pairs.
func TestSpreadInjectionIsFound(t *testing.T) {
	gates := heavy(100, 2000)
	rng := newRand(850)
	p := packaged()
	slow := p.with(16, 0.0066).with(26, 0.003).with(36, 0.002)
	found, right := 0, 0
	for range gates {
		b, h := pairs(rng, p, slow, 14)
		res := mustCompare(t, b, h, Options{Paired: true})
		if res.Verdict == Fail {
			found++
			if f := res.Findings[0]; f.Function == p.names[16].Name || f.Function == "p6" {
				right++
			}
		}
	}
	t.Logf("+1.16 %% in three functions: found %d of %d, in the right place %d", found, gates, right)
	if _, high := clopperPearson(right, gates); high < 0.85 {
		t.Errorf("found %d of %d, want 85 %%", right, gates)
	}
}

// thirds returns a program whose functions are spread over three packages, the
// first of which also has next to nothing but one function in package solo.
func thirds() program {
	p := packaged()
	for f := range p.names {
		p.names[f].Name = fmt.Sprintf("p%d.f%03d", f%3, f)
		if f == 1 || f == 149 {
			p.names[f].Name = fmt.Sprintf("solo.f%03d", f)
		}
	}
	return p
}

// TestGroupMarginCoversDrift: a drift of the reference set below 1 % is not
// corrected, and must not make a large group exceed its margin. A package that
// is one function in all but name is tested as that function.
func TestGroupMarginCoversDrift(t *testing.T) {
	p := thirds()
	b, h := pairs(newRand(860), p, p, 5)
	small := false
	for _, g := range mustCompare(t, b, h, Options{Paired: true}).Groups {
		if g.Name == "solo" {
			t.Errorf("tested %+v", g)
		}
		if g.Margin < 0.00999 {
			t.Errorf("package %s with a share of %.2f: margin %v, want 0.01 or more", g.Name, g.ShareBase, g.Margin)
		}
		small = small || near(g.Margin, 0.01, 1e-6)
	}
	if !small {
		t.Error("every group has a larger margin: the test cannot tell")
	}
}

// TestRelativeGrowthOfAGroupIsDoubted: the reference set got 5 % faster. A group
// that grew by less relative to it did not cost more.
func TestRelativeGrowthOfAGroupIsDoubted(t *testing.T) {
	c := &comparison{
		options: DefaultOptions(), matrix: &matrix{base: 2, totals: ones(4)}, result: &Result{}, shrunk: &family{},
		reference: &reference{factors: []float64{0, 0, -0.05, -0.05}},
	}
	for ratio, want := range map[float64]Severity{0.04: Warns, 0.06: Fails} {
		f := Finding{Kind: Regression, Severity: Fails, Effect: 0.02}
		c.doubtGrowth(&f, aggregate{kind: GroupPackage}, estimate{ratio: ratio})
		if f.Severity != want || (f.Text != "") != (want == Warns) {
			t.Errorf("grew by %v: %s (%s), want %s", ratio, f.Severity, f.Text, want)
		}
	}
}

// TestGroupsNeedSomethingToMoveAgainst: not where most functions moved, and
// not a package that is the program.
func TestGroupsNeedSomethingToMoveAgainst(t *testing.T) {
	p := packaged()
	q := p
	q.cost = slices.Clone(p.cost)
	for f := range q.cost {
		q.cost[f] *= 1 + float64(f/10%2)
	}
	b, h := pairs(newRand(880), p, q, 5)
	if res := mustCompare(t, b, h, Options{Paired: true}); res.Reference.Stable || len(res.Groups) > 0 {
		t.Errorf("stable %v, groups %+v, want neither", res.Reference.Stable, res.Groups)
	}
	whole := newProgram(60, 10)
	b, h = pairs(newRand(881), whole, whole, 5)
	if res := mustCompare(t, b, h, Options{Paired: true}); len(res.Groups) > 0 {
		t.Errorf("tested %+v, which is the whole program", res.Groups)
	}
}

// TestGroupKeepsASequenceGoing: what hints at growth of a group is no reason to
// stop, what hints at shrinking is none to go on.
func TestGroupKeepsASequenceGoing(t *testing.T) {
	for growth, want := range map[bool]Stop{true: StopContinue, false: StopFutile} {
		o := DefaultOptions()
		o.Looks, o.Look = Schedule(20), 1
		c := &comparison{options: o, result: &Result{Groups: []Aggregate{{Growth: growth, P: 0.01}}}}
		if got := c.stop(); got != want {
			t.Errorf("growth %v: %s, want %s", growth, got, want)
		}
	}
}

func TestFunctionsAreBlamedBeforeGroups(t *testing.T) {
	list := []Finding{
		{Group: GroupPackage, Severity: Fails, Effect: 0.05},
		{Function: "warned", Severity: Warns, Effect: 0.09},
		{Function: "small", Severity: Fails, Effect: 0.01},
		{Function: "large", Severity: Fails, Effect: 0.02},
	}
	slices.SortStableFunc(list, byBlame)
	if list[0].Function != "large" || list[1].Function != "small" || list[2].Group != GroupPackage || list[3].Function != "warned" {
		t.Errorf("got %+v", list)
	}
}
