package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/tollgate-dev/tollgate/bpf"
	"golang.org/x/sys/unix"
)

// probePrivileged tries what the collector needs, in the collector's place.
func probePrivileged() []finding {
	return []finding{probeBTF(), probeRingBuffer(), probePerfEvents(), probePMU(), probeKernelSymbols(), probeBPF()}
}

func probeBTF() finding {
	f := finding{Status: statusOK, Name: "BTF", Detail: "the kernel describes its types"}
	if _, err := btf.LoadKernelSpec(); err != nil {
		f.Status = statusFail
		f.Detail = err.Error()
		f.Mend = "use a kernel with CONFIG_DEBUG_INFO_BTF (Debian 11, Ubuntu 20.10 or later)"
	}
	return f
}

func probeRingBuffer() finding {
	f := finding{Status: statusOK, Name: "ring buffer", Detail: "a BPF ring buffer can be made"}
	if err := features.HaveMapType(ebpf.RingBuf); err != nil {
		f.Status, f.Detail = statusFail, err.Error()
		f.Mend = "use kernel 5.8 or later"
		if errors.Is(err, unix.EPERM) {
			f.Mend = "grant CAP_BPF, or run as root"
		}
	}
	return f
}

// probeBPF loads and attaches what sampling loads and attaches.
func probeBPF() finding {
	f := finding{Status: statusOK, Name: "BPF"}
	start := time.Now()
	sampler, err := bpf.Load(bpf.Options{Event: bpf.CPUClock, Frequency: 999})
	if err == nil {
		err = sampler.Enable()
		f.Detail = fmt.Sprintf("sampler loaded and running in %s", seconds(time.Since(start).Seconds()))
		err = errors.Join(err, sampler.Close())
	}
	if err != nil {
		f.Status, f.Detail = statusFail, err.Error()
		var hinter interface{ Hint() string }
		switch {
		case errors.As(err, &hinter) && hinter.Hint() != "":
			f.Mend = hinter.Hint()
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
			f.Mend = "run as root outside of a container, or start the container with --privileged --pid=host"
		default:
			f.Mend = "look at the failing lines above; if there are none, report this kernel"
		}
	}
	return f
}

// probePerfEvents opens the event of the default configuration on every CPU.
func probePerfEvents() finding {
	f := finding{Status: statusOK, Name: "perf events"}
	cpus, err := onlineCPUs()
	for _, cpu := range cpus {
		if err = openSystemWide(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK, cpu); err != nil {
			err = fmt.Errorf("open cpu-clock on cpu %d: %w", cpu, err)
			break
		}
	}
	f.Detail = fmt.Sprintf("cpu-clock opens on all %d CPUs", len(cpus))
	if err != nil {
		f.Status, f.Detail = statusFail, err.Error()
		f.Mend = "grant CAP_PERFMON and CAP_SYS_ADMIN, or run as root"
	}
	return f
}

// probePMU opens a hardware counter; most virtual machines have none, and nothing needs one.
func probePMU() finding {
	f := finding{Status: statusOK, Name: "PMU", Detail: "hardware cycles can be sampled with --event cycles"}
	if err := openSystemWide(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES, 0); err != nil {
		f.Detail = "none, as usual in a virtual machine; the default --event cpu-clock needs none"
	}
	return f
}

// openSystemWide opens and closes a sampling perf event on one CPU.
func openSystemWide(kind uint32, config uint64, cpu int) error {
	attr := unix.PerfEventAttr{Type: kind, Config: config, Sample: 1e6, Bits: unix.PerfBitDisabled}
	attr.Size = uint32(unix.PERF_ATTR_SIZE_VER5)
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// onlineCPUs parses a list such as 0-3,6 (Documentation/admin-guide/cputopology.rst).
func onlineCPUs() ([]int, error) {
	text, ok := readSetting("/sys/devices/system/cpu/online")
	if !ok {
		return nil, errors.New("read the list of online CPUs: /sys is not mounted")
	}
	var cpus []int
	for _, part := range strings.Split(text, ",") {
		var first, last int
		if n, _ := fmt.Sscanf(part, "%d-%d", &first, &last); n == 1 {
			last = first
		} else if n != 2 {
			return nil, fmt.Errorf("read the list of online CPUs: %q is no range", part)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// probeKernelSymbols looks whether addresses are shown, which is zero for those who may not see them.
func probeKernelSymbols() finding {
	f := finding{Status: statusOK, Name: "kernel symbols"}
	file, err := os.Open("/proc/kallsyms")
	if err == nil {
		defer file.Close()
		scanner := bufio.NewScanner(file)
		for scanner.Scan() {
			if address, _, _ := strings.Cut(scanner.Text(), " "); strings.Trim(address, "0") != "" {
				f.Detail = "/proc/kallsyms shows addresses"
				return f
			}
		}
		err = errors.Join(scanner.Err(), errors.New("/proc/kallsyms hides addresses"))
	}
	f.Status = statusWarn
	f.Detail = fmt.Sprintf("%v, so kernel functions stay without names", err)
	f.Mend = "sudo sysctl kernel.kptr_restrict=1, and grant CAP_SYSLOG to whom is not root"
	return f
}

// resolveBinary finds the program that the user means by name, as the shell would.
func (a *app) resolveBinary(name string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	path, err := a.lookPath(name)
	if err != nil {
		return "", usageError("give its path", "no program %s in this directory or on the PATH", name)
	}
	return filepath.Clean(path), nil
}
