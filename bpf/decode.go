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

	recordLost  = 2
	recordMmap2 = 10
)

// Flags of a sample (SAMPLE_KERNEL and SAMPLE_MISS in abi.h).
const (
	sampleKernel = 1
	sampleMiss   = 2
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
	if kernel+user+miss+registers+int(r.StackBytes+7)/8 > words {
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
	s.Registers, rest = take[uint64](rest, registers)
	if r.StackBytes > 0 {
		s.Stack = rest[:r.StackBytes]
	}
	return true
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
