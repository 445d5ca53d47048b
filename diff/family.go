package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// maxAggregateShare is the share above which a group stands for the whole
// program: the total's test is the one for it.
const maxAggregateShare = 0.8

// aggregate is what is tested as one in the family of groups: a group of
// functions, or a function with all that it calls.
type aggregate struct {
	kind     GroupKind
	function Function // of GroupCalls; of a group only Name
	frame    int      // of GroupCalls, in the call tree
	members  []int    // functions whose self cost it holds, of a group
	row      []float64
	// spread is the root of the sum of the squared shares of the functions
	// in it.
	spread float64
	weight float64
}

// Aggregate is the evidence on a group of functions or a calling context,
// after what is blamed on single functions has been subtracted. Units as in
// Finding.
type Aggregate struct {
	Kind GroupKind
	Name string
	// Functions is the number of functions in it that are not blamed
	// themselves.
	Functions int
	Effect    float64
	CI        Interval
	LogRatio  float64
	StdErr    float64
	Margin    float64
	DF        float64
	// P and Q are of the test for growth, or for shrinking where Growth is
	// false.
	Growth bool
	P, Q   float64

	ShareBase, ShareHead float64
}

// family is the growth, or the shrinking, of all groups and calling contexts.
type family struct {
	growth    bool
	list      []aggregate
	estimates []estimate
	evidence  []Aggregate
}

// testFamilies tests groups for growth and for shrinking. What single
// functions explain is subtracted first, so that no group is blamed for one of
// its functions; so is cost that only changed its name. Without a stable
// reference set there is nothing that a group could have moved against.
func (c *comparison) testFamilies() {
	c.result.GroupAlpha = c.options.GroupBudget * c.options.spend()
	if c.result.Advisory || !c.reference.Stable {
		return
	}
	c.grown = c.newFamily(true)
	c.shrunk = c.newFamily(false)
	c.result.Groups = append(slices.Clone(c.grown.evidence), c.shrunk.evidence...)
}

// explained returns the functions to leave out of groups: those found to have
// grown, or shrunk, on their own, and those that cost moved between.
func (c *comparison) explained(growth bool) map[int]bool {
	left := make(map[int]bool)
	for f, d := range c.result.Functions {
		q := d.Q
		if !growth {
			q = d.QImprove
		}
		if d.Shifted || d.Tested && q <= c.result.FunctionAlpha {
			left[f] = true
		}
	}
	return left
}

func (c *comparison) newFamily(growth bool) *family {
	o := c.options
	fam := &family{growth: growth}
	out := c.explained(growth)
	for _, g := range groupsOf(c.matrix.functions) {
		if a, ok := c.sum(g, out); ok {
			fam.list = append(fam.list, a)
		}
	}
	groups := len(fam.list)
	fam.list = append(fam.list, c.nodes(out)...)
	// Groups are few and contexts many: half of the budget is for each.
	for i := range fam.list {
		fam.list[i].weight = 1 / float64(groups)
		if i >= groups {
			fam.list[i].weight = 1 / float64(len(fam.list)-groups)
		}
	}
	if len(fam.list) == 0 {
		return fam
	}
	rows := make([][]float64, len(fam.list))
	for i, a := range fam.list {
		rows[i] = a.row
	}
	fam.estimates = c.estimateRows(rows)
	p, weights := make([]float64, len(fam.list)), make([]float64, len(fam.list))
	fam.evidence = make([]Aggregate, len(fam.list))
	for i, a := range fam.list {
		e := &fam.estimates[i]
		e.margin = math.Max(o.MinEffect, math.Max(o.RelativeMinEffect*a.spread, math.Expm1(driftMargin)*e.share))
		up, down := c.drifted(*e)
		reported := up
		if p[i] = up.grows(); !growth {
			reported, p[i] = down, down.shrinks()
		}
		weights[i] = a.weight
		ev := &fam.evidence[i]
		*ev = Aggregate{
			Kind: a.kind, Name: a.function.Name, Functions: len(a.members), Growth: growth,
			Effect: reported.effect(reported.ratio), CI: reported.interval(o.Confidence, c.quantiles),
			LogRatio: reported.ratio, StdErr: reported.stdErr, DF: reported.df, Margin: math.Log1p(e.margin / e.share), P: p[i],
		}
		ev.ShareBase, ev.ShareHead = c.rowShares(a.row)
	}
	for i, q := range benjaminiHochberg(p, weights) {
		fam.evidence[i].Q = q
	}
	return fam
}

// sum adds up the functions of g that are not in out. It returns false where
// too little is left to test, or next to nothing but one function, which is
// tested on its own.
func (c *comparison) sum(g group, out map[int]bool) (aggregate, bool) {
	a := aggregate{kind: g.kind, function: Function{Name: g.name}, row: make([]float64, c.matrix.runs())}
	all, largest := 0.0, 0.0
	for _, f := range g.members {
		if out[f] {
			continue
		}
		a.members = append(a.members, f)
		for r, n := range c.matrix.n[f] {
			a.row[r] += n
		}
		n := c.matrix.count(f)
		all, largest = all+n, math.Max(largest, n)
		share := c.result.Functions[f].ShareBase
		a.spread += share * share
	}
	a.spread = math.Sqrt(a.spread)
	return a, len(a.members) > 1 && largest <= maxAggregateShare*all && c.testable(a.row)
}

