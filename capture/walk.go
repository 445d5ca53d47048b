package capture

import (
	"encoding/binary"
	"runtime"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// stackCopy is the memory of a stack from the address base on.
type stackCopy struct {
	from  uint64 // where copying began; nothing is there up to base
	base  uint64
	data  []byte
	holes uint32 // pages that were not read, bpf.Sample.StackHoles
	// short is set when something outside the copy was asked for: beyond what
	// was copied, or on another stack of the thread.
	short bool
}

// ReadU64 implements unwind.Memory.
func (c *stackCopy) ReadU64(addr uint64) (uint64, bool) {
	// What is missing within the copy could not be read by the kernel either.
	if addr-c.from < c.base-c.from {
		return 0, false
	}
	at := addr - c.base // wraps for what is below
	if n := uint64(len(c.data)); at >= n || n-at < 8 {
		c.short = true
		return 0, false
	}
	if c.hole(addr) || c.hole(addr+7) {
		return 0, false
	}
	return binary.NativeEndian.Uint64(c.data[at:]), true
}

// hole tells whether the page of addr is missing in the copy.
func (c *stackCopy) hole(addr uint64) bool {
	const page = 4096
	return c.holes&(1<<(addr/page-c.base/page)) != 0
}

// belowStack is how far below the stack pointer a copy begins, in bytes:
// WINDOW_BELOW in bpf.
const belowStack = 64

// frameRegisters is the number of registers that are known of every frame;
// struct frame_registers in bpf.
const frameRegisters = 5

// registersOf returns the registers of a sample.
func registersOf(words []uint64) unwind.Regs {
	regs := unwind.Regs{Arch: unwind.AMD64, PC: words[0], SP: words[1], FP: words[2], BX: words[3], LR: words[4]}
	if runtime.GOARCH == "arm64" {
		regs.Arch = unwind.ARM64
	}
	if len(words) > frameRegisters {
		regs.General = words[frameRegisters:]
	} else {
		regs.Caller = true
	}
	return regs
}

// walk is a stack being unwound in user space; it finds the rules.
type walk struct {
	tables    *tables
	pid       uint32
	space     addressSpace
	at        *region // of the last frame
	generated uint16  // number of the code in no file; 0 is none
	file      *mappedFile
	waits     uint16 // the file whose table is missing, or 0
	stale     bool   // a file has been rewritten since
	bad       bool   // the last frame is no address of user space
}

// chain is the rule of code without a table.
func chain() unwind.Rule { return unwind.Rule{CFA: unwind.CFAChain} }

// Rule implements unwind.TableSource.
func (w *walk) Rule(addr uint64) (unwind.Rule, bool) {
	if w.bad = addr > offsetMask; w.bad {
		return unwind.Rule{}, false
	}
	w.locate(addr)
	switch {
	case w.at == nil:
		return unwind.Rule{}, false
	case !w.at.mapped():
		return chain(), true
	case w.file == nil:
		return unwind.Rule{}, false
	}
	f := w.file
	if f.object == nil {
		if !f.opening && f.attempts >= maxAttempts {
			return chain(), true
		}
		return w.wait(f)
	}
	if w.stale = w.tables.rewritten(f); w.stale {
		return unwind.Rule{}, false
	}
	switch f.object.state {
	case tableChained:
		return chain(), true
	case tableLoaded:
		return w.tables.rule(f.object, addr-w.at.start+w.at.offset), true
	}
	return w.wait(f)
}

// wait asks for the table of f.
func (w *walk) wait(f *mappedFile) (unwind.Rule, bool) {
	w.tables.request(f)
	w.waits = f.id
	return unwind.Rule{}, false
}

// locate finds the mapping and the file of addr.
func (w *walk) locate(addr uint64) {
	if w.at != nil && addr >= w.at.start && addr < w.at.end {
		return
	}
	w.file = nil
	if w.at = w.space.find(addr); w.at != nil && w.at.mapped() {
		w.file = w.tables.locate(w.pid, w.at)
	}
}

// frame returns the frame of addr as a sample has it.
func (w *walk) frame(addr uint64) uint64 {
	w.locate(addr)
	if w.at != nil && !w.at.mapped() {
		return uint64(w.generated)<<fileShift | addr&offsetMask
	}
	if w.file == nil {
		return addr & offsetMask
	}
	return uint64(w.file.id)<<fileShift | (addr-w.at.start+w.at.offset)&offsetMask
}

// locate returns the file of a mapping, giving it a number where it has none;
// nil where there are none left. The caller holds mu.
func (t *tables) locate(pid uint32, m *region) *mappedFile {
	if f := t.file(m.id); f != nil {
		return f
	}
	f := t.latest[m.key]
	if m.loose && f == nil {
		f = t.inodes[bpf.FileKey{Ino: m.key.Ino, Dev: m.key.Dev}]
	}
	if m.key == bpf.VDSO() {
		f = t.byKey[m.key]
	}
	if f == nil {
		f = t.add(m.key, sighting{pid: pid, start: m.start, end: m.end, path: t.sightings[m.key].path})
	}
	return f
}

// rule returns the rule for an offset in an object whose table is loaded. The
// caller holds mu.
func (t *tables) rule(o *object, offset uint64) unwind.Rule {
	view := t.views[o]
	if view == nil {
		opened, err := t.kernel.View(o.ref)
		if err != nil {
			return unwind.Rule{}
		}
		view = opened
		t.views[o] = view
	}
	if o.ref == (bpf.TableRef{}) {
		return chain() // as the kernel takes a table without pages
	}
	return t.rules.At(view.Rule(offset))
}

// rewritten tells whether f has other contents than when it was opened, under
// the same inode, so that mappings of both look alike. The caller holds mu.
func (t *tables) rewritten(f *mappedFile) bool {
	if f.key == bpf.VDSO() {
		return false
	}
	other, known := t.changed[f]
	if !known {
		other = rewritten(f.name, f.key)
		t.changed[f] = other
	}
	return other
}

// endWalks forgets what walks found out for the moment. The caller holds mu.
func (t *tables) endWalks() {
	for _, view := range t.views {
		view.Close()
	}
	clear(t.views)
	clear(t.changed)
}

// unwind appends the frames of p's stack to dst and tells why they end. When a
// table is missing the file is returned, and dst is of no use. The caller
// holds mu, and calls endWalks after the last walk.
func (t *tables) unwind(dst []uint64, p *pending) (frames []uint64, reason unwind.StopReason, waits uint16) {
	w := walk{tables: t, pid: p.pid, space: p.space, generated: p.generated}
	memory := p.memory
	memory.from = min(memory.base, p.regs.SP-belowStack)
	var walked []unwind.Frame
	walked, reason = unwind.Walk(t.walked[:0], p.regs, &memory, &w)
	t.walked = walked
	if w.waits != 0 {
		return dst, unwind.StopTablePending, w.waits
	}
	if w.bad {
		reason = unwind.StopBadPC
		walked = walked[:len(walked)-1]
	}
	switch {
	case reason == unwind.StopComplete || reason == unwind.StopTooManyFrames:
	case w.stale, memory.short && reason == unwind.StopReadFailed:
		reason = unwind.StopTablePending // what would tell more is not there
	case w.at != nil && !w.at.mapped():
		reason = unwind.StopAnonymous
	}
	if most := unwind.MaxFrames - len(dst); len(walked) > most {
		walked, reason = walked[:most], unwind.StopTooManyFrames
	}
	for _, frame := range walked {
		dst = append(dst, w.frame(frame.Addr))
	}
	return dst, reason, 0
}
