package unwind

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// step executes one instruction of the traced thread, or delivers a signal;
// ended is set when the process has exited.
func (p *process) step(t *testing.T, signal int) (status syscall.WaitStatus, ended bool) {
	t.Helper()
	const requestSingleStep = 9
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, requestSingleStep, uintptr(p.tid), 0, uintptr(signal), 0, 0); errno != 0 {
		t.Fatalf("step: %v", errno)
	}
	for {
		tid, err := syscall.Wait4(-p.pid, &status, syscall.WALL, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.ECHILD:
			return status, true
		case err != nil:
			t.Fatal(err)
		case tid == p.tid || tid == p.pid && !status.Stopped():
			return status, !status.Stopped()
		}
		// Other threads run on, for this one may wait for them.
		pass := 0
		if status.Stopped() && status.StopSignal() != syscall.SIGTRAP && status.StopSignal() != syscall.SIGSTOP {
			pass = int(status.StopSignal())
		}
		if status.Stopped() {
			syscall.PtraceCont(tid, pass) // it may have been killed meanwhile
		}
	}
}

// inconsistent reports whether a stack cannot be known at this instruction.
// GCC's startup files have no call frame information, and while Go injects a
// call into an interrupted goroutine its saved registers do not belong together.
// The return address of that call is no call site: the byte before it may have
// another rule, and no Rule says so.
func inconsistent(names []string) bool {
	switch names[0] {
	case "__do_global_dtors_aux", "deregister_tm_clones", "register_tm_clones", "frame_dummy":
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "runtime.doSigPreempt" || strings.HasPrefix(name, "runtime.asyncPreempt")
	})
}

// walkEachInstruction steps from a breakpoint on and requires a complete
// stack that ends in root before each instruction.
func walkEachInstruction(t *testing.T, p *process, limit int, roots ...string) {
	t.Helper()
	var frames []Frame
	incomplete := map[string]int{}
	signal, steps := 0, 0
	for ; steps < limit; steps++ {
		status, ended := p.step(t, signal)
		if ended {
			break
		}
		signal = 0
		if status.StopSignal() != syscall.SIGTRAP {
			signal = int(status.StopSignal())
		}
		regs := p.regs(t)
		if _, ok := p.mapping(regs.PC); !ok {
			p.remap(t)
		}
		var reason StopReason
		frames, reason = Walk(frames[:0], regs, p, p)
		root, _, _ := strings.Cut(p.name(frames[len(frames)-1].Addr), ".abi")
		if reason == StopComplete && slices.Contains(roots, root) {
			continue
		}
		if inconsistent(p.names(frames)) {
			continue
		}
		m, _ := p.mapping(regs.PC)
		incomplete[fmt.Sprintf("%v at %s+%#x, after %q", reason, m.path, regs.PC-m.start+m.off, p.names(frames))]++
	}
	shown := 0
	for stack, count := range incomplete {
		if shown++; shown <= 10 {
			t.Errorf("%d times: %s", count, stack)
		}
	}
	if len(incomplete) > shown {
		t.Errorf("and %d other incomplete stacks", len(incomplete)-shown)
	}
	t.Logf("walked %d stacks", steps)
	if steps < 100 {
		t.Errorf("only %d instructions until the end", steps)
	}
}

// TestWalkAtEachInstruction covers prologues, epilogues, lazy binding, signal
// delivery and return, and the way through the dynamic linker at exit.
func TestWalkAtEachInstruction(t *testing.T) {
	const limit = 30000
	program := buildC(t, "calls.c", "-O2", "-fomit-frame-pointer", "-pthread", "-Wl,-z,lazy")
	for _, path := range []string{"callback", "dynamic", "realigned", "repeated signal"} {
		t.Run(path, func(t *testing.T) {
			p, _ := stopAtTrap(t, program, path)
			walkEachInstruction(t, p, limit, "_start")
		})
	}
}

func TestWalkAtEachInstructionOfGo(t *testing.T) {
	program := buildGo(t, "gocalls", []string{"CGO_ENABLED=0"}, "-ldflags=-checklinkname=0")
	for _, path := range []string{"recurse", "large", "systemstack", "fault", "garbage"} {
		t.Run(path, func(t *testing.T) {
			p, _ := stopAtTrap(t, program, path)
			walkEachInstruction(t, p, 4000, "runtime.goexit", "runtime.mcall", "runtime.mstart", "runtime.morestack", "runtime.morestack_noctxt")
		})
	}
}
