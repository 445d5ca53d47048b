package bpf

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf"
)

// Task is a thread of a target.
type Task struct {
	PID, TID uint32
	Run      uint32
	Exited   bool  // it has exited, but the kernel has not freed it yet
	Usage    Usage // only when Exited: as of the exit, short of up to a tick
}

// CommUsage is CPU time of the processes of one name.
type CommUsage struct {
	Comm  string
	Usage Usage
}

// Arm makes every process that tgid forks from now on the root of a target
// tree of the run, which must not be 0. The totals of the latest 1024 runs
// are kept.
func (s *Sampler) Arm(tgid, run uint32) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if run == 0 {
		return errors.New("arm: run 0 means no run")
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	state := &s.runs[int(run)%len(s.runs)]
	if state.Run != run {
		// Threads of the run that had the place count no longer.
		atomic.StoreUint32(&state.Run, 0)
		*state = samplerRunState{}
		atomic.StoreUint32(&state.Run, run)
	}
	if err := s.objects.RunsActive.Set(uint32(1)); err != nil {
		return fmt.Errorf("arm process %d: %w", tgid, err)
	}
	if err := s.objects.Armed.Update(&tgid, &run, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("arm process %d: %w", tgid, err)
	}
	return nil
}

// Disarm ends Arm; the trees that have begun stay targets. It is no error when
// tgid is not armed.
func (s *Sampler) Disarm(tgid uint32) error {
	if s.closed.Load() {
		return ErrClosed
	}
	err := s.objects.Armed.Delete(&tgid)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("disarm process %d: %w", tgid, err)
	}
	return nil
}

// Runtime returns the exact CPU time of the freed threads of the run, and how
// many samples of the run were taken. The kernel frees a thread some
// milliseconds after it was waited for, rarely seconds; until then it is among
// Tasks.
func (s *Sampler) Runtime(run uint32) (usage Usage, samples uint64, err error) {
	if s.closed.Load() {
		return Usage{}, 0, ErrClosed
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	state := &s.runs[int(run)%len(s.runs)]
	if run == 0 || state.Run != run {
		return Usage{}, 0, fmt.Errorf("read run %d: %w", run, ErrUnknownRun)
	}
	return usageOf(state.Usage), atomic.LoadUint64(&state.Samples), nil
}

// Cost is what the samples of a run took in the kernel.
type Cost struct {
	Samples     uint64
	Frames      uint64 // of user stacks
	Nanoseconds uint64 // in the program, the two readings of the clock included
}

// Cost returns the cost of the samples of the run so far. Needs
// Options.Measure.
func (s *Sampler) Cost(run uint32) (Cost, error) {
	if s.closed.Load() {
		return Cost{}, ErrClosed
	}
	s.runsMu.Lock()
	defer s.runsMu.Unlock()
	state := &s.runs[int(run)%len(s.runs)]
	if run == 0 || state.Run != run {
		return Cost{}, fmt.Errorf("read run %d: %w", run, ErrUnknownRun)
	}
	return Cost{
		Samples: atomic.LoadUint64(&state.Samples), Frames: atomic.LoadUint64(&state.Frames),
		Nanoseconds: atomic.LoadUint64(&state.Nanoseconds),
	}, nil
}

// Tasks returns the threads of the run that are not freed yet.
func (s *Sampler) Tasks(run uint32) ([]Task, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	var tasks []Task
	err := iterate(s.objects.Tasks, func(_ uint64, tag samplerTaskTag) {
		if tag.Run == run {
			tasks = append(tasks, Task{
				PID: tag.Pid, TID: tag.Tid, Run: run,
				Exited: tag.Exited != 0, Usage: usageOf(tag.Usage),
			})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list threads of run %d: %w", run, err)
	}
	return tasks, nil
}

// Others returns the CPU time of the freed threads outside every target that
// were started after Load, by name of the process, the largest first. It holds
// about a thousand names.
func (s *Sampler) Others() ([]CommUsage, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	var others []CommUsage
	err := iterate(s.objects.Others, func(key samplerCommKey, usage samplerUsage) {
		others = append(others, CommUsage{Comm: commString(&key.Comm), Usage: usageOf(usage)})
	})
	if err != nil {
		return nil, fmt.Errorf("list other processes: %w", err)
	}
	slices.SortFunc(others, func(a, b CommUsage) int {
		return int(min(max(int64(b.Usage.Runtime)-int64(a.Usage.Runtime), -1), 1))
	})
	return others, nil
}

// iterate calls visit for the entries of a hash map. A batch holds whole
// buckets, so entries that come and go meanwhile disturb no others.
func iterate[K, V any](m *ebpf.Map, visit func(K, V)) error {
	const batch = 1024
	keys, values := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			visit(keys[i], values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
