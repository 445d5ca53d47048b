package diff

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/google/pprof/profile"
)

// ErrNotCPU reports a profile that holds no CPU samples, such as a heap
// profile.
var ErrNotCPU = errors.New("not a CPU profile")

// targetLabel marks the samples of the wrapped command's process tree.
const targetLabel = "target"

// noStack is the function that samples without a stack are counted under.
const noStack = "[no stack]"

// Counts are the samples per function of one run, and of the stacks who calls
// the functions that have most: all of a profile that the comparison looks at.
type Counts struct {
	entries  []entry
	frames   []frame           // functions anywhere on the stacks
	contexts []context         // by leaf
	builds   map[string]string // build ID by object
	total    float64           // samples
	event    string            // what is sampled: "cpu", "cycles"
	unit     string            // of period
	period   float64
	seconds  float64 // of CPU, from the samples; 0 when the event is not time
	scope    Scope
	targeted bool // some sample carries the target label
	estimate bool // the period was not recorded; counts are scaled by guess
}

// entry is a function as the profile names it.
type entry struct {
	Function
	start int // line where the function starts, 0 unknown
	n     float64
}

// Samples returns the number of samples in scope.
func (c *Counts) Samples() float64 { return c.total }

// CPUSeconds returns the CPU time that the samples stand for, 0 when the
// sampled event does not measure time.
func (c *Counts) CPUSeconds() float64 { return c.seconds }

// Count counts the samples of each function of p, as Options.Scope and
// Options.SampleType select them; with Options.Touched it notes the neighbours
// of touched functions. It keeps no reference to p. The error wraps ErrNotCPU
// when p measures something else.
func Count(p *profile.Profile, o Options) (*Counts, error) {
	scope := o.Scope
	if scope == ScopeAuto {
		scope = ScopeAll
		if p != nil {
			for _, s := range p.Sample {
				if isTarget(s) {
					scope = ScopeTarget
					break
				}
			}
		}
	}
	return count(p, o.SampleType, scope, o.Touched)
}

// count does the work of Count in a scope that is already decided.
func count(p *profile.Profile, sampleType string, scope Scope, touched func(Function) bool) (*Counts, error) {
	if p == nil {
		return nil, errors.New("count samples: no profile")
	}
	m, err := measureOf(p, sampleType)
	if err != nil {
		return nil, fmt.Errorf("count samples: %w", err)
	}
	c := &Counts{event: m.event, unit: m.unit, period: m.period, scope: scope, estimate: m.guessed}
	values, kept, none, err := c.leaves(p, m.index, scope)
	if err != nil {
		return nil, fmt.Errorf("count samples: %w", err)
	}
	c.fold(p, values, none, m.scale)
	c.builds = make(map[string]string)
	for _, m := range p.Mapping {
		if m.BuildID != "" {
			c.builds[path.Base(m.File)] = m.BuildID
		}
	}
	c.stacks(p, kept, m.index, m.scale, touched)
	c.seconds = c.total * m.secondsPerSample
	return c, nil
}

// leaves adds up the values of the samples in scope by the leaf location, in
// the order of p.Location, and those without a stack. kept are the samples with
// a stack.
func (c *Counts) leaves(p *profile.Profile, index int, scope Scope) (values []float64, kept []int32, none float64, err error) {
	values = make([]float64, len(p.Location))
	kept = make([]int32, 0, len(p.Sample))
	position := newLocationIndex(p)
	for number, s := range p.Sample {
		if isTarget(s) {
			c.targeted = true
		} else if scope == ScopeTarget {
			continue
		}
		if index >= len(s.Value) {
			return nil, nil, 0, fmt.Errorf("a sample has %d values, the profile declares %d types", len(s.Value), len(p.SampleType))
		}
		v := s.Value[index]
		if v < 0 {
			return nil, nil, 0, errors.New("a sample has a negative value: is this a difference of profiles?")
		}
		if len(s.Location) == 0 || s.Location[0] == nil {
			none += float64(v)
			continue
		}
		i := position.at(s.Location[0])
		if i < 0 {
			return nil, nil, 0, fmt.Errorf("a sample refers to location %d, which the profile does not list", s.Location[0].ID)
		}
		values[i] += float64(v)
		if v > 0 {
			kept = append(kept, int32(number))
		}
	}
	return values, kept, none, nil
}

