package capture

import (
	"encoding/binary"

	"github.com/tollgate-dev/tollgate/unwind"
)

// fileShift splits a user frame into the number of its file and the offset
// in that file; number 0 marks a process address.
const (
	fileShift  = 48
	offsetMask = 1<<fileShift - 1
)

// labels are what a sample is told apart by, beside its stack. Outside the
// target only comm is set, so that a busy machine does not swell the profile.
type labels struct {
	target       bool
	comm, thread string
	pid, tid     uint32
	cpu          uint32
	cgroup       uint64
	second       uint32 // since the run began
}

// stack is a distinct stack under distinct labels.
type stack struct {
	labels
	kernel   []uint64 // addresses, leaf first
	user     []uint64 // file frames, leaf first
	reason   unwind.StopReason
	inKernel bool // interrupted in kernel mode
	count    uint64
}

// stacks counts the samples of one run.
type stacks struct {
	maxBytes int
	index    map[string]*stack
	list     []*stack // in order of first appearance
	key      []byte   // scratch
	bytes    int
	clipped  uint64 // samples that lost labels or frames because memory was short
}

// defaultStackBytes bounds the memory of one run's stacks. Ten minutes at
// 999 Hz on two busy CPUs with 30 frames take about this much when no two
// samples are alike.
const defaultStackBytes = 512 << 20

// stackOverhead is about what a stack takes beside its frames and strings.
const stackOverhead = 250

func newStacks() *stacks {
	return &stacks{maxBytes: defaultStackBytes, index: map[string]*stack{}}
}

// add counts one sample. s and its slices are only read.
func (t *stacks) add(s *stack) {
	if t.count(s, t.maxBytes) {
		return
	}
	// Out of memory. First the labels go that tell most samples apart, which
	// no decision needs, then all of the stack but the leaf.
	t.clipped++
	clipped := *s
	clipped.labels = labels{target: s.target, comm: s.comm}
	if t.count(&clipped, t.maxBytes+t.maxBytes/4) {
		return
	}
	if len(s.kernel) > 0 {
		clipped.kernel, clipped.user = s.kernel[:1], nil
	} else if len(s.user) > 0 {
		clipped.user = s.user[:1]
	}
	if clipped.reason == unwind.StopComplete {
		clipped.reason = unwind.StopTooManyFrames
	}
	t.insert(&clipped)
}

// count adds one to the stack like s; ok is false when it is a new one and
// it would take more than limit bytes.
func (t *stacks) count(s *stack, limit int) (ok bool) {
	t.encode(s)
	if known := t.index[string(t.key)]; known != nil {
		known.count++
		return true
	}
	if t.bytes+t.size(s) > limit {
		return false
	}
	t.insert(s)
	return true
}

// insert adds one to the stack like s, whatever the memory. Leaves are few.
func (t *stacks) insert(s *stack) {
	t.encode(s)
	if known := t.index[string(t.key)]; known != nil {
		known.count++
		return
	}
	own := *s
	frames := make([]uint64, 0, len(s.kernel)+len(s.user))
	frames = append(append(frames, s.kernel...), s.user...)
	own.kernel, own.user = frames[:len(s.kernel):len(s.kernel)], frames[len(s.kernel):]
	own.count = 1
	t.index[string(t.key)] = &own
	t.list = append(t.list, &own)
	t.bytes += t.size(s)
}

func (t *stacks) size(s *stack) int {
	return stackOverhead + len(t.key) + 8*(len(s.kernel)+len(s.user))
}

// encode writes everything that tells s apart into t.key.
func (t *stacks) encode(s *stack) {
	key := t.key[:0]
	var flags byte
	if s.target {
		flags |= 1
	}
	if s.inKernel {
		flags |= 2
	}
	key = append(key, flags, byte(s.reason))
	key = append(append(key, s.comm...), 0)
	key = append(append(key, s.thread...), 0)
	key = binary.LittleEndian.AppendUint32(key, s.pid)
	key = binary.LittleEndian.AppendUint32(key, s.tid)
	key = binary.LittleEndian.AppendUint32(key, s.cpu)
	key = binary.LittleEndian.AppendUint32(key, s.second)
	key = binary.LittleEndian.AppendUint64(key, s.cgroup)
	key = binary.LittleEndian.AppendUint32(key, uint32(len(s.kernel)))
	for _, frame := range s.kernel {
		key = binary.LittleEndian.AppendUint64(key, frame)
	}
	for _, frame := range s.user {
		key = binary.LittleEndian.AppendUint64(key, frame)
	}
	t.key = key
}
