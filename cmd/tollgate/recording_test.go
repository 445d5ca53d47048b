package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tollgate-dev/tollgate/baseline"
)

// scriptRecording is `recording DIR [KEY=VALUE...]`: writes a recording of a program of ten functions
// that nobody ran, from a random number generator. Keys: suite, seed, runs, failed (of the runs),
// slow (factor on the function parse), uniform (factor on all), cpu (model), event, profiles (a
// directory for the bare profiles).
func scriptRecording(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: recording DIR [KEY=VALUE...]")
	}
	s := synthetic{suite: "bench", seed: 1, runs: 8, slow: 1, uniform: 1, cpu: "Model T", event: "cpu-clock"}
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "suite":
			s.suite = value
		case "cpu":
			s.cpu = value
		case "event":
			s.event = value
		case "profiles":
			s.profiles = ts.MkAbs(value)
		case "seed":
			s.seed, err = strconv.ParseUint(value, 10, 64)
		case "runs":
			s.runs, err = strconv.Atoi(value)
		case "failed":
			s.failed, err = strconv.Atoi(value)
		case "slow":
			s.slow, err = strconv.ParseFloat(value, 64)
		case "uniform":
			s.uniform, err = strconv.ParseFloat(value, 64)
		default:
			ts.Fatalf("unknown key %s", key)
		}
		ts.Check(err)
	}
	ts.Check(s.write(ts.MkAbs(args[0])))
}

type synthetic struct {
	suite, cpu, event string
	seed              uint64
	runs, failed      int
	slow, uniform     float64
	profiles          string
}

func (s synthetic) write(dir string) error {
	env, err := baseline.CurrentEnv("")
	if err != nil {
		return err
	}
	env.CPUModel = s.cpu
	w, err := baseline.Create(dir, baseline.Manifest{
		ToolVersion: "test", Suite: s.suite, Command: []string{"./bench"}, Env: env,
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Frequency: 999, Event: s.event, RequestedRuns: s.runs,
	}, baseline.CreateOptions{})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(s.seed, 2))
	for i := range s.runs {
		p, samples := s.profile(random)
		var data bytes.Buffer
		if err := p.Write(&data); err != nil {
			return err
		}
		info := baseline.RunInfo{WorkUnits: 1, AnchorSeconds: 0.05 * (1 + 0.002*random.NormFloat64())}
		if i < s.failed {
			info.ExitCode = 1
		}
		cpu := float64(samples) / 999
		info.Accounting = baseline.Accounting{
			WallSeconds: cpu, CPUSeconds: cpu, UserSeconds: cpu, SampledSeconds: cpu,
			Samples: uint64(samples), TargetSamples: uint64(samples), Complete: uint64(samples),
		}
		if err := w.Add(info, data.Bytes()); err != nil {
			return err
		}
		if s.profiles != "" {
			if err := os.MkdirAll(s.profiles, 0o777); err != nil {
				return err
			}
			name := filepath.Join(s.profiles, fmt.Sprintf("cpu%d.pb.gz", i))
			if err := os.WriteFile(name, data.Bytes(), 0o666); err != nil {
				return err
			}
		}
	}
	return w.Commit()
}

// profile draws one run: about 10,000 samples, a tenth in each function, with the variance of a
// Poisson count.
func (s synthetic) profile(random *rand.Rand) (*profile.Profile, int) {
	const period = 1_001_001 // ns, of 999 Hz
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     period,
		Mapping:    []*profile.Mapping{{ID: 1, File: "/srv/bench", BuildID: "0123456789abcdef", HasFunctions: true}},
	}
	total := 0
	for i, name := range []string{"parse", "lex", "resolve", "check", "lower", "optimise", "allocate", "emit", "link", "write"} {
		mean := 1000 * s.uniform
		if name == "parse" {
			mean *= s.slow
		}
		n := max(1, int(mean+random.NormFloat64()*31.6*s.uniform))
		total += n
		f := &profile.Function{ID: uint64(i + 1), Name: name, SystemName: name, Filename: "/src/" + name + ".c", StartLine: 10}
		l := &profile.Location{ID: uint64(i + 1), Mapping: p.Mapping[0], Address: uint64(0x1000 * (i + 1)), Line: []profile.Line{{Function: f, Line: 12}}}
		p.Function = append(p.Function, f)
		p.Location = append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{
			Location: []*profile.Location{l}, Value: []int64{int64(n), int64(n) * period},
			Label: map[string][]string{baseline.TargetLabel: {"1"}},
		})
	}
	return p, total
}
