package bpf

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Sampler samples all CPUs that were online at Load. Everything in the kernel
// belongs to file descriptors of the process, and ends with it.
//
// Drain and Wait are for one goroutine; all other methods may be called from
// any.
type Sampler struct {
	options Options
	objects samplerObjects
	links   []link.Link
	events  []perfEvent
	mmaps   []*mmapRing
	ring    *ring
	poll    *poller
	tables  *tables
	memory  [][]byte // of arrays that stay mapped
	cpus    []samplerCpuState
	counts  []samplerEventCounters
	runs    []samplerRunState
	drain   drain

	runsMu     sync.Mutex
	generation uint32 // guarded by tables.mu
	closed     atomic.Bool
}

// Load loads the programs, attaches to process events, and opens the sampling
// events of all online CPUs, disabled. The error is an *Error where the
// machine or the privileges are the reason.
func Load(options Options) (*Sampler, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	o, err := options.withDefaults(len(cpus))
	if err != nil {
		return nil, err
	}
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	if err := checkOpenFiles(2*len(cpus) + ownFiles); err != nil {
		return nil, err
	}
	s := &Sampler{options: o}
	if err := s.open(cpus, possible); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Sampler) open(cpus []int, possible int) (err error) {
	if err := s.loadPrograms(possible); err != nil {
		return err
	}
	if err := s.mapMemory(possible); err != nil {
		return err
	}
	for name, program := range map[string]*ebpf.Program{
		"sched_process_fork": s.objects.ProcessFork,
		"sched_process_exec": s.objects.ProcessExec,
		"sched_process_exit": s.objects.ProcessExit,
		"sched_process_free": s.objects.ProcessFree,
	} {
		attached, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: program})
		if err != nil {
			return fail("attach to "+name, err)
		}
		s.links = append(s.links, attached)
	}
	if s.mmaps, err = openMmapRings(cpus); err != nil {
		return err
	}
	if s.events, err = openEvents(s.options, cpus, s.objects.Sample); err != nil {
		return err
	}
	s.poll, err = newPoller(s.objects.Ring.FD(), s.mmaps)
	return err
}

// loadPrograms creates the maps and loads the programs.
func (s *Sampler) loadPrograms(possible int) error {
	kernel, err := kernelTypes()
	if err != nil {
		return err
	}
	spec, err := loadSampler()
	if err != nil {
		return fmt.Errorf("read the BPF object: %w", err)
	}
	if err := s.size(spec, possible); err != nil {
		return fmt.Errorf("prepare the BPF object: %w", err)
	}
	err = spec.LoadAndAssign(&s.objects, &ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{KernelTypes: kernel},
	})
	if err != nil {
		return fail("load BPF programs", err)
	}
	return nil
}

// kernelTypes reads the kernel's BTF, once for all programs, and checks that
// the programs know this kernel's address spaces.
func kernelTypes() (*btf.Spec, error) {
	const op = "read the kernel's types"
	kernel, err := btf.LoadKernelSpec()
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, btf.ErrNotFound) || errors.Is(err, ebpf.ErrNotSupported) {
		return nil, &Error{Op: op, Kind: ErrNoBTF, Cause: err, hint: "use a kernel with CONFIG_DEBUG_INFO_BTF, as distributions build them"}
	}
	if err != nil {
		return nil, fail(op, err)
	}
	var tree *btf.Struct
	if err := kernel.TypeByName("maple_tree", &tree); err != nil {
		return nil, &Error{Op: op, Kind: ErrOldKernel, Cause: ErrOldKernel, hint: "use kernel 6.1 or later"}
	}
	return kernel, nil
}

// size sets what depends on the machine and the options.
func (s *Sampler) size(spec *ebpf.CollectionSpec, possible int) error {
	// What a CPU keeps takes 140 KB with 64 slots. More CPUs run fewer
	// processes each.
	slotBits := uint32(6)
	if possible > 32 {
		slotBits = 5
	}
	if possible > 96 {
		slotBits = 4
	}
	spec.Maps[samplerMapCpus].MaxEntries = uint32(possible)
	spec.Maps[samplerMapEvents].MaxEntries = uint32(possible)
	spec.Maps[samplerMapSlots].MaxEntries = uint32(possible) << slotBits
	spec.Maps[samplerMapCachedRules].MaxEntries = uint32(possible) * cachedRules
	spec.Maps[samplerMapRows].MaxEntries = uint32(s.options.MaxRows / rowsPerChunk)
	spec.Maps[samplerMapRing].MaxEntries = uint32(s.options.RingBytes)
	measure := uint32(0)
	if s.options.Measure {
		measure = 1
	}
	copyAll := uint32(0)
	if s.options.CopyAll {
		copyAll = 1
	}
	for name, value := range map[string]any{
		samplerVarPageShift:   uint32(bits.TrailingZeros(uint(os.Getpagesize()))),
		samplerVarSlotBits:    slotBits,
		samplerVarMeasure:     measure,
		samplerVarCopyAll:     copyAll,
		samplerVarRingQuarter: uint64(s.options.RingBytes / 4),
		samplerVarLoadTime:    monotonic(),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return err
		}
	}
	return nil
}

// cachedRules is CACHED_RULES of maps.h.
const cachedRules = 1024

// mapMemory maps the arrays that are shared with the kernel.
func (s *Sampler) mapMemory(possible int) (err error) {
	o := &s.objects
	if s.cpus, err = mapArray[samplerCpuState](s, o.Cpus); err != nil {
		return err
	}
	if s.counts, err = mapArray[samplerEventCounters](s, o.Events); err != nil {
		return err
	}
	if s.runs, err = mapArray[samplerRunState](s, o.Runs); err != nil {
		return err
	}
	rows, err := newArray[uint32](o.Rows, s.options.MaxRows)
	if err != nil {
		return err
	}
	pages, err := newArray[samplerTablePage](o.Pages, int(o.Pages.MaxEntries()))
	if err != nil {
		return err
	}
	rules, err := newArray[samplerUnwindRule](o.Rules, int(o.Rules.MaxEntries()))
	if err != nil {
		return err
	}
	s.tables = newTables(rows, pages, rules)
	s.ring, err = newRing(o.Ring.FD(), s.options.RingBytes)
	return err
}

// Enable starts sampling.
func (s *Sampler) Enable() error { return s.control(unix.PERF_EVENT_IOC_ENABLE) }

// Disable stops sampling. What has been sampled stays in the rings.
func (s *Sampler) Disable() error { return s.control(unix.PERF_EVENT_IOC_DISABLE) }

func (s *Sampler) control(request uint) error {
	if s.closed.Load() {
		return ErrClosed
	}
	return controlEvents(s.events, request)
}

// Frequency returns the samples per second and CPU.
func (s *Sampler) Frequency() int { return s.options.Frequency }

// Close stops sampling and frees everything. Nothing else may run then.
func (s *Sampler) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.release()
}

// release frees what open has come to.
func (s *Sampler) release() error {
	closeEvents(s.events)
	var errs []error
	for _, attached := range s.links {
		errs = append(errs, attached.Close())
	}
	for _, ring := range s.mmaps {
		ring.close()
	}
	if s.poll != nil {
		s.poll.close()
	}
	if s.ring != nil {
		s.ring.close()
	}
	for _, memory := range s.memory {
		errs = append(errs, unix.Munmap(memory))
	}
	if s.objects.Sample != nil {
		errs = append(errs, s.objects.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close sampler: %w", err)
	}
	return nil
}
