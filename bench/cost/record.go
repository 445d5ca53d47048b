package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/capture"
)

// measureRecord records real commands and checks what comes with each run.
func measureRecord(ctx context.Context, o options) ([]figure, error) {
	client, err := dial(ctx, o, 999)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	input := filepath.Join(o.dir, "input")
	if out, err := exec.Command("sh", "-c", "for i in 1 2 3 4; do cat /usr/lib/x86_64-linux-gnu/lib*.so.? /usr/lib/aarch64-linux-gnu/lib*.so.? 2>/dev/null; done | head -c 60000000 >"+input).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make input: %w: %s", err, out)
	}
	var ratios, finishes []float64
	for range 8 {
		result, err := client.Run(ctx, capture.Command{Args: []string{"gzip", "-6", "-c", input}})
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, result.Stats.SampledSeconds/result.Stats.CPUSeconds-1)
		finishes = append(finishes, result.Stats.FinishSeconds)
	}
	agreement := summarize(ratios)
	figures := []figure{
		{"samples / frequency against exact CPU-seconds, gzip, median", fmt.Sprintf("%+.2f %%", 100*agreement.mid), "within 1 %", met(max(agreement.mid, -agreement.mid), 0.01)},
		{"profile symbolized and written after the run, first", fmt.Sprintf("%.2f s", finishes[0]), "<= 1 s", met(finishes[0], 1)},
		{"the same, median", fmt.Sprintf("%.2f s", summarize(finishes).mid), "<= 1 s", met(summarize(finishes).mid, 1)},
	}
	slow, err := dial(ctx, o, 99)
	if err != nil {
		return figures, err
	}
	defer slow.Close()
	result, err := slow.Run(ctx, capture.Command{Args: []string{"timeout", "10", "sh", "-c", "while :; do gzip -6 -c " + input + "; done"}})
	if err != nil {
		return figures, err
	}
	size := float64(len(result.Profile))
	return append(figures, figure{"profile of 10 s at 99 Hz", fmt.Sprintf("%.0f KB", size/1e3), "<= 50 KB", met(size, 50e3)}), nil
}

// measureStorm records compilers in a loop: hundreds of short processes.
func measureStorm(ctx context.Context, o options) ([]figure, error) {
	source := filepath.Join(o.dir, "storm.c")
	if err := os.WriteFile(source, []byte("#include <stdio.h>\n#include <stdlib.h>\nint main(void){puts(\"x\");return 0;}\n"), 0o600); err != nil {
		return nil, err
	}
	client, err := dial(ctx, o, 999)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	loop := fmt.Sprintf("for i in $(seq 60); do gcc -O1 -o %s %s; done", filepath.Join(o.dir, "storm"), source)
	var shares, agreements []float64
	var all capture.Stats
	truncated := map[string]uint64{}
	for round := range 6 {
		result, err := client.Run(ctx, capture.Command{Args: []string{"sh", "-c", loop}})
		if err != nil {
			return nil, err
		}
		if round == 0 { // tables and symbols
			continue
		}
		stats := result.Stats
		shares = append(shares, stats.CollectorRunSeconds/result.Wall.Seconds())
		agreements = append(agreements, stats.SampledSeconds/stats.CPUSeconds-1)
		all.Complete += stats.Complete
		all.TargetSamples += stats.TargetSamples
		all.Lost += stats.Lost
		for reason, n := range stats.Truncated {
			truncated[reason] += n
		}
	}
	share, difference := summarize(shares).mid, summarize(agreements).mid
	// Without a user stack there is nothing to complete.
	stackless := truncated["no_mm"] + truncated["in_exec"]
	complete := float64(all.Complete) / float64(all.TargetSamples-stackless)
	return []figure{
		{"collector's CPU in a compile storm, 999 Hz", fmt.Sprintf("%.2f %% of a core", 100*share), "<= 1 %", met(share, 0.01)},
		{"complete stacks in the storm, of samples that have a user stack", fmt.Sprintf("%.2f %%", 100*complete), ">= 99 %", met(-complete, -0.99)},
		{"samples / frequency against exact CPU-seconds, storm, median", fmt.Sprintf("%+.2f %%", 100*difference), "within 1 %", met(max(difference, -difference), 0.01)},
		{"lost samples in the storm", fmt.Sprintf("%d of %d", all.Lost, all.TargetSamples), "0", met(float64(all.Lost), 0)},
		{"incomplete in the storm, by reason", reasons(truncated), "", ""},
	}, nil
}

// reasons lists counts, the largest first.
func reasons(counts map[string]uint64) string {
	names := slices.Collect(maps.Keys(counts))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return strings.Join(names, ", ")
}

func dial(ctx context.Context, o options, hertz int) (*capture.Client, error) {
	dialCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return capture.Dial(dialCtx, capture.DialOptions{
		Options: capture.Options{Frequency: hertz},
		Command: []string{o.tollgate, "_collector"},
	})
}
