package diff

import (
	"cmp"
	"math"
	"slices"
)

// reference is the set of functions that hold still between the sides, and
// what every run does to all of them.
type reference struct {
	Reference
	factors []float64 // g_r per run; in logs, relative to the mean run
	// weights of all functions that are large enough to judge stability by.
	weights map[int]float64
	noise   float64 // variance that the factors add to a log count
}

// minReference is the number of functions below which no part of them can be
// told to hold still.
const minReference = 3

// newReference chooses the reference set by y, the log costs, and computes the
// run factors: the weighted mean of (y_rf - mean_r y_rf), leaving out the
// functions that moved most between the sides. What "moved" means needs a
// centre: the weighted median of the differences that minimises the sum of the
// very scores |difference - centre| * sqrt(n_f), which a uniform slowdown does
// not disturb. Functions that one side lacks are never in the set.
func newReference(m *matrix, y [][]float64, o Options) *reference {
	ref := &reference{factors: make([]float64, m.runs()), weights: make(map[int]float64)}
	limit := o.ReferenceCap * mean(m.totals)
	type candidate struct {
		f                        int
		n, weight, change, score float64
	}
	var set []candidate
	for f := range m.n {
		n := m.count(f)
		if n < o.ReferenceMinCount {
			continue
		}
		ref.weights[f] = math.Min(n, limit)
		if m.onBothSides(f) {
			base, head := m.sides(y[f])
			set = append(set, candidate{f: f, n: n, weight: ref.weights[f], change: head - base})
		}
	}
	if len(set) < minReference {
		return ref
	}
	// The second and third round take the centre of what the round before
	// kept: functions that moved pull the first centre towards them.
	kept := set
	for range 3 {
		centre := weightedMedian(kept, func(c candidate) (float64, float64) { return c.change, math.Sqrt(c.n) })
		for i := range set {
			set[i].score = math.Abs(set[i].change-centre) * math.Sqrt(set[i].n)
		}
		slices.SortStableFunc(set, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.f, b.f))
		})
		kept = set[:len(set)-int(math.Ceil(o.ReferenceTrim*float64(len(set))))]
	}
	set = kept

	sum := 0.0
	for _, c := range set {
		average := mean(y[c.f])
		for r := range ref.factors {
			ref.factors[r] += c.weight * (y[c.f][r] - average)
		}
		sum += c.weight
		ref.noise += c.weight * c.weight / c.n
	}
	for r := range ref.factors {
		ref.factors[r] /= sum
	}
	ref.noise /= sum * sum
	ref.Functions = len(set)
	ref.Stable = true
	return ref
}

// normalised returns z_rf = y_rf - g_r.
func (ref *reference) normalised(y [][]float64) [][]float64 {
	z := make([][]float64, len(y))
	for f := range y {
		z[f] = make([]float64, len(y[f]))
		for r, v := range y[f] {
			z[f][r] = v - ref.factors[r]
		}
	}
	return z
}

// judge gives up the set when functions of more than Options.ReferenceMoved of
// the weight moved against it: by more than Options.ReferenceShift of their own
// cost and three standard errors, or because one side lacks them. It reports
// whether the set stands.
func (ref *reference) judge(m *matrix, estimates []estimate, o Options) bool {
	bound := math.Log1p(o.ReferenceShift)
	moved, all := 0.0, 0.0
	for f := range m.n {
		weight, ok := ref.weights[f]
		if !ok {
			continue
		}
		all += weight
		e := estimates[f]
		if !m.onBothSides(f) || math.Abs(e.ratio) > bound && math.Abs(e.ratio) > 3*e.stdErr {
			moved += weight
		}
	}
	if all > 0 {
		ref.Moved = moved / all
	}
	if ref.Functions < minReference || ref.Moved > o.ReferenceMoved {
		ref.Stable = false
	}
	return ref.Stable
}

// giveUp sets the run factors to 0: functions are then judged by their
// absolute cost.
func (ref *reference) giveUp() {
	clear(ref.factors)
	ref.noise = 0
	ref.Functions = 0
	ref.Stable = false
}

// weightedMedian returns the least value at which half of the weight is
// reached.
func weightedMedian[T any](list []T, of func(T) (value, weight float64)) float64 {
	type pair struct{ value, weight float64 }
	pairs := make([]pair, len(list))
	total := 0.0
	for i, item := range list {
		pairs[i].value, pairs[i].weight = of(item)
		total += pairs[i].weight
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.value, b.value) })
	sum := 0.0
	for _, p := range pairs {
		if sum += p.weight; sum >= total/2 {
			return p.value
		}
	}
	return 0
}
