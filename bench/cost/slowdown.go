package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/capture"
)

// chunkNanoseconds is the work between two switches of the sampler: long
// against a switch, short against the drift of the machine.
const chunkNanoseconds = 50e6

// depth of the workload's own recursion: with spin, main and the start code of
// the C library it makes stacks of 26 frames.
const workloadDepth = 20

// measureSlowdown compares the CPU time of a fixed amount of work without
// sampling, under an empty BPF program, and under the collector.
func measureSlowdown(ctx context.Context, o options) ([]figure, error) {
	binary, err := buildWorkload(o.dir)
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, c := range []struct {
		hertz int
		limit float64
	}{{99, 0.0005}, {999, 0.003}, {4999, 0.01}} {
		sampled, err := slowdownAt(ctx, o, binary, c.hertz)
		if err != nil {
			return figures, err
		}
		above := sampled.above
		figures = append(figures,
			figure{fmt.Sprintf("floor (empty program) over no sampling, %d Hz", c.hertz), sampled.floor.percent(), "", ""},
			figure{fmt.Sprintf("slowdown above the floor, %d Hz, 26 frames", c.hertz), above.percent(),
				fmt.Sprintf("<= %.2f %%", 100*c.limit), verdictOf(above, c.limit)})
	}
	return figures, nil
}

// verdictOf says when noise is wider than the distance to the target.
func verdictOf(e estimate, limit float64) string {
	switch {
	case e.high <= limit:
		return "yes"
	case e.low > limit:
		return "no"
	case e.mid <= limit:
		return "yes, within noise"
	}
	return "no, within noise"
}

type slowdown struct{ floor, above estimate }

func slowdownAt(ctx context.Context, o options, binary string, hertz int) (slowdown, error) {
	session, err := capture.Start(ctx, capture.Options{Frequency: hertz})
	if err != nil {
		return slowdown{}, err
	}
	defer session.Close()
	floor, err := bpf.LoadFloor(bpf.Options{Frequency: hertz})
	if err != nil {
		return slowdown{}, err
	}
	defer floor.Close()
	work, err := startWorkload(binary, workloadDepth)
	if err != nil {
		return slowdown{}, err
	}
	defer work.close()
	spins, err := work.iterations(chunkNanoseconds)
	if err != nil {
		return slowdown{}, err
	}
	run := uint32(0)
	modes := []func() (float64, error){
		func() (float64, error) { return work.do(spins) },
		func() (float64, error) {
			if err := floor.Enable(); err != nil {
				return 0, err
			}
			took, err := work.do(spins)
			if disableErr := floor.Disable(); err == nil {
				err = disableErr
			}
			return took, err
		},
		func() (float64, error) {
			run++
			// The workload itself is no target: it started before. That does not
			// change what a sample of it costs.
			if err := session.Begin(run, uint32(work.cmd.Process.Pid)); err != nil {
				return 0, err
			}
			took, err := work.do(spins)
			if discardErr := session.Discard(run); err == nil {
				err = discardErr
			}
			return took, err
		},
	}
	var floors, aboves []float64
	random := rand.New(rand.NewPCG(1, uint64(hertz)))
	const warmup, least = 6, 20
	end := time.Now().Add(o.slowdown)
	for round := 0; round < warmup+least || time.Now().Before(end); round++ {
		var took [3]float64
		for _, mode := range random.Perm(len(modes)) {
			if took[mode], err = modes[mode](); err != nil {
				return slowdown{}, err
			}
		}
		if ctx.Err() != nil {
			return slowdown{}, ctx.Err()
		}
		if round >= warmup { // the first rounds load tables and fill caches
			floors = append(floors, took[1]/took[0]-1)
			aboves = append(aboves, (took[2]-took[1])/took[0])
		}
	}
	return slowdown{summarize(floors), summarize(aboves)}, nil
}

// estimate is a median with its 95 % interval from order statistics.
type estimate struct{ low, mid, high float64 }

func (e estimate) percent() string {
	return fmt.Sprintf("%+.3f %% (%+.3f to %+.3f)", 100*e.mid, 100*e.low, 100*e.high)
}

func summarize(values []float64) estimate {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := float64(len(sorted))
	// Ranks of the distribution-free interval of a median, normal approximation
	// of the binomial.
	half := 0.98 * math.Sqrt(n)
	at := func(rank float64) float64 {
		return sorted[min(len(sorted)-1, max(0, int(math.Round(rank))))]
	}
	return estimate{at(n/2 - half - 1), at((n - 1) / 2), at(n/2 + half)}
}
