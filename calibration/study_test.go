package calibration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tollgate-dev/tollgate/diff"
	"gonum.org/v1/gonum/stat/distuv"
)

// program is a model of a program: its functions' mean samples a run, and the
// log-normal standard deviation of each between runs.
type program struct {
	samples []float64
	noise   []float64
	wall    float64 // log-normal standard deviation of wall time
	cpu     float64 // of CPU-seconds
}

// even has count functions of the same size.
func even(count int, samples float64) program {
	p := program{samples: make([]float64, count), noise: make([]float64, count), wall: 0.2, cpu: 0.01}
	for i := range p.samples {
		p.samples[i] = samples
	}
	return p
}

// runs draws n runs.
func (p program) runs(seed uint64, n int) []Run {
	random := rand.New(rand.NewPCG(seed, 1))
	runs := make([]Run, n)
	for r := range runs {
		prof := &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
			PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
			Period:     1_000_000,
		}
		for i, mean := range p.samples {
			f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("pkg%d.f%d", i%3, i), Filename: "/src/f.go", StartLine: int64(10 * i)}
			l := &profile.Location{ID: uint64(i + 1), Line: []profile.Line{{Function: f, Line: f.StartLine}}}
			prof.Function, prof.Location = append(prof.Function, f), append(prof.Location, l)
			n := distuv.Poisson{Lambda: mean * math.Exp(p.noise[i]*random.NormFloat64()), Src: random}.Rand()
			prof.Sample = append(prof.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{int64(n)}})
		}
		runs[r] = Run{
			Run:         diff.Run{Profile: prof, CPUSeconds: 2 * math.Exp(p.cpu*random.NormFloat64()), Anchor: 0.05 * math.Exp(0.01*random.NormFloat64())},
			WallSeconds: 3 * math.Exp(p.wall*random.NormFloat64()),
		}
	}
	return runs
}