// locationIndex is the lookup of a location's index in Profile.Location: an
// array where identifiers are dense, as they are in most profiles.
type locationIndex struct {
	dense []int32 // by identifier, 1 + index
	byID  map[uint64]int32
}

func newLocationIndex(p *profile.Profile) *locationIndex {
	most := uint64(0)
	for _, l := range p.Location {
		most = max(most, l.ID)
	}
	x := &locationIndex{}
	if most > uint64(8*len(p.Location)+1024) {
		x.byID = make(map[uint64]int32, len(p.Location))
		for i, l := range p.Location {
			x.byID[l.ID] = int32(i) + 1
		}
		return x
	}
	x.dense = make([]int32, most+1)
	for i, l := range p.Location {
		x.dense[l.ID] = int32(i) + 1
	}
	return x
}

// at returns the index of l, negative when the profile does not list it.
func (x *locationIndex) at(l *profile.Location) int32 {
	if l.ID < uint64(len(x.dense)) {
		return x.dense[l.ID] - 1
	}
	return x.byID[l.ID] - 1
}

// fold adds up locations by function. Location.Line[0] is the innermost
// inlined function, so that inlined functions count as themselves. A synthetic
// frame such as "[exit]" is a function like any other when it is the leaf.
func (c *Counts) fold(p *profile.Profile, values []float64, none, scale float64) {
	type key struct {
		name   string
		kernel bool
	}
	index := make(map[key]int)
	hottest := []float64{}
	add := func(f Function, start int, value float64) {
		k := key{f.Name, f.Kernel}
		i, ok := index[k]
		if !ok {
			i = len(c.entries)
			index[k] = i
			c.entries = append(c.entries, entry{Function: f, start: start})
			hottest = append(hottest, 0)
		}
		e := &c.entries[i]
		e.n += value
		c.total += value
		if value > hottest[i] {
			hottest[i] = value
			e.Function, e.start = f, start
		}
	}
	for i, l := range p.Location {
		if values[i] > 0 {
			f, start := functionAt(l, 0)
			add(f, start, values[i]*scale)
		}
	}
	if none > 0 {
		add(Function{Name: noStack}, 0, none*scale)
	}
}

// functionAt returns the function of line i of l, 0 being the innermost one,
// with the line that l stands for, and the line where the function starts.
func functionAt(l *profile.Location, i int) (Function, int) {
	f := Function{}
	if m := l.Mapping; m != nil {
		f.Object = path.Base(m.File)
		f.Kernel = strings.HasPrefix(m.File, "[kernel") || strings.HasPrefix(m.File, "[guest.kernel")
		if m.File == "" {
			f.Object = ""
		}
	}
	if i >= len(l.Line) || l.Line[i].Function == nil {
		// An address says nothing about another build; the file does.
		f.Name = "[unsymbolized]"
		if f.Object != "" {
			f.Name = f.Object + " [unsymbolized]"
		}
		return f, 0
	}
	line := l.Line[i]
	f.Name, f.SystemName, f.File = line.Function.Name, line.Function.SystemName, line.Function.Filename
	if f.Name == "" {
		f.Name = f.SystemName
	}
	f.Line = int(clampLine(line.Line))
	return f, int(clampLine(line.Function.StartLine))
}

func clampLine(line int64) int64 {
	if line < 0 || line > math.MaxInt32 {
		return 0
	}
	return line
}

// isTarget tells whether s was taken in the wrapped command's process tree.
func isTarget(s *profile.Sample) bool {
	return len(s.Label[targetLabel]) > 0
}
