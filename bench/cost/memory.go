package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/capture"
)

// resident is a process's peak resident memory in bytes.
type resident struct {
	peak      float64 // VmHWM, exact
	anonymous float64 // heap and stacks; the largest seen, as all below
	files     float64 // its program, BPF maps and the files of symbols
	symbols   float64 // of these, the files of symbols
	maps      float64 // and the BPF maps
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
		r, err := residentAt(ctx, o, binary, hertz)
		if err != nil {
			return figures, err
		}
		if least == 0 || r.peak < least {
			least = r.peak
		}
		most = max(most, r.peak)
		figures = append(figures,
			figure{fmt.Sprintf("collector's peak RSS, %d Hz", hertz), megabytes(r.peak), "<= 40 MB + symbols in use", met(r.peak-r.symbols, 40e6)},
			figure{fmt.Sprintf("of it anonymous / files / of these BPF maps / symbols, %d Hz", hertz),
				fmt.Sprintf("%.0f / %.0f / %.0f / %.0f MB", r.anonymous/1e6, r.files/1e6, r.maps/1e6, r.symbols/1e6), "", ""})
	}
	return append(figures, figure{"largest peak RSS over smallest", fmt.Sprintf("%.2f", most/least), "independent of the rate", met(most/least, 1.15)}), nil
}

func megabytes(n float64) string { return fmt.Sprintf("%.0f MB", n/1e6) }

// residentAt watches a collector that records the workload for some seconds.
func residentAt(ctx context.Context, o options, binary string, hertz int) (r resident, err error) {
	client, err := dial(ctx, o, hertz)
	if err != nil {
		return r, err
	}
	pid, err := collector(o)
	if err != nil {
		return r, errors.Join(err, client.Close())
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			r.look(pid, o.tollgate)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	command := fmt.Sprintf("echo 3000000000 | timeout 20 %s %d", binary, workloadDepth)
	_, err = client.Run(ctx, capture.Command{Args: []string{"sh", "-c", command}})
	close(stop)
	<-stopped
	r.look(pid, o.tollgate)
	return r, errors.Join(err, client.Close())
}

// look raises r to what process pid has now.
func (r *resident) look(pid int, program string) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return // it has ended
	}
	r.peak = max(r.peak, kilobytes(status, "VmHWM:"))
	r.anonymous = max(r.anonymous, kilobytes(status, "RssAnon:"))
	r.files = max(r.files, kilobytes(status, "RssFile:"))
	mappings, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return
	}
	program, _ = filepath.Abs(program)
	var symbols, maps float64
	path := ""
	lines := bufio.NewScanner(bytes.NewReader(mappings))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"): // address perms offset dev inode path
			path = strings.Join(fields[5:], " ")
		case len(fields) == 3 && fields[0] == "Rss:":
			n, _ := strconv.ParseFloat(fields[1], 64)
			if strings.Contains(path, "bpf-map") {
				maps += 1024 * n
			} else if strings.HasPrefix(path, "/") && path != program {
				symbols += 1024 * n
			}
		}
	}
	r.symbols, r.maps = max(r.symbols, symbols), max(r.maps, maps)
}

// kilobytes returns the bytes on the line of a status file that starts with
// key.
func kilobytes(status []byte, key string) float64 {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return 1024 * n
		}
	}
	return 0
}

// collector returns the process ID of the collector that this process started.
func collector(o options) (int, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // gone
		}
		parent := fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())
		if strings.Contains(string(status), parent) && strings.HasPrefix(string(status), "Name:\t"+filepath.Base(o.tollgate)+"\n") {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("find the collector: no child called %s", filepath.Base(o.tollgate))
}
