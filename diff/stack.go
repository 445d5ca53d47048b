package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Bounds of what Counts keeps of the stacks of a run, so that its size does not
// depend on how many there are.
const (
	maxContexts     = 1 << 16 // of a run, 20 bytes each
	maxLeafContexts = 256     // of a leaf
	leastContext    = 0.01    // of a leaf's samples
)

// frame is a function on the stacks of a run, by its canonical name.
type frame struct {
	Function
	n     float64 // samples with the function anywhere on the stack
	start int     // line where the function starts, 0 unknown
	// touched: Options.Touched holds for it; beside: for its caller or callee
	// on some stack.
	touched, beside bool
}

// context is how often a function was on the stack of samples of a leaf.
type context struct {
	leaf, frame int32   // indexes of Counts.frames
	n           float32 // samples; recursion counts once
	direct      float32 // those in which the frame called the leaf itself
	distance    float32 // mean number of calls from the frame to the leaf
}

// stacks reduces the stacks of p's samples, which are kept, to frames and
// contexts. Stacks are sorted by leaf, so that the work is linear in the frames
// and one array of sums serves all leaves.
func (c *Counts) stacks(p *profile.Profile, kept []int32, index int, scale float64, touched func(Function) bool) {
	w := &stackWalk{counts: c, functions: make(map[frameKey]int32), offsets: make([]int32, 1, len(p.Location)+1)}
	for _, l := range p.Location {
		w.addLocation(l)
	}
	if touched != nil {
		for i := range c.frames {
			c.frames[i].touched = touched(c.frames[i].Function)
		}
	}
	position := newLocationIndex(p)
	depth := 0
	for _, s := range kept {
		depth += len(p.Sample[s].Location)
	}
	w.flat = make([]int32, 0, depth+depth/4)
	w.stamp = make([]int32, len(c.frames))
	w.ends = make([]int32, 1, len(kept)+1)
	w.values = make([]float32, 0, len(kept))
	for i, s := range kept {
		w.values = append(w.values, float32(float64(p.Sample[s].Value[index])*scale))
		w.addStack(p.Sample[s], int32(i+1), position, touched != nil)
	}
	w.sum()
	c.contexts = slices.Clip(c.contexts)
}

// stackWalk is the state of Counts.stacks.
type stackWalk struct {
	counts    *Counts
	functions map[frameKey]int32
	// lines lists the frames of all locations, innermost first; those of
	// location i end at offsets[i+1].
	lines, offsets []int32
	// flat lists the distinct frames of all stacks, leaf first; those of stack
	// i end at ends[i+1]. values has its samples.
	flat, ends []int32
	values     []float32
	stamp      []int32 // by frame, the stack it was last seen in, from 1
}

// frameKey identifies a function of a profile before it has a canonical name.
type frameKey struct {
	function *profile.Function
	name     string // where function is nil
	kernel   bool
}

// addStack adds a stack to flat. mark is unique to it.
func (w *stackWalk) addStack(s *profile.Sample, mark int32, position *locationIndex, touched bool) {
	frames, callee := w.counts.frames, int32(-1)
	for _, l := range s.Location {
		at := position.at(l)
		if at < 0 {
			continue
		}
		for _, f := range w.lines[w.offsets[at]:w.offsets[at+1]] {
			if touched && callee >= 0 {
				frames[f].beside = frames[f].beside || frames[callee].touched
				frames[callee].beside = frames[callee].beside || frames[f].touched
			}
			callee = f
			if w.stamp[f] != mark {
				w.stamp[f] = mark
				w.flat = append(w.flat, f)
			}
		}
	}
	w.ends = append(w.ends, int32(len(w.flat)))
}

// sum adds up the stacks of every leaf, the hottest leaf first, since what is
// kept has a bound.
func (w *stackWalk) sum() {
	c := w.counts
	starts := make([]int32, len(c.frames)+2)
	self := make([]float64, len(c.frames))
	for i, n := range w.values {
		leaf := w.flat[w.ends[i]]
		starts[leaf+2]++
		self[leaf] += float64(n)
	}
	for i := 2; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	ordered := make([]int32, len(w.values))
	for i := range w.values {
		leaf := w.flat[w.ends[i]]
		ordered[starts[leaf+1]] = int32(i)
		starts[leaf+1]++
	}
	leaves := make([]int32, 0, len(c.frames))
	for leaf := range c.frames {
		if self[leaf] > 0 {
			leaves = append(leaves, int32(leaf))
		}
	}
	slices.SortFunc(leaves, func(a, b int32) int {
		return cmp.Or(cmp.Compare(self[b], self[a]), strings.Compare(c.frames[a].Name, c.frames[b].Name))
	})
	sums := make([]contextSum, len(c.frames))
	var seen []int32
	for _, leaf := range leaves {
		seen = seen[:0]
		for _, i := range ordered[starts[leaf]:starts[leaf+1]] {
			n := w.values[i]
			for depth, f := range w.flat[w.ends[i]+1 : w.ends[i+1]] {
				sum := &sums[f]
				if sum.n == 0 {
					seen = append(seen, f)
				}
				sum.n += n
				sum.distance += n * float32(depth+1)
				if depth == 0 {
					sum.direct += n
				}
			}
		}
		c.frames[leaf].n += self[leaf]
		c.keep(leaf, self[leaf], sums, seen)
	}
}

// contextSum adds up the samples of a leaf under one frame.
type contextSum struct{ n, direct, distance float32 }

// keep adds the sums of a leaf over the frames seen to the frames' samples, and
// keeps the contexts while there is room. It clears the sums.
func (c *Counts) keep(leaf int32, self float64, sums []contextSum, seen []int32) {
	least := float32(leastContext * self)
	room := min(maxContexts-len(c.contexts), maxLeafContexts)
	for above := len(seen); above > room && room > 0; least *= 1.25 {
		above = 0
		for _, f := range seen {
			if sums[f].n >= least {
				above++
			}
		}
		if above <= room {
			break
		}
	}
	for _, f := range seen {
		sum := sums[f]
		sums[f] = contextSum{}
		c.frames[f].n += float64(sum.n)
		if sum.n >= least && room > 0 {
			c.contexts = append(c.contexts, context{leaf: leaf, frame: f, n: sum.n, direct: sum.direct, distance: sum.distance / sum.n})
		}
	}
}

// addLocation adds the frames of a location to lines.
func (w *stackWalk) addLocation(l *profile.Location) {
	for i := range max(1, len(l.Line)) {
		f, start := functionAt(l, i)
		if start > 0 {
			f.Line = start
		}
		key := frameKey{kernel: f.Kernel, name: f.Name}
		if i < len(l.Line) && l.Line[i].Function != nil {
			key.function, key.name = l.Line[i].Function, ""
		}
		id, ok := w.functions[key]
		if !ok {
			// The same function under another suffix is one frame: a
			// ".part.0" is called by what it is a part of.
			f.Name = Canonical(f.Name)
			canonical := frameKey{kernel: f.Kernel, name: f.Name}
			if id, ok = w.functions[canonical]; !ok {
				id = int32(len(w.counts.frames))
				w.counts.frames = append(w.counts.frames, frame{Function: f, start: start})
				w.functions[canonical] = id
			}
			w.functions[key] = id
		}
		w.lines = append(w.lines, id)
	}
	w.offsets = append(w.offsets, int32(len(w.lines)))
}
