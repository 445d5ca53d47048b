package capture

import "github.com/tollgate-dev/tollgate/bpf"

// Stats is the accounting of one run. Seconds of CPU are summed over CPUs.
type Stats struct {
	Event     string `json:"event"`     // cpu-clock or cycles
	Frequency int    `json:"frequency"` // samples per second and CPU

	// WallSeconds is the time from Begin to End.
	WallSeconds float64 `json:"wall_seconds"`
	// CPUSeconds is what the scheduler charged to every thread of the target
	// tree (se.sum_exec_runtime), not an estimate from samples.
	CPUSeconds    float64 `json:"cpu_seconds"`
	UserSeconds   float64 `json:"user_seconds"`
	SystemSeconds float64 `json:"system_seconds"`
	// SampledSeconds is the samples of the target over the frequency. It
	// agrees with CPUSeconds up to the error of sampling, with two exceptions:
	// where other processes wake up on the target's CPU, the kernel charges
	// them the end of the interrupt that woke them, which sampling charges to
	// the target (some microseconds for each involuntary switch, ten in a
	// virtual machine); and a CPU that the hypervisor stops for longer than a
	// period takes one sample for the whole time.
	SampledSeconds float64 `json:"sampled_seconds"`

	Samples       uint64 `json:"samples"`        // of the whole machine
	TargetSamples uint64 `json:"target_samples"` // of the target tree
	Lost          uint64 `json:"lost"`           // taken, but not delivered
	TargetLost    uint64 `json:"target_lost"`    // of those, of the target tree

	// Complete counts target samples whose stack reached its outermost frame.
	Complete uint64 `json:"complete"`
	// CompletedLater counts those of them that were unwound in user space,
	// because a table was not there yet when they were taken.
	CompletedLater uint64 `json:"completed_later"`
	// Uncopied counts samples, of the whole machine, that could not be unwound
	// later because there was no room for a copy of their stack.
	Uncopied uint64 `json:"uncopied,omitempty"`
	// Truncated counts the other target samples by reason.
	Truncated map[string]uint64 `json:"truncated,omitempty"`
	// Unsymbolized counts target samples whose leaf has no function name.
	Unsymbolized uint64 `json:"unsymbolized"`

	StealSeconds    float64         `json:"steal_seconds"` // CPU time the hypervisor withheld, 10 ms resolution
	ContextSwitches ContextSwitches `json:"context_switches"`
	// Others are the largest users of CPU outside the target tree, from
	// samples, largest first.
	Others []Other `json:"others,omitempty"`
	// CollectorCPUSeconds is the collector's own CPU from Begin until the
	// profile was finished; CollectorRunSeconds is the part before End.
	CollectorCPUSeconds float64 `json:"collector_cpu_seconds"`
	CollectorRunSeconds float64 `json:"collector_run_seconds"`
	// FinishSeconds is the time from End to the finished profile.
	FinishSeconds float64 `json:"finish_seconds"`

	// LostEvents counts process events and mappings that were not delivered:
	// processes may have no name, and files no symbols.
	LostEvents uint64 `json:"lost_events,omitempty"`
	// LostThreads counts threads of the target that were not followed: their
	// samples and CPU time are counted as others'.
	LostThreads uint64 `json:"lost_threads,omitempty"`
	// ClippedStacks counts samples that lost their labels or frames, but not
	// their leaf, because there was no memory for more.
	ClippedStacks uint64 `json:"clipped_stacks,omitempty"`

	// Unreadable counts mapped files whose tables could not be built, by
	// reason; frames in them are followed by frame pointers.
	Unreadable map[string]uint64 `json:"unreadable,omitempty"`
	// OutstandingThreads counts threads that had ended but that the kernel had
	// not freed in time; each may lack up to a tick of CPU time.
	OutstandingThreads uint64 `json:"outstanding_threads,omitempty"`
}

// ContextSwitches counts the switches of the target's threads.
type ContextSwitches struct {
	Voluntary   uint64 `json:"voluntary"`
	Involuntary uint64 `json:"involuntary"`
}

// Other is a command outside the target tree that used CPU.
type Other struct {
	Comm       string  `json:"comm"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

// Progress tells what the collector is busy with.
type Progress struct {
	Stage  string `json:"stage"` // StageTables or StageSymbols
	Object string `json:"object,omitempty"`
	Done   int    `json:"done,omitempty"`
	Total  int    `json:"total,omitempty"`
}

// The stages of a Progress.
const (
	StageTables  = "tables"  // building unwind tables of Object
	StageSymbols = "symbols" // symbolizing, Done of Total files
)

// Options configure a Session. The zero value samples cpu-clock at 999 Hz.
type Options struct {
	Event     string   // "cpu-clock" (default) or "cycles"
	Frequency int      // Hz; 0 means 999
	DebugDirs []string // directories of separate debug files, beside the default ones
	// Progress is called from several goroutines, one at a time; nil ignores.
	Progress func(Progress)

	// verify unwinds every sample of a target twice, in the kernel and in user
	// space, and compares.
	verify bool
}

// DefaultFrequency is the sampling rate in Hz where none is asked for. It is
// one off a round number so that samples do not march in step with timers.
const DefaultFrequency = 999

// MaxFrequency bounds the sampling rate in Hz.
const MaxFrequency = bpf.MaxFrequency