// testable tells whether the pooled mean share of row is one that is tested.
func (c *comparison) testable(row []float64) bool {
	share := 0.0
	for r, n := range row {
		share += n / c.matrix.totals[r] / float64(len(row))
	}
	base, head := c.matrix.sides(row)
	return share >= c.options.MinShare && share <= maxAggregateShare && base > 0 && head > 0
}

func (c *comparison) rowShares(row []float64) (base, head float64) {
	one := *c.matrix
	one.n = [][]float64{row}
	return one.shares(0, 0)
}

// estimateRows estimates the change of sums of functions, with a trend and a
// prior of their own: sums vary less than the functions in them, and
// collectors more than either.
func (c *comparison) estimateRows(rows [][]float64) []estimate {
	sums := *c.matrix
	sums.n = rows
	z := c.reference.normalised(sums.logCosts())
	return newEstimates(&sums, z, newPrior(&sums, z, c.reference.noise, c.options), c.reference.noise, true, c.options)
}

// findFamilies adds the groups whose growth or shrinking is significant to the
// findings.
func (c *comparison) findFamilies() {
	for _, fam := range []*family{c.grown, c.shrunk} {
		if fam == nil {
			continue
		}
		contexts := c.concentrated(fam, c.explained(fam.growth))
		for i, ev := range fam.evidence {
			below, shown := contexts[i]
			if ev.Q > c.result.GroupAlpha || ev.Kind == GroupCalls && !shown {
				continue
			}
			kind, severity := Regression, Fails
			if !fam.growth {
				kind, severity = Improvement, Informs
			}
			a := fam.list[i]
			f := Finding{
				Kind: kind, Severity: severity, Group: a.kind,
				Function: a.function.Name, SystemName: a.function.SystemName, File: a.function.File, Line: a.function.Line, Object: a.function.Object,
				Effect: ev.Effect, CI: ev.CI, P: ev.P, Q: ev.Q, ShareBase: ev.ShareBase, ShareHead: ev.ShareHead,
				Runs: c.matrix.runs(), DF: ev.DF,
				Text: fmt.Sprintf("growth spread over %d functions, none of which accounts for it alone", ev.Functions),
			}
			if a.kind == GroupCalls {
				f.Text = "growth below it that no function accounts for alone"
			}
			for _, member := range a.members {
				f.Touched = f.Touched || c.touched != nil && c.touched[member]
			}
			if a.kind == GroupCalls && c.touched != nil {
				f.Touched = c.options.Touched(a.function)
			}
			switch {
			case !fam.growth && ev.Effect > -c.options.FailEffect:
				continue
			case !fam.growth && a.kind == GroupCalls:
				f.Text = "below it, spread over several functions"
			case !fam.growth:
				f.Text = fmt.Sprintf("spread over %d functions", ev.Functions)
			default:
				c.doubtGrowth(&f, a, fam.estimates[i])
				if a.kind == GroupCalls && f.Severity == Fails {
					c.doubtCalls(&f, below)
				}
			}
			c.result.Findings = append(c.result.Findings, f)
		}
	}
}

// doubtGrowth lowers the severity of a group's growth where it is small, moved
// from elsewhere, or is only relative to a program that got faster.
func (c *comparison) doubtGrowth(f *Finding, a aggregate, e estimate) {
	var moved *shiftDomain
	if a.kind != GroupCalls {
		moved = c.movedInto(a)
	}
	switch {
	case moved.equivalent(c.options):
		f.Kind, f.Severity, f.Text = CostShift, Warns, moved.text(c.options)
	case c.options.excuse(a.function, f.CI.Low) != "":
		f.Severity, f.Text = Warns, c.options.excuse(a.function, f.CI.Low)
	case c.layoutExcuses(a, e):
		f.Severity, f.Text = Warns, layoutText
	case f.Effect < c.options.FailEffect:
		f.Severity = Warns
		f.Text = fmt.Sprintf("the growth is significant, and smaller than the %.2f pp that fail the gate", 100*c.options.FailEffect)
	case !c.sampled && e.ratio+newContrastTest(c.matrix, c.reference.factors).ratio <= 0:
		f.Severity = Warns
		f.Text = "grew only relative to the rest of the program, which got faster"
	}
}

// movedInto returns the domain of a and of all that shrank, nil where nothing
// did.
func (c *comparison) movedInto(a aggregate) *shiftDomain {
	members := make(map[int]bool)
	for f, d := range c.result.Functions {
		if d.Tested && d.QImprove <= c.result.FunctionAlpha {
			members[f] = true
		}
	}
	for i, ev := range c.shrunk.evidence {
		if ev.Q <= c.result.GroupAlpha && ev.Kind != GroupCalls {
			for _, f := range c.shrunk.list[i].members {
				members[f] = true
			}
		}
	}
	if len(members) == 0 {
		return nil
	}
	for _, f := range a.members {
		members[f] = true
	}
	return c.newDomain(members, "it and what got cheaper")
}

// byBlame orders findings: failing first, functions before groups, then by
// size.
func byBlame(a, b Finding) int {
	rank := map[Severity]int{Fails: 0, Warns: 1, Informs: 2}
	grouped := func(f Finding) int {
		if f.Group != "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank[a.Severity], rank[b.Severity]), cmp.Compare(grouped(a), grouped(b)),
		cmp.Compare(math.Abs(b.Effect), math.Abs(a.Effect)))
}
