package diff

import (
	"fmt"
	"strings"
	"testing"
)

// contextsByName lists contexts as "leaf<frame n direct distance".
func contextsByName(c *Counts) map[string]string {
	m := make(map[string]string)
	for _, x := range c.contexts {
		m[c.frames[x.leaf].Name+"<"+c.frames[x.frame].Name] = fmt.Sprintf("%v %v %v", x.n, x.direct, x.distance)
	}
	return m
}

func TestCountKeepsWhoCallsTheLeaves(t *testing.T) {
	c, err := Count(profileOf(t,
		stack{frames: "copy|grow.part.0 grow parse main", value: 6},
		stack{frames: "copy render main", value: 2},
		stack{frames: "parse parse main", value: 4},
		stack{frames: "copy main", value: 0},
	), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		// Inlined callers are callers, a part of a function is the function,
		// and recursion counts once.
		"copy<grow": "6 6 1", "copy<parse": "6 0 2", "copy<main": "8 0 2.75", "copy<render": "2 2 1",
		"parse<main": "4 4 1",
	}
	got := contextsByName(c)
	for pair, value := range want {
		if got[pair] != value {
			t.Errorf("%s: %q, want %q", pair, got[pair], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("contexts %v, want %v", got, want)
	}
	for _, f := range c.frames {
		n := map[string]float64{"copy": 8, "grow": 6, "parse": 10, "render": 2, "main": 12}[f.Name]
		if f.n != n {
			t.Errorf("%s is on the stack of %v samples, want %v", f.Name, f.n, n)
		}
	}
}

func TestContextsAreBounded(t *testing.T) {
	var stacks []stack
	for i := range 600 {
		stacks = append(stacks, stack{frames: fmt.Sprintf("hot caller%d main", i), value: int64(5 + i)})
	}
	for i := range 400 {
		frames := make([]string, 300)
		for j := range frames {
			frames[j] = fmt.Sprintf("deep%d", (i*7+j)%900)
		}
		stacks = append(stacks, stack{frames: fmt.Sprintf("leaf%d ", i) + strings.Join(frames, " "), value: 3})
	}
	c, err := Count(profileOf(t, stacks...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	perLeaf := make(map[int32]int)
	for _, x := range c.contexts {
		perLeaf[x.leaf]++
	}
	for leaf, n := range perLeaf {
		if n > maxLeafContexts {
			t.Errorf("%s has %d contexts, want at most %d", c.frames[leaf].Name, n, maxLeafContexts)
		}
	}
	if got := contextsByName(c); got["hot<main"] == "" || got["hot<caller3"] != "" {
		t.Errorf("main above the hot leaf: %q, caller3, which has less than a hundredth: %q", got["hot<main"], got["hot<caller3"])
	}
	if n := len(c.contexts); n > maxContexts {
		t.Errorf("%d contexts, want at most %d", n, maxContexts)
	}
}
