package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// program is a model of a program for simulated runs: what its functions cost
// and how that varies from run to run.
type program struct {
	cost  []float64 // CPU-seconds per run
	noise []float64 // log-normal standard deviation between runs, per function
	// machine is the log-normal standard deviation of a run's speed, drift that
	// of a pair's; both move CPU-seconds and the calibration kernel alike.
	machine, drift float64
	// program's own variation of CPU-seconds that the kernel does not share.
	jitter float64
	hertz  float64
	anchor bool
	exact  bool       // false: CPU-seconds are not known
	names  []Function // of the functions; nil: all of one package
}

// newProgram returns a program of seconds CPU per run with count functions of
// Zipf-distributed cost. Ordinary functions vary by 1 to 3 % between runs,
// every tenth by 10 to 40 %, as collectors, allocators and kernel functions do.
func newProgram(count int, seconds float64) program {
	p := program{cost: make([]float64, count), noise: make([]float64, count), machine: 0.02, drift: 0.02, jitter: 0.005, hertz: 999, anchor: true, exact: true}
	sum := 0.0
	for f := range p.cost {
		p.cost[f] = 1 / (float64(f) + 6)
		sum += p.cost[f]
	}
	for f := range p.cost {
		p.cost[f] *= seconds / sum
		p.noise[f] = 0.01 + 0.02*float64(f%7)/6
		if f%10 == 7 {
			p.noise[f] = 0.1 + 0.3*float64(f%3)/2
		}
	}
	return p
}

// share returns function f's share of the cost.
func (p program) share(f int) float64 {
	sum := 0.0
	for _, c := range p.cost {
		sum += c
	}
	return p.cost[f] / sum
}

// with returns a copy whose function f costs more by effect, a fraction of the
// total.
func (p program) with(f int, effect float64) program {
	sum := 0.0
	for _, c := range p.cost {
		sum += c
	}
	p.cost = append([]float64(nil), p.cost...)
	p.cost[f] += effect * sum
	return p
}

// scaled returns a copy in which every function costs factor times as much.
func (p program) scaled(factor float64) program {
	p.cost = append([]float64(nil), p.cost...)
	for f := range p.cost {
		p.cost[f] *= factor
	}
	return p
}

// run draws one run; speed is the log of the machine's slowness.
func (p program) run(rng *rand.Rand, speed float64) Run {
	counts := &Counts{event: "cpu", unit: "nanoseconds", period: 1e9 / p.hertz, scope: ScopeAll}
	counts.entries = make([]entry, 0, len(p.cost))
	own := math.Exp(p.jitter * rng.NormFloat64())
	slow := math.Exp(speed)
	cpu := 0.0
	for f, cost := range p.cost {
		cost *= own * slow * math.Exp(p.noise[f]*rng.NormFloat64())
		cpu += cost
		if cost <= 0 {
			continue
		}
		if n := poisson(rng, cost*p.hertz); n > 0 {
			counts.entries = append(counts.entries, entry{Function: p.function(f), n: n})
			counts.total += n
		}
	}
	counts.seconds = counts.total / p.hertz
	r := Run{Counts: counts}
	if p.exact {
		r.CPUSeconds = cpu
	}
	if p.anchor {
		r.Anchor = 0.05 * slow * math.Exp(0.003*rng.NormFloat64())
	}
	return r
}

func (p program) function(f int) Function {
	if p.names == nil {
		return Function{Name: functionName(f)}
	}
	return p.names[f]
}

func functionName(f int) string { return fmt.Sprintf("pkg.f%03d", f) }

// pairs draws interleaved pairs of runs of two programs.
func pairs(rng *rand.Rand, base, head program, n int) (b, h []Run) {
	for range n {
		drift := base.drift * rng.NormFloat64()
		b = append(b, base.run(rng, drift+base.machine*rng.NormFloat64()))
		h = append(h, head.run(rng, drift+head.machine*rng.NormFloat64()))
	}
	return b, h
}

func poisson(rng *rand.Rand, mean float64) float64 {
	return distuv.Poisson{Lambda: mean, Src: rng}.Rand()
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x746f6c6c)) }

// clopperPearson returns the exact one-sided 95 % bounds of a rate of which x
// of n were seen.
func clopperPearson(x, n int) (low, high float64) {
	high = 1
	if x < n {
		high = mathext.InvRegIncBeta(float64(x)+1, float64(n-x), 0.95)
	}
	if x > 0 {
		low = mathext.InvRegIncBeta(float64(x), float64(n-x)+1, 0.05)
	}
	return low, high
}

// heavy returns many when the long simulations are asked for, few otherwise.
func heavy(few, many int) int {
	if os.Getenv("TOLLGATE_SIMULATE") != "" {
		return many
	}
	return few
}

func mustCompare(t testing.TB, base, head []Run, o Options) *Result {
	t.Helper()
	res, err := Compare(base, head, o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// kolmogorovSmirnov returns the p-value of x being uniform on (0, 1), by the
// asymptotic distribution with Stephens' correction; x is sorted.
func kolmogorovSmirnov(x []float64) (distance, p float64) {
	n := float64(len(x))
	for i, v := range x {
		distance = math.Max(distance, math.Max(float64(i+1)/n-v, v-float64(i)/n))
	}
	k := (math.Sqrt(n) + 0.12 + 0.11/math.Sqrt(n)) * distance
	for j := 1; j <= 100; j++ {
		p += 2 * math.Pow(-1, float64(j-1)) * math.Exp(-2*float64(j*j)*k*k)
	}
	return distance, math.Min(1, math.Max(0, p))
}
