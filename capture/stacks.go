package capture

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

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
	next     *stack // with the same hash
}

// like tells whether s and other count as one.
func (s *stack) like(other *stack) bool {
	return s.labels == other.labels && s.reason == other.reason && s.inKernel == other.inKernel &&
		slices.Equal(s.kernel, other.kernel) && slices.Equal(s.user, other.user)
}

// stacks counts the samples of one run.
type stacks struct {
	maxBytes   int // of all stacks
	maxOutside int // of those outside the target
	seed       maphash.Seed
	index      map[uint64]*stack // by hash
	list       []*stack          // in order of first appearance
	key        []byte            // scratch
	bytes      int
	outside    int    // bytes of stacks outside the target
	clipped    uint64 // samples that lost labels or frames because memory was short
}

// defaultStackBytes bounds the memory of one run's stacks. Ten minutes at
// 999 Hz on two busy CPUs with 30 frames take about this much when no two
// samples are alike.
const defaultStackBytes = 512 << 20

// defaultOutsideBytes bounds what the rest of the machine takes of it. It is
// there to explain noise, and some thousand distinct stacks do.
const defaultOutsideBytes = 2 << 20

// stackOverhead is about what a stack takes beside its frames.
const stackOverhead = 200

func newStacks() *stacks {
	return &stacks{
		maxBytes: defaultStackBytes, maxOutside: defaultOutsideBytes,
		seed: maphash.MakeSeed(), index: map[uint64]*stack{},
	}
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
	hash := t.hash(s)
	if known := t.find(hash, s); known != nil {
		known.count++
		return true
	}
	size := s.size()
	if t.bytes+size > limit || !s.target && t.outside+size > t.maxOutside {
		return false
	}
	t.store(hash, s)
	return true
}

// insert adds one to the stack like s, whatever the memory. Leaves are few.
func (t *stacks) insert(s *stack) {
	hash := t.hash(s)
	if known := t.find(hash, s); known != nil {
		known.count++
		return
	}
	t.store(hash, s)
}

func (t *stacks) find(hash uint64, s *stack) *stack {
	known := t.index[hash]
	for known != nil && !known.like(s) {
		known = known.next
	}
	return known
}

// store adds a new stack.
func (t *stacks) store(hash uint64, s *stack) {
	own := *s
	frames := make([]uint64, 0, len(s.kernel)+len(s.user))
	frames = append(append(frames, s.kernel...), s.user...)
	own.kernel, own.user = frames[:len(s.kernel):len(s.kernel)], frames[len(s.kernel):]
	own.count = 1
	own.next = t.index[hash]
	t.index[hash] = &own
	t.list = append(t.list, &own)
	t.bytes += own.size()
	if !own.target {
		t.outside += own.size()
	}
}

// size is about how many bytes the stack takes when it is stored.
func (s *stack) size() int { return stackOverhead + 8*(len(s.kernel)+len(s.user)) }

// hash returns a hash of what tells s apart.
func (t *stacks) hash(s *stack) uint64 {
	key := t.key[:0]
	key = append(key, byte(s.reason))
	key = append(append(key, s.comm...), s.thread...)
	key = binary.LittleEndian.AppendUint32(key, s.tid)
	key = binary.LittleEndian.AppendUint32(key, s.second<<16^s.cpu)
	for _, frame := range s.kernel {
		key = binary.LittleEndian.AppendUint64(key, frame)
	}
	for _, frame := range s.user {
		key = binary.LittleEndian.AppendUint64(key, frame)
	}
	t.key = key
	return maphash.Bytes(t.seed, key)
}
