package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// measureMemory records the same load at three rates.
func measureMemory(ctx context.Context, o options) ([]figure, error) {
	binary, err := buildWorkload(o.dir)
	if err != nil {
		return nil, err
	}
	var figures []figure
	var least, most float64
	for _, hertz := range []int{99, 999, 4999} {
		client, err := dial(ctx, o, hertz)
		if err != nil {
			return figures, err
		}
		command := fmt.Sprintf("echo 3000000000 | timeout 20 %s %d", binary, workloadDepth)
		if _, err := client.Run(ctx, capture.Command{Args: []string{"sh", "-c", command}}); err != nil {
			client.Close()
			return figures, err
		}
		resident, err := collectorResident()
		if closeErr := client.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return figures, err
		}
		if least == 0 || resident < least {
			least = resident
		}
		most = max(most, resident)
		figures = append(figures, figure{fmt.Sprintf("collector's peak RSS, %d Hz", hertz), fmt.Sprintf("%.0f MB", resident/1e6), "<= 40 MB + symbols in use", met(resident, 40e6)})
	}
	return append(figures, figure{"largest peak RSS over smallest", fmt.Sprintf("%.2f", most/least), "independent of the rate", met(most/least, 1.15)}), nil
}

// collectorResident is the peak resident set in bytes of the collector that
// this process started.
func collectorResident() (float64, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // gone
		}
		status := map[string]string{}
		for _, line := range strings.Split(string(data), "\n") {
			if key, value, ok := strings.Cut(line, ":"); ok {
				status[key] = strings.TrimSpace(value)
			}
		}
		if status["PPid"] == strconv.Itoa(os.Getpid()) && status["Name"] == "tollgate" {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(status["VmHWM"], " kB"), 64)
			return 1024 * kilobytes, err
		}
	}
	return 0, fmt.Errorf("find the collector: no child called tollgate")
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
	if _, err := client.Run(ctx, capture.Command{Args: []string{"sh", "-c", loop}}); err != nil { // tables and symbols warm
		return nil, err
	}
	result, err := client.Run(ctx, capture.Command{Args: []string{"sh", "-c", loop}})
	if err != nil {
		return nil, err
	}
	stats := result.Stats
	share := stats.CollectorRunSeconds / result.Wall.Seconds()
	complete := float64(stats.Complete) / float64(stats.TargetSamples)
	difference := stats.SampledSeconds/stats.CPUSeconds - 1
	return []figure{
		{"collector's CPU in a compile storm, 999 Hz", fmt.Sprintf("%.1f %% of a core", 100*share), "<= 1 %", met(share, 0.01)},
		{"complete stacks in the storm", fmt.Sprintf("%.1f %% of target samples", 100*complete), "", ""},
		{"samples / frequency against exact CPU-seconds, storm", fmt.Sprintf("%+.2f %%", 100*difference), "within 1 %", met(max(difference, -difference), 0.01)},
		{"lost samples in the storm", fmt.Sprint(stats.Lost), "0", met(float64(stats.Lost), 0)},
		{"truncated in the storm, by reason", fmt.Sprint(stats.Truncated), "", ""},
	}, nil
}

func dial(ctx context.Context, o options, hertz int) (*capture.Client, error) {
	dialCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return capture.Dial(dialCtx, capture.DialOptions{
		Options: capture.Options{Frequency: hertz},
		Command: []string{o.tollgate, "_collector"},
	})
}
