package diff

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// machinePriorDF is the weight, in degrees of freedom, of what all functions
// show about the variance between machines. A history has few machines, so that
// one function alone says next to nothing about it.
const machinePriorDF = 4

// machines is the design of a history from several machines: which run was
// where, and what follows for the variance of head's mean against the history's.
type machines struct {
	cell   []int     // [run] machine and side
	size   []float64 // [cell] runs
	base   int       // cells of base, which come first
	unit   float64   // n0, the runs per machine of a balanced history as good as this one
	weight float64   // of the variance between machines in that of the difference
}

// newMachines returns the design, nil where the runs of base are not from two
// machines or more, or leave no variance within machines. names has the machine
// of every run, "" for unknown, which counts as one machine.
func newMachines(names []string, base int) *machines {
	d := &machines{cell: make([]int, len(names))}
	index := make(map[string]int)
	share := make(map[string]float64) // of head's mean less that of base's
	sides := [2][]string{names[:base], names[base:]}
	for s, side := range sides {
		clear(index)
		for i, name := range side {
			cell, ok := index[name]
			if !ok {
				cell = len(d.size)
				index[name] = cell
				d.size = append(d.size, 0)
			}
			d.size[cell]++
			d.cell[s*base+i] = cell
			share[name] += float64(2*s-1) / float64(len(side))
		}
		if s == 0 {
			d.base = len(d.size)
		}
	}
	if d.base < 2 || len(names) <= len(d.size) || base <= d.base {
		return nil
	}
	squares := 0.0
	for _, n := range d.size[:d.base] {
		squares += n * n
	}
	d.unit = (float64(base) - squares/float64(base)) / float64(d.base-1)
	// On a machine that the history lacks this is 1 + sum n_m^2 / N^2; what
	// head's machine holds of the history cancels.
	for _, w := range share {
		d.weight += w * w
	}
	return d
}

// df is the degrees of freedom within machines.
func (d *machines) df() float64 { return float64(len(d.cell) - len(d.size)) }

// within returns the variance of x within the machines of a side.
func (d *machines) within(x []float64) float64 {
	means := d.means(x)
	sum := 0.0
	for r, v := range x {
		sum += (v - means[d.cell[r]]) * (v - means[d.cell[r]])
	}
	return sum / d.df()
}

func (d *machines) means(x []float64) []float64 {
	means := make([]float64, len(d.size))
	for r, v := range x {
		means[d.cell[r]] += v / d.size[d.cell[r]]
	}
	return means
}

// between returns the mean square between the machines of base.
func (d *machines) between(x []float64) float64 {
	means := d.means(x)[:d.base]
	all, n := 0.0, 0.0
	for cell, v := range means {
		all, n = all+v*d.size[cell], n+d.size[cell]
	}
	sum := 0.0
	for cell, v := range means {
		sum += d.size[cell] * (v - all/n) * (v - all/n)
	}
	return sum / float64(d.base-1)
}

// variance returns the variance between machines that the mean squares between
// and within them estimate; 0 where machines differ less than runs do.
func (d *machines) variance(between, within float64) float64 {
	return math.Max(0, (between-within)/d.unit)
}

// shrink moves the variance between machines of one function to that of all.
func (d *machines) shrink(variance, middle float64) float64 {
	own := float64(d.base - 1)
	return (own*variance + machinePriorDF*middle) / (own + machinePriorDF)
}

// combine returns the variance of the difference of the sides' means, and its
// degrees of freedom by Satterthwaite's approximation, from the variance within
// machines on df degrees of freedom, which scale brings to the difference, and
// the one between machines on machineDF.
func (d *machines) combine(within, df, scale, between, machineDF float64) (variance, combined float64) {
	a, b := d.weight*between, scale*scale*within
	variance = a + b
	if !(variance > 0) {
		return 0, df
	}
	return variance, variance * variance / (a*a/machineDF + b*b/df)
}

// contrast tests x with both variances of its own, as the total does, of which
// there is one.
func (d *machines) contrast(difference float64, x []float64, scale float64) contrastTest {
	within := d.within(x)
	variance, df := d.combine(within, d.df(), scale, d.variance(d.between(x), within), float64(d.base-1))
	return contrastTest{ratio: difference, stdErr: math.Sqrt(variance), df: df}
}

// addMachines adds the variance between machines to the estimates of functions,
// or of sums of functions, whose log costs are z: their own, shrunk to the
// median over those with a share of least or more. It is a part of a function's
// cost and not of its variance within machines, most of which is the sampling
// noise of small functions; the ratio of the two would fall with size. The mean
// square between few machines is far below its expectation in the median, as the
// F distribution tells.
func (d *machines) addMachines(m *matrix, z [][]float64, list []estimate, least float64) {
	typical := distuv.F{D1: float64(d.base - 1), D2: d.df()}.Quantile(0.5)
	between, within := make([]float64, len(z)), make([]float64, len(z))
	var known []float64
	for f := range z {
		between[f], within[f] = d.between(z[f]), d.within(z[f])
		if list[f].share >= least && m.onBothSides(f) {
			known = append(known, d.variance(between[f]/typical, within[f]))
		}
	}
	middle := 0.0
	if len(known) > 0 {
		slices.Sort(known)
		middle = median(known)
	}
	for f := range list {
		e := &list[f]
		if e.df <= 0 {
			continue
		}
		deviation := e.stdErr / m.scale()
		variance := d.shrink(d.variance(between[f], within[f]), middle)
		variance, e.df = d.combine(deviation*deviation, e.df, m.scale(), variance, float64(d.base-1)+machinePriorDF)
		e.stdErr = math.Sqrt(variance)
	}
}
