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
		Arch: unwind.ARM64, PC: r.Pc, SP: r.Sp, FP: r.Regs[29], LR: r.Regs[30],
		General: append(append([]uint64(nil), r.Regs[:]...), r.Sp),
	}, nil
}
