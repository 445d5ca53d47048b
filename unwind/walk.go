package unwind

// MaxFrames is the number of frames that Walk records at most.
const MaxFrames = 1024

// chainReach bounds how far above the stack pointer a frame pointer may lie
// to be believed where no call frame information confirms it.
const chainReach = 1 << 20

// Regs are the registers of a frame.
type Regs struct {
	Arch   Arch
	PC, SP uint64
	FP     uint64 // amd64 rbp, arm64 x29
	BX     uint64 // amd64 rbx
	LR     uint64 // arm64 x30; meaningful only in the leaf
	// General holds the registers by DWARF number: 16 on amd64, 31 or more
	// on arm64. It is nil where they are not known, outside the leaf.
	General []uint64
	// Caller tells that PC is a return address: the walk does not begin at the
	// leaf, but goes on where another one stopped.
	Caller bool
}

// Memory reads the memory of a process.
type Memory interface {
	// ReadU64 reads 8 bytes at a process address.
	ReadU64(addr uint64) (value uint64, ok bool)
}

// TableSource finds the rule for a process address.
type TableSource interface {
	// Rule returns the rule that holds at addr; ok is false when addr lies in
	// no mapping.
	Rule(addr uint64) (rule Rule, ok bool)
}

// Frame is one frame of a stack.
type Frame struct {
	// Addr is the process address to look up: the PC of the leaf and of a
	// frame that a signal interrupted, else the return address minus 1, which
	// lies in the call.
	Addr uint64
}

// Walk unwinds the stack that regs and mem hold, leaf first, appends its
// frames to dst, and tells why it stopped. The frame at which it stopped is
// included.
func Walk(dst []Frame, regs Regs, mem Memory, tables TableSource) ([]Frame, StopReason) {
	w := walker{regs: regs, mem: mem, exact: !regs.Caller}
	for n := 0; ; n++ {
		if n == MaxFrames {
			return dst, StopTooManyFrames
		}
		addr := w.regs.PC
		if !w.exact {
			addr--
		}
		dst = append(dst, Frame{Addr: addr})
		rule, ok := tables.Rule(addr)
		if !ok {
			return dst, StopNoMapping
		}
		if done, reason := w.step(rule); done {
			return dst, reason
		}
	}
}

// walker holds the registers of the current frame.
type walker struct {
	regs Regs
	mem  Memory
	// exact is set when PC is the next instruction to run and not a return
	// address: in the leaf, and in a frame that a signal interrupted. All
	// registers are known there.
	exact bool
}

// step moves to the caller. done is set when there is none or it cannot be
// found.
func (w *walker) step(rule Rule) (done bool, reason StopReason) {
	var cfa uint64
	var ok bool
	r := &w.regs
	switch rule.CFA {
	case CFASP:
		cfa, ok = r.SP+uint64(int64(rule.CFAOff)), true
	case CFAFP:
		cfa, ok = r.FP+uint64(int64(rule.CFAOff)), true
	case CFAReg:
		if cfa, ok = w.register(rule.Reg); !ok {
			return true, StopUnsupportedCFA
		}
		cfa += uint64(int64(rule.CFAOff))
	case CFADerefFP:
		cfa, ok = w.mem.ReadU64(r.FP + uint64(int64(rule.CFAOff)))
	case CFADerefSP:
		cfa, ok = w.mem.ReadU64(r.SP + uint64(int64(rule.CFAOff)))
		cfa += uint64(int64(rule.Off2))
	case CFAPLT:
		cfa, ok = r.SP+8, true
		if r.PC&15 >= pltPush {
			cfa += 8
		}
	case CFASignal:
		return w.signal()
	case CFAStop:
		return true, StopComplete
	case CFAChain:
		if r.FP != 0 && (r.FP < r.SP || r.FP-r.SP >= chainReach) {
			return true, StopBadChain
		}
		return w.chain(16)
	case CFAGoSwitch:
		return w.chain(uint64(rule.CFAOff))
	case CFANone:
		return true, StopNoRule
	default:
		return true, StopInternal
	}
	if !ok {
		return true, StopReadFailed
	}
	return w.leave(rule, cfa)
}

