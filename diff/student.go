package diff

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// manyDF is the number of degrees of freedom from which Student's t is taken
// for the normal distribution: the tails of gonum's incomplete beta function
// lose their precision beyond.
const manyDF = 1e5

// upperTail returns P(T > t) of Student's t with df degrees of freedom. It is
// computed as CDF(-t), which keeps its relative precision far out.
func upperTail(t, df float64) float64 {
	switch {
	case math.IsNaN(t) || !(df > 0):
		return 1
	case math.IsInf(t, 1):
		return 0
	case math.IsInf(t, -1):
		return 1
	case df >= manyDF:
		return distuv.UnitNormal.CDF(-t)
	}
	return distuv.StudentsT{Sigma: 1, Nu: df}.CDF(-t)
}

// upperQuantile returns t with P(T > t) = p, 0 < p < 1: +Inf when df is 0.
func upperQuantile(p, df float64) float64 {
	switch {
	case !(df > 0):
		return math.Inf(1)
	case p >= 0.5:
		if p == 0.5 {
			return 0
		}
		return -upperQuantile(1-p, df)
	case df >= manyDF:
		return -distuv.UnitNormal.Quantile(p)
	}
	// Bracket, then halve: the tail falls monotonically, and its inverse in
	// gonum is not precise at the levels that multiplicity leaves.
	low, high := 0.0, 2.0
	for upperTail(high, df) > p {
		low, high = high, 2*high
	}
	for range 200 {
		mid := (low + high) / 2
		if mid == low || mid == high {
			break
		}
		if upperTail(mid, df) > p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// quantiles remembers quantiles of Student's t: most functions of a comparison
// share their degrees of freedom, and an inversion costs many tails.
type quantiles map[[2]float64]float64

// upper is upperQuantile, remembered.
func (q quantiles) upper(p, df float64) float64 {
	key := [2]float64{p, df}
	t, ok := q[key]
	if !ok {
		t = upperQuantile(p, df)
		q[key] = t
	}
	return t
}

// trigamma returns the second derivative of ln gamma at x > 0.
func trigamma(x float64) float64 {
	return mathext.Zeta(2, x)
}

// trigammaInverse returns x with trigamma(x) = y, y > 0, by Newton steps on
// 1/trigamma, which is nearly linear and convex, so that they do not
// overshoot (Smyth 2004, "Linear models and empirical Bayes methods").
func trigammaInverse(y float64) float64 {
	switch {
	case y > 1e7:
		return 1 / math.Sqrt(y)
	case y < 1e-6:
		return 1 / y
	}
	x := 0.5 + 1/y
	for range 50 {
		tri := trigamma(x)
		step := tri * (1 - tri/y) / tetragamma(x)
		x += step
		if math.Abs(step) < 1e-12*x {
			break
		}
	}
	return x
}

// tetragamma returns the derivative of trigamma at x > 0.
func tetragamma(x float64) float64 {
	return -2 * mathext.Zeta(3, x)
}