func mustStudy(t *testing.T, runs []Run, o Options) *Result {
	t.Helper()
	r, err := Study(t.Context(), runs, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSamplingNoiseAloneHasRatioOne(t *testing.T) {
	r := mustStudy(t, even(40, 500).runs(1, 20), Options{Gates: 10})
	if r.Noise.Functions != 40 || r.Noise.MedianRatio < 0.75 || r.Noise.MedianRatio > 1.25 {
		t.Errorf("median ratio of %d functions is %.2f, want about 1 of 40", r.Noise.Functions, r.Noise.MedianRatio)
	}
	// One part in sqrt(500).
	if want := math.Sqrt(1.0 / 500); math.Abs(r.Noise.MedianCV-want) > 0.3*want {
		t.Errorf("median CV is %.4f, want about %.4f", r.Noise.MedianCV, want)
	}
}

func TestNoisyFunctionsAreNamedWithTheirRatio(t *testing.T) {
	p := even(40, 500)
	p.noise[7], p.noise[20] = 0.3, 0.15
	r := mustStudy(t, p.runs(2, 40), Options{Gates: 10})
	list := r.Noise.Noisiest
	if len(list) != listed || list[0].Name != "pkg1.f7" || list[1].Name != "pkg2.f20" {
		t.Fatalf("noisiest are %+v", list)
	}
	// 1 + 500 * 0.3^2 and 1 + 500 * 0.15^2.
	for i, want := range []float64{46, 12.25} {
		if got := list[i].Ratio; got < want/2 || got > 2*want {
			t.Errorf("ratio of %s is %.1f, want about %.1f", list[i].Name, got, want)
		}
	}
	if r.Noise.MedianRatio > 1.4 {
		t.Errorf("median ratio is %.2f: two noisy functions moved it", r.Noise.MedianRatio)
	}
}

func TestSpreadsAreThoseOfTheRuns(t *testing.T) {
	r := mustStudy(t, even(20, 500).runs(3, 200), Options{Gates: 5})
	for _, q := range []struct {
		name     string
		got      Spread
		mean, cv float64
	}{{"wall", r.Wall, 3, 0.2}, {"CPU", r.CPU, 2, 0.01}, {"anchor", r.Anchor, 0.05, 0.01}} {
		if math.Abs(q.got.Mean/q.mean-1) > 0.06 || math.Abs(q.got.CV/q.cv-1) > 0.2 {
			t.Errorf("%s is %+v, want about %v with a CV of %v", q.name, q.got, q.mean, q.cv)
		}
	}
}

func TestCalmProgramFits(t *testing.T) {
	r := mustStudy(t, even(40, 500).runs(4, 20), Options{Frequency: 999, Gates: 300})
	if r.Verdict != Fits {
		t.Errorf("verdict is %s: %s", r.Verdict, r.Reason)
	}
	if r.Pairs != 10 || r.Runs != 20 || len(r.Gates) != 2 || r.Gates[0].Name != "compare" || r.Gates[1].Name != "check" {
		t.Fatalf("%d pairs of %d runs, gates %+v", r.Pairs, r.Runs, r.Gates)
	}
	for _, g := range r.Gates {
		if g.Judged != 300 || g.Red+g.Pass+g.Inconclusive != g.Judged {
			t.Errorf("%s: %d red, %d passed and %d inconclusive of %d", g.Name, g.Red, g.Pass, g.Inconclusive, g.Judged)
		}
		if g.Red > 3 {
			t.Errorf("%s: %d of %d are red", g.Name, g.Red, g.Judged)
		}
	}
	if compare := r.Gates[0]; compare.MeanPairs < 5 || compare.MeanPairs > 7 {
		t.Errorf("a comparison took %.1f pairs, want little more than 5", compare.MeanPairs)
	}
	if check := r.Gates[1]; check.MeanPairs != 10 {
		t.Errorf("a check took %.1f runs a side, want all 10", check.MeanPairs)
	}
	d := r.Detectable
	if !(0 < d.Median && d.Median <= d.Worst) || d.Worst > 0.01 || len(d.Functions) != listed || !(d.Total.Effect > 0) {
		t.Errorf("detectable: %+v", d)
	}
	if rec := r.Recommended; rec.Pairs < LeastPairs || rec.Pairs > MostPairs || rec.Frequency != 999 || math.Abs(rec.Seconds-2*float64(rec.Pairs)*r.Wall.Mean) > 1e-9 {
		t.Errorf("recommended: %+v", rec)
	}
}

// A gate without margins and with a budget of a half is red often, and says so.
func TestRedGatesAreCounted(t *testing.T) {
	loose := diff.Options{MinEffect: -1, RelativeMinEffect: -1, FailEffect: -1, FunctionBudget: 0.5, TotalBudget: 0.5, TotalMinEffect: -1}
	r := mustStudy(t, even(40, 500).runs(5, 20), Options{Gates: 200, Decision: loose})
	for _, g := range r.Gates {
		if g.Red < 20 || len(g.Blamed) == 0 || g.Rate != float64(g.Red)/200 || !(g.Low < g.Rate && g.Rate < g.High) {
			t.Errorf("gate %+v", g)
		}
	}
}

func TestRatesBeyondTheBudgetAreUnsound(t *testing.T) {
	for _, tt := range []struct {
		red  int
		want Fit
	}{{0, Fits}, {8, Fits}, {30, Unsound}} { // 8 of 500 is within chance of 1 %
		g := Gate{Name: gateCompare, Judged: 500, Red: tt.red, Rate: float64(tt.red) / 500}
		g.Low, g.High = bounds(tt.red, 500)
		s := &study{pairs: 10, result: &Result{Gates: []Gate{g}, Noise: Noise{Functions: 3}, Recommended: Recommendation{Pairs: 5, Work: 1}}}
		s.conclude()
		if s.result.Verdict != tt.want || s.result.Reason == "" {
			t.Errorf("%d red of 500: %s (%s), want %s", tt.red, s.result.Verdict, s.result.Reason, tt.want)
		}
	}
}

// The bounds are where the binomial tail has the level, which is what exact means.
func TestBoundsAreThoseOfTheBinomial(t *testing.T) {
	for _, tt := range []struct{ k, n int }{{0, 500}, {1, 500}, {3, 20}, {19, 20}, {20, 20}} {
		low, high := bounds(tt.k, tt.n)
		if tt.k == 0 && low != 0 || tt.k == tt.n && high != 1 {
			t.Errorf("bounds of %d in %d are %v and %v", tt.k, tt.n, low, high)
		}
		if tt.k < tt.n {
			if p := (distuv.Binomial{N: float64(tt.n), P: high}).CDF(float64(tt.k)); math.Abs(p-0.05) > 1e-6 {
				t.Errorf("at the upper bound of %d in %d the tail is %v", tt.k, tt.n, p)
			}
		}
		if tt.k > 0 {
			if p := 1 - (distuv.Binomial{N: float64(tt.n), P: low}).CDF(float64(tt.k-1)); math.Abs(p-0.05) > 1e-6 {
				t.Errorf("at the lower bound of %d in %d the tail is %v", tt.k, tt.n, p)
			}
		}
	}
}

func TestDealsAreDistinctAndWhole(t *testing.T) {
	runs := even(10, 300).runs(6, 6)
	s := &study{options: Options{Gates: 1000}, pairs: 3}
	for i, run := range runs {
		run.Label = fmt.Sprint(i)
		s.judged = append(s.judged, run.Run)
	}
	random := rand.New(rand.NewPCG(1, 2))
	flips, halves := s.flips(random), s.halves(random)
	if len(flips) != 8 || len(halves) != 20 { // 2^3 and 6 over 3
		t.Errorf("%d choices of heads in 3 pairs and %d halves of 6 runs, want 8 and 20", len(flips), len(halves))
	}
	seen := make(map[string]bool)
	for _, d := range slices.Concat(flips, halves) {
		var all, heads []string
		for i := range d.base {
			if a, b := int(d.base[i].Label[0]-'0'), int(d.head[i].Label[0]-'0'); d.paired && a/2 != b/2 {
				t.Errorf("runs %d and %d are no neighbours", a, b)
			}
			all = append(all, d.base[i].Label, d.head[i].Label)
			heads = append(heads, d.head[i].Label)
		}
		slices.Sort(all)
		slices.Sort(heads)
		if !slices.Equal(all, []string{"0", "1", "2", "3", "4", "5"}) {
			t.Errorf("the runs of a deal are %v", all)
		}
		id := fmt.Sprint(d.paired, heads)
		if seen[id] {
			t.Errorf("%s was dealt twice", id)
		}
		seen[id] = true
	}
}

func TestSameSeedSameResult(t *testing.T) {
	runs := even(30, 200).runs(7, 12)
	o := Options{Gates: 60, Seed: 5}
	first := mustStudy(t, runs, o)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if again := mustStudy(t, runs, o); !reflect.DeepEqual(first, again) {
		t.Errorf("one goroutine and several came to different results:\n%+v\n%+v", first, again)
	}
}

func TestSamplingLimitCallsForFrequencyNoiseForPairs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		noise  float64
		higher bool
	}{{"few samples", 0, true}, {"varies between runs", 0.12, false}} {
		p := even(12, 60)
		if tt.noise > 0 {
			p = even(12, 3000)
		}
		for i := range p.noise {
			p.noise[i] = tt.noise
		}
		r := mustStudy(t, p.runs(8, 20), Options{Frequency: 999, Gates: 5})
		if higher := r.Recommended.Frequency > 999 && r.Recommended.Pairs > 0; higher != tt.higher {
			t.Errorf("%s: recommended %+v, noise %+v", tt.name, r.Recommended, r.Noise)
		}
	}
}

