package diff

import (
	"cmp"
	"math"
	"slices"
)

// benjaminiHochberg returns the weighted Benjamini-Hochberg q-values of p
// (Genovese, Roeder and Wasserman 2006): those at or below a level are
// rejected at that false discovery rate. Weights are renormalised to mean 1;
// nil weights are all 1. Where every null hypothesis is true any rejection is
// false, so that the level is also the false-red rate of a gate.
func benjaminiHochberg(p, weights []float64) (q []float64) {
	m := len(p)
	weighted := make([]float64, m)
	average := 1.0
	if weights != nil {
		average = mean(weights)
	}
	order := make([]int, m)
	for i := range p {
		order[i] = i
		weighted[i] = p[i]
		switch {
		case weights == nil || average <= 0:
		case weights[i] <= 0:
			weighted[i] = 1
		default:
			weighted[i] = math.Min(1, p[i]*average/weights[i])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weighted[a], weighted[b]) })
	q = make([]float64, m)
	least := 1.0
	for rank := m; rank > 0; rank-- {
		i := order[rank-1]
		least = math.Min(least, weighted[i]*float64(m)/float64(rank))
		q[i] = least
	}
	return q
}
