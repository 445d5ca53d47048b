package bpf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// onlineCPUs returns the numbers of the CPUs that run.
func onlineCPUs() ([]int, error) {
	const path = "/sys/devices/system/cpu/online"
	list, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("list online CPUs: %w", err)
	}
	cpus, err := parseCPUs(string(list))
	if err != nil {
		return nil, fmt.Errorf("list online CPUs: %s: %w", path, err)
	}
	return cpus, nil
}

// parseCPUs parses a list such as "0-3,7" (bitmap_parselist in the kernel).
func parseCPUs(list string) ([]int, error) {
	// The kernel is built for at most 8192 CPUs (CONFIG_NR_CPUS).
	const limit = 1 << 13
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("malformed list %q", list)
		}
		last := first
		if isRange {
			if last, err = strconv.ParseUint(high, 10, 32); err != nil {
				return nil, fmt.Errorf("malformed list %q", list)
			}
		}
		if last < first || last >= limit {
			return nil, fmt.Errorf("malformed list %q", list)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}
