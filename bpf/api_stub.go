package bpf

import (
	"errors"
	"time"
)

// Page is a range of rows: the rows of 64 KiB of file offset.
type Page struct{ First, Count uint32 }

// Rule tells how to get from a frame to its caller; see unwind.Rule, whose
// layout it has.
type Rule struct {
	CFA    uint8
	Reg    uint8
	FP     uint8
	RA     uint8
	CFAOff int32
	FPOff  int16
	RAOff  int16
	BXOff  int16
	Off2   int16
}

// TableRef is a table in the kernel. The zero value is "no table": the frames
// of such a file are followed by frame pointer.
type TableRef struct{ id uint32 }

// Task is a thread of a target.
type Task struct {
	PID, TID uint32
	Run      uint32
	Exited   bool  // Usage is that of its exit, and not final yet
	Usage    Usage // only when Exited
}

// CommUsage is CPU time of the threads of one process name.
type CommUsage struct {
	Comm  string
	Usage Usage
}

// Counters are totals since Load, over all CPUs.
type Counters struct {
	Taken   uint64 // interruptions of a CPU that was not idle
	Kept    uint64 // samples handed to user space
	Lost    uint64 // samples that did not fit into the ring
	Idle    uint64 // interruptions of the idle task
	Reasons [16]uint64 // kept samples by Reason

	LostEvents  uint64 // process events that did not fit into the ring
	LostTasks   uint64 // threads of a target that could not be tagged
	LostMmaps   uint64 // mapping records lost by perf
	Walks       uint64 // lookups of a mapping in a process's address space
	Frames      uint64 // user frames
	Nanoseconds uint64 // time in the program, with Options.Measure
}

// ErrNoSpace reports a table that does not fit next to those loaded.
var ErrNoSpace = errors.New("no space for the unwind table")

// Sampler is a running sampler.
type Sampler struct{}

// Load loads the programs, attaches to process events, and opens the sampling
// events of all online CPUs, disabled.
func Load(options Options) (*Sampler, error) { return nil, errors.ErrUnsupported }

// Enable starts sampling.
func (s *Sampler) Enable() error { return errors.ErrUnsupported }

// Disable stops sampling.
func (s *Sampler) Disable() error { return errors.ErrUnsupported }

// Close stops everything and frees it.
func (s *Sampler) Close() error { return errors.ErrUnsupported }

// Drain hands out all records there are, in the order of time.
func (s *Sampler) Drain(handle func(Record)) error { return errors.ErrUnsupported }

// Wait waits until the kernel asks for attention, or for timeout, and tells
// which.
func (s *Sampler) Wait(timeout time.Duration) (bool, error) { return false, errors.ErrUnsupported }

// AppendRules sets the rules from index from on.
func (s *Sampler) AppendRules(from int, rules []Rule) error { return errors.ErrUnsupported }

// LoadTable copies a table into the kernel.
func (s *Sampler) LoadTable(rows []uint32, pages []Page) (TableRef, error) {
	return TableRef{}, errors.ErrUnsupported
}

// UnloadTable frees a table. Unbind or rebind its file first.
func (s *Sampler) UnloadTable(ref TableRef) {}

// Bind gives the file key an id, which is not 0, and a table.
func (s *Sampler) Bind(key FileKey, id uint16, ref TableRef) error { return errors.ErrUnsupported }

// Unbind makes the kernel forget the file.
func (s *Sampler) Unbind(key FileKey) error { return errors.ErrUnsupported }

// Invalidate empties the kernel's caches of mappings.
func (s *Sampler) Invalidate() {}

// Arm makes every process that tgid forks from now on the root of a target
// tree of the run.
func (s *Sampler) Arm(tgid, run uint32) error { return errors.ErrUnsupported }

// Disarm ends Arm; the trees that have begun stay targets.
func (s *Sampler) Disarm(tgid uint32) error { return errors.ErrUnsupported }

// Runtime returns the CPU time of the freed threads of the run, and how many
// samples of the run were taken.
func (s *Sampler) Runtime(run uint32) (usage Usage, samples uint64, err error) {
	return Usage{}, 0, errors.ErrUnsupported
}

// Tasks returns the threads of the run that are not freed yet.
func (s *Sampler) Tasks(run uint32) ([]Task, error) { return nil, errors.ErrUnsupported }

// Others returns the CPU time of freed threads outside every target that were
// started after Load, by process name.
func (s *Sampler) Others() ([]CommUsage, error) { return nil, errors.ErrUnsupported }

// Counters returns the totals so far.
func (s *Sampler) Counters() (Counters, error) { return Counters{}, errors.ErrUnsupported }
