package bpf

// Record is what Drain hands out: *Sample, *ProcessEvent, *Mmap, *Image or
// *Lost.
type Record interface{ record() }

// FileKey identifies the contents of a mapped file as the kernel sees them: an
// inode number that is used again, or a file that is rewritten, has another
// key. The vDSO has the key {Ino: 1}.
type FileKey struct {
	Ino   uint64
	Dev   uint32 // kernel dev_t: major<<20 | minor
	Gen   uint32 // i_generation
	Mtime uint64 // ns since the epoch
}

// VDSO is the FileKey of the vDSO, which has no inode.
func VDSO() FileKey { return FileKey{Ino: 1} }

// Mapping is a range of a process's address space that shows a file.
type Mapping struct {
	Start, End uint64 // process addresses
	Offset     uint64 // file offset shown at Start
	Key        FileKey
}

// Class tells what a sampled thread was, apart from ordinary user code.
type Class uint8

const (
	// ClassNormal is a thread of a process with an address space.
	ClassNormal Class = iota
	// ClassExit is a thread in the middle of exiting. Its user stack is still
	// there until the address space is gone.
	ClassExit
	// ClassExec is a thread inside execve, between two address spaces.
	ClassExec
	// ClassKernelThread is a kernel thread, or a kernel worker of a process
	// (io_uring).
	ClassKernelThread
	// ClassCompat is a 32-bit process, whose user stack is not unwound.
	ClassCompat
)

// Sample is one interruption of a CPU. Its slices are valid only during the
// call of Drain's handler.
type Sample struct {
	Time   uint64 // ns, CLOCK_MONOTONIC
	PID    uint32 // process (tgid)
	TID    uint32 // thread
	CPU    uint32
	Run    uint32 // the target run given to Arm; 0 outside every target
	Cgroup uint64 // cgroup v2 id
	Comm   string // name of the thread
	Class  Class
	// Reason tells why UserFrames ends; the numbers are unwind.StopReason's.
	Reason uint8
	// Kernel tells that the thread was in the kernel when interrupted.
	Kernel bool
	// KernelFrames are kernel addresses, the leaf first.
	KernelFrames []uint64
	// UserFrames lead from the leaf outwards. A frame is a Frame: the file and
	// the offset of the executing instruction, or of the call for callers.
	UserFrames []Frame
	// Miss is the mapping of the last user frame when Reason is
	// table_pending: a file that no Bind has named. It is nil otherwise.
	Miss *Mapping
	// Registers and Stack are what is needed to go on in user space when
	// Reason is table_pending, or with Options.CopyAll: PC, SP, FP, RBX (amd64)
	// and LR (arm64) of the frame UserFrames[Resume], then, where that is the
	// leaf or was interrupted by a signal, all general registers by DWARF
	// number; and the memory from a little below SP on, as much as is used. Both
	// are nil when there was no room for them.
	Registers []uint64
	Stack     []byte
	StackBase uint64 // address of Stack
	// StackHoles has a bit for each page of 4 KiB, from that of StackBase on,
	// that could not be read. Stack has zeros there.
	StackHoles uint32
	Resume     int
}

// Frame is FileID<<48 | file offset to look up. With file id 0 it is a process
// address: generated code, or a file without an id.
type Frame uint64

// File returns the id given to Bind, and the file offset.
func (f Frame) File() (id uint16, offset uint64) {
	return uint16(f >> 48), uint64(f) & (1<<48 - 1)
}

// EventKind is a step in the life of a process.
type EventKind uint8

const (
	// Fork reports a new process; threads are not reported.
	Fork EventKind = iota + 1
	// Exec reports a process with a new image; Comm is the new name.
	Exec
	// Exit reports that the last thread of a process is leaving. Its CPU time
	// up to here misses up to a tick.
	Exit
	// Free reports that a thread of a target is gone. Its CPU time is final.
	Free
)

// ProcessEvent is a step in the life of a process.
type ProcessEvent struct {
	Kind     EventKind
	Time     uint64 // ns, CLOCK_MONOTONIC
	PID, TID uint32
	Parent   uint32 // tgid of the parent
	Run      uint32 // as in Sample
	Comm     string
	Usage    Usage // of the thread TID; zero for Fork
	ExitCode int32 // as wait(2) encodes it; Exit and Free only
}

// Usage is CPU time of threads.
type Usage struct {
	Runtime             uint64 // ns on a CPU, exact (sum_exec_runtime)
	UTime, STime        uint64 // ns, as precise as the kernel's accounting
	VoluntarySwitches   uint64
	InvoluntarySwitches uint64
	Threads             uint64 // how many threads the sums are of
}

// Mmap reports an executable mapping that a process has made.
type Mmap struct {
	Time     uint64 // ns, CLOCK_MONOTONIC
	PID, TID uint32
	// Mapping.Key has no Mtime: perf does not report it.
	Mapping Mapping
	Prot    uint32 // PROT_* bits
	Path    string // as the process sees it; "[vdso]", "//anon" and the like otherwise
}

// Image reports that a process has given up its mappings in execve, before it
// makes those of the new program. The ProcessEvent follows when all are made.
type Image struct {
	Time uint64 // ns, CLOCK_MONOTONIC
	PID  uint32
}

// Lost reports records that did not fit.
type Lost struct {
	Time  uint64 // ns, CLOCK_MONOTONIC, when the loss was noticed
	Mmaps uint64 // mapping records
}

func (*Sample) record()       {}
func (*ProcessEvent) record() {}
func (*Mmap) record()         {}
func (*Image) record()        {}
func (*Lost) record()         {}
