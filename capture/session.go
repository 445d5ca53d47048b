package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// sampler is what a Session needs of a bpf.Sampler.
type sampler interface {
	tableKernel
	Enable() error
	Disable() error
	Close() error
	Drain(handle func(bpf.Record)) error
	Wait(timeout time.Duration) (bool, error)
	Arm(tgid, run uint32) error
	Disarm(tgid uint32) error
	Runtime(run uint32) (usage bpf.Usage, samples uint64, err error)
	Tasks(run uint32) ([]bpf.Task, error)
	Counters() (bpf.Counters, error)
}

// Session follows the processes of the machine, and samples it during runs.
// It is safe for concurrent use; runs are one after the other.
type Session struct {
	ctx      context.Context
	options  Options
	procRoot string
	sampler  sampler
	tables   *tables
	kernel   *kernelSymbols

	quit    chan struct{}
	drained sync.WaitGroup

	mu        sync.Mutex // guards what follows, and Drain
	processes *processes
	run       *run
	drainErr  error
	touched   map[uint16]struct{}
	frames    []uint64 // scratch

	verification *verification // nil unless Options.verify
}

// drainEvery is the longest time that records stay in the kernel. A file that
// is deleted sooner after it was mapped, and was not hit by a sample, which
// wakes the reader, is not symbolized. Every wakeup keeps Go's scheduler busy
// for milliseconds: at 50 ms they would take half of the collector's time.
const drainEvery = 100 * time.Millisecond

// Start loads the sampler and follows the machine's processes until Close.
// Nothing is sampled before Begin. When ctx ends, an End under way is cut
// short. Needs the privileges of bpf.Load, and those to read /proc of other
// users' processes.
func Start(ctx context.Context, o Options) (*Session, error) {
	if err := o.validate(); err != nil {
		return nil, newError(CodeRequest, err, "")
	}
	if o.Event == "" {
		o.Event = EventCPUClock
	}
	if o.Frequency == 0 {
		o.Frequency = DefaultFrequency
	}
	if err := checkNamespace("/proc/self/ns/pid"); err != nil {
		return nil, err
	}
	// symbol looks in these alone where any are given.
	if len(o.DebugDirs) > 0 {
		o.DebugDirs = append(slices.Clone(o.DebugDirs), "/usr/lib/debug")
	}
	event := bpf.CPUClock
	if o.Event == EventCycles {
		event = bpf.Cycles
	}
	loaded, err := bpf.Load(bpf.Options{Event: event, Frequency: o.Frequency, CopyAll: o.verify})
	if err != nil {
		return nil, asError(fmt.Errorf("load sampler: %w", err), CodeEnvironment)
	}
	// Not before: nothing is measured while the client waits.
	raise := urgent()
	if err := lowerPriority("/proc/self/task", collectorNice); err != nil {
		return nil, newError(CodeInternal, both(err, loaded.Close()), "")
	}
	s := startWith(ctx, o, loaded, "/proc", raise)
	go s.tables.prepare(ancestors("/proc"))
	return s, nil
}

// initialNamespace is the link of the initial PID namespace: its inode is
// PROC_PID_INIT_INO (include/linux/proc_ns.h).
const initialNamespace = "pid:[4026531836]"

// checkNamespace returns an error in a PID namespace of its own, where process
// IDs are other numbers than in the records of the kernel.
func checkNamespace(link string) error {
	target, err := os.Readlink(link)
	if errors.Is(err, os.ErrNotExist) || target == initialNamespace {
		return nil // without the link there are no namespaces
	}
	if err != nil {
		return newError(CodeEnvironment, fmt.Errorf("start session: %w", err), "mount /proc")
	}
	return newError(CodeEnvironment, errors.New("start session: this is a container with process IDs of its own"),
		"start the container with --pid=host")
}

// startWith starts a session on a loaded sampler.
func startWith(ctx context.Context, o Options, loaded sampler, procRoot string, raise func()) *Session {
	s := &Session{
		ctx: ctx, options: o, procRoot: procRoot, sampler: loaded,
		kernel:  &kernelSymbols{path: "/proc/kallsyms"},
		quit:    make(chan struct{}),
		touched: map[uint16]struct{}{},
	}
	s.tables = newTables(loaded, procRoot, raise, s.progress())
	s.processes = newProcesses(procRoot, s.tables.release)
	s.processes.seen = s.tables.seen
	if o.verify {
		s.verification = &verification{undecided: map[string]uint64{}}
	}
	s.drained.Add(1)
	go s.drainLoop(raise)
	return s
}

