package diff

import (
	"math"
	"slices"
)

// minTrend is the number of functions from which a variance trend is fitted.
// Below it every function keeps its own variance.
const minTrend = 8

// maxPriorDF stands for infinitely many degrees of freedom of the prior: the
// functions then show no more difference in variance than chance does.
const maxPriorDF = 1e6

// trend is the variance of a log cost by mean count: a + b/n.
type trend struct{ a, b float64 }

func (t trend) at(n float64) float64 { return t.a + t.b/n }

// fitTrend minimises sum |ln s^2 - ln(a + b/n)| over a, b >= 0. With the ratio
// rho = a/b held, the best ln b is the median of ln s^2 - ln(rho + 1/n), so
// that a search over rho alone is left: a grid in ln rho, then golden section.
// The noise that the run factors add to every function, as a variance, is the
// least that rho can be. The fit is in logs and by absolute values because a
// least-squares fit lets collectors and kernel functions drag the prior up.
// All s2 and n must be positive.
func fitTrend(s2, n []float64, noise float64) trend {
	logs := make([]float64, len(s2))
	fit := func(rho float64) (trend, float64) {
		shape := func(i int) float64 { return rho + 1/n[i] }
		if math.IsInf(rho, 1) {
			shape = func(int) float64 { return 1 }
		}
		for i := range s2 {
			logs[i] = math.Log(s2[i] / shape(i))
		}
		slices.Sort(logs)
		centre := median(logs)
		loss := 0.0
		for _, l := range logs {
			loss += math.Abs(l - centre)
		}
		if scale := math.Exp(centre); math.IsInf(rho, 1) {
			return trend{a: scale}, loss
		} else {
			return trend{a: scale * rho, b: scale}, loss
		}
	}
	best, least := fit(noise)
	flat, loss := fit(math.Inf(1))
	if loss < least {
		best, least = flat, loss
	}
	// rho * n is the excess over the sampling limit: below 1e-3 at the largest
	// count it cannot be seen, above 1e3 at the smallest the trend is flat.
	low := math.Log(math.Max(1e-3/slices.Max(n), noise+1e-300))
	high := math.Log(1e3 / slices.Min(n))
	if high <= low {
		return best
	}
	const steps = 60
	width := (high - low) / steps
	at := math.NaN()
	for i := range steps + 1 {
		rho := low + float64(i)*width
		if t, loss := fit(math.Exp(rho)); loss < least {
			best, least, at = t, loss, rho
		}
	}
	if math.IsNaN(at) {
		return best
	}
	golden := (math.Sqrt(5) - 1) / 2
	left, right := math.Max(at-width, low), math.Min(at+width, high)
	for right-left > 1e-4 {
		x, y := right-golden*(right-left), left+golden*(right-left)
		tx, lx := fit(math.Exp(x))
		ty, ly := fit(math.Exp(y))
		if lx < least {
			best, least = tx, lx
		}
		if ly < least {
			best, least = ty, ly
		}
		if lx <= ly {
			right = y
		} else {
			left = x
		}
	}
	return best
}

// prior is what the variances of all functions say about that of one:
// inverse chi-squared around scale times the trend, with df degrees of freedom.
type prior struct {
	trend trend
	scale float64
	df    float64
	used  int     // functions in the fit
	all   float64 // degrees of freedom of all of them together
}

// at returns the prior variance of a function with mean count n.
func (p prior) at(n float64) float64 { return p.scale * p.trend.at(n) }

// fitPrior estimates the prior from the variances s2, each on d degrees of
// freedom, around trend values: Smyth 2004, with the trend in the place of a
// common variance, and residuals winsorised at the quantiles low and high.
//
// The moments of winsorised residuals are held against those of an equally
// winsorised log F distribution, as Phipson et al. 2016 do ("Robust
// hyperparameter estimation"). Held against trigamma, the moment of the
// unclamped one, they would make every prior far too certain: in simulation
// 600 degrees of freedom where the truth is 10, and p-values six times too
// frequent at 1e-4. Without winsorising the two are the same.
func fitPrior(s2, trends []float64, d, low, high float64) (scale, d0 float64) {
	// Few functions cannot tell a certain prior from a fairly certain one: the
	// spread of their residuals is itself known to sqrt(2/K) only.
	_, chance := logF{d: d, low: low, high: high}.moments(maxPriorDF)
	most := 2 * trigammaInverse(chance*math.Sqrt(2/float64(len(s2)-1)))
	return fitPriorWithin(s2, trends, d, low, high, most)
}

// fitPriorWithin is fitPrior with a given bound on the degrees of freedom.
func fitPriorWithin(s2, trends []float64, d, low, high, most float64) (scale, d0 float64) {
	e := make([]float64, len(s2))
	for i := range s2 {
		e[i] = math.Log(s2[i] / trends[i])
	}
	winsorise(e, low, high)
	centre := mean(e)
	sum := 0.0
	for _, v := range e {
		sum += (v - centre) * (v - centre)
	}
	spread := logF{d: d, low: low, high: high}
	d0 = math.Min(spread.solve(sum/float64(len(e)-1)), most)
	expected, _ := spread.moments(d0)
	return math.Exp(centre - expected), d0
}

// winsorise clamps x to its quantiles low and high.
func winsorise(x []float64, low, high float64) {
	if low <= 0 && high >= 1 {
		return
	}
	sorted := slices.Sorted(slices.Values(x))
	least, most := quantile(sorted, low), quantile(sorted, high)
	for i, v := range x {
		x[i] = math.Min(math.Max(v, least), most)
	}
}

// newPrior fits trend and prior to the functions that are large enough, and
// were seen on both sides. z holds the normalised log costs.
func newPrior(m *matrix, z [][]float64, noise float64, o Options) prior {
	d := m.df()
	if d <= 0 {
		return prior{}
	}
	var s2, n []float64
	for f := range z {
		if count := m.count(f); count >= o.TrendMinCount && m.onBothSides(f) {
			_, v := m.contrast(z[f])
			s2, n = append(s2, v), append(n, count)
		}
	}
	if !floorVariances(s2) || len(s2) < minTrend {
		return prior{used: len(s2)}
	}
	p := prior{trend: fitTrend(s2, n, noise), used: len(s2), all: d * float64(len(s2))}
	trends := make([]float64, len(n))
	for i := range n {
		trends[i] = p.trend.at(n[i])
	}
	p.scale, p.df = fitPrior(s2, trends, d, o.WinsorLow, o.WinsorHigh)
	return p
}

// floorVariances raises variances that are 0 by chance, which have no
// logarithm, to a hundred-thousandth of the median (as limma does). It returns
// false when most are 0: then the runs are copies.
func floorVariances(s2 []float64) bool {
	middle := median(slices.Sorted(slices.Values(s2)))
	if !(middle > 0) {
		return false
	}
	for i, v := range s2 {
		s2[i] = math.Max(v, 1e-5*middle)
	}
	return true
}

// moderate returns the variance to use for a function with its own variance s2
// on d degrees of freedom and the prior variance s02, and its degrees of
// freedom. A variance above ratio times the prior is kept: a noisy function is
// never shrunk down.
func (p prior) moderate(s2, s02, d, ratio float64) (variance, df float64) {
	if p.df <= 0 || s2 > ratio*s02 {
		return s2, d
	}
	return (d*s2 + p.df*s02) / (d + p.df), math.Min(d+p.df, p.all)
}

// median returns the middle of sorted, NaN when it is empty.
func median(sorted []float64) float64 {
	return quantile(sorted, 0.5)
}

// quantile interpolates between the order statistics of sorted (type 7 of
// Hyndman and Fan, R's default).
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
