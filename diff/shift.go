package diff

import (
	"fmt"
	"maps"
	"math"
	"path"
)

// shiftDomain is a set of functions between which cost may have moved, judged
// as one function.
type shiftDomain struct {
	name     string // as the subject of a sentence
	members  map[int]bool
	estimate estimate
	upper    float64 // bound of the effect, at Options.Confidence
}

// newDomain judges members as one function; nil where nothing can be judged.
func (c *comparison) newDomain(members map[int]bool, name string) *shiftDomain {
	m, o := c.matrix, c.options
	if len(members) == 0 || m.df() <= 0 {
		return nil
	}
	row := make([]float64, m.runs())
	for f := range members {
		for r, n := range m.n[f] {
			row[r] += n
		}
	}
	sum := *m
	sum.n = [][]float64{row}
	z := c.reference.normalised(sum.logCosts())
	// A sum varies less than the functions in it, which is what the prior is
	// of: at least as much as they make it vary independently of one another.
	least, all := 0.0, sumOf(row)/float64(len(row))
	for f := range members {
		part := c.matrix.count(f) / all
		least += part * part * c.estimates[f].used
	}
	domain := &shiftDomain{name: name, members: members}
	e := newEstimates(&sum, z, prior{}, c.reference.noise, c.reference.Stable, o)[0]
	if least > e.used {
		e.stdErr = math.Hypot(e.stdErr, m.scale()*math.Sqrt(least-e.used))
		e.used = least
	}
	domain.estimate = e
	domain.upper = domain.estimate.upper((1-o.Confidence)/float64(o.looks()), c.quantiles)
	return domain
}

// unmatched returns the domain of functions that only one side has, where both
// sides have some: a renamed or moved function is one that vanished and one
// that is new. Functions below Options.ReferenceMinCount are on one side by
// chance.
func (c *comparison) unmatched() *shiftDomain {
	m := c.matrix
	members := make(map[int]bool)
	gone, added := false, false
	for f := range m.n {
		base, head := m.sides(m.n[f])
		if math.Max(base, head) < c.options.ReferenceMinCount || base > 0 && head > 0 {
			continue
		}
		members[f] = true
		gone, added = gone || base > 0, added || head > 0
	}
	if !gone || !added {
		return nil
	}
	return c.newDomain(members, "functions that only one side has")
}

// effect is the estimated change of the domain as a whole.
func (d *shiftDomain) effect() float64 { return d.estimate.effect(d.estimate.ratio) }

// equivalent tells whether growth of the domain as a whole is ruled out.
func (d *shiftDomain) equivalent(o Options) bool {
	return d != nil && d.upper < o.Equivalence
}

// text says what became of the domain.
func (d *shiftDomain) text(o Options) string {
	return fmt.Sprintf("cost moved: %s changed by %+.2f pp together, and %+.2f pp are ruled out",
		d.name, 100*d.effect(), 100*o.Equivalence)
}

// maxDomainShare is the share of the baseline above which a domain is most of
// the program.
const maxDomainShare = 0.5

// shareOfCallers is the part of a function's direct calls from which a caller
// belongs to its domain.
const shareOfCallers = 0.1

// findShifts looks, for every function that grew, for a domain in which its
// cost may have been before: what its callers call, its file, its package. Cost
// moved where growth of the domain as a whole is ruled out, at most half of the
// function's own growth is left of it, and the rest of the domain got cheaper: a
// domain in which nothing did explains nothing, and one that is most of the
// program is judged by the total. Functions of the domain that shrank are part of
// the move.
func (c *comparison) findShifts() {
	functions := c.result.Functions
	for f := range functions {
		d := &functions[f]
		if !d.Tested || d.Shifted || d.Q > c.result.FunctionAlpha || d.Effect <= 0 {
			continue
		}
		for _, domain := range c.domainsOf(f) {
			if !domain.equivalent(c.options) || domain.effect() > d.Effect/2 || !c.shrankBeside(domain, f) {
				continue
			}
			d.Shifted, d.domain = true, domain
			for other := range domain.members {
				if o := &functions[other]; !o.Shifted && o.Tested && o.QImprove <= c.result.FunctionAlpha {
					o.Shifted, o.domain = true, domain
				}
			}
			break
		}
	}
}

// shrankBeside tells whether the domain without f got cheaper, at 5 %.
func (c *comparison) shrankBeside(domain *shiftDomain, f int) bool {
	rest := maps.Clone(domain.members)
	delete(rest, f)
	d := c.newDomain(rest, "")
	return d != nil && d.estimate.df > 0 && d.estimate.ratio < 0 && upperTail(-d.estimate.ratio/d.estimate.stdErr, d.estimate.df) < 0.05
}

// domainsOf returns the domains of function f, closest first.
func (c *comparison) domainsOf(f int) []*shiftDomain {
	function := c.matrix.functions[f]
	var list []*shiftDomain
	add := func(name string, members map[int]bool) {
		if len(members) > 1 {
			if d := c.newDomain(members, name); d != nil && d.estimate.share <= maxDomainShare {
				list = append(list, d)
			}
		}
	}
	alike := func(same func(Function) bool) map[int]bool {
		members := make(map[int]bool)
		for i, other := range c.matrix.functions {
			if other.Kernel == function.Kernel && same(other) {
				members[i] = true
			}
		}
		return members
	}
	add("the function, its callers and what else they call", c.calledTogether(f))
	if function.File != "" {
		add("functions of "+path.Base(function.File), alike(func(other Function) bool { return other.File == function.File }))
	}
	if p := packageOf(function.Name); p != "" {
		add(GroupPackage.phrase(p), alike(func(other Function) bool { return packageOf(other.Name) == p }))
	}
	return list
}

// calledTogether returns f, the functions that call it, and those that are
// called from them more than from elsewhere.
func (c *comparison) calledTogether(f int) map[int]bool {
	t := c.calls
	if t == nil {
		return nil
	}
	id := t.frameOf(c.matrix.functions[f])
	if id < 0 {
		return nil
	}
	all, direct := 0.0, make(map[int]float64)
	for _, a := range t.above(map[int]bool{id: true})[id] {
		direct[a.frame] += a.direct
		all += a.direct
	}
	members := map[int]bool{f: true}
	callers := make(map[int]bool)
	for frame, n := range direct {
		if n >= shareOfCallers*all && n > 0 {
			callers[frame] = true
			if self := t.self[frame]; self >= 0 {
				members[self] = true
			}
		}
	}
	called := make(map[int]float64)
	t.each(func(_, leaf, frame int, x context) {
		if self := t.self[leaf]; self >= 0 && callers[frame] {
			called[self] += float64(x.direct)
		}
	})
	for self, n := range called {
		if n > sumOf(c.matrix.n[self])/2 {
			members[self] = true
		}
	}
	return members
}
