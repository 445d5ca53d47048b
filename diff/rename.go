package diff

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
)

// leastRenamed is the share from which a function is looked for under another
// name; below it, it is on one side by chance.
const leastRenamed = 0.001

// renameRounds is how often renamed functions are looked for: the second round
// knows the neighbours that the first one matched.
const renameRounds = 2

// formerClosure marks a closure of base whose number head gave to another one.
const formerClosure = " (base)"

// Rename is a function that base has under another name than head, as its
// callers and callees tell.
type Rename struct {
	Base, Head string
	Kernel     bool
}

// match finds what base calls by another name than head: closures that only
// their number tells apart, and functions that were renamed. n.former then maps
// base's canonical names to head's.
func (n *names) match(base, head []observed, o Options) {
	n.former = make(map[functionKey]string)
	n.matchClosures(base, head)
	for range renameRounds {
		if n.matchRenamed(base, head, o) == 0 {
			break
		}
	}
}

// closure is an anonymous function of Go, or a wrapper that the compiler made.
type closure struct {
	key    functionKey
	offset int // lines below the start of the function it is in
}

// closureName matches what Go appends to a function's name to name what is in
// it: ".func2", ".func2.1", ".gowrap1", ".deferwrap1", ".func1-range2".
var closureName = regexp.MustCompile(`\.(?:func|gowrap|deferwrap)[0-9]+(?:[.-](?:func|gowrap|deferwrap|range)?[0-9]+)*$`)

// closureParent returns the named function that a closure is in: "main.run" for
// "main.run.func2.1"; "" for other functions.
func closureParent(name string) string {
	if last := len(name) - 1; last < 0 || name[last] < '0' || name[last] > '9' {
		return ""
	}
	if at := closureName.FindStringIndex(name); at != nil && at[0] > 0 {
		return name[:at[0]]
	}
	return ""
}

// matchClosures matches Go's closures by the function they are in and by how
// far below its start they are, since their numbers count from the top of the
// function. Closures that are left over, as when lines were added above them,
// are matched in order where as many are left on both sides.
func (n *names) matchClosures(base, head []observed) {
	before, after := n.closures(base), n.closures(head)
	for parent, old := range before {
		now := after[parent]
		if len(now) == 0 {
			continue
		}
		taken := make(map[functionKey]bool)
		var left []closure
		for _, c := range old {
			i := slices.IndexFunc(now, func(d closure) bool { return d.offset == c.offset && !taken[d.key] })
			if i < 0 {
				left = append(left, c)
				continue
			}
			taken[now[i].key] = true
			n.rename(c.key, now[i].key.name)
		}
		var open []closure
		for _, d := range now {
			if !taken[d.key] {
				open = append(open, d)
			}
		}
		for i, c := range left {
			switch {
			case len(open) == len(left):
				n.rename(c.key, open[i].key.name)
			case slices.ContainsFunc(now, func(d closure) bool { return d.key == c.key }):
				// Head gave the number to another closure.
				n.rename(c.key, c.key.name+formerClosure)
			}
		}
	}
}

func (n *names) rename(key functionKey, name string) {
	if key.name != name {
		n.former[key] = name
	}
}

// closures returns the closures of one side by the function they are in, from
// its top, where the start of both is known.
func (n *names) closures(side []observed) map[functionKey][]closure {
	starts := make(map[functionKey]int)
	var found []functionKey
	for _, run := range side {
		for _, f := range run.counts.frames {
			key := functionKey{n.of(f.Name), f.Kernel}
			if _, ok := starts[key]; ok || f.start <= 0 {
				continue
			}
			starts[key] = f.start
			if closureParent(key.name) != "" {
				found = append(found, key)
			}
		}
	}
	list := make(map[functionKey][]closure)
	for _, key := range found {
		parent := functionKey{closureParent(key.name), key.kernel}
		if start, ok := starts[parent]; ok {
			list[parent] = append(list[parent], closure{key, starts[key] - start})
		}
	}
	for _, closures := range list {
		slices.SortFunc(closures, func(a, b closure) int {
			return cmp.Or(cmp.Compare(a.offset, b.offset), strings.Compare(a.key.name, b.key.name))
		})
	}
	return list
}

