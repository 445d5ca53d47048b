package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tollgate-dev/tollgate/diff"
)

const (
	// MostPairs is what a comparison takes at most by default.
	MostPairs = 20
	// LeastPairs is the least number of pairs that Study takes: the first look
	// of a sequence. Of fewer, next to nothing is known about the noise.
	LeastPairs = 5
	// DefaultGates is how many gates are simulated of each kind: none red of
	// as many means a rate below 0.6 %.
	DefaultGates = 500

	// listed is how many functions Result lists.
	listed = 8
)

// Run is a run of the program.
type Run struct {
	diff.Run
	WallSeconds float64
}

// Options say how to judge. The zero value is useful.
type Options struct {
	// Decision is the gate as configured; Paired, Look and Looks are set here.
	Decision  diff.Options
	Frequency int // Hz at which the runs were sampled; 0: unknown
	Gates     int // gates to simulate of each kind; 0: DefaultGates
	Seed      uint64
	// Progress is told how many gates have been simulated; may be nil. It is
	// called from one goroutine at a time.
	Progress func(done, total int)
}

// ErrFewRuns says that the runs make less than LeastPairs pairs.
var ErrFewRuns = errors.New("too few runs")

// Study calibrates the gate by runs of one program in the order in which they
// were taken: runs 2i and 2i+1 are a pair. A last run without a partner is left
// out.
func Study(ctx context.Context, runs []Run, o Options) (*Result, error) {
	pairs := len(runs) / 2
	if pairs < LeastPairs {
		return nil, fmt.Errorf("calibrate: %w: %d, must be %d or more", ErrFewRuns, len(runs), 2*LeastPairs)
	}
	s := &study{options: o, runs: runs[:2*pairs], pairs: pairs}
	if s.options.Gates == 0 {
		s.options.Gates = DefaultGates
	}
	res := &Result{
		SchemaVersion: SchemaVersion,
		Pairs:         pairs, Runs: 2 * pairs, Frequency: o.Frequency, Seed: o.Seed,
		Warnings: []Warning{},
	}
	s.result = res
	res.Wall = spread(s.runs, func(r Run) float64 { return r.WallSeconds })
	res.CPU = spread(s.runs, func(r Run) float64 { return r.CPUSeconds / cmp.Or(r.Work, 1) })
	res.Anchor = spread(s.runs, func(r Run) float64 { return r.Anchor })
	if err := s.count(); err != nil {
		return nil, err
	}
	// Neighbouring runs as pairs, as compare would have taken them.
	base, head := s.split(func(i int) bool { return i%2 == 1 })
	paired := s.options.Decision
	paired.Paired, paired.Looks = true, s.looks()
	paired.Look = len(paired.Looks)
	as, err := diff.Compare(base, head, paired)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	unpaired := s.options.Decision
	unpaired.Paired, unpaired.Look, unpaired.Looks = false, 0, nil
	pooled, err := diff.Compare(base, head, unpaired)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	s.noise(pooled)
	s.detectable(as)
	if res.Gates, err = s.gates(ctx); err != nil {
		return nil, err
	}
	s.recommend(as)
	s.doubt(as)
	s.conclude()
	return res, nil
}

// study carries a calibration from the runs to the result.
type study struct {
	options Options
	runs    []Run
	judged  []diff.Run // runs with their profiles counted
	pairs   int
	ratios  map[string]float64 // variance over the sampling limit, by tested function
	result  *Result
}

// count reduces the profiles to counts once, since they are judged many times.
func (s *study) count() error {
	for i, run := range s.runs {
		if run.Counts == nil {
			counts, err := diff.Count(run.Profile, s.options.Decision)
			if err != nil {
				return fmt.Errorf("calibrate: run %d: %w", i+1, err)
			}
			run.Counts, run.Profile = counts, nil
		}
		s.judged = append(s.judged, run.Run)
	}
	return nil
}

