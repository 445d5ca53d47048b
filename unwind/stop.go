package unwind

import "fmt"

// StopReason tells why a stack ends where it ends. The numbers are shared
// with the kernel's unwinder, which has more ways to stop than Walk.
type StopReason uint8

const (
	StopComplete StopReason = iota
	StopNoMapping
	StopTablePending
	StopNoRule
	StopUnsupportedCFA
	StopReadFailed
	StopNoProgress
	StopTooManyFrames
	StopBadChain
	StopAnonymous
	StopNoMM
	StopInExec
	StopCompat
	StopKernelThread
	StopBadPC
	StopInternal
)

// String returns the name under which the reason is counted, such as
// "read_failed".
func (r StopReason) String() string {
	names := [...]string{
		StopComplete:       "complete",
		StopNoMapping:      "no_mapping",
		StopTablePending:   "table_pending",
		StopNoRule:         "no_rule",
		StopUnsupportedCFA: "unsupported_cfa",
		StopReadFailed:     "read_failed",
		StopNoProgress:     "no_progress",
		StopTooManyFrames:  "too_many_frames",
		StopBadChain:       "bad_chain",
		StopAnonymous:      "anonymous",
		StopNoMM:           "no_mm",
		StopInExec:         "in_exec",
		StopCompat:         "compat",
		StopKernelThread:   "kernel_thread",
		StopBadPC:          "bad_pc",
		StopInternal:       "internal",
	}
	if int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("reason_%d", uint8(r))
}

// Sentence explains the reason to a reader of a report.
func (r StopReason) Sentence() string {
	sentences := [...]string{
		StopComplete:       "the stack was unwound to its outermost frame",
		StopNoMapping:      "a return address lies in no mapping of the process",
		StopTablePending:   "the unwind table of a file was not built yet",
		StopNoRule:         "the file has no unwind information for an address",
		StopUnsupportedCFA: "the frame is described by a register or expression that is not tracked",
		StopReadFailed:     "the stack could not be read",
		StopNoProgress:     "a frame did not lie above the frame it called",
		StopTooManyFrames:  "the stack has more frames than are recorded",
		StopBadChain:       "code without unwind information has no plausible frame pointer",
		StopAnonymous:      "generated code has no plausible frame pointer",
		StopNoMM:           "the address space was already gone at exit",
		StopInExec:         "the process was replacing its address space in execve",
		StopCompat:         "the process is a 32-bit process",
		StopKernelThread:   "the thread is a kernel thread without user stack",
		StopBadPC:          "a return address is not a user-space address",
		StopInternal:       "the unwinder failed",
	}
	if int(r) < len(sentences) {
		return sentences[r]
	}
	return fmt.Sprintf("unknown stop reason %d", uint8(r))
}
