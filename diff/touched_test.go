package diff

import (
	"strings"
	"testing"
)

// TestTouchedFunctionsAndNeighboursWeighMore: the change touches svc1.f5, which
// http.handle1 calls inlined through main.do, and which calls lib.f5.
func TestTouchedFunctionsAndNeighboursWeighMore(t *testing.T) {
	p := newTree()
	p.add("main.do|http.handle1 main.serve main.main", 0.2)
	p.add("http.handle1 main.serve main.main", 0.2)
	touched := func(f Function) bool { return f.Name == "svc1.f5" }
	for _, tc := range []struct {
		name  string
		count Options
	}{{"counted with the change", Options{Touched: touched}}, {"counted without", Options{}}} {
		t.Run(tc.name, func(t *testing.T) {
			b, h := treePairs(newRand(1300), p, p, 5, tc.count)
			res := mustCompare(t, b, h, Options{Paired: true, MinShare: 0.001, Touched: touched})
			heavy := make(map[string]bool)
			for _, d := range res.Functions {
				if d.Tested && d.Weight == TouchedWeight {
					heavy[d.Name] = true
				} else if d.Tested && d.Weight != 1 {
					t.Errorf("%s weighs %v", d.Name, d.Weight)
				}
				if d.Touched != (d.Name == "svc1.f5") {
					t.Errorf("%s: touched %v", d.Name, d.Touched)
				}
			}
			for _, name := range []string{"svc1.f5", "main.do", "lib.f5"} {
				if !heavy[name] {
					t.Errorf("%s does not weigh more", name)
				}
			}
			if len(heavy) != 3 {
				t.Errorf("%v weigh more, want the touched function, its caller and its callee", heavy)
			}
		})
	}
}

// TestNeighboursAreTakenFromWholeStacks: a caller of a touched function that is
// never a leaf's direct caller in any context.
func TestNeighboursAreTakenFromWholeStacks(t *testing.T) {
	p := profileOf(t, stack{frames: "leaf touched parent main", value: 50}, stack{frames: "parent main", value: 50})
	c, err := Count(p, Options{Touched: func(f Function) bool { return f.Name == "touched" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.frames {
		if want := f.Name == "leaf" || f.Name == "parent"; f.beside != want {
			t.Errorf("%s beside a touched function: %v, want %v", f.Name, f.beside, want)
		}
	}
}

// TestTouchedFindingsSaySo, for functions, groups and contexts.
func TestTouchedFindingsSaySo(t *testing.T) {
	p := newTree()
	o := Options{Paired: true, Touched: func(f Function) bool { return strings.HasPrefix(f.Name, "svc2.") || f.Name == "http.handle2" }}
	b, h := treePairs(newRand(1310), p, p.with(0.35, under("http.handle2")).with(0.3, func(frames string) bool { return strings.HasPrefix(frames, "work.f3 ") }), 10, o)
	got := make(map[string]bool)
	for _, f := range mustCompare(t, b, h, o).Findings {
		got[f.Subject()] = f.Touched
	}
	for subject, want := range map[string]bool{"work.f3": false, "package svc2": true, "http.handle2 with what it calls": true} {
		if touched, ok := got[subject]; !ok || touched != want {
			t.Errorf("%s: found %v, touched %v, want %v; findings %v", subject, ok, touched, want, got)
		}
	}
}
