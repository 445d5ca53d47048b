package main

import (
	"testing"

	"github.com/google/pprof/profile"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/suite"
)

func parsedSuite(t *testing.T, text string) policy {
	t.Helper()
	config, err := suite.Parse("tollgate.yaml", []byte("suites:\n  - name: s\n    command: ./bench\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := config.Suite("")
	if err != nil {
		t.Fatal(err)
	}
	return policy{s}
}

// Samples of the target in two processes and two threads, and one of the rest of the machine.
func labelled() *baseline.Recording {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}}
	for _, l := range []map[string][]string{
		{"target": {"1"}, "comm": {"server"}, "thread": {"main"}},
		{"target": {"1"}, "comm": {"server"}, "thread": {"worker"}},
		{"target": {"1"}, "comm": {"client"}, "thread": {"main"}},
		{"comm": {"server"}},
	} {
		p.Sample = append(p.Sample, &profile.Sample{Value: []int64{1}, Label: l})
	}
	return &baseline.Recording{
		Manifest: baseline.Manifest{Runs: []baseline.RunInfo{{WorkUnits: 1, Accounting: baseline.Accounting{CPUSeconds: 3}}}},
		Profiles: []baseline.Profile{{Profile: p}},
	}
}

func TestScopeOfAProcessOrThreadIsAllThatIsJudged(t *testing.T) {
	for _, tt := range []struct {
		scope   string
		samples int
		seconds float64 // exact ones are known of the whole tree only
	}{
		{"target", 4, 3}, {"system", 4, 3}, // diff selects these by itself
		{"{process: server}", 2, 0}, {"{thread: main}", 2, 0}, {"{process: other}", 0, 0},
	} {
		runs, infos, err := parsedSuite(t, "    scope: "+tt.scope+"\n").runs(labelled())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(runs[0].Profile.Sample); got != tt.samples || runs[0].CPUSeconds != tt.seconds || len(infos) != 1 {
			t.Errorf("scope %s: %d samples and %v CPU-seconds, want %d and %v", tt.scope, got, runs[0].CPUSeconds, tt.samples, tt.seconds)
		}
	}
}

func TestLooksOfASuiteEndWithTheRuns(t *testing.T) {
	p := parsedSuite(t, "statistics:\n  looks:\n    - {pairs: 4, spend: 0.2}\n    - {pairs: 8, spend: 0.8}\n")
	for pairs, want := range map[int]int{8: 2, 20: 2, 7: 1} {
		looks := p.looks(pairs)
		if len(looks) != want || looks[0] != (diff.Look{Pairs: 4, Spend: 0.2}) {
			t.Errorf("looks of %d pairs are %v, want %d", pairs, looks, want)
		}
	}
	if looks := p.looks(3); len(looks) != 1 || looks[0].Pairs != 3 {
		t.Errorf("looks of 3 pairs are %v", looks)
	}
	if looks := (policy{}).looks(10); len(looks) != 2 {
		t.Errorf("looks without a suite are %v", looks)
	}
}

func TestThresholdOfZeroIsZero(t *testing.T) {
	o := parsedSuite(t, "    thresholds:\n      functions:\n        - {function: parse, fail: 0%, margin: 0%}\n").options(diff.Options{Paired: true, Look: 1})
	got := o.Limits(diff.Function{Name: "parse"})
	if got.FailEffect >= 0 || got.MinEffect >= 0 || got.Equivalence != 0.01 || !o.Paired || o.Look != 1 {
		t.Errorf("limits are %+v of %+v", got, o)
	}
}

// Work of Go benchmarks is known for all runs or not at all.
func TestUnitsOfWorkNeedResultsOfAllRuns(t *testing.T) {
	with := func(iterations float64) baseline.RunInfo {
		return baseline.RunInfo{Benchmarks: []baseline.Benchmark{{Name: "p.BenchmarkX", Iterations: iterations, NsPerOp: 1e6}}}
	}
	units, err := unitsOfWork([]baseline.RunInfo{with(2000)}, []baseline.RunInfo{with(1000)})
	if err != nil || len(units) != 2 || units[0] != 2*units[1] {
		t.Errorf("units are %v (%v), want the first to be twice the second", units, err)
	}
	if units, err := unitsOfWork([]baseline.RunInfo{{}}, []baseline.RunInfo{{}}); units != nil || err != nil {
		t.Errorf("units without results are %v (%v)", units, err)
	}
	if _, err := unitsOfWork([]baseline.RunInfo{with(5)}, []baseline.RunInfo{{}}); err == nil {
		t.Error("a side without results is no error")
	}
}