// leave restores the caller's registers from the frame whose CFA is cfa.
func (w *walker) leave(rule Rule, cfa uint64) (done bool, reason StopReason) {
	r := &w.regs
	ok := true
	pc := r.LR
	switch rule.RA {
	case RegAtCFA:
		pc, ok = w.mem.ReadU64(cfa + uint64(int64(rule.RAOff)))
	case RegInLR:
		// The link register of a frame that has called another holds an
		// address of its own code by now.
		if !w.exact {
			return true, StopNoProgress
		}
	case RegInReg:
		if pc, ok = w.register(uint8(rule.RAOff)); !ok {
			return true, StopUnsupportedCFA
		}
	case RegUndefined:
		return true, StopComplete
	default:
		return true, StopInternal
	}
	if !ok {
		return true, StopReadFailed
	}
	fp := r.FP
	switch rule.FP {
	case RegAtCFA:
		fp, ok = w.mem.ReadU64(cfa + uint64(int64(rule.FPOff)))
	case RegAtFP:
		fp, ok = w.mem.ReadU64(r.FP + uint64(int64(rule.FPOff)))
	}
	if !ok {
		return true, StopReadFailed
	}
	bx := r.BX
	if rule.BXOff != 0 && r.Arch == AMD64 {
		if bx, ok = w.mem.ReadU64(cfa + uint64(int64(rule.BXOff))); !ok {
			return true, StopReadFailed
		}
	}
	// A leaf function that keeps the return address in a register need not
	// have a frame of its own.
	leaf := w.exact && (rule.RA == RegInLR || rule.RA == RegInReg)
	if cfa < r.SP || cfa == r.SP && !leaf {
		return true, StopNoProgress
	}
	return w.call(pc, cfa, fp, bx)
}

// chain follows the frame pointer. On both architectures it points to the
// caller's frame pointer, which the return address follows. size is the
// distance from there to the caller's stack pointer.
func (w *walker) chain(size uint64) (done bool, reason StopReason) {
	r := &w.regs
	if r.FP == 0 {
		return true, StopComplete
	}
	if r.FP%8 != 0 {
		return true, StopBadChain
	}
	fp, ok := w.mem.ReadU64(r.FP)
	if !ok {
		return true, StopReadFailed
	}
	pc, ok := w.mem.ReadU64(r.FP + 8)
	if !ok {
		return true, StopReadFailed
	}
	return w.call(pc, r.FP+size, fp, r.BX)
}

// call makes the caller the current frame. pc is its return address.
func (w *walker) call(pc, sp, fp, bx uint64) (done bool, reason StopReason) {
	r := &w.regs
	if r.Arch == ARM64 {
		pc = stripPointerAuthentication(pc)
	}
	// Runtimes end the stacks of their threads with a zero return address.
	if pc == 0 {
		return true, StopComplete
	}
	if pc>>63 != 0 {
		return true, StopBadPC
	}
	r.PC, r.SP, r.FP, r.BX, r.LR, r.General = pc, sp, fp, bx, 0, nil
	w.exact = false
	return false, StopComplete
}

// register returns the value of the register with the given DWARF number.
func (w *walker) register(number uint8) (uint64, bool) {
	r := &w.regs
	if r.Arch == AMD64 && number == amd64BX {
		return r.BX, true
	}
	if r.Arch == ARM64 && number == arm64LR && w.exact {
		return r.LR, true
	}
	if w.exact && int(number) < len(r.General) {
		return r.General[number], true
	}
	return 0, false
}

// stripPointerAuthentication removes the signature from a return address. It
// takes the bits above the 48-bit user address space that Linux gives
// processes unless they ask for more (Documentation/arch/arm64/
// pointer-authentication.rst, memory.rst).
func stripPointerAuthentication(pc uint64) uint64 {
	const userBits = 48
	return pc & (1<<userBits - 1)
}
