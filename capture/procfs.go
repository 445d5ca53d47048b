package capture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tollgate-dev/tollgate/bpf"
)

// userHz is the unit of the times in /proc: USER_HZ, 100 on every Linux
// architecture that Go supports.
const userHz = 100

// threadStat is what /proc/PID/stat tells (proc_pid_stat(5)).
type threadStat struct {
	comm         string
	state        byte
	parent       uint32
	utime, stime uint64 // USER_HZ ticks
}

var errMalformed = errors.New("malformed contents")

func readStat(path string) (threadStat, error) {
	var s threadStat
	data, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	// comm is in parentheses and may itself contain any of them.
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return s, fmt.Errorf("read %s: %w", path, errMalformed)
	}
	s.comm = string(data[open+1 : end])
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) < 13 {
		return s, fmt.Errorf("read %s: %w", path, errMalformed)
	}
	s.state = fields[0][0]
	parent, err1 := strconv.ParseUint(fields[1], 10, 32)
	utime, err2 := strconv.ParseUint(fields[11], 10, 64)
	stime, err3 := strconv.ParseUint(fields[12], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return s, fmt.Errorf("read %s: %w", path, errMalformed)
	}
	s.parent, s.utime, s.stime = uint32(parent), utime, stime
	return s, nil
}

// ancestors returns the parent of this process, its parent and so on, without
// process 1.
func ancestors(procRoot string) (pids []uint32) {
	const maxDepth = 64
	at := uint32(os.Getppid())
	for at > 1 && len(pids) < maxDepth {
		pids = append(pids, at)
		stat, err := readStat(fmt.Sprintf("%s/%d/stat", procRoot, at))
		if err != nil {
			break
		}
		at = stat.parent
	}
	return pids
}

// codePaths returns the paths of the files whose code process pid maps, as it
// sees them.
func codePaths(procRoot string, pid uint32) (paths []string) {
	data, err := os.ReadFile(fmt.Sprintf("%s/%d/maps", procRoot, pid))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		// address perms offset dev inode pathname (proc_pid_maps(5))
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
		if len(fields) < 6 || len(fields[1]) < 3 || fields[1][2] != 'x' {
			continue
		}
		if path := strings.TrimLeft(fields[5], " "); strings.HasPrefix(path, "/") && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// readThread returns the CPU time that a live thread, or one that nobody has
// waited for, has used. dir is its directory in /proc/PID/task.
func readThread(dir string) (bpf.Usage, error) {
	var u bpf.Usage
	data, err := os.ReadFile(dir + "/schedstat")
	if err != nil {
		return u, err
	}
	// sum_exec_runtime, run_delay, pcount (Documentation/scheduler/sched-stats).
	runtime, _, _ := strings.Cut(string(data), " ")
	if u.Runtime, err = strconv.ParseUint(runtime, 10, 64); err != nil {
		return u, fmt.Errorf("read %s/schedstat: %w", dir, errMalformed)
	}
	stat, err := readStat(dir + "/stat")
	if err != nil {
		return u, err
	}
	const tick = 1e9 / userHz
	u.UTime, u.STime = stat.utime*tick, stat.stime*tick
	if status, err := os.ReadFile(dir + "/status"); err == nil {
		u.VoluntarySwitches = statusField(status, "voluntary_ctxt_switches:")
		u.InvoluntarySwitches = statusField(status, "nonvoluntary_ctxt_switches:")
	}
	return u, nil
}

// statusField returns the number after a line's key; 0 where it is missing.
func statusField(status []byte, key string) uint64 {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// stealTicks returns the time all CPUs were withheld by the hypervisor, in
// USER_HZ ticks (proc_stat(5), eighth column of the line cpu).
func stealTicks(procRoot string) (uint64, error) {
	data, err := os.ReadFile(filepath.Join(procRoot, "stat"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("read /proc/stat: %w", errMalformed)
	}
	return strconv.ParseUint(fields[8], 10, 64)
}