// progress makes the calls of Options.Progress one at a time.
func (s *Session) progress() func(Progress) {
	if s.options.Progress == nil {
		return nil
	}
	var mu sync.Mutex
	return func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		s.options.Progress(p)
	}
}

// Close stops the session and unloads the sampler.
func (s *Session) Close() error {
	close(s.quit)
	s.drained.Wait()
	err := s.sampler.Close()
	s.tables.close()
	return err
}

func (s *Session) drainLoop(raise func()) {
	defer s.drained.Done()
	raise()
	for {
		select {
		case <-s.quit:
			return
		default:
		}
		_, err := s.sampler.Wait(drainEvery)
		s.mu.Lock()
		if err == nil {
			err = s.drain()
		}
		s.drainErr = err
		s.mu.Unlock()
		if err != nil {
			return // End reports it
		}
	}
}

// drain handles all records there are. The caller holds mu.
func (s *Session) drain() error {
	clear(s.touched)
	if err := s.sampler.Drain(s.handle); err != nil {
		return fmt.Errorf("drain records: %w", err)
	}
	s.processes.tick()
	if len(s.touched) > 0 {
		s.tables.touch(s.touched)
	}
	if s.run != nil {
		s.run.resume(s.tables)
	}
	s.tables.findPerfMaps(time.Now())
	return nil
}

func (s *Session) handle(record bpf.Record) {
	switch r := record.(type) {
	case *bpf.Sample:
		s.sample(r)
	case *bpf.ProcessEvent:
		s.event(r)
	case *bpf.Lost:
		if s.run != nil {
			s.run.lostMmaps += r.Mmaps
		}
		s.processes.doubt()
	case *bpf.Image:
		s.processes.image(r.PID)
	case *bpf.Mmap:
		p := s.processes.get(r.PID)
		id := s.tables.mapped(r, p.run != 0)
		s.processes.mapped(p, region{
			start: r.Mapping.Start, end: r.Mapping.End, offset: r.Mapping.Offset, key: withoutMtime(r.Mapping.Key), id: id,
		})
		if id != 0 {
			s.reference(r.PID, id, r.Time)
		}
	}
}

// reference counts pid as a user of file id.
func (s *Session) reference(pid uint32, id uint16, at uint64) {
	if s.processes.maps(pid, id, at) {
		s.tables.retain(id)
	}
}

func (s *Session) event(e *bpf.ProcessEvent) {
	switch e.Kind {
	case bpf.Fork:
		for _, id := range s.processes.fork(e.Parent, e.PID, e.Comm, e.Run) {
			s.reference(e.PID, id, 0)
		}
	case bpf.Exec:
		s.processes.exec(e.PID, e.Comm, e.Run, e.Time)
	case bpf.Exit:
		s.processes.leave(e.PID)
	}
}

// sample counts one sample into the active run.
func (s *Session) sample(r *bpf.Sample) {
	frames := s.frames[:0]
	for _, frame := range r.UserFrames {
		frames = append(frames, uint64(frame))
	}
	s.frames = frames
	var missed uint16
	if r.Miss != nil {
		if id := s.tables.missed(r.PID, r.Miss, r.Run != 0); id != 0 {
			missed = id
			s.reference(r.PID, id, r.Time)
			// The frame is kept as the file's: its name is found later even
			// though its caller is not.
			if last := len(frames) - 1; last >= 0 && frames[last]>>fileShift == 0 && frames[last] >= r.Miss.Start && frames[last] < r.Miss.End {
				frames[last] = uint64(id)<<fileShift | (frames[last]-r.Miss.Start+r.Miss.Offset)&offsetMask
			}
		}
	}
	for _, frame := range frames {
		if id := uint16(frame >> fileShift); id != 0 {
			s.touched[id] = struct{}{}
		}
	}
	if s.run == nil || r.Time < s.run.beganAt {
		return
	}
	if r.Run == s.run.id {
		s.markGenerated(r.PID, frames, unwind.StopReason(r.Reason))
	}
	if missed != 0 && r.Registers != nil {
		space := s.processes.spaceOf(r.PID, region{
			start: r.Miss.Start, end: r.Miss.End, offset: r.Miss.Offset, key: withoutMtime(r.Miss.Key), id: missed,
		})
		generated := uint16(0)
		if r.Run == s.run.id && space.generates() {
			generated = s.generatedBy(r.PID)
		}
		if s.run.later(r, missed, frames, s.processes, space, generated) {
			return
		}
	}
	if s.verification != nil && missed == 0 && r.Run != 0 && r.Registers != nil {
		s.verify(r, frames)
	}
	s.run.sample(r, frames, s.processes)
}

