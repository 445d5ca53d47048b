package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxSelf is the self part of a function's cumulative cost above which the
// cumulative cost is the function's own, which is tested already.
const maxSelf = 0.8

// nodes returns the functions whose cumulative cost is tested: what is called
// below them, less the leaves in out.
func (c *comparison) nodes(out map[int]bool) []aggregate {
	t := c.calls
	if t == nil {
		return nil
	}
	leaves := make(map[int]bool)
	for f := range out {
		if id := t.frameOf(c.matrix.functions[f]); id >= 0 {
			leaves[id] = true
		}
	}
	rows := make([][]float64, len(t.frames))
	for id := range t.frames {
		if strings.HasPrefix(t.frames[id].Name, "[") || !c.testable(t.n[id]) {
			continue
		}
		rows[id] = slices.Clone(t.n[id])
		if f := t.self[id]; f >= 0 && leaves[id] {
			for r, n := range c.matrix.n[f] {
				rows[id][r] -= n
			}
		}
	}
	spread := make([]float64, len(t.frames))
	base := float64(c.matrix.base)
	under := make(map[[2]int]float64) // base share of a leaf under a node
	t.each(func(r, leaf, frame int, x context) {
		switch {
		case rows[frame] == nil:
		case leaves[leaf]:
			rows[frame][r] -= float64(x.n)
		case r < c.matrix.base:
			under[[2]int{leaf, frame}] += float64(x.n) / c.matrix.totals[r] / base
		}
	})
	for pair, share := range under {
		spread[pair[1]] += share * share
	}
	var list []aggregate
	for id, row := range rows {
		if row == nil {
			continue
		}
		for r := range row {
			row[r] = math.Max(row[r], 0)
		}
		own := 0.0
		if f := t.self[id]; f >= 0 && !leaves[id] {
			own = c.matrix.count(f)
			share := c.result.Functions[f].ShareBase
			spread[id] += share * share
		}
		if !c.testable(row) || own > maxSelf*mean(row) {
			continue
		}
		list = append(list, aggregate{kind: GroupCalls, frame: id, function: t.frames[id], row: row, spread: math.Sqrt(spread[id])})
	}
	slices.SortFunc(list, func(a, b aggregate) int {
		return cmp.Or(strings.Compare(a.function.Name, b.function.Name), cmp.Compare(a.frame, b.frame))
	})
	return list
}

// growthBelow returns the growth of every function below a node, itself
// included, as a part of the baseline's cost; only of those that moved in the
// node's direction, and are not in out.
func (c *comparison) growthBelow(node aggregate, sign float64, out map[int]bool) map[int]float64 {
	t, scale := c.calls, c.costScale()
	rows := make(map[int][]float64)
	add := func(leaf, r int, n float64) {
		f := t.self[leaf]
		if f < 0 || out[f] {
			return
		}
		if rows[f] == nil {
			rows[f] = make([]float64, c.matrix.runs())
		}
		rows[f][r] += n
	}
	t.each(func(r, leaf, frame int, x context) {
		if frame == node.frame {
			add(leaf, r, float64(x.n))
		}
	})
	if f := t.self[node.frame]; f >= 0 {
		for r, n := range c.matrix.n[f] {
			add(node.frame, r, n)
		}
	}
	growth := make(map[int]float64)
	for f, row := range rows {
		base, head := c.costs(row, scale)
		if d := (head - base) * sign; d > 0 {
			growth[f] = d
		}
	}
	return growth
}

// concentrated drops, of calling contexts that grew by the same functions, all
// but the most concentrated one: what grew below a function also grew below
// everything that calls it. It returns the positions in fam.list to report.
func (c *comparison) concentrated(fam *family, out map[int]bool) map[int]map[int]float64 {
	sign := 1.0
	if !fam.growth {
		sign = -1
	}
	var found []int
	for i, ev := range fam.evidence {
		if ev.Kind == GroupCalls && ev.Q <= c.result.GroupAlpha && ev.Effect*sign > 0 {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b int) int {
		return cmp.Or(cmp.Compare(math.Abs(fam.evidence[b].Effect), math.Abs(fam.evidence[a].Effect)), cmp.Compare(a, b))
	})
	below := make(map[int]map[int]float64)
	for _, i := range found {
		below[i] = c.growthBelow(fam.list[i], sign, out)
	}
	kept := make(map[int]map[int]float64)
	for len(found) > 0 {
		best := found[0]
		for _, i := range found {
			if fam.evidence[i].Effect*sign >= 0.8*fam.evidence[found[0]].Effect*sign && fam.evidence[i].ShareBase < fam.evidence[best].ShareBase {
				best = i
			}
		}
		kept[best] = below[best]
		rest := found[:0]
		for _, i := range found {
			if i != best && overlap(below[i], below[best]) < 0.5 {
				rest = append(rest, i)
			}
		}
		found = rest
	}
	return kept
}

// overlap returns the part of a's or of b's growth that both share, whichever
// is more.
func overlap(a, b map[int]float64) float64 {
	both, sumA, sumB := 0.0, 0.0, 0.0
	for f, d := range a {
		both, sumA = both+math.Min(d, b[f]), sumA+d
	}
	for _, d := range b {
		sumB += d
	}
	if least := math.Min(sumA, sumB); least > 0 {
		return both / least
	}
	return 1
}

// doubtCalls turns the growth of a calling context to a cost shift where the
// functions that grew below it did not grow as a whole: another caller calls
// them less. This takes no proof of equivalence, only that less than half of
// the growth is left.
func (c *comparison) doubtCalls(f *Finding, below map[int]float64) {
	members := make(map[int]bool, len(below))
	for i := range below {
		members[i] = true
	}
	domain := c.newDomain(members, "the functions that grew below it")
	if domain == nil || domain.effect() < f.Effect/2 {
		f.Kind, f.Severity = CostShift, Warns
		f.Text = "cost moved: the functions that grew below it did not grow as a whole"
		if domain != nil {
			f.Text = fmt.Sprintf("cost moved: the functions that grew below it changed by %+.2f pp as a whole", 100*domain.effect())
		}
	}
}