// unmatchedFunction is a function that only one side has.
type unmatchedFunction struct {
	key        functionKey
	share      float64
	neighbours map[string]float64
}

// matchRenamed matches functions that only one side has by their callers and
// callees: the cosine of the samples under each, and the shares. It returns the
// number of matches.
func (n *names) matchRenamed(base, head []observed, o Options) int {
	old, now := n.shares(base, true), n.shares(head, false)
	missing := func(own, other map[functionKey]float64) []unmatchedFunction {
		var list []unmatchedFunction
		for key, share := range own {
			if other[key] == 0 && share >= leastRenamed && !strings.HasPrefix(key.name, "[") && !strings.HasSuffix(key.name, formerClosure) {
				list = append(list, unmatchedFunction{key: key, share: share, neighbours: make(map[string]float64)})
			}
		}
		slices.SortFunc(list, func(a, b unmatchedFunction) int { return strings.Compare(a.key.name, b.key.name) })
		return list
	}
	gone, added := missing(old, now), missing(now, old)
	if len(gone) == 0 || len(added) == 0 {
		return 0
	}
	n.neighbours(base, true, gone)
	n.neighbours(head, false, added)
	type pair struct {
		gone, added int
		distance    float64
	}
	var pairs []pair
	for i, a := range gone {
		for j, b := range added {
			ratio := math.Abs(math.Log(a.share / b.share))
			similarity := cosine(a.neighbours, b.neighbours)
			if a.key.kernel == b.key.kernel && similarity >= o.RenameCosine && ratio <= math.Log(o.RenameRatio) {
				pairs = append(pairs, pair{i, j, 1 - similarity + ratio})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.distance, b.distance) })
	usedGone, usedAdded := make(map[int]bool), make(map[int]bool)
	matches := 0
	for _, p := range pairs {
		if usedGone[p.gone] || usedAdded[p.added] {
			continue
		}
		usedGone[p.gone], usedAdded[p.added] = true, true
		matches++
		n.former[gone[p.gone].source(n)] = added[p.added].key.name
		n.renamed = append(n.renamed, Rename{Base: gone[p.gone].key.name, Head: added[p.added].key.name, Kernel: gone[p.gone].key.kernel})
	}
	return matches
}

// source returns the name that base itself gives the function.
func (u unmatchedFunction) source(n *names) functionKey {
	for from, to := range n.former {
		if to == u.key.name && from.kernel == u.key.kernel {
			return from
		}
	}
	return u.key
}

// shares returns the mean share of every function of a side.
func (n *names) shares(side []observed, base bool) map[functionKey]float64 {
	shares := make(map[functionKey]float64)
	for _, run := range side {
		for _, e := range run.counts.entries {
			shares[n.key(e, base)] += e.n / run.counts.total / float64(len(side))
		}
	}
	return shares
}

// neighbours fills in who calls the functions, as a leaf, and which leaves they
// call.
func (n *names) neighbours(side []observed, base bool, list []unmatchedFunction) {
	index := make(map[functionKey]int, len(list))
	for i, u := range list {
		index[functionKey{Canonical(u.key.name), u.key.kernel}] = i
	}
	for _, run := range side {
		keys := make([]functionKey, len(run.counts.frames))
		for i, f := range run.counts.frames {
			keys[i] = n.frame(f, base)
		}
		for _, x := range run.counts.contexts {
			if x.direct == 0 {
				continue
			}
			if i, ok := index[keys[x.leaf]]; ok {
				list[i].neighbours["called by "+keys[x.frame].name] += float64(x.direct) / run.counts.total
			}
			if i, ok := index[keys[x.frame]]; ok {
				list[i].neighbours["calls "+keys[x.leaf].name] += float64(x.direct) / run.counts.total
			}
		}
	}
}

// cosine returns the cosine of the angle between two vectors, 0 where one is
// empty.
func cosine(a, b map[string]float64) float64 {
	product, lengthA, lengthB := 0.0, 0.0, 0.0
	for k, v := range a {
		product += v * b[k]
		lengthA += v * v
	}
	for _, v := range b {
		lengthB += v * v
	}
	if lengthA == 0 || lengthB == 0 {
		return 0
	}
	return product / math.Sqrt(lengthA*lengthB)
}
