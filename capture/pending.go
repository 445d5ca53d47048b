package capture

import (
	"time"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// pending is a sample that the kernel could not unwind to its end, because the
// table of a file was not there yet. The stack goes on in user space.
type pending struct {
	stack  stack // user holds the frames before the one with regs
	pid    uint32
	regs   unwind.Regs
	memory stackCopy
	space  addressSpace
	taken  uint64 // ns, CLOCK_MONOTONIC

	generated uint16 // number of the code that the process generates
}

func (p *pending) size() int {
	return stackOverhead + len(p.memory.data) + 8*(len(p.stack.kernel)+len(p.stack.user)+frameRegisters+len(p.regs.General))
}

// waiting holds samples until the tables are there that they need.
type waiting struct {
	maxBytes int
	byFile   map[uint16][]*pending // by the file whose table is missing, oldest first
	bytes    int
	version  uint64 // of tables, when they were looked at last
	swept    uint64 // when the oldest were given up last, ns
	frames   []uint64
}

const (
	// defaultWaitingBytes bounds the copied stacks: two seconds of 8 KiB each
	// on two CPUs at 999 Hz.
	defaultWaitingBytes = 32 << 20
	// maxWait is how long a sample waits while the run goes on, ns. A table that
	// takes longer will not come.
	maxWait = 30e9
)

func newWaiting() *waiting {
	return &waiting{maxBytes: defaultWaitingBytes, byFile: map[uint16][]*pending{}}
}

// fits tells whether a sample can go on in user space, and whether there is
// room for it until then.
func (w *waiting) fits(r *bpf.Sample) bool {
	size := stackOverhead + len(r.Stack) + 8*(len(r.KernelFrames)+len(r.UserFrames)+len(r.Registers))
	return len(r.Registers) >= frameRegisters && r.Resume <= len(r.UserFrames) && w.bytes+size <= w.maxBytes
}

// newPending copies what is needed to go on with a sample. described is its
// stack as far as the kernel came; its last frame is done again.
func newPending(r *bpf.Sample, described stack, space addressSpace) *pending {
	words := make([]uint64, 0, len(described.kernel)+r.Resume+len(r.Registers))
	words = append(words, described.kernel...)
	words = append(words, described.user[:r.Resume]...)
	words = append(words, r.Registers...)
	kernel, rest := words[:len(described.kernel)], words[len(described.kernel):]
	described.kernel, described.user = kernel, rest[:r.Resume]
	return &pending{
		stack: described, pid: r.PID, regs: registersOf(rest[r.Resume:]), memory: stackCopy{base: r.StackBase, data: append([]byte(nil), r.Stack...), holes: r.StackHoles},
		space: space, taken: r.Time,
	}
}

// add keeps p until the table of file is there; it returns false when there
// is no room.
func (w *waiting) add(p *pending, file uint16) bool {
	if w.bytes+p.size() > w.maxBytes {
		return false
	}
	w.bytes += p.size()
	w.byFile[file] = append(w.byFile[file], p)
	return true
}

// resume goes on with the samples whose tables are there by now, and calls
// finish for those that are done.
func (w *waiting) resume(t *tables, finish func(*stack)) {
	if len(w.byFile) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.endWalks()
	// A sample may turn out to need another file, which may be ready as well.
	for again := true; again; {
		again = false
		w.version = t.version
		for file, list := range w.byFile {
			if !t.ready(file) {
				continue
			}
			again = true
			delete(w.byFile, file)
			for _, p := range list {
				w.bytes -= p.size()
				w.walk(t, p, file, finish)
			}
		}
	}
}

// walk goes on with p, which waited for a file.
func (w *waiting) walk(t *tables, p *pending, waited uint16, finish func(*stack)) {
	frames, reason, waits := t.unwind(append(w.frames[:0], p.stack.user...), p)
	w.frames = frames
	// A table may be evicted before it is used; once more is once too many.
	if waits != 0 && waits != waited && w.add(p, waits) {
		return
	}
	if waits != 0 {
		frames, reason = p.cut(t, frames[:0]), unwind.StopTablePending
	}
	p.stack.user, p.stack.reason = frames, reason
	finish(&p.stack)
}

// cut appends the frames of p without what is above the missing table.
func (p *pending) cut(t *tables, dst []uint64) []uint64 {
	w := walk{tables: t, pid: p.pid, space: p.space}
	addr := p.regs.PC
	if p.regs.Caller {
		addr--
	}
	return append(append(dst, p.stack.user...), w.frame(addr))
}

// giveUp finishes the samples that were taken before a time as they are.
func (w *waiting) giveUp(t *tables, before uint64, finish func(*stack)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for file, list := range w.byFile {
		n := 0
		for n < len(list) && list[n].taken < before {
			p := list[n]
			w.bytes -= p.size()
			p.stack.user, p.stack.reason = p.cut(t, nil), unwind.StopTablePending
			finish(&p.stack)
			n++
		}
		if w.byFile[file] = list[n:]; n == len(list) {
			delete(w.byFile, file)
		}
	}
}

// due tells whether something may have changed for the samples that wait.
func (w *waiting) due(t *tables, now uint64) (resume, sweep bool) {
	if len(w.byFile) == 0 {
		return false, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now-w.swept > maxWait/8 {
		w.swept, sweep = now, true
	}
	return w.version != t.version, sweep
}

// settle finishes all samples, waiting for tables until the deadline.
func (w *waiting) settle(t *tables, deadline time.Time, finish func(*stack)) {
	for w.resume(t, finish); len(w.byFile) > 0; w.resume(t, finish) {
		if !t.await(w.version, deadline) {
			break
		}
	}
	w.giveUp(t, ^uint64(0), finish)
}

// await waits until the version is another one; it returns false when that
// takes until the deadline.
func (t *tables) await(version uint64, deadline time.Time) bool {
	wake := time.AfterFunc(time.Until(deadline), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.settled.Broadcast()
	})
	defer wake.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.version == version {
		if !time.Now().Before(deadline) {
			return false
		}
		t.settled.Wait()
	}
	return true
}

// ready tells whether the wait for a file's table is over, and asks for it
// again where it has been evicted. The caller holds mu.
func (t *tables) ready(id uint16) bool {
	f := t.file(id)
	if f == nil {
		return true
	}
	if f.object == nil {
		if f.opening {
			return false
		}
		t.request(f)
		return !f.opening
	}
	if f.object.state == tableNone {
		t.requestBuild(f.object, f.target)
	}
	return f.object.state == tableLoaded || f.object.state == tableChained
}
