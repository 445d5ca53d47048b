package diff

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// stack is a sample of a test profile: function names, leaf first; "|" joins
// inlined functions of one location, innermost first.
type stack struct {
	frames string // separated by spaces
	value  int64
	target bool
}

// profileOf builds a valid 1 kHz CPU profile with sample types samples/count
// and cpu/nanoseconds.
func profileOf(t testing.TB, stacks ...stack) *profile.Profile {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     1e6,
	}
	mapping := &profile.Mapping{ID: 1, File: "/tmp/build/prog"}
	kernel := &profile.Mapping{ID: 2, File: "[kernel.kallsyms]"}
	p.Mapping = []*profile.Mapping{mapping, kernel}
	functions := map[string]*profile.Function{}
	locations := map[string]*profile.Location{}
	for _, s := range stacks {
		sample := &profile.Sample{Value: []int64{s.value, s.value * 1e6}}
		for frame := range strings.FieldsSeq(s.frames) {
			l := locations[frame]
			if l == nil {
				l = &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: mapping}
				for i, name := range strings.Split(frame, "|") {
					if after, ok := strings.CutPrefix(name, "kernel:"); ok {
						name, l.Mapping = after, kernel
					}
					if name == "?" {
						continue
					}
					f := functions[name]
					if f == nil {
						f = &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, SystemName: name, Filename: "prog.c", StartLine: int64(10 * (len(p.Function) + 1))}
						functions[name] = f
						p.Function = append(p.Function, f)
					}
					l.Line = append(l.Line, profile.Line{Function: f, Line: f.StartLine + int64(i) + 1})
				}
				locations[frame] = l
				p.Location = append(p.Location, l)
			}
			sample.Location = append(sample.Location, l)
		}
		if s.target {
			sample.Label = map[string][]string{targetLabel: {"1"}}
		}
		p.Sample = append(p.Sample, sample)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return p
}

func countsByName(c *Counts) map[string]float64 {
	m := make(map[string]float64)
	for _, e := range c.entries {
		m[e.Name] = e.n
	}
	return m
}