// Begin starts the sampling of a run: the processes that process tgid forks
// from now on are the roots of its target tree, until Disarm.
func (s *Session) Begin(id, tgid uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return newError(CodeRequest, fmt.Errorf("begin run %d: run %d is still active", id, s.run.id), "")
	}
	if s.drainErr != nil {
		return s.drainErr
	}
	begun, err := newRun(id, tgid, s.options, s.procRoot, s.sampler)
	if err != nil {
		return err
	}
	if err := s.sampler.Arm(tgid, id); err != nil {
		return asError(fmt.Errorf("arm process %d: %w", tgid, err), CodeInternal)
	}
	if err := s.sampler.Enable(); err != nil {
		return asError(fmt.Errorf("enable sampling: %w", both(err, s.sampler.Disarm(tgid))), CodeEnvironment)
	}
	begun.armed = true
	s.run = begun
	return nil
}

// active returns the run with the given number. The caller holds mu.
func (s *Session) active(id uint32) (*run, error) {
	if s.run == nil || s.run.id != id {
		return nil, newError(CodeRequest, fmt.Errorf("run %d: %w", id, errNoRun), "")
	}
	return s.run, nil
}

// Disarm ends the effect of Begin on processes still to be forked.
func (s *Session) Disarm(id uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.active(id)
	if err != nil {
		return err
	}
	return s.disarm(r)
}

func (s *Session) disarm(r *run) error {
	if !r.armed {
		return nil
	}
	r.armed = false
	if err := s.sampler.Disarm(r.tgid); err != nil {
		return fmt.Errorf("disarm process %d: %w", r.tgid, err)
	}
	return nil
}

// Members returns the live processes of the run's target tree.
func (s *Session) Members(id uint32) ([]uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.active(id); err != nil {
		return nil, err
	}
	tasks, err := s.sampler.Tasks(id)
	if err != nil {
		return nil, fmt.Errorf("list processes of run %d: %w", id, err)
	}
	live := map[uint32]struct{}{}
	for _, task := range tasks {
		if !task.Exited {
			live[task.PID] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(live)), nil
}

// Discard forgets a run without a profile.
func (s *Session) Discard(id uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.active(id)
	if err != nil {
		return err
	}
	s.run = nil
	return both(s.disarm(r), s.sampler.Disable())
}

// symbolPatience bounds the symbolization of a run. It takes far below a
// second as a rule; what is not named by then counts as unsymbolized.
const symbolPatience = 60 * time.Second

// End stops sampling and returns the symbolized profile and the accounting of
// the run. The run is over also when there is an error.
func (s *Session) End(id uint32) (*profile.Profile, Stats, error) {
	s.mu.Lock()
	r, err := s.active(id)
	if err != nil {
		s.mu.Unlock()
		return nil, Stats{}, err
	}
	ended := time.Now()
	err = both(both(s.disarm(r), s.sampler.Disable()), s.drainErr)
	if err == nil {
		err = s.drain()
	}
	s.mu.Unlock()

	var stats Stats
	if err == nil {
		stats, err = r.account(s, ended)
	}
	s.mu.Lock()
	s.run = nil
	s.mu.Unlock()
	if err != nil {
		return nil, Stats{}, fmt.Errorf("end run %d: %w", id, err)
	}

	prof := newProfile(s.options.Frequency, r.began.UnixNano(), int64(ended.Sub(r.began)))
	b := newBuilder(prof, s.tables, s.kernel)
	s.tables.settle(500 * time.Millisecond)
	r.settle(s.tables, &stats)
	loaded := make(chan struct{})
	go func() {
		s.kernel.load()
		close(loaded)
	}()
	deadline := time.Now().Add(symbolPatience)
	s.tables.resolve(b.wanted(r.stacks.list), s.options.DebugDirs, func() bool {
		return s.ctx.Err() != nil || time.Now().After(deadline)
	})
	s.tables.readPerfMaps()
	defer s.tables.dropPerfMaps()
	<-loaded
	if err := context.Cause(s.ctx); err != nil {
		return nil, Stats{}, fmt.Errorf("end run %d: %w", id, err)
	}
	if err := b.build(r.stacks.list); err != nil {
		return nil, Stats{}, fmt.Errorf("end run %d: %w", id, err)
	}
	s.tables.forgetOutside()
	stats.Unsymbolized = b.unsymbolized
	stats.Unreadable = s.tables.unreadable()
	stats.FinishSeconds = time.Since(ended).Seconds()
	stats.CollectorCPUSeconds = (ownCPU() - r.ownCPU).Seconds()
	return prof, stats, nil
}
