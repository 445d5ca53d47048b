package unwind

// Where Linux saves registers in the rt_sigframe, in bytes from the stack
// pointer of the frame that sigreturn restores. Part of the kernel's ABI:
// arch/x86/include/uapi/asm/sigcontext.h, arch/arm64/include/uapi/asm/
// {sigcontext,ucontext}.h.
const (
	// amd64: the return address has been popped, so sp points to the
	// ucontext: flags 8, link 8, stack 24, then the general registers.
	amd64Sigcontext = 40

	// arm64: siginfo 128, then the ucontext: flags 8, link 8, stack 24,
	// signal mask 128, padding 8, fault address 8, then x0 to x30, sp, pc.
	arm64Sigcontext = 128 + 176 + 8
)

// amd64SignalRegister returns the index of a DWARF register in struct
// sigcontext, which starts with r8.
func amd64SignalRegister(dwarf int) int {
	//                  rax rdx rcx rbx rsi rdi rbp rsp
	order := [...]uint8{13, 12, 14, 11, 9, 8, 10, 15}
	if dwarf < len(order) {
		return int(order[dwarf])
	}
	return dwarf - 8
}

// signal restores the registers that a signal interrupted.
func (w *walker) signal() (done bool, reason StopReason) {
	base, count, pcIndex := w.regs.SP+amd64Sigcontext, 16, 16
	if w.regs.Arch == ARM64 {
		base, count, pcIndex = w.regs.SP+arm64Sigcontext, 32, 32
	}
	general := make([]uint64, count)
	for i := range general {
		index := i
		if w.regs.Arch == AMD64 {
			index = amd64SignalRegister(i)
		}
		value, ok := w.mem.ReadU64(base + 8*uint64(index))
		if !ok {
			return true, StopReadFailed
		}
		general[i] = value
	}
	pc, ok := w.mem.ReadU64(base + 8*uint64(pcIndex))
	if !ok {
		return true, StopReadFailed
	}
	if pc>>63 != 0 {
		return true, StopBadPC
	}
	regs := Regs{Arch: w.regs.Arch, PC: pc, General: general}
	if regs.Arch == ARM64 {
		regs.SP, regs.FP, regs.LR = general[arm64SP], general[arm64FP], general[arm64LR]
	} else {
		regs.SP, regs.FP, regs.BX = general[amd64SP], general[amd64FP], general[amd64BX]
	}
	w.regs, w.exact = regs, true
	return false, StopComplete
}
