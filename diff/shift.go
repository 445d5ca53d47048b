package diff

import (
	"fmt"
	"math"
)

// shiftDomain is a set of functions between which cost may have moved, judged
// as one function.
type shiftDomain struct {
	members  map[int]bool
	estimate estimate
	upper    float64 // bound of the effect, at Options.Confidence
}

// unmatched returns the domain of functions that only one side has, where both
// sides have some: a renamed or moved function is one that vanished and one
// that is new. Functions below Options.ReferenceMinCount are on one side by
// chance.
func (c *comparison) unmatched() *shiftDomain {
	m, o := c.matrix, c.options
	domain := &shiftDomain{members: make(map[int]bool)}
	row := make([]float64, m.runs())
	gone, added := false, false
	for f := range m.n {
		base, head := m.sides(m.n[f])
		if math.Max(base, head) < o.ReferenceMinCount || base > 0 && head > 0 {
			continue
		}
		domain.members[f] = true
		gone, added = gone || base > 0, added || head > 0
		for r, n := range m.n[f] {
			row[r] += n
		}
	}
	if !gone || !added || m.df() <= 0 {
		return nil
	}
	sum := *m
	sum.n = [][]float64{row}
	z := c.reference.normalised(sum.logCosts())
	domain.estimate = newEstimates(&sum, z, c.prior, c.reference.noise, c.reference.Stable, o)[0]
	domain.upper = domain.estimate.upper((1-o.Confidence)/float64(o.looks()), c.quantiles)
	return domain
}

// equivalent tells whether growth of the domain as a whole is ruled out.
func (d *shiftDomain) equivalent(o Options) bool {
	return d != nil && d.upper < o.Equivalence
}

// text says what became of the domain.
func (d *shiftDomain) text(o Options) string {
	return fmt.Sprintf("cost moved: functions that only one side has changed by %+.2f pp together, and %+.2f pp are ruled out",
		100*d.estimate.effect(d.estimate.ratio), 100*o.Equivalence)
}
