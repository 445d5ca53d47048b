package diff

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/google/pprof/profile"
)

// Run is one run of the program under test.
type Run struct {
	// Profile holds the samples of the run. Counts, where set, takes its
	// place: Count reduces a profile to what the comparison needs, so that
	// the profiles of many runs need not be held at once.
	Profile *profile.Profile
	Counts  *Counts

	// CPUSeconds is the exact CPU time of the target process tree. 0 means
	// unknown: then it is estimated from the samples.
	CPUSeconds float64
	// Work is the number of units of work done; 0 means 1. Either every run
	// of a comparison says it or none.
	Work float64
	// Anchor is the time in seconds that the calibration kernel took around
	// this run; 0 means that it did not run.
	Anchor float64
	// Machine names the machine that the run was on, or whatever else makes
	// runs alike. Where the runs of base are from several and the sides are not
	// paired, the variance between machines counts for itself; "" is a machine
	// like any other.
	Machine string
	// Label names the run in warnings and errors; "" is its number.
	Label string
}

// observed is a run that was found fit for use.
type observed struct {
	counts *Counts
	label  string
	cpu    float64 // seconds, 0 unknown
	work   float64 // 0 not given
	anchor float64 // seconds, 0 none

	machine string
}

// observe counts the samples of the runs of one side and drops runs that
// cannot be used, with a warning.
func observe(side string, runs []Run, o Options, w *warnings) ([]observed, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("compare runs: no %s runs", side)
	}
	labels := make([]string, len(runs))
	targeted := false
	for i, run := range runs {
		if labels[i] = run.Label; labels[i] == "" {
			labels[i] = fmt.Sprintf("%s run %d", side, i+1)
		}
		if err := run.check(); err != nil {
			return nil, fmt.Errorf("read %s: %w", labels[i], err)
		}
		targeted = targeted || run.targeted()
	}
	scope := o.Scope
	if scope == ScopeAuto {
		scope = ScopeAll
		if targeted {
			scope = ScopeTarget
		}
	}
	counted, failed := countAll(runs, scope, o)
	list := make([]observed, 0, len(runs))
	for i, run := range runs {
		counts := run.Counts
		if counts == nil {
			if failed[i] != nil {
				return nil, fmt.Errorf("read %s: %w", labels[i], failed[i])
			}
			counts = counted[i]
		} else if counts.scope != scope && (o.Scope != ScopeAuto || counts.targeted) {
			return nil, fmt.Errorf("read %s: counted in another scope than the comparison's", labels[i])
		} else if targeted && !counts.targeted {
			counts = &Counts{targeted: true, event: counts.event, unit: counts.unit, period: counts.period}
		}
		list = append(list, observed{counts: counts, label: labels[i], cpu: run.CPUSeconds, work: run.Work, anchor: run.Anchor, machine: run.Machine})
	}
	return list, nil
}

// countAll counts the profiles of runs that come without Counts, as many at a
// time as there are processors. Options.Touched is called by one at a time.
func countAll(runs []Run, scope Scope, o Options) (counted []*Counts, failed []error) {
	counted, failed = make([]*Counts, len(runs)), make([]error, len(runs))
	touched := o.Touched
	if touched != nil {
		var lock sync.Mutex
		touched = func(f Function) bool {
			lock.Lock()
			defer lock.Unlock()
			return o.Touched(f)
		}
	}
	free := make(chan struct{}, min(len(runs), runtime.GOMAXPROCS(0)))
	var wait sync.WaitGroup
	for i, run := range runs {
		if run.Counts != nil {
			continue
		}
		free <- struct{}{}
		wait.Add(1)
		go func() {
			defer wait.Done()
			counted[i], failed[i] = count(run.Profile, o.SampleType, scope, touched)
			<-free
		}()
	}
	wait.Wait()
	return counted, failed
}

func (r Run) check() error {
	if r.Profile == nil && r.Counts == nil {
		return fmt.Errorf("no profile")
	}
	for _, v := range []struct {
		name  string
		value float64
	}{{"CPU-seconds", r.CPUSeconds}, {"units of work", r.Work}, {"calibration kernel's seconds", r.Anchor}} {
		if math.IsNaN(v.value) || math.IsInf(v.value, 0) || v.value < 0 {
			return fmt.Errorf("%s: %v is not a finite number >= 0", v.name, v.value)
		}
	}
	return nil
}

// targeted tells whether any sample of the run carries the target label.
func (r Run) targeted() bool {
	if r.Counts != nil {
		return r.Counts.targeted
	}
	for _, s := range r.Profile.Sample {
		if isTarget(s) {
			return true
		}
	}
	return false
}
