package bpf

import (
	"encoding/binary"
	"unsafe"
)

// recordHeader starts every record; its C twin is struct record_header.
type recordHeader = samplerRecordHeader

// Kinds of records in the ring (enum record_kind in abi.h) and in perf's
// rings (enum perf_event_type, uapi/linux/perf_event.h).
const (
	recordSample = 1
	recordFork   = 2
	recordExec   = 3
	recordExit   = 4
	recordFree   = 5
	recordStack  = 6

	recordComm  = 3
	recordLost  = 2
	recordMmap2 = 10
)

// Flags of a sample (SAMPLE_KERNEL and others in abi.h).
const (
	sampleKernel = 1
	sampleMiss   = 2
	sampleLeaf   = 4
)

// decodeSample reads a sample into d.sample, whose frames stay in the ring.
// Records come from our own program; a length that does not add up is a
// record of another version, and is ignored.
func (d *drain) decodeSample(data []byte) bool {
	const head = int(unsafe.Sizeof(samplerSampleRecord{}))
	if len(data) < head {
		return false
	}
	r := (*samplerSampleRecord)(unsafe.Pointer(&data[0]))
	words := (len(data) - head) / 8
	kernel, user, registers := int(r.KernelFrames), int(r.UserFrames), int(r.Registers)
	miss := 0
	if r.Header.Flags&sampleMiss != 0 {
		miss = int(unsafe.Sizeof(samplerMissingMapping{}) / 8)
	}
	if kernel+user+miss+registers > words {
		return false
	}
	s := &d.sample
	*s = Sample{
		Time: r.Header.Time, PID: r.Pid, TID: r.Tid, CPU: r.Cpu, Run: r.Run,
		Cgroup: r.Cgroup, Comm: d.name(&r.Comm), Class: Class(r.Class), Reason: r.Reason,
		Kernel: r.Header.Flags&sampleKernel != 0,
	}
	rest := data[head:]
	s.KernelFrames, rest = take[uint64](rest, kernel)
	s.UserFrames, rest = take[Frame](rest, user)
	if miss > 0 {
		m := (*samplerMissingMapping)(unsafe.Pointer(&rest[0]))
		d.miss = Mapping{
			Start: m.Start, End: m.End, Offset: m.Offset,
			Key: FileKey{Ino: m.Key.Ino, Dev: m.Key.Dev, Gen: m.Key.Gen, Mtime: m.Key.Mtime},
		}
		s.Miss = &d.miss
		rest = rest[8*miss:]
	}
	if registers > 0 {
		s.Registers, _ = take[uint64](rest, registers)
		if c := d.stack(r.Cpu, r.Header.Time, r.StackBytes); c != nil {
			s.Stack, s.StackBase, s.StackHoles = c.data, c.base, c.holes
		}
		if r.Header.Flags&sampleLeaf == 0 {
			s.Resume = max(0, user-1)
		}
	}
	if len(s.Stack) == 0 {
		s.Registers, s.Resume = nil, 0
	}
	return true
}

// stackCopy is the stack of the sample that a CPU takes next, as far as its
// pieces have come.
type stackCopy struct {
	time  uint64
	base  uint64 // address of the first piece
	data  []byte
	holes uint32 // as in Sample
}

// stackPage is STACK_PIECE of abi.h: a piece lies in one such page.
const stackPage = 4096

// maxStack is COPY_MAX of stack.h, the largest copy of a stack in bytes.
const maxStack = 64 << 10

// decodeStack appends a piece of a stack to those of its CPU. It is copied
// because the rest may come with another batch.
func (d *drain) decodeStack(data []byte) bool {
	if len(data) < int(unsafe.Sizeof(samplerStackRecord{})) {
		return false
	}
	r := (*samplerStackRecord)(unsafe.Pointer(&data[0]))
	if int(r.Bytes) > len(r.Data) {
		return false
	}
	copied := d.stacks[r.Cpu]
	if copied == nil {
		if d.stacks == nil {
			d.stacks = make(map[uint32]*stackCopy)
		}
		copied = new(stackCopy)
		d.stacks[r.Cpu] = copied
	}
	if copied.time != r.Header.Time {
		copied.time, copied.base, copied.data, copied.holes = r.Header.Time, r.Address, copied.data[:0], 0
	}
	end := copied.base + uint64(len(copied.data))
	if r.Address < end || r.Address-copied.base+uint64(r.Bytes) > maxStack {
		return false
	}
	for page := end / stackPage; page < r.Address/stackPage; page++ {
		copied.holes |= 1 << (page - copied.base/stackPage)
	}
	copied.data = append(copied.data, make([]byte, r.Address-end)...)
	copied.data = append(copied.data, r.Data[:r.Bytes]...)
	return true
}

// stack returns the copied stack of the sample that cpu took at time, nil
// unless all of it came.
func (d *drain) stack(cpu uint32, time uint64, bytes uint32) *stackCopy {
	copied := d.stacks[cpu]
	if copied == nil || copied.time != time || len(copied.data) != int(bytes) {
		return nil
	}
	return copied
}

// take returns the first n words of data, in place, and what follows them.
func take[T uint64 | Frame](data []byte, n int) ([]T, []byte) {
	if n == 0 {
		return nil, data
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&data[0])), n), data[8*n:]
}

// decodeProcess reads a process event into d.process.
func (d *drain) decodeProcess(data []byte) bool {
	if len(data) < int(unsafe.Sizeof(samplerProcessRecord{})) {
		return false
	}
	r := (*samplerProcessRecord)(unsafe.Pointer(&data[0]))
	d.process = ProcessEvent{
		Kind: EventKind(r.Header.Kind - recordFork + uint16(Fork)), Time: r.Header.Time,
		PID: r.Pid, TID: r.Tid, Parent: r.Parent, Run: r.Run, Comm: d.name(&r.Comm),
		Usage: usageOf(r.Usage), ExitCode: r.ExitCode,
	}
	return true
}

func usageOf(u samplerUsage) Usage {
	return Usage{
		Runtime: u.Runtime, UTime: u.Utime, STime: u.Stime,
		VoluntarySwitches: u.Nvcsw, InvoluntarySwitches: u.Nivcsw, Threads: u.Threads,
	}
}

// lostCount reads the body of a PERF_RECORD_LOST: event id, count.
func lostCount(body []byte) uint64 {
	if len(body) < 16 {
		return 0
	}
	return binary.NativeEndian.Uint64(body[8:])
}
