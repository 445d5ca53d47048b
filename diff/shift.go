package diff

import (
	"fmt"
	"math"
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
	domain := &shiftDomain{name: name, members: members}
	domain.estimate = newEstimates(&sum, z, c.prior, c.reference.noise, c.reference.Stable, o)[0]
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
