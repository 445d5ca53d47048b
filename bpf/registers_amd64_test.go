package bpf

import (
	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/unwind"
)

// registersOf reads the registers of a thread that ptrace has stopped.
func registersOf(tid int) (unwind.Regs, error) {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return unwind.Regs{}, err
	}
	return unwind.Regs{
		Arch: unwind.AMD64, PC: r.Rip, SP: r.Rsp, FP: r.Rbp, BX: r.Rbx,
		General: []uint64{
			r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi, r.Rbp, r.Rsp,
			r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15,
		},
	}, nil
}
