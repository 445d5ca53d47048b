package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/capture"
	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// measureReady times how long it takes from nothing to a sampler that waits
// for its first run.
func measureReady(ctx context.Context, o options) ([]figure, error) {
	var inProcess, process []float64
	for range 12 {
		begin := time.Now()
		session, err := capture.Start(ctx, capture.Options{})
		if err != nil {
			return nil, err
		}
		inProcess = append(inProcess, time.Since(begin).Seconds())
		if err := session.Close(); err != nil {
			return nil, err
		}
		begin = time.Now()
		client, err := capture.Dial(ctx, capture.DialOptions{Command: []string{o.tollgate, "_collector"}})
		if err != nil {
			return nil, err
		}
		process = append(process, time.Since(begin).Seconds())
		if err := client.Close(); err != nil {
			return nil, err
		}
	}
	warm, cold := summarize(inProcess), summarize(process)
	return []figure{
		{"ready to sample, in a running process", fmt.Sprintf("%.0f ms", 1e3*warm.mid), "<= 60 ms", met(warm.mid, 0.060)},
		{"ready to sample, from starting the collector process", fmt.Sprintf("%.0f ms", 1e3*cold.mid), "<= 60 ms", met(cold.mid, 0.060)},
	}, nil
}

// measureSample fits nanoseconds a sample and a frame over stacks of different
// depths. At the higher rate what a sample touches is still in the caches from
// the one before; at the lower it is not.
func measureSample(ctx context.Context, o options) ([]figure, error) {
	binary, err := buildWorkload(o.dir)
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, hertz := range []int{999, 4999} {
		var frames, nanoseconds []float64
		for _, depth := range []int{workloadDepth, 120, 500, 1000} {
			f, ns, err := sampleCost(binary, depth, hertz)
			if err != nil {
				return figures, err
			}
			frames, nanoseconds = append(frames, f), append(nanoseconds, ns)
			limit := 1000 + 40*f
			figures = append(figures, figure{fmt.Sprintf("BPF time of a sample, %.0f frames, %d Hz", f, hertz),
				fmt.Sprintf("%.2f us", ns/1e3), fmt.Sprintf("<= %.2f us", limit/1e3), met(ns, limit)})
		}
		slope := (nanoseconds[2] - nanoseconds[0]) / (frames[2] - frames[0])
		base := nanoseconds[0] - slope*frames[0]
		figures = append(figures,
			figure{fmt.Sprintf("BPF time, fitted, %d Hz", hertz), fmt.Sprintf("%.2f us + %.0f ns a frame", base/1e3, slope),
				"<= 1 us + 40 ns a frame", met(base+slope*26, 1000+40*26)},
			figure{fmt.Sprintf("BPF time of all samples, %.0f frames, %d Hz", frames[0], hertz),
				fmt.Sprintf("%.2f %% of a core", float64(hertz)*nanoseconds[0]/1e7), "", ""})
	}
	return figures, ctx.Err()
}

// workloadRun is the run whose target is the workload.
const workloadRun = 1

// sampleCost returns the mean user frames and nanoseconds of the samples of a
// spinning workload, its tables loaded. Other processes do not count.
func sampleCost(binary string, depth, hertz int) (frames, nanoseconds float64, err error) {
	sampler, err := bpf.Load(bpf.Options{Frequency: hertz, Measure: true})
	if err != nil {
		return 0, 0, err
	}
	defer sampler.Close()
	loader := &tableLoader{sampler: sampler, rules: unwind.NewRuleSet(), tried: map[bpf.FileKey]bool{}}
	if err := sampler.Arm(uint32(os.Getpid()), workloadRun); err != nil {
		return 0, 0, err
	}
	work, err := startWorkload(binary, depth)
	if err != nil {
		return 0, 0, err
	}
	defer work.close()
	if err := sampler.Disarm(uint32(os.Getpid())); err != nil {
		return 0, 0, err
	}
	spins, err := work.iterations(300e6)
	if err != nil {
		return 0, 0, err
	}
	if err := sampler.Enable(); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, sampler.Disable()) }()
	pid := uint32(work.cmd.Process.Pid)
	// Every round of work meets at most one more unknown file.
	for range 6 {
		if _, err := work.do(spins / 4); err != nil {
			return 0, 0, err
		}
		if err := sampler.Drain(loader.load(pid)); err != nil {
			return 0, 0, err
		}
	}
	before, err := sampler.Cost(workloadRun)
	if err != nil {
		return 0, 0, err
	}
	for range 4 {
		if _, err := work.do(spins); err != nil {
			return 0, 0, err
		}
		if err := sampler.Drain(func(bpf.Record) {}); err != nil { // a full ring is cheaper
			return 0, 0, err
		}
	}
	after, err := sampler.Cost(workloadRun)
	if err != nil {
		return 0, 0, err
	}
	samples := float64(after.Samples - before.Samples)
	if samples == 0 {
		return 0, 0, errors.New("the workload was not sampled")
	}
	return float64(after.Frames-before.Frames) / samples, float64(after.Nanoseconds-before.Nanoseconds) / samples, nil
}

// tableLoader answers misses of one process from its maps.
type tableLoader struct {
	sampler *bpf.Sampler
	rules   *unwind.RuleSet
	sent    int
	next    uint16
	tried   map[bpf.FileKey]bool
}

// load returns a handler of records that loads the tables of pid's files.
func (l *tableLoader) load(pid uint32) func(bpf.Record) {
	return func(record bpf.Record) {
		sample, ok := record.(*bpf.Sample)
		if !ok || sample.PID != pid || sample.Miss == nil || l.tried[sample.Miss.Key] {
			return
		}
		// Many samples miss a file before the first of them is read.
		l.tried[sample.Miss.Key] = true
		if err := l.bind(pid, *sample.Miss); err != nil {
			fmt.Fprintln(os.Stderr, "cost: table not loaded:", err)
		}
	}
}

func (l *tableLoader) bind(pid uint32, miss bpf.Mapping) error {
	path := fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, miss.Start, miss.End)
	file, err := safeelf.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	table, err := unwind.NewTable(file, l.rules)
	if err != nil {
		return err
	}
	var rules []bpf.Rule
	for _, rule := range l.rules.Rules(l.sent) {
		rules = append(rules, bpf.Rule{CFA: uint8(rule.CFA), Reg: rule.Reg, FP: uint8(rule.FP), RA: uint8(rule.RA),
			CFAOff: rule.CFAOff, FPOff: rule.FPOff, RAOff: rule.RAOff, BXOff: rule.BXOff, Off2: rule.Off2})
	}
	if err := l.sampler.AppendRules(l.sent, rules); err != nil {
		return err
	}
	l.sent += len(rules)
	ref, err := l.sampler.LoadTable(table.Rows, pagesOf(table))
	if err != nil {
		return err
	}
	l.next++
	return l.sampler.Bind(miss.Key, l.next, ref)
}

func pagesOf(table *unwind.Table) []bpf.Page {
	pages := make([]bpf.Page, len(table.Pages))
	for i, page := range table.Pages {
		pages[i] = bpf.Page{First: page.First, Count: page.Count}
	}
	return pages
}
