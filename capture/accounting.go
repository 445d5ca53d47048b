package capture

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// run is what is gathered between Begin and End.
type run struct {
	id, tgid uint32
	armed    bool
	options  Options
	procRoot string

	began    time.Time
	beganAt  uint64 // ns, CLOCK_MONOTONIC
	steal    uint64 // USER_HZ ticks at Begin
	ownCPU   time.Duration
	counters bpf.Counters

	stacks    *stacks
	waiting   *waiting
	stats     Stats             // the sums of samples
	others    map[string]uint64 // samples outside the target, by name
	modes     [2]uint64         // target samples in user and in kernel mode
	lostMmaps uint64
}

func newRun(id, tgid uint32, o Options, procRoot string, kernel sampler) (*run, error) {
	counters, err := kernel.Counters()
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	steal, _ := stealTicks(procRoot) // none without the column
	return &run{
		id: id, tgid: tgid, options: o, procRoot: procRoot,
		began: time.Now(), beganAt: monotonic(), steal: steal, ownCPU: ownCPU(), counters: counters,
		stacks: newStacks(), waiting: newWaiting(), others: map[string]uint64{},
	}, nil
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// sample counts a sample; frames are its user frames by file.
func (r *run) sample(sample *bpf.Sample, frames []uint64, known *processes) {
	s := r.describe(sample, frames, known)
	r.finish(&s)
}

// later counts a sample whose stack is not complete yet; space is what its
// process had mapped, and generated the number of the code it generates. It
// returns false when the sample cannot be kept.
func (r *run) later(sample *bpf.Sample, file uint16, frames []uint64, known *processes, space addressSpace, generated uint16) bool {
	if !r.waiting.fits(sample) {
		return false
	}
	p := newPending(sample, r.describe(sample, frames, known), space)
	p.generated = generated
	return r.waiting.add(p, file)
}

// describe counts a sample and returns its stack with its labels.
func (r *run) describe(sample *bpf.Sample, frames []uint64, known *processes) stack {
	r.stats.Samples++
	s := stack{
		kernel: sample.KernelFrames, user: frames,
		reason: unwind.StopReason(sample.Reason), inKernel: sample.Kernel,
	}
	if sample.Run != r.id {
		name := sample.Comm
		if sample.Class != bpf.ClassKernelThread {
			name = known.name(sample.PID, sample.Comm)
		}
		s.labels = labels{comm: commonName(name)}
		r.others[s.comm]++
		return s
	}
	r.stats.TargetSamples++
	if sample.Kernel {
		r.modes[1]++
	} else {
		r.modes[0]++
	}
	s.labels = labels{
		target: true, comm: known.name(sample.PID, sample.Comm), thread: sample.Comm,
		pid: sample.PID, tid: sample.TID, cpu: sample.CPU, cgroup: sample.Cgroup,
		second: uint32((sample.Time - r.beganAt) / 1e9),
	}
	return s
}

// finish counts how the stack of a sample ends, and keeps it.
func (r *run) finish(s *stack) {
	r.stacks.add(s)
	if !s.target {
		return
	}
	if s.reason == unwind.StopComplete {
		r.stats.Complete++
		return
	}
	if r.stats.Truncated == nil {
		r.stats.Truncated = map[string]uint64{}
	}
	r.stats.Truncated[s.reason.String()]++
}

// finishLater is finish for a sample that user space has unwound.
func (r *run) finishLater(s *stack) {
	if s.target && s.reason == unwind.StopComplete {
		r.stats.CompletedLater++
	}
	r.finish(s)
}

// resume goes on with the samples that wait for tables.
func (r *run) resume(t *tables) {
	now := monotonic()
	again, sweep := r.waiting.due(t, now)
	if again {
		r.waiting.resume(t, r.finishLater)
	}
	if sweep {
		r.waiting.giveUp(t, now-min(now, maxWait), r.finishLater)
	}
}

// settlePatience bounds the wait for tables at the end of a run. The largest
// programs take a second.
const settlePatience = 3 * time.Second

// settle finishes the samples that wait for tables, and brings stats up to
// date.
func (r *run) settle(t *tables, stats *Stats) {
	r.waiting.settle(t, time.Now().Add(settlePatience), r.finishLater)
	stats.Complete, stats.CompletedLater, stats.Truncated = r.stats.Complete, r.stats.CompletedLater, r.stats.Truncated
	stats.ClippedStacks = r.stacks.clipped
}

// freePatience bounds the wait for threads that have ended to be freed. The
// kernel frees them after an RCU grace period, some tens of milliseconds.
const freePatience = 300 * time.Millisecond

// account completes the accounting once sampling has stopped.
func (r *run) account(s *Session, ended time.Time) (Stats, error) {
	steal, _ := stealTicks(r.procRoot)
	runCPU := ownCPU() - r.ownCPU
	usage, taken, outstanding, err := r.usage(s, freePatience)
	if err != nil {
		return Stats{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.drain(); err != nil {
		return Stats{}, err
	}
	counters, err := s.sampler.Counters()
	if err != nil {
		return Stats{}, fmt.Errorf("read counters: %w", err)
	}
	stats := r.stats
	stats.Event, stats.Frequency = r.options.Event, r.options.Frequency
	stats.WallSeconds = ended.Sub(r.began).Seconds()
	stats.CPUSeconds = float64(usage.Runtime) / 1e9
	stats.UserSeconds, stats.SystemSeconds = split(usage, r.modes)
	stats.SampledSeconds = float64(stats.TargetSamples) / float64(r.options.Frequency)
	stats.Lost = counters.Lost - r.counters.Lost
	stats.TargetLost = taken - min(taken, stats.TargetSamples)
	stats.LostEvents = counters.LostEvents - r.counters.LostEvents + r.lostMmaps
	stats.LostThreads = counters.LostTasks - r.counters.LostTasks
	stats.Uncopied = counters.Uncopied - r.counters.Uncopied
	stats.StealSeconds = float64(steal-min(steal, r.steal)) / userHz
	stats.ContextSwitches = ContextSwitches{usage.VoluntarySwitches, usage.InvoluntarySwitches}
	stats.OutstandingThreads = outstanding
	stats.Others = topOthers(r.others, r.options.Frequency)
	stats.CollectorRunSeconds = runCPU.Seconds()
	return stats, nil
}

// usage returns the CPU time of all threads the run ever had: of those that
// were freed from the kernel's sum, of the others from /proc. It waits for
// ended threads to be freed, and returns how many were not in time. taken is
// the number of samples of the run, lost ones included.
func (r *run) usage(s *Session, patience time.Duration) (total bpf.Usage, taken, outstanding uint64, err error) {
	deadline := time.Now().Add(patience)
	for {
		freed, taken, err := s.sampler.Runtime(r.id)
		if err != nil {
			return total, 0, 0, fmt.Errorf("read CPU time: %w", err)
		}
		tasks, err := s.sampler.Tasks(r.id)
		if err != nil {
			return total, 0, 0, fmt.Errorf("list threads: %w", err)
		}
		total, outstanding := freed, uint64(0)
		for _, task := range tasks {
			u, err := readThread(filepath.Join(r.procRoot, strconv.Itoa(int(task.PID)), "task", strconv.Itoa(int(task.TID))))
			if err != nil {
				// It has left /proc and was not freed yet. Its usage at exit
				// lacks at most a tick.
				outstanding++
				u = task.Usage
			}
			addUsage(&total, u)
		}
		again, _, err := s.sampler.Runtime(r.id)
		if err != nil {
			return total, 0, 0, fmt.Errorf("read CPU time: %w", err)
		}
		now := time.Now()
		// A thread that was freed meanwhile would be counted twice or never.
		settled := again.Threads == freed.Threads && (outstanding == 0 || now.After(deadline))
		if settled || now.After(deadline.Add(patience)) { // threads may come and go without end
			return total, taken, outstanding, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func addUsage(sum *bpf.Usage, u bpf.Usage) {
	sum.Runtime += u.Runtime
	sum.UTime += u.UTime
	sum.STime += u.STime
	sum.VoluntarySwitches += u.VoluntarySwitches
	sum.InvoluntarySwitches += u.InvoluntarySwitches
}

// split divides the exact CPU time into user and system by the kernel's own
// accounting, or by the modes of samples where that saw no tick.
func split(u bpf.Usage, modes [2]uint64) (user, system float64) {
	total := float64(u.Runtime) / 1e9
	in, all := float64(u.STime), float64(u.UTime+u.STime)
	if all == 0 {
		in, all = float64(modes[1]), float64(modes[0]+modes[1])
	}
	if all == 0 {
		return total, 0
	}
	system = total * in / all
	return total - system, system
}

// maxOthers is the number of commands outside the target that are reported.
const maxOthers = 10

func topOthers(samples map[string]uint64, frequency int) []Other {
	var others []Other
	for _, comm := range slices.Sorted(maps.Keys(samples)) {
		others = append(others, Other{Comm: comm, CPUSeconds: float64(samples[comm]) / float64(frequency)})
	}
	slices.SortStableFunc(others, func(a, b Other) int { return cmp.Compare(b.CPUSeconds, a.CPUSeconds) })
	return others[:min(len(others), maxOthers)]
}
