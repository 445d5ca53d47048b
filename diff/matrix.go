package diff

import (
	"math"
	"slices"
	"strings"
)

// matrix holds the samples of every function in every run: base's runs first,
// then head's.
type matrix struct {
	functions []Function
	n         [][]float64 // [function][run] self samples
	totals    []float64   // [run]
	logCPU    []float64   // [run] ln(C/W)
	base      int         // number of base runs
	paired    bool
	machines  *machines // nil where one variance between runs does
}

func (m *matrix) runs() int { return len(m.totals) }
func (m *matrix) head() int { return m.runs() - m.base }

// df is the degrees of freedom of a variance between runs.
func (m *matrix) df() float64 {
	if m.paired {
		return float64(m.base - 1)
	}
	if m.machines != nil {
		return m.machines.df()
	}
	return float64(m.runs() - 2)
}

// scale is the factor from a standard deviation between runs to the standard
// error of a difference of means. With one run on a side it is the prediction
// form sqrt(1 + 1/N).
func (m *matrix) scale() float64 {
	return math.Sqrt(1/float64(m.base) + 1/float64(m.head()))
}

// contrast returns the difference of the sides' means of x, which has a value
// per run, and the variance between runs on df() degrees of freedom: pooled
// within the sides, or half the variance of the paired differences, so that
// scale applies to both. In a history from several machines it is pooled within
// the machines. The variance is 0 where df() is.
func (m *matrix) contrast(x []float64) (difference, variance float64) {
	base, head := x[:m.base], x[m.base:]
	meanBase, meanHead := mean(base), mean(head)
	difference = meanHead - meanBase
	if m.df() <= 0 {
		return difference, 0
	}
	if m.machines != nil {
		return difference, m.machines.within(x)
	}
	sum := 0.0
	if m.paired {
		for i := range base {
			d := head[i] - base[i] - difference
			sum += d * d / 2
		}
	} else {
		for _, v := range base {
			sum += (v - meanBase) * (v - meanBase)
		}
		for _, v := range head {
			sum += (v - meanHead) * (v - meanHead)
		}
	}
	return difference, sum / m.df()
}

// within returns the variance of x pooled within the sides, which twice the
// degrees of freedom of paired differences stand behind.
func (m *matrix) within(x []float64) float64 {
	unpaired := *m
	unpaired.paired = false
	_, v := unpaired.contrast(x)
	return v
}

// sides returns the means of x over the base and head runs.
func (m *matrix) sides(x []float64) (base, head float64) {
	return mean(x[:m.base]), mean(x[m.base:])
}

// count returns the mean samples per run of function f over both sides.
func (m *matrix) count(f int) float64 { return mean(m.n[f]) }

// shares returns f's mean share of the samples on each side, with offset
// samples added to every run.
func (m *matrix) shares(f int, offset float64) (base, head float64) {
	x := make([]float64, m.runs())
	for r, n := range m.n[f] {
		x[r] = (n + offset) / m.totals[r]
	}
	return m.sides(x)
}

// onBothSides tells whether some run of either side has samples of f.
func (m *matrix) onBothSides(f int) bool {
	base, head := m.sides(m.n[f])
	return base > 0 && head > 0
}

// logCosts returns y_rf = ln((n_rf + 1/2) / T_r) + ln(C_r / W_r).
func (m *matrix) logCosts() [][]float64 {
	y := make([][]float64, len(m.n))
	flat := make([]float64, len(m.n)*m.runs())
	for f := range m.n {
		y[f], flat = flat[:m.runs()], flat[m.runs():]
		for r, n := range m.n[f] {
			y[f][r] = math.Log((n+0.5)/m.totals[r]) + m.logCPU[r]
		}
	}
	return y
}

