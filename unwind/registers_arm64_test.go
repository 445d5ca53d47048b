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
		Arch: ARM64, PC: r.Pc, SP: r.Sp, FP: r.Regs[29], LR: r.Regs[30],
		General: append(append([]uint64{}, r.Regs[:]...), r.Sp),
	}
}
