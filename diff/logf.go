package diff

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mathext"
)

// logF is the distribution of ln(s^2 / prior) where s^2 has d degrees of
// freedom and the prior d0: that of the logarithm of Fisher's F(d, d0),
// winsorised at the quantiles low and high.
type logF struct{ d, low, high float64 }

// Range of the prior's degrees of freedom that is told apart from none and
// from infinitely many.
const (
	leastPriorDF = 0.2
	mostPriorDF  = 2000
)

// moments returns mean and variance. d0 at maxPriorDF or beyond is infinite.
func (l logF) moments(d0 float64) (mean, variance float64) {
	if l.low <= 0 && l.high >= 1 {
		mean = mathext.Digamma(l.d/2) - math.Log(l.d/2)
		variance = trigamma(l.d / 2)
		if d0 < maxPriorDF {
			mean -= mathext.Digamma(d0/2) - math.Log(d0/2)
			variance += trigamma(d0 / 2)
		}
		return mean, variance
	}
	// The part between the quantiles is smooth in the probability; the parts
	// beyond are constant.
	const nodes = 20
	at, weights := make([]float64, nodes), make([]float64, nodes)
	quad.Legendre{}.FixedLocations(at, weights, math.Max(l.low, 1e-9), math.Min(l.high, 1-1e-9))
	square := 0.0
	add := func(x, weight float64) {
		mean += weight * x
		square += weight * x * x
	}
	for i, u := range at {
		add(l.quantile(u, d0), weights[i])
	}
	if l.low > 0 {
		add(l.quantile(l.low, d0), l.low)
	}
	if l.high < 1 {
		add(l.quantile(l.high, d0), 1-l.high)
	}
	return mean, square - mean*mean
}

// quantile returns x with P(ln F < x) = u.
func (l logF) quantile(u, d0 float64) float64 {
	if d0 > mostPriorDF {
		return math.Log(mathext.GammaIncRegInv(l.d/2, u) / (l.d / 2))
	}
	b := mathext.InvRegIncBeta(l.d/2, d0/2, u)
	return math.Log(b * d0 / ((1 - b) * l.d))
}

// solve returns the degrees of freedom of the prior at which the variance is
// as given, maxPriorDF when chance alone accounts for it.
func (l logF) solve(variance float64) float64 {
	if l.low <= 0 && l.high >= 1 {
		if v := variance - trigamma(l.d/2); v > 0 {
			return math.Min(2*trigammaInverse(v), maxPriorDF)
		}
		return maxPriorDF
	}
	if _, v := l.moments(mostPriorDF); variance <= v {
		return maxPriorDF
	}
	if _, v := l.moments(leastPriorDF); variance >= v {
		return leastPriorDF
	}
	low, high := math.Log(leastPriorDF), math.Log(mostPriorDF)
	for high-low > 1e-3 {
		mid := (low + high) / 2
		if _, v := l.moments(math.Exp(mid)); v > variance {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp((low + high) / 2)
}
