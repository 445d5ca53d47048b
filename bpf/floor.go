package bpf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Floor samples all CPUs with a program that does nothing: what the
// interruptions alone cost. The cost of sampling is what comes on top.
type Floor struct {
	objects floorObjects
	events  []perfEvent
}

// LoadFloor loads the empty program and opens the events of o, disabled. Its
// errors are Load's.
func LoadFloor(options Options) (*Floor, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	o, err := options.withDefaults(len(cpus))
	if err != nil {
		return nil, err
	}
	f := &Floor{}
	if err := loadFloorObjects(&f.objects, nil); err != nil {
		return nil, fail("load the empty BPF program", err)
	}
	if f.events, err = openEvents(o, cpus, f.objects.Empty); err != nil {
		return nil, errors.Join(err, f.objects.Close())
	}
	return f, nil
}

// Enable starts the interruptions.
func (f *Floor) Enable() error { return controlEvents(f.events, unix.PERF_EVENT_IOC_ENABLE) }

// Disable stops them.
func (f *Floor) Disable() error { return controlEvents(f.events, unix.PERF_EVENT_IOC_DISABLE) }

// Close frees everything.
func (f *Floor) Close() error {
	closeEvents(f.events)
	f.events = nil
	if err := f.objects.Close(); err != nil {
		return fmt.Errorf("close the empty program: %w", err)
	}
	return nil
}
