package diff

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrNoSamples reports a side on which no run has samples in scope.
var ErrNoSamples = errors.New("no samples in scope")

// comparison carries one comparison from the runs to the result.
type comparison struct {
	options    Options
	base, head []observed
	names      *names
	matrix     *matrix
	anchors    []float64 // logs, nil where some run has none
	sampled    bool      // CPU-seconds are estimated from samples
	reference  *reference
	prior      prior
	estimates  []estimate
	drift      contrastTest
	shift      *shiftDomain // nil where no cost can have moved
	calls      *callTree    // nil where no run has stacks
	layout     *layout
	touched    []bool  // by function; nil where nothing is known about the change
	weighted   []bool  // touched, or beside a touched function
	grown      *family // of groups; nil where they are not tested
	shrunk     *family
	quantiles  quantiles
	warnings   warnings
	result     *Result
}

// Compare decides whether head's runs cost more CPU than base's, per function
// and in total, by the procedure that the package documentation names. The
// result does not depend on the order of runs (of pairs, when paired) nor on the
// order in which profiles list functions. The error is about runs that cannot
// be read or options out of range; doubts about the evidence are warnings, and
// make the verdict Inconclusive where they matter.
func Compare(base, head []Run, o Options) (*Result, error) {
	o, err := o.normalised()
	if err != nil {
		return nil, err
	}
	if o.Paired && len(base) != len(head) {
		return nil, fmt.Errorf("compare runs: %d base and %d head runs cannot be paired", len(base), len(head))
	}
	c := &comparison{options: o, quantiles: quantiles{}}
	if c.base, err = observe("base", base, o, &c.warnings); err != nil {
		return nil, err
	}
	if c.head, err = observe("head", head, o, &c.warnings); err != nil {
		return nil, err
	}
	if err := c.checkEvents(); err != nil {
		return nil, err
	}
	if err := c.dropUnusable(); err != nil {
		return nil, err
	}
	if err := c.measureCPU(); err != nil {
		return nil, err
	}
	c.measureAnchors()
	c.layout = newLayout(c.base, c.head)
	c.calls = newCallTree(c.matrix, c.names, slices.Concat(c.base, c.head))
	c.estimate()
	c.collect()
	c.describe()
	c.decide()
	c.result.Warnings = c.warnings
	return c.result, nil
}

// dropUnusable drops runs without samples and copies of other runs, with
// their partners when paired.
func (c *comparison) dropUnusable() error {
	drop := map[string]map[int]bool{"base": {}, "head": {}}
	for _, side := range []struct {
		name string
		runs []observed
	}{{"base", c.base}, {"head", c.head}} {
		empty := 0
		for i, run := range side.runs {
			if run.counts.total <= 0 {
				empty++
				drop[side.name][i] = true
				c.warnings.add(WarnNoSamples, "look whether the command ran to its end, and long enough to be sampled",
					"%s has no samples in scope and was left out", run.label)
				continue
			}
			for j := range i {
				if !drop[side.name][j] && run.copies(side.runs[j]) {
					drop[side.name][i] = true
					c.warnings.add(WarnDuplicateRun, "give every run once: copies carry no evidence of their own",
						"%s is a copy of %s and was left out", run.label, side.runs[j].label)
					break
				}
			}
		}
		if empty == len(side.runs) {
			return fmt.Errorf("compare runs: %s: %w", side.name, ErrNoSamples)
		}
	}
	if c.options.Paired {
		for i := range c.base {
			either := drop["base"][i] || drop["head"][i]
			drop["base"][i], drop["head"][i] = either, either
		}
	}
	keep := func(side string, runs []observed) []observed {
		kept := make([]observed, 0, len(runs))
		for i, run := range runs {
			if !drop[side][i] {
				kept = append(kept, run)
			}
		}
		return kept
	}
	c.base, c.head = keep("base", c.base), keep("head", c.head)
	if len(c.base) == 0 || len(c.head) == 0 {
		return fmt.Errorf("compare runs: no pair is complete: %w", ErrNoSamples)
	}
	return nil
}

// copies tells whether r and other are the same profile: equal in every
// function and in CPU-seconds, with enough samples to rule out chance.
func (r observed) copies(other observed) bool {
	a, b := r.counts, other.counts
	if a.total < 100 || a.total != b.total || r.cpu != other.cpu || len(a.entries) != len(b.entries) {
		return false
	}
	n := make(map[functionKey]float64, len(a.entries))
	for _, e := range a.entries {
		n[functionKey{e.Name, e.Kernel}] = e.n
	}
	for _, e := range b.entries {
		if v, ok := n[functionKey{e.Name, e.Kernel}]; !ok || v != e.n {
			return false
		}
	}
	// A single hot function collects the same count twice by chance; exact
	// CPU-seconds do not agree by chance.
	return len(a.entries) >= 5 || r.cpu > 0
}

