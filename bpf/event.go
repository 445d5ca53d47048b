package bpf

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// perfEvent is an open event of one CPU.
type perfEvent struct {
	cpu int
	fd  int
}

// openEvents opens the event that o asks for on each CPU, disabled, with
// program attached. Closing a perf event detaches its program, so nothing
// outlives the process.
func openEvents(o Options, cpus []int, program *ebpf.Program) ([]perfEvent, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(1e9) / uint64(o.Frequency), // period in ns
		Bits:   unix.PerfBitDisabled | unix.PerfBitExcludeIdle,
	}
	if o.Event == Cycles {
		attr.Type, attr.Config = unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES
		attr.Sample = uint64(o.Frequency)
		attr.Bits = unix.PerfBitDisabled | unix.PerfBitFreq
	}
	var events []perfEvent
	for _, cpu := range cpus {
		fd, err := openEvent(&attr, cpu)
		if errors.Is(err, unix.ENODEV) && o.Event == CPUClock {
			continue // the CPU went offline in the meantime
		}
		if err == nil {
			events = append(events, perfEvent{cpu, fd})
			err = attachEvent(fd, program)
		}
		if err != nil {
			closeEvents(events)
			return nil, explainEvent(cpu, o.Event, err)
		}
	}
	return events, nil
}

// attachEvent makes program run whenever the event fires. The ioctl does what
// a BPF link does, and is as old as perf's BPF support.
func attachEvent(fd int, program *ebpf.Program) error {
	return unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD())
}

func openEvent(attr *unix.PerfEventAttr, cpu int) (int, error) {
	return unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

func explainEvent(cpu int, event Event, cause error) error {
	op := fmt.Sprintf("open perf event %s on cpu %d", event, cpu)
	missing := errors.Is(cause, unix.ENOENT) || errors.Is(cause, unix.ENODEV) || errors.Is(cause, unix.EOPNOTSUPP)
	if event == Cycles && missing {
		return &Error{Op: op, Kind: ErrNoPMU, Cause: fmt.Errorf("%w: %w", ErrNoPMU, cause), hint: "sample by cpu-clock instead"}
	}
	return fail(op, cause)
}

func closeEvents(events []perfEvent) {
	for _, event := range events {
		unix.Close(event.fd)
	}
}

// controlEvents applies PERF_EVENT_IOC_ENABLE or PERF_EVENT_IOC_DISABLE.
func controlEvents(events []perfEvent, request uint) error {
	for _, event := range events {
		if err := unix.IoctlSetInt(event.fd, request, 0); err != nil {
			return fail(fmt.Sprintf("control perf event on cpu %d", event.cpu), err)
		}
	}
	return nil
}