func TestCountTakesTheInnermostFunctionOfTheLeaf(t *testing.T) {
	c, err := Count(profileOf(t,
		stack{frames: "inlined|caller main", value: 3},
		stack{frames: "caller main", value: 2},
		stack{frames: "[exit] main", value: 1},
		stack{frames: "main [truncated:no_rule]", value: 4},
	), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := countsByName(c)
	for name, want := range map[string]float64{"inlined": 3, "caller": 2, "[exit]": 1, "main": 4, "[truncated:no_rule]": 0} {
		if got[name] != want {
			t.Errorf("%s has %v self samples, want %v", name, got[name], want)
		}
	}
	if c.Samples() != 10 || !near(c.CPUSeconds(), 0.01, 1e-12) {
		t.Errorf("%v samples, %v CPU-seconds, want 10 and 0.01", c.Samples(), c.CPUSeconds())
	}
}

func TestCountSelectsTheTarget(t *testing.T) {
	p := profileOf(t, stack{frames: "work", value: 3, target: true}, stack{frames: "other", value: 5})
	for _, tc := range []struct {
		scope Scope
		want  float64
	}{{ScopeAuto, 3}, {ScopeTarget, 3}, {ScopeAll, 8}} {
		c, err := Count(p, Options{Scope: tc.scope})
		if err != nil || c.Samples() != tc.want {
			t.Errorf("scope %d: %v samples, %v, want %v", tc.scope, c.Samples(), err, tc.want)
		}
	}
	c, err := Count(profileOf(t, stack{frames: "work", value: 7}), Options{})
	if err != nil || c.Samples() != 7 {
		t.Errorf("without labels %v samples, %v, want all 7", c.Samples(), err)
	}
}

func TestRunWithoutTargetSamplesIsNotJudgedByOthers(t *testing.T) {
	full := func() *profile.Profile {
		return profileOf(t, stack{frames: "work", value: 600, target: true}, stack{frames: "other", value: 5})
	}
	idle := profileOf(t, stack{frames: "other", value: 500})
	res := mustCompare(t, []Run{{Profile: full(), CPUSeconds: 0.6}, {Profile: idle, CPUSeconds: 0.1}},
		[]Run{{Profile: full(), CPUSeconds: 0.6}}, Options{})
	if res.Base.Runs != 1 || !warned(res, WarnNoSamples) {
		t.Errorf("%d base runs used, warnings %v: want the run without target samples left out", res.Base.Runs, res.Warnings)
	}
}

func TestCountTellsKernelFromUserFunctions(t *testing.T) {
	c, err := Count(profileOf(t, stack{frames: "memcpy", value: 3}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := Count(profileOf(t, stack{frames: "kernel:memcpy", value: 3}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMatrix([]observed{{counts: c}}, []observed{{counts: k}}, newNames([]observed{{counts: c}}, []observed{{counts: k}}), false)
	if len(m.functions) != 2 || m.functions[0].Kernel || !m.functions[1].Kernel {
		t.Errorf("got %+v, want memcpy of the program and of the kernel", m.functions)
	}
}

func TestCountNamesUnsymbolizedCode(t *testing.T) {
	c, err := Count(profileOf(t, stack{frames: "?", value: 3}, stack{value: 2}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := countsByName(c)
	if got["prog [unsymbolized]"] != 3 || got[noStack] != 2 {
		t.Errorf("got %v", got)
	}
}

func TestCountReadsForeignProfiles(t *testing.T) {
	for _, tc := range []struct {
		name    string
		types   []*profile.ValueType
		period  *profile.ValueType
		every   int64
		value   int64
		samples float64
		seconds float64
		event   string
	}{
		{"cpu time only", []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}, &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, 1e7, 5e7, 5, 0.05, "cpu"},
		{"other unit", []*profile.ValueType{{Type: "cpu", Unit: "microseconds"}}, &profile.ValueType{Type: "cpu", Unit: "milliseconds"}, 10, 50000, 5, 0.05, "cpu"},
		{"cycles", []*profile.ValueType{{Type: "cycles_sample", Unit: "count"}, {Type: "cycles_event", Unit: "count"}}, &profile.ValueType{Type: "cycles", Unit: "count"}, 1000000, 5, 5, 0, "cycles"},
		{"no period", []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}, nil, 0, 5e7, 1, 0.05, "cpu"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := profileOf(t, stack{frames: "work", value: 1})
			p.SampleType, p.PeriodType, p.Period = tc.types, tc.period, tc.every
			p.Sample[0].Value = make([]int64, len(tc.types))
			p.Sample[0].Value[0] = tc.value
			c, err := Count(p, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !near(c.Samples(), tc.samples, 1e-9) || !near(c.CPUSeconds(), tc.seconds, 1e-9) || c.event != tc.event {
				t.Errorf("%v samples, %v s of %q, want %v, %v, %q", c.Samples(), c.CPUSeconds(), c.event, tc.samples, tc.seconds, tc.event)
			}
		})
	}
}

func TestCountRefusesOtherProfiles(t *testing.T) {
	for _, tc := range []struct {
		name  string
		types []string
		want  string
	}{
		{"heap", []string{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}, "heap"},
		{"mutex", []string{"contentions", "delay"}, "waiting"},
		{"unknown", []string{"bananas"}, "bananas"},
		{"none", nil, "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := profileOf(t, stack{frames: "work", value: 1})
			p.SampleType = nil
			for _, name := range tc.types {
				p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: "count"})
			}
			p.Sample[0].Value = make([]int64, len(tc.types))
			_, err := Compare([]Run{{Profile: p, Label: "base.pb.gz"}}, []Run{{Profile: p}}, Options{})
			if !errors.Is(err, ErrNotCPU) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "base.pb.gz") {
				t.Errorf("got %v, want ErrNotCPU naming the file and %q", err, tc.want)
			}
		})
	}
}

func TestCountRefusesDifferences(t *testing.T) {
	if _, err := Count(profileOf(t, stack{frames: "work", value: -1}), Options{}); err == nil {
		t.Error("a negative value was accepted")
	}
	if _, err := Count(nil, Options{}); err == nil {
		t.Error("no profile was accepted")
	}
	if _, err := Count(profileOf(t, stack{frames: "work", value: 1}), Options{SampleType: "cycles"}); err == nil {
		t.Error("a sample type that is not there was accepted")
	}
}
