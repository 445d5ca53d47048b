package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/google/pprof/profile"
)

// tree is a model of a program with stacks: what every path costs. The noise
// between runs belongs to the leaves, the rest is as in program.
type tree struct {
	program
	paths []treePath
	noise map[string]float64 // log-normal standard deviation by leaf
}

type treePath struct {
	frames string // leaf first, separated by spaces
	cost   float64
}

// newTree returns a program of 10 CPU-seconds: three handlers below main.serve
// that call services of their own and share a library, and a loop beside them.
//
//	main.main > main.serve > http.handle{0,1,2} > svc{h}.f{i} > lib.f{j}
//	main.main > main.loop > work.f{i}
func newTree() tree {
	t := tree{program: newProgram(1, 1), noise: make(map[string]float64)}
	for h := range 3 {
		for i := range 20 {
			service := fmt.Sprintf("svc%d.f%d main.do|http.handle%d main.serve main.main", h, i, h)
			t.add(service, 0.05)
			t.add(fmt.Sprintf("lib.f%d %s", i%8, service), 0.04)
		}
	}
	for i := range 40 {
		t.add(fmt.Sprintf("work.f%d main.loop main.main", i), 0.1)
	}
	for h := range 3 {
		t.add(fmt.Sprintf("runtime.memmove lib.copy http.handle%d main.serve main.main", h), 0.15)
	}
	return t
}

func (t *tree) add(frames string, cost float64) {
	t.paths = append(t.paths, treePath{frames, cost})
	leaf, _, _ := strings.Cut(frames, " ")
	t.noise[leaf] = 0.01 + 0.01*float64(len(t.noise)%3)
}

// with returns a copy in which the paths that match cost more by seconds in
// all, in equal parts.
func (t tree) with(seconds float64, match func(frames string) bool) tree {
	t.paths = append([]treePath(nil), t.paths...)
	var grown []int
	for i, p := range t.paths {
		if match(p.frames) {
			grown = append(grown, i)
		}
	}
	for _, i := range grown {
		t.paths[i].cost += seconds / float64(len(grown))
	}
	return t
}

// run draws one run as a profile; speed is the log of the machine's slowness.
func (t tree) run(rng *rand.Rand, speed float64, o Options) Run {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     int64(1e9 / t.hertz),
		Mapping:    []*profile.Mapping{{ID: 1, File: "prog"}},
	}
	functions, locations := make(map[string]*profile.Function), make(map[string]*profile.Location)
	noise := make(map[string]float64)
	slow, own, cpu := math.Exp(speed), math.Exp(t.jitter*rng.NormFloat64()), 0.0
	for _, path := range t.paths {
		leaf, _, _ := strings.Cut(path.frames, " ")
		if _, ok := noise[leaf]; !ok {
			noise[leaf] = math.Exp(t.noise[leaf] * rng.NormFloat64())
		}
		cost := path.cost * slow * own * noise[leaf]
		cpu += cost
		n := int64(0)
		if cost > 0 {
			n = int64(poisson(rng, cost*t.hertz))
		}
		if n == 0 {
			continue
		}
		s := &profile.Sample{Value: []int64{n}}
		for name := range strings.FieldsSeq(path.frames) {
			l := locations[name]
			if l == nil {
				l = &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: p.Mapping[0]}
				for line := range strings.SplitSeq(name, "|") {
					f := functions[line]
					if f == nil {
						f = &profile.Function{ID: uint64(len(p.Function) + 1), Name: line, Filename: packageOf(line) + ".go", StartLine: 7}
						functions[line] = f
						p.Function = append(p.Function, f)
					}
					l.Line = append(l.Line, profile.Line{Function: f, Line: 9})
				}
				locations[name] = l
				p.Location = append(p.Location, l)
			}
			s.Location = append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	counts, err := Count(p, o)
	if err != nil {
		panic(err)
	}
	return Run{Counts: counts, CPUSeconds: cpu, Anchor: 0.05 * slow * math.Exp(0.003*rng.NormFloat64())}
}

// treePairs draws interleaved pairs of runs of two programs.
func treePairs(rng *rand.Rand, base, head tree, n int, o Options) (b, h []Run) {
	for range n {
		drift := base.drift * rng.NormFloat64()
		b = append(b, base.run(rng, drift+base.machine*rng.NormFloat64(), o))
		h = append(h, head.run(rng, drift+head.machine*rng.NormFloat64(), o))
	}
	return b, h
}

// under matches paths on which a function is.
func under(name string) func(string) bool {
	return func(frames string) bool {
		for frame := range strings.FieldsFuncSeq(frames, func(r rune) bool { return r == ' ' || r == '|' }) {
			if frame == name {
				return true
			}
		}
		return false
	}
}