func TestHopelessProgramIsNoisy(t *testing.T) {
	p := even(10, 800)
	for i := range p.noise {
		p.noise[i] = 0.6
	}
	r := mustStudy(t, p.runs(9, 20), Options{Frequency: 4999, Gates: 300})
	if r.Verdict != Noisy || r.Recommended.Pairs != 0 || r.Recommended.Frequency != 4999 {
		t.Errorf("verdict %s, recommended %+v", r.Verdict, r.Recommended)
	}
}

// A program of 300 samples a run needs more of them than the highest frequency has.
func TestShortProgramShouldDoMoreWork(t *testing.T) {
	r := mustStudy(t, even(8, 40).runs(13, 20), Options{Frequency: 999, Gates: 5})
	rec := r.Recommended
	if r.Verdict != Noisy || rec.Work < 2 || rec.Pairs < LeastPairs || rec.Pairs > MostPairs || rec.Frequency < 999 {
		t.Errorf("verdict %s, recommended %+v", r.Verdict, rec)
	}
	// The same program with that much work fits.
	longer := mustStudy(t, even(8, 40*float64(rec.Work)*float64(rec.Frequency)/999).runs(14, 20), Options{Frequency: rec.Frequency, Gates: 5})
	if longer.Recommended.Pairs == 0 || longer.Recommended.Work > 1 {
		t.Errorf("after doing %d times the work: %+v", rec.Work, longer.Recommended)
	}
}

