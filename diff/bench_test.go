package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/pprof/profile"
)

// largeProfile returns a profile of distinct stacks over functions, 12 frames
// deep. A few leaves are hot, the frames next to the root are few, and those
// between are any.
func largeProfile(functions, stacks int) *profile.Profile {
	rng := newRand(77)
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     1e6,
		Mapping:    []*profile.Mapping{{ID: 1, File: "prog"}},
	}
	for i := range functions {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("example.com/module/package%02d.(*Type%d).Method%d.constprop.0", i%40, i%7, i), StartLine: int64(i + 1)}
		p.Function = append(p.Function, f)
		for range 4 {
			p.Location = append(p.Location, &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: p.Mapping[0], Line: []profile.Line{{Function: f, Line: 1}}})
		}
	}
	target := map[string][]string{targetLabel: {"1"}}
	for range stacks {
		s := &profile.Sample{Label: target, Value: []int64{0, 0}, Location: make([]*profile.Location, 12)}
		for i := range s.Location {
			skew := rng.Float64()
			switch {
			case i == 0:
				skew = math.Pow(skew, 4)
			case i > 8:
				skew *= 0.001 * float64(12-i)
			default:
				skew *= rng.Float64()
			}
			s.Location[i] = p.Location[int(float64(len(p.Location))*skew)]
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// redraw gives the samples of p new values.
func redraw(rng *rand.Rand, p *profile.Profile) {
	for _, s := range p.Sample {
		s.Value[0] = int64(rng.IntN(4))
		s.Value[1] = s.Value[0] * 1e6
	}
}

// BenchmarkCompare counts and compares runs of 5,000 functions. Profiles are
// counted one after the other, as a caller that loads them one by one does;
// one profile's memory is outside of the figure for live memory.
func BenchmarkCompare(b *testing.B) {
	for _, size := range []struct{ runs, stacks int }{{2, 200_000}, {20, 20_000}, {20, 200_000}} {
		b.Run(fmt.Sprintf("runs=%d/stacks=%d", size.runs, size.stacks), func(b *testing.B) {
			p := largeProfile(5000, size.stacks)
			rng := newRand(78)
			live := uint64(0)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			b.ReportAllocs()
			for b.Loop() {
				side := func() []Run {
					runs := make([]Run, size.runs)
					for i := range runs {
						b.StopTimer()
						redraw(rng, p)
						b.StartTimer()
						counts, err := Count(p, Options{})
						if err != nil {
							b.Fatal(err)
						}
						runs[i] = Run{Counts: counts, CPUSeconds: counts.CPUSeconds()}
					}
					return runs
				}
				base, head := side(), side()
				res := mustCompare(b, base, head, Options{Paired: true})
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				if after.HeapAlloc > before.HeapAlloc {
					live = max(live, after.HeapAlloc-before.HeapAlloc)
				}
				runtime.KeepAlive(base)
				runtime.KeepAlive(head)
				runtime.KeepAlive(res)
				b.StartTimer()
			}
			b.ReportMetric(float64(live)/(1<<20), "MB-live")
		})
	}
}
