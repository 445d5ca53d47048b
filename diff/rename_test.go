package diff

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestClosureParents(t *testing.T) {
	for name, want := range map[string]string{
		"main.run.func2":        "main.run",
		"main.run.func2.1":      "main.run",
		"main.(*T).Do.func1.2":  "main.(*T).Do",
		"main.run.gowrap1":      "main.run",
		"main.run.func1-range2": "main.run",
		"main.run":              "",
		"main.function1":        "",
		"main.func1":            "main", // of a variable's initialiser
		"strings.FieldsFunc":    "",
	} {
		if got := closureParent(name); got != want {
			t.Errorf("parent of %s is %q, want %q", name, got, want)
		}
	}
}

// TestClosuresMatchByLine: f starts at line 100 on base, at 200 on head.
func TestClosuresMatchByLine(t *testing.T) {
	side := func(start int, offsets ...int) []observed {
		c := &Counts{frames: []frame{{Function: Function{Name: "main.f"}, start: start}}}
		for i, offset := range offsets {
			c.frames = append(c.frames, frame{Function: Function{Name: fmt.Sprintf("main.f.func%d", i+1)}, start: start + offset})
		}
		return []observed{{counts: c}}
	}
	for _, tc := range []struct {
		name       string
		base, head []observed
		want       map[string]string
	}{
		{"unchanged", side(100, 5, 20), side(200, 5, 20), nil},
		{"one added in front", side(100, 5, 20), side(200, 2, 5, 20), map[string]string{"main.f.func1": "main.f.func2", "main.f.func2": "main.f.func3"}},
		{"one removed in front", side(100, 2, 5, 20), side(200, 5, 20), map[string]string{"main.f.func1": "main.f.func1 (base)", "main.f.func2": "main.f.func1", "main.f.func3": "main.f.func2"}},
		{"lines inserted above", side(100, 5, 20), side(200, 8, 23), nil},
		{"a line inserted between, one added at the end", side(100, 5, 20), side(200, 5, 21, 40), map[string]string{"main.f.func2": "main.f.func2 (base)"}},
		{"lines unknown", side(0, 0, 0), side(0, 0, 0, 0), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNames(tc.base, tc.head)
			n.match(tc.base, tc.head, DefaultOptions())
			got := make(map[string]string)
			for from, to := range n.former {
				got[from.name] = to
			}
			if !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// renamedTree is newTree with work.f3, its caller and what it calls under other
// names.
func renamedTree(p tree) tree {
	p.paths = append([]treePath(nil), p.paths...)
	noise := make(map[string]float64)
	for leaf, sd := range p.noise {
		noise[strings.NewReplacer("work.f3", "task.run", "work.table", "task.table").Replace(leaf)] = sd
	}
	p.noise = noise
	for i := range p.paths {
		frames := " " + p.paths[i].frames + " "
		frames = strings.ReplaceAll(frames, " work.f3 ", " task.run ")
		frames = strings.ReplaceAll(frames, " work.table ", " task.table ")
		frames = strings.ReplaceAll(frames, " svc1.f4 main.do|http.handle1 ", " svc1.next main.do|http.handle1 ")
		p.paths[i].frames = strings.TrimSpace(frames)
	}
	return p
}

func TestRenamedFunctionsAreMatched(t *testing.T) {
	rng := newRand(1100)
	p := newTree()
	p.add("work.table work.f3 main.loop main.main", 0.03)
	for _, grows := range []float64{0, 0.08} {
		b, h := treePairs(rng, p, renamedTree(p).with(grows, func(frames string) bool { return strings.HasPrefix(frames, "task.run ") }), 10, Options{})
		res := mustCompare(t, b, h, Options{Paired: true})
		renames := make(map[string]string)
		for _, r := range res.Renames {
			renames[r.Base] = r.Head
		}
		if want := map[string]string{"work.f3": "task.run", "work.table": "task.table", "svc1.f4": "svc1.next"}; !maps.Equal(renames, want) {
			t.Fatalf("renames %v, want %v", renames, want)
		}
		for _, d := range res.Functions {
			if d.Name == "work.f3" || d.Name == "task.run" && (d.Was != "work.f3" || d.SamplesBase == 0) {
				t.Errorf("%s with %v samples in base, was %q: want one function", d.Name, d.SamplesBase, d.Was)
			}
		}
		switch {
		case grows == 0 && len(res.Findings) > 0:
			t.Errorf("findings %+v for a rename", res.Findings)
		case grows > 0 && (res.Verdict != Fail || res.Findings[0].Function != "task.run" || res.Findings[0].Effect > 0.012 || !strings.Contains(res.Findings[0].Text, "work.f3")):
			t.Errorf("%v, %+v: want task.run blamed for its growth", res.Verdict, res.Findings)
		}
	}
}

// TestUnlikeFunctionsAreNotMatched: other callers, or three times the share.
func TestUnlikeFunctionsAreNotMatched(t *testing.T) {
	rng := newRand(1110)
	for _, head := range []string{"task.run http.handle0 main.serve main.main", "task.run main.loop main.main"} {
		p, q := newTree(), newTree()
		p.add("work.old main.loop main.main", 0.1)
		q.add(head, 0.1)
		if strings.Contains(head, "main.loop") {
			q = q.with(0.2, func(frames string) bool { return strings.HasPrefix(frames, "task.run ") })
		}
		b, h := treePairs(rng, p, q, 5, Options{})
		if res := mustCompare(t, b, h, Options{Paired: true}); len(res.Renames) > 0 {
			t.Errorf("%s: matched %v", head, res.Renames)
		}
	}
}