// split makes two sides of the runs.
func (s *study) split(isHead func(i int) bool) (base, head []diff.Run) {
	for i, run := range s.judged {
		if isHead(i) {
			head = append(head, run)
		} else {
			base = append(base, run)
		}
	}
	return base, head
}

// looks are those of a comparison that takes as many pairs as there are.
func (s *study) looks() []diff.Look {
	if looks := s.options.Decision.Looks; looks != nil && looks[len(looks)-1].Pairs <= s.pairs {
		return looks
	}
	return diff.Schedule(s.pairs)
}

// settled returns an option of the gate: the default where it is not set, 0
// where it is set to less.
func (s *study) settled(option func(diff.Options) float64) float64 {
	return math.Max(cmp.Or(option(s.options.Decision), option(diff.DefaultOptions())), 0)
}

// noise compares the variance of every tested function with that of sampling.
func (s *study) noise(r *diff.Result) {
	s.ratios = make(map[string]float64)
	var all []FunctionNoise
	var ratios, cvs []float64
	for _, d := range r.Functions {
		limit := samplingLimit(d)
		if !d.Tested || !(limit > 0) {
			continue
		}
		f := FunctionNoise{Function: functionOf(d), CV: math.Sqrt(d.OwnVariance), Ratio: d.OwnVariance / limit}
		all = append(all, f)
		s.ratios[key(d)] = f.Ratio
		ratios, cvs = append(ratios, f.Ratio), append(cvs, f.CV)
	}
	s.result.Noise = Noise{Functions: len(all), MedianCV: median(cvs), MedianRatio: median(ratios)}
	slices.SortStableFunc(all, func(a, b FunctionNoise) int { return cmp.Compare(b.Ratio, a.Ratio) })
	s.result.Noise.Noisiest = append([]FunctionNoise{}, all[:min(listed, len(all))]...)
}

// detectable lists the smallest regressions that would be seen.
func (s *study) detectable(r *diff.Result) {
	d := &s.result.Detectable
	d.Power = s.settled(func(o diff.Options) float64 { return o.PowerTarget })
	d.Median, d.Worst, d.WorstFunction = r.MDEMedian, r.MDE, r.MDEFunction
	if r.Total.Tested {
		d.Total = DetectableTotal{Effect: r.Total.MDE, Goal: r.TotalEquivalence, Pairs: r.Total.PairsNeeded}
	}
	d.Functions = []DetectableFunction{}
	for _, f := range r.Functions {
		if f.Tested {
			d.Functions = append(d.Functions, DetectableFunction{Function: functionOf(f), Effect: f.MDE, Goal: s.goal(f), Pairs: s.pairsFor(f, 1)})
		}
	}
	slices.SortStableFunc(d.Functions, func(a, b DetectableFunction) int { return cmp.Compare(b.Share, a.Share) })
	d.Functions = d.Functions[:min(listed, len(d.Functions))]
}

func functionOf(d diff.Delta) Function {
	return Function{Name: d.Name, File: d.File, Line: d.Line, Share: (d.ShareBase + d.ShareHead) / 2}
}

// key tells a kernel function from one of the same name in a library.
func key(d diff.Delta) string { return fmt.Sprintf("%t %s", d.Kernel, d.Name) }

// samplingLimit is the variance of the logarithm of a function's share that
// sampling alone makes, the multinomial's: 0 for one function that has everything.
func samplingLimit(d diff.Delta) float64 {
	n := (d.SamplesBase + d.SamplesHead) / 2
	return (1 - (d.ShareBase+d.ShareHead)/2) / n
}

// spread summarises a quantity of the runs; zero where a run lacks it.
func spread(runs []Run, of func(Run) float64) Spread {
	mean := 0.0
	for _, r := range runs {
		if !(of(r) > 0) {
			return Spread{}
		}
		mean += of(r) / float64(len(runs))
	}
	sum := 0.0
	for _, r := range runs {
		sum += (of(r) - mean) * (of(r) - mean)
	}
	return Spread{Mean: mean, CV: math.Sqrt(sum/float64(len(runs)-1)) / mean}
}

// median returns 0 for an empty list.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