// newMatrix matches the functions of all runs by canonical name. logCPU is
// left to the caller.
func newMatrix(base, head []observed, canonical *names, paired bool) *matrix {
	m := &matrix{base: len(base), paired: paired}
	index := make(map[functionKey]int)
	best := []float64{} // heaviest entry seen of a function
	fromHead := []bool{}
	for r, run := range slices.Concat(base, head) {
		m.totals = append(m.totals, run.counts.total)
		for _, e := range run.counts.entries {
			key := canonical.key(e, r < len(base))
			i, ok := index[key]
			if !ok {
				i = len(m.functions)
				index[key] = i
				m.functions = append(m.functions, Function{})
				m.n = append(m.n, make([]float64, len(base)+len(head)))
				best, fromHead = append(best, 0), append(fromHead, false)
			}
			m.n[i][r] += e.n
			// Where it is: head's word before base's, the heaviest variant's
			// before the others'.
			inHead := r >= len(base)
			if e.n > best[i] && inHead == fromHead[i] || inHead && !fromHead[i] {
				best[i], fromHead[i] = e.n, inHead
				f := e.Function
				f.Name = key.name
				if e.start > 0 {
					f.Line = e.start
				}
				if f.SystemName == "" && e.Name != key.name {
					f.SystemName = e.Name
				}
				m.functions[i] = f
			}
		}
	}
	m.sort()
	return m
}

// sort orders functions by name, so that nothing depends on the order in
// which profiles list them.
func (m *matrix) sort() {
	order := make([]int, len(m.functions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		fa, fb := m.functions[a], m.functions[b]
		if c := strings.Compare(fa.Name, fb.Name); c != 0 {
			return c
		}
		switch {
		case fa.Kernel == fb.Kernel:
			return 0
		case fb.Kernel:
			return -1
		}
		return 1
	})
	functions, n := make([]Function, len(order)), make([][]float64, len(order))
	for to, from := range order {
		functions[to], n[to] = m.functions[from], m.n[from]
	}
	m.functions, m.n = functions, n
}

// functionKey is what functions are matched by. A name that the kernel and a
// library share ("memcpy") is two functions.
type functionKey struct {
	name   string
	kernel bool
}

// names gives functions the name that they are matched by.
type names struct {
	canonical map[string]string
	distinct  map[functionKey]bool // stripping merges distinct functions
	// former maps the names of base that head has another one for to head's.
	former  map[functionKey]string
	renamed []Rename
}

// newNames finds the canonical names that stand for more than one function on
// either side; those keep their suffixes. Variants of one name are the same
// function where they start at the same source line. Without that, clones and
// parts are (".part.0" of a function is part of it), while ".llvm.N" and
// ".__uniq.N" exist to tell apart functions that share a name.
func newNames(base, head []observed) *names {
	n := &names{canonical: make(map[string]string), distinct: make(map[functionKey]bool)}
	type variant struct {
		name, file string
		start      int
	}
	for _, side := range [][]observed{base, head} {
		seen := make(map[functionKey][]variant)
		for _, run := range side {
			for _, e := range run.counts.entries {
				key := functionKey{n.of(e.Name), e.Kernel}
				v := variant{e.Name, e.File, e.start}
				known := false
				for _, other := range seen[key] {
					if known = known || other.name == v.name; known || n.distinct[key] {
						break
					}
					if v.start > 0 && other.start > 0 {
						n.distinct[key] = v.start != other.start || v.file != other.file
					} else {
						n.distinct[key] = discriminator(v.name) != discriminator(other.name)
					}
				}
				if !known {
					seen[key] = append(seen[key], v)
				}
			}
		}
	}
	return n
}

// of returns the canonical form of name, remembered.
func (n *names) of(name string) string {
	short, ok := n.canonical[name]
	if !ok {
		short = Canonical(name)
		n.canonical[name] = short
	}
	return short
}

// key returns what an entry of a run of base, or of head, is matched by.
func (n *names) key(e entry, base bool) functionKey {
	key := functionKey{n.of(e.Name), e.Kernel}
	if n.distinct[key] {
		key.name = e.Name
	}
	return n.current(key, base)
}

// frame is key for a function on a stack.
func (n *names) frame(f frame, base bool) functionKey {
	return n.current(functionKey{n.of(f.Name), f.Kernel}, base)
}

// current returns head's name for a function of base.
func (n *names) current(key functionKey, base bool) functionKey {
	if name, ok := n.former[key]; ok && base {
		key.name = name
	}
	return key
}

// discriminator returns the part of a linkage name that tells functions of
// one source name apart, "" when there is none.
func discriminator(name string) string {
	for _, mark := range []string{".llvm.", ".__uniq."} {
		if _, after, ok := strings.Cut(name, mark); ok {
			number, _, _ := strings.Cut(after, ".")
			return mark + number
		}
	}
	return ""
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
