package calibration

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/tollgate-dev/tollgate/diff"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	gateCompare = "compare"
	gateCheck   = "check"
	// boundLevel is the level of each of the two bounds of a rate.
	boundLevel = 0.05
)

// deal is one way of taking the runs for base and head.
type deal struct {
	base, head []diff.Run
	paired     bool
}

// gates simulates both kinds of gates.
//
// compare: neighbours stay pairs, since that is what a comparison relies on;
// which of the two is head, and the order of the pairs, is drawn. check: any half
// of the runs is the baseline.
func (s *study) gates(ctx context.Context) ([]Gate, error) {
	random := rand.New(rand.NewPCG(s.options.Seed, 0x63616c6962726174))
	paired, halves := s.flips(random), s.halves(random)
	outcomes, err := s.judge(ctx, slices.Concat(paired, halves))
	if err != nil {
		return nil, err
	}
	return []Gate{summarise(gateCompare, outcomes[:len(paired)]), summarise(gateCheck, outcomes[len(paired):])}, nil
}

// flips deals pairs of neighbours, each time another choice of heads.
func (s *study) flips(random *rand.Rand) []deal {
	count := s.atMost(new(big.Int).Lsh(big.NewInt(1), uint(s.pairs)))
	seen := make(map[string]bool)
	var deals []deal
	for len(deals) < count {
		choice := make([]byte, s.pairs)
		for i := range choice {
			choice[i] = byte(random.IntN(2))
		}
		if seen[string(choice)] {
			continue
		}
		seen[string(choice)] = true
		d := deal{paired: true}
		for _, i := range random.Perm(s.pairs) {
			first, second := s.judged[2*i], s.judged[2*i+1]
			if choice[i] == 1 {
				first, second = second, first
			}
			d.base, d.head = append(d.base, first), append(d.head, second)
		}
		deals = append(deals, d)
	}
	return deals
}

// halves deals half of the runs to each side, each time other ones.
func (s *study) halves(random *rand.Rand) []deal {
	runs := len(s.judged)
	count := s.atMost(new(big.Int).Binomial(int64(runs), int64(runs/2)))
	seen := make(map[string]bool)
	var deals []deal
	for len(deals) < count {
		isHead := make([]byte, runs)
		for _, i := range random.Perm(runs)[:runs/2] {
			isHead[i] = 1
		}
		if seen[string(isHead)] {
			continue
		}
		seen[string(isHead)] = true
		d := deal{}
		d.base, d.head = s.split(func(i int) bool { return isHead[i] == 1 })
		deals = append(deals, d)
	}
	return deals
}

// atMost returns the number of gates to simulate where there are that many
// different ones.
func (s *study) atMost(different *big.Int) int {
	if different.IsInt64() && different.Int64() < int64(s.options.Gates) {
		return int(different.Int64())
	}
	return s.options.Gates
}

// outcome is what a simulated gate came to.
type outcome struct {
	verdict diff.Verdict
	pairs   int
	blamed  string
}

// judge takes every deal through the gate.
func (s *study) judge(ctx context.Context, deals []deal) ([]outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outcomes := make([]outcome, len(deals))
	var work sync.WaitGroup
	var mu sync.Mutex
	next, done := 0, 0
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(deals) || ctx.Err() != nil {
					return
				}
				out, err := s.gate(deals[i])
				if err != nil {
					cancel(fmt.Errorf("calibrate: simulate gate: %w", err))
					return
				}
				outcomes[i] = out
				mu.Lock()
				if done++; s.options.Progress != nil {
					s.options.Progress(done, len(deals))
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return outcomes, nil
}

// gate judges one deal as the gate would.
func (s *study) gate(d deal) (outcome, error) {
	o := s.options.Decision
	o.Paired, o.Look, o.Looks = d.paired, 0, nil
	looks := []diff.Look{{Pairs: s.pairs}}
	if d.paired {
		looks = s.looks()
		o.Looks = looks
	}
	for i, look := range looks {
		if d.paired {
			o.Look = i + 1
		}
		r, err := diff.Compare(d.base[:look.Pairs], d.head[:look.Pairs], o)
		if err != nil {
			return outcome{}, err
		}
		if r.Stop != diff.StopContinue || i+1 == len(looks) {
			return outcome{verdict: r.Verdict, pairs: look.Pairs, blamed: blamed(r)}, nil
		}
	}
	return outcome{}, fmt.Errorf("no looks")
}

// blamed returns what a red result names first, "" for others.
func blamed(r *diff.Result) string {
	for _, f := range r.Findings {
		if r.Verdict == diff.Fail && f.Severity == diff.Fails {
			if f.Function == "" {
				return "the total"
			}
			return f.Subject()
		}
	}
	return ""
}

func summarise(name string, outcomes []outcome) Gate {
	g := Gate{Name: name, Judged: len(outcomes), Blamed: []string{}}
	counts, pairs := make(map[string]int), 0
	for _, o := range outcomes {
		switch o.verdict {
		case diff.Fail:
			g.Red++
			counts[o.blamed]++
		case diff.Pass:
			g.Pass++
		default:
			g.Inconclusive++
		}
		pairs += o.pairs
	}
	g.MeanPairs = float64(pairs) / float64(g.Judged)
	g.Rate = float64(g.Red) / float64(g.Judged)
	g.Low, g.High = bounds(g.Red, g.Judged)
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	g.Blamed = append(g.Blamed, names[:min(listed, len(names))]...)
	return g
}

// bounds returns the exact one-sided bounds of a rate of k in n (Clopper and
// Pearson 1934), each at boundLevel.
func bounds(k, n int) (low, high float64) {
	low, high = 0, 1
	if k > 0 {
		low = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(boundLevel)
	}
	if k < n {
		high = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - boundLevel)
	}
	return low, high
}
