package diff

import (
	"math"
	"slices"
)

// layoutDF is the degrees of freedom of the layout variance: its tails are
// heavier than the normal distribution's.
const layoutDF = 8

// layout is what another arrangement of the same code may have done to the
// functions of objects that were rebuilt.
type layout struct {
	rebuilt map[string]bool // objects of which the sides run different builds
}

// newLayout returns the objects that differ between the sides by build ID. An
// object without one on either side is taken for the same.
func newLayout(base, head []observed) *layout {
	builds := func(side []observed) map[string][]string {
		ids := make(map[string][]string)
		for _, run := range side {
			for object, id := range run.counts.builds {
				if !slices.Contains(ids[object], id) {
					ids[object] = append(ids[object], id)
				}
			}
		}
		return ids
	}
	l := &layout{rebuilt: make(map[string]bool)}
	after := builds(head)
	for object, ids := range builds(base) {
		known := len(after[object]) > 0
		l.rebuilt[object] = known && !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(after[object], id) })
	}
	return l
}

// layoutVariance returns the variance of the log ratio that layout alone gives
// function f: 0 where its object is the same build on both sides, where the
// change touches the function or a call neighbour of it, and where nothing is
// known about the change. A function is taken for a sum of independent pieces,
// so that the variance falls with its share.
func (c *comparison) layoutVariance(f int) float64 {
	if c.weighted == nil || c.weighted[f] || !c.layout.rebuilt[c.matrix.functions[f].Object] {
		return 0
	}
	return c.layoutOf(c.estimates[f].share)
}

// maxLayout is the most that layout moves a function by, in logs: it does not
// double what a tiny function costs.
const maxLayout = 0.3

func (c *comparison) layoutOf(share float64) float64 {
	return math.Min(c.options.LayoutVariance/share, maxLayout*maxLayout)
}

// withLayout returns the estimate with a variance that does not fall with the
// number of runs, as one build has one layout.
func (e estimate) withLayout(variance float64) estimate {
	if variance <= 0 || e.df <= 0 {
		return e
	}
	own := e.stdErr * e.stdErr
	all := own + variance
	e.df = all * all / (own*own/e.df + variance*variance/layoutDF)
	e.stdErr = math.Sqrt(all)
	return e
}

// excuse fills in the q-values of growth that layout cannot explain.
func (c *comparison) excuse() {
	var tested []*Delta
	var p, weights []float64
	for f := range c.result.Functions {
		d := &c.result.Functions[f]
		d.LayoutQ = d.Q
		if !d.Tested {
			continue
		}
		d.Layout = math.Sqrt(c.layoutVariance(f))
		grown, _ := c.drifted(c.estimates[f])
		tested = append(tested, d)
		p, weights = append(p, grown.withLayout(d.Layout*d.Layout).grows()), append(weights, d.Weight)
	}
	for i, q := range benjaminiHochberg(p, weights) {
		tested[i].LayoutQ = math.Max(tested[i].Q, q)
	}
}

// layoutExcuses tells whether layout alone may have made a group grow as much:
// no function in it is touched or beside a touched one, and its object was
// rebuilt.
func (c *comparison) layoutExcuses(a aggregate, e estimate) bool {
	if c.weighted == nil {
		return false
	}
	rebuilt := false
	if a.kind == GroupCalls {
		f := c.calls.self[a.frame]
		if f >= 0 && c.weighted[f] || c.options.Touched(a.function) {
			return false
		}
		rebuilt = c.layout.rebuilt[a.function.Object]
	}
	for _, f := range a.members {
		if c.weighted[f] {
			return false
		}
		rebuilt = rebuilt || c.layout.rebuilt[c.matrix.functions[f].Object]
	}
	if !rebuilt {
		return false
	}
	grown, _ := c.drifted(e)
	return grown.withLayout(c.layoutOf(e.share)).grows() > c.result.GroupAlpha/float64(len(c.grown.list))
}

// layoutText is why growth that is significant does not fail the gate.
const layoutText = "the change touches neither it nor what it calls or is called by: another layout of the same code may explain it"
