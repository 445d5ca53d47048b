package unwind

import (
	"syscall"
	"testing"
)

func (p *process) regs(t *testing.T) Regs {
	t.Helper()
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(p.tid, &r); err != nil {
		t.Fatal(err)
	}
	return Regs{
		Arch: AMD64, PC: r.Rip, SP: r.Rsp, FP: r.Rbp, BX: r.Rbx,
		General: []uint64{
			r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi, r.Rbp, r.Rsp,
			r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15,
		},
	}
}