// checkEvents refuses to compare unlike events, and warns about unlike periods.
func (c *comparison) checkEvents() error {
	var first *observed
	warned, guessed := false, false
	for _, run := range slices.Concat(c.base, c.head) {
		if first == nil {
			first = &run
		}
		if run.counts.event != first.counts.event {
			return fmt.Errorf("compare runs: %s sampled %q and %s %q", first.label, first.counts.event, run.label, run.counts.event)
		}
		if !warned && (run.counts.period != first.counts.period || run.counts.unit != first.counts.unit) {
			warned = true
			c.warnings.add(WarnPeriodDiffers, "record both sides at the same frequency",
				"%s was sampled every %v %s and %s every %v %s", first.label, first.counts.period, first.counts.unit,
				run.label, run.counts.period, run.counts.unit)
		}
		if !guessed && run.counts.estimate {
			guessed = true
			c.warnings.add(WarnNoPeriod, "record with a tool that writes the sampling period",
				"%s does not say its sampling period; the least sample value was taken for one sample", run.label)
		}
	}
	return nil
}

// measureCPU builds the matrix of counts and decides which CPU-seconds hold.
func (c *comparison) measureCPU() error {
	runs := slices.Concat(c.base, c.head)
	exact, targeted := 0, false
	for _, run := range runs {
		if (run.work > 0) != (runs[0].work > 0) {
			return fmt.Errorf("compare runs: units of work are given for one of %s and %s and not for the other", runs[0].label, run.label)
		}
		if run.cpu > 0 {
			exact++
		}
		targeted = targeted || run.counts.targeted && run.counts.scope == ScopeAll
	}
	switch {
	case targeted:
		c.sampled = true
		c.warnings.add(WarnSampledCPU, "judge the target tree to use its exact CPU-seconds",
			"CPU-seconds are exact for the target tree only; the total of the whole system is counted from samples")
	case exact < len(runs):
		c.sampled = true
		c.warnings.add(WarnSampledCPU, "give the exact CPU-seconds of every run to have the total judged",
			"CPU-seconds are not known for %d of %d runs; the total is counted from samples and cannot fail the gate", len(runs)-exact, len(runs))
	}
	c.names = newNames(c.base, c.head)
	c.names.match(c.base, c.head, c.options)
	c.matrix = newMatrix(c.base, c.head, c.names, c.options.Paired)
	if !c.options.Paired {
		names := make([]string, len(runs))
		for r, run := range runs {
			names[r] = run.machine
		}
		c.matrix.machines = newMachines(names, len(c.base))
	}
	c.matrix.logCPU = make([]float64, len(runs))
	for r, run := range runs {
		seconds := run.cpu
		if c.sampled {
			if seconds = run.counts.seconds; seconds <= 0 {
				seconds = run.counts.total
			}
		}
		if run.work > 0 {
			seconds /= run.work
		}
		c.matrix.logCPU[r] = math.Log(seconds)
		if math.IsNaN(c.matrix.logCPU[r]) || math.IsInf(c.matrix.logCPU[r], 0) {
			return fmt.Errorf("read %s: %v CPU-seconds per unit of work", run.label, seconds)
		}
	}
	return nil
}

// measureAnchors takes the calibration kernel's times where every run has one.
func (c *comparison) measureAnchors() {
	runs := slices.Concat(c.base, c.head)
	logs := make([]float64, 0, len(runs))
	for _, run := range runs {
		if run.anchor > 0 {
			logs = append(logs, math.Log(run.anchor))
		}
	}
	if len(logs) == len(runs) {
		c.anchors = logs
	} else if len(logs) > 0 {
		c.warnings.add(WarnNoAnchor, "run the calibration kernel around every run",
			"%d of %d runs lack the calibration kernel's time; it is not used", len(runs)-len(logs), len(runs))
	}
}

// estimate normalises the runs and estimates every function's change.
func (c *comparison) estimate() {
	m, o := c.matrix, c.options
	y := m.logCosts()
	c.reference = newReference(m, y, o)
	z := c.reference.normalised(y)
	c.prior = newPrior(m, z, c.reference.noise, o)
	c.estimates = o.withMargins(m, newEstimates(m, z, c.prior, c.reference.noise, true, o))
	if !c.reference.judge(m, c.estimates, o) {
		c.reference.giveUp()
		c.prior = newPrior(m, y, 0, o)
		c.estimates = o.withMargins(m, newEstimates(m, y, c.prior, 0, false, o))
		c.warnings.add(WarnUnstableReference, "compare smaller steps, or read the effects as absolute CPU",
			"functions of %.0f %% of the weight moved, so that there is no stable set to normalise by; functions are judged by their absolute CPU, which is noisier",
			100*c.reference.Moved)
	} else if !c.sampled && m.df() > 0 {
		c.drift = drift(m, c.reference.factors, c.anchors, driftMargin)
	}
}

// trusted tells whether a change of absolute CPU can be the program's: it was
// measured exactly, and either the calibration kernel or the interleaving of the
// runs stands for the machine.
func (c *comparison) trusted() bool {
	return !c.sampled && (c.anchors != nil || c.options.Paired)
}