// The relative margin of a function of a third of the program nearly is what must
// be ruled out: no number of pairs finds so little more.
func TestGoalStaysClearOfTheMargin(t *testing.T) {
	p := even(15, 1000)
	p.samples[0] = 8000
	r := mustStudy(t, p.runs(15, 20), Options{Gates: 5})
	big, small := r.Detectable.Functions[0], r.Detectable.Functions[1]
	if big.Name != "pkg0.f0" || math.Abs(big.Goal-2*0.03*big.Share) > 0.002 || small.Goal != 0.01 {
		t.Errorf("goals are %+v and %+v", big, small)
	}
	if big.Pairs < 1 || big.Pairs > 40 {
		t.Errorf("%d pairs for the large function", big.Pairs)
	}
}

func TestWhatCannotBeCalibrated(t *testing.T) {
	runs := even(10, 300).runs(10, 11)
	if _, err := Study(t.Context(), runs[:9], Options{}); !errors.Is(err, ErrFewRuns) {
		t.Errorf("nine runs: %v", err)
	}
	r := mustStudy(t, runs, Options{Gates: 100})
	if r.Pairs != 5 || r.Runs != 10 {
		t.Errorf("eleven runs made %d pairs", r.Pairs)
	}
	if r.Gates[0].Judged != 32 || r.Gates[1].Judged != 100 {
		t.Errorf("gates judged %d and %d deals of five pairs, want 32 and 100", r.Gates[0].Judged, r.Gates[1].Judged)
	}
	if !slices.ContainsFunc(r.Warnings, func(w Warning) bool { return w.Hint == "calibrate with 10 pairs or more" }) {
		t.Errorf("32 deals raise no doubt: %+v", r.Warnings)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Study(ctx, runs, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := even(10, 300).runs(11, 10)
	broken[5].Profile = nil
	if _, err := Study(t.Context(), broken, Options{}); err == nil {
		t.Error("a run without a profile is no error")
	}
}

func TestProgressEndsAtTheTotal(t *testing.T) {
	last, whole := 0, 0
	mustStudy(t, even(10, 300).runs(12, 10), Options{Gates: 9, Progress: func(done, total int) {
		if done != last+1 {
			t.Errorf("%d after %d", done, last)
		}
		last, whole = done, total
	}})
	if last != 18 || whole != 18 {
		t.Errorf("progress ended at %d of %d, want 18 of 18", last, whole)
	}
}

func TestJSONFollowsItsSchema(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("calibration.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("calibration.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	hopeless, tiny := even(10, 800), even(3, 1)
	for i := range hopeless.noise {
		hopeless.noise[i] = 3
	}
	unmeasured := even(20, 300).runs(1, 10)
	for i := range unmeasured {
		unmeasured[i].CPUSeconds, unmeasured[i].Anchor, unmeasured[i].WallSeconds = 0, 0, 0
	}
	for name, runs := range map[string][]Run{
		"calm": even(40, 500).runs(1, 20), "hopeless": hopeless.runs(2, 10), "tiny": tiny.runs(3, 12),
		"one function": even(1, 500).runs(4, 10), "unmeasured": unmeasured, "few samples": even(5, 10).runs(5, 10),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Study(t.Context(), runs, Options{Gates: 10, Frequency: 999})
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%v\n%s", err, data)
			}
		})
	}
}
