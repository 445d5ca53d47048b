package bpf

// Counters are totals since Load, over all CPUs.
type Counters struct {
	Taken   uint64     // interruptions of a CPU that was not idle
	Kept    uint64     // samples handed to user space
	Lost    uint64     // samples that did not fit into the ring
	Idle    uint64     // interruptions of the idle task
	Frames  uint64     // user frames of kept samples
	Reasons [16]uint64 // kept samples by Reason

	LostEvents uint64 // process events that did not fit into the ring
	LostTasks  uint64 // threads of a target that could not be tagged

	// MissedFrees are threads of a target whose end the kernel did not report.
	// Their CPU time is that of their exit, short of at most a tick each.
	MissedFrees uint64

	Walks    uint64 // mappings looked up in a process's address space
	Checks   uint64 // cached mappings compared with the address space
	Searches uint64 // frames looked up in tables, the others were cached
	Wakeups  uint64 // times that a sample woke user space

	Copies      uint64 // samples with a copy of their stack
	CopiedBytes uint64
	Uncopied    uint64 // samples whose stack should have been copied

	Nanoseconds uint64 // time in the program, with Options.Measure
}

// Counters returns the totals so far.
func (s *Sampler) Counters() (Counters, error) {
	if s.closed.Load() {
		return Counters{}, ErrClosed
	}
	var sum Counters
	for i := range s.cpus {
		c := &s.cpus[i].Counters
		sum.Taken += c.Taken
		sum.Kept += c.Kept
		sum.Lost += c.Lost
		sum.Idle += c.Idle
		sum.Frames += c.Frames
		sum.Walks += c.Walks
		sum.Checks += c.Checks
		sum.Searches += c.Searches
		sum.Wakeups += c.Wakeups
		sum.Copies += c.Copies
		sum.CopiedBytes += c.CopiedBytes
		sum.Uncopied += c.Uncopied
		sum.Nanoseconds += c.Nanoseconds
		for reason, n := range c.Reasons {
			sum.Reasons[reason] += n
		}
	}
	for i := range s.counts {
		sum.LostEvents += s.counts[i].LostEvents
		sum.LostTasks += s.counts[i].LostTasks
		sum.MissedFrees += s.counts[i].MissedFrees
	}
	return sum, nil
}
