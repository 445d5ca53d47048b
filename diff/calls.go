package diff

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// callTree is who calls whom in the runs of both sides: frames by canonical
// name, base's runs first.
type callTree struct {
	frames []Function
	index  map[functionKey]int
	n      [][]float64 // [frame][run] samples with it anywhere on the stack
	ids    [][]int32   // [run] frames of the run's Counts
	runs   []observed
	self   []int // [frame] index of the function in the matrix, -1 for none
}

// newCallTree matches the frames of all runs; nil where no run has stacks.
func newCallTree(m *matrix, canonical *names, runs []observed) *callTree {
	t := &callTree{index: make(map[functionKey]int), runs: runs}
	deep := false
	for r, run := range runs {
		ids := make([]int32, len(run.counts.frames))
		for i, f := range run.counts.frames {
			key := canonical.frame(f, r < m.base)
			id, ok := t.index[key]
			if !ok {
				id = len(t.frames)
				t.index[key] = id
				f.Name = key.name
				t.frames = append(t.frames, f.Function)
				t.n = append(t.n, make([]float64, len(runs)))
			}
			if r >= m.base && t.n[id][r] == 0 {
				t.frames[id] = f.Function // head's word on where it is
			}
			ids[i] = int32(id)
			t.n[id][r] += f.n
		}
		t.ids = append(t.ids, ids)
		deep = deep || len(run.counts.contexts) > 0
	}
	if !deep {
		return nil
	}
	t.self = make([]int, len(t.frames))
	for i := range t.self {
		t.self[i] = -1
	}
	for f, function := range m.functions {
		if id := t.frameOf(function); id >= 0 {
			t.self[id] = f
		}
	}
	return t
}

// frameOf returns the frame of a function of the matrix, -1 for none.
func (t *callTree) frameOf(f Function) int {
	if id, ok := t.index[functionKey{Canonical(f.Name), f.Kernel}]; ok {
		return id
	}
	return -1
}

// calling is a frame above one leaf in all runs.
type calling struct {
	frame    int
	n        []float64 // [run] samples of the leaf under it
	direct   float64   // of all runs
	distance float64   // mean, weighted by samples
}

// above returns the frames above each of the leaves.
func (t *callTree) above(leaves map[int]bool) map[int][]calling {
	index := make(map[[2]int]int)
	all := make(map[int][]calling)
	t.each(func(r, leaf, frame int, x context) {
		if !leaves[leaf] {
			return
		}
		list := all[leaf]
		i, ok := index[[2]int{leaf, frame}]
		if !ok {
			i = len(list)
			index[[2]int{leaf, frame}] = i
			list = append(list, calling{frame: frame, n: make([]float64, len(t.runs))})
			all[leaf] = list
		}
		list[i].n[r] += float64(x.n)
		list[i].direct += float64(x.direct)
		list[i].distance += float64(x.distance) * float64(x.n)
	})
	for _, list := range all {
		for i := range list {
			list[i].distance /= sumOf(list[i].n)
		}
	}
	return all
}

// each calls do with every context of every run.
func (t *callTree) each(do func(r, leaf, frame int, x context)) {
	for r, run := range t.runs {
		ids := t.ids[r]
		for _, x := range run.counts.contexts {
			do(r, int(ids[x.leaf]), int(ids[x.frame]), x)
		}
	}
}

// costScale returns the factor per run from samples to cost in the mean run's
// CPU, which is what shares are compared by.
func (c *comparison) costScale() []float64 {
	scale := make([]float64, c.matrix.runs())
	for r := range scale {
		scale[r] = math.Exp(c.matrix.logCPU[r]-c.reference.factors[r]) / c.matrix.totals[r]
	}
	return scale
}

// costs returns the mean cost of row on each side.
func (c *comparison) costs(row, scale []float64) (base, head float64) {
	x := make([]float64, len(row))
	for r, n := range row {
		x[r] = n * scale[r]
	}
	return c.matrix.sides(x)
}

// Caller is a calling context of a function: a frame above it.
type Caller struct {
	Function string
	File     string
	Line     int
	Object   string
	// Coverage is the part of the function's growth that happened under this
	// frame: above 1 where the function got cheaper elsewhere.
	Coverage float64
	// ShareBase is the part of the function's baseline samples under it.
	ShareBase float64
}

// maxCallers is how many calling contexts a finding lists.
const maxCallers = 5

// explain fills in the calling contexts of the findings on functions that
// grew: the frames that cover most of the growth and were not on most of the
// function's stacks before.
func (c *comparison) explain() {
	if c.calls == nil {
		return
	}
	leaves := make(map[int]bool)
	for _, f := range c.result.Findings {
		if f.Group == "" && f.Kind != Uniform && f.Effect > 0 {
			leaves[c.calls.frameOf(Function{Name: f.Function, Kernel: f.kernel})] = true
		}
	}
	if len(leaves) == 0 {
		return
	}
	above, scale := c.calls.above(leaves), c.costScale()
	for i := range c.result.Findings {
		f := &c.result.Findings[i]
		if f.Group != "" || f.Kind == Uniform || f.Effect <= 0 {
			continue
		}
		id := c.calls.frameOf(Function{Name: f.Function, Kernel: f.kernel})
		if id < 0 || c.calls.self[id] < 0 {
			continue
		}
		f.Callers, f.Through = c.explainBy(c.matrix.n[c.calls.self[id]], above[id], scale)
	}
}

// explainBy returns the frames that explain the growth of a leaf, best coverage
// first, and the deepest one of them.
func (c *comparison) explainBy(leaf []float64, above []calling, scale []float64) ([]Caller, *Caller) {
	o := c.options
	base, head := c.costs(leaf, scale)
	if !(head > base) {
		return nil, nil
	}
	type candidate struct {
		Caller
		distance float64
	}
	var list []candidate
	for _, a := range above {
		frame := c.calls.frames[a.frame]
		if strings.HasPrefix(frame.Name, "[") {
			continue // "[truncated:...]" calls nothing
		}
		baseUnder, headUnder := c.costs(a.n, scale)
		x := Caller{
			Function: frame.Name, File: frame.File, Line: frame.Line, Object: frame.Object,
			Coverage: (headUnder - baseUnder) / (head - base),
		}
		if base > 0 {
			x.ShareBase = baseUnder / base
		}
		if x.Coverage >= o.CoverIncrease && x.ShareBase <= o.CoverBaseline {
			list = append(list, candidate{x, a.distance})
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	deepest := slices.MinFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(b.Coverage, a.Coverage), strings.Compare(a.Function, b.Function))
	})
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.Coverage, a.Coverage), cmp.Compare(a.distance, b.distance), strings.Compare(a.Function, b.Function))
	})
	var callers []Caller
	for _, x := range list[:min(len(list), maxCallers)] {
		callers = append(callers, x.Caller)
	}
	return callers, &deepest.Caller
}

func sumOf(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum
}
