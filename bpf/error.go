package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Why sampling does not work on a machine, for errors.Is.
var (
	ErrNoBTF      = errors.New("the kernel has no type information (BTF)")
	ErrOldKernel  = errors.New("the kernel is older than 6.1")
	ErrPermission = errors.New("permission denied")
	ErrLockdown   = errors.New("the kernel is locked down")
	ErrNoPMU      = errors.New("this machine has no PMU")
	ErrOpenFiles  = errors.New("too many open files")
	ErrNoSupport  = errors.New("the kernel lacks a feature")

	// ErrNoSpace reports a table that does not fit next to those loaded.
	ErrNoSpace = errors.New("no space for the unwind table")
	// ErrUnknownRun reports a run that was not armed, or so long ago that
	// its totals are gone.
	ErrUnknownRun = errors.New("unknown run")
	// ErrClosed reports the use of a Sampler after Close.
	ErrClosed = errors.New("the sampler is closed")
)

// Error is a failure to set up sampling.
type Error struct {
	Op    string // what failed, such as "open perf event on cpu 0"
	Kind  error  // one of the errors above, or nil
	Cause error
	hint  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", e.Op, strings.ReplaceAll(e.Cause.Error(), memlockGuess, ""))
}

// memlockGuess is what cilium/ebpf adds to EPERM. It is wrong here: since 5.11
// the kernel charges BPF memory to the cgroup, whatever RLIMIT_MEMLOCK says.
const memlockGuess = " (MEMLOCK may be too low, consider rlimit.RemoveMemlock)"

// Unwrap gives errors.Is the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Cause}
	}
	return []error{e.Kind, e.Cause}
}

// Hint returns what the user can do about it, one clause, or "".
func (e *Error) Hint() string { return e.hint }

// fail explains cause, the failure of the operation op.
func fail(op string, cause error) error {
	e := &Error{Op: op, Cause: cause}
	switch {
	case errors.Is(cause, unix.EPERM), errors.Is(cause, unix.EACCES):
		e.Kind, e.hint = ErrPermission, "run as root, or grant CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"
		if os.Geteuid() == 0 {
			e.hint = "in a container, start it with --privileged and --pid=host"
			if inUserNamespace() {
				e.hint = "leave the user namespace, whose root is not root to the kernel: a rootful container with --privileged and --pid=host, or the machine itself"
			}
		}
		if lockedDown() {
			e.Kind, e.hint = ErrLockdown, "boot without lockdown=confidentiality"
		}
	case errors.Is(cause, unix.EMFILE), errors.Is(cause, unix.ENFILE):
		e.Kind, e.hint = ErrOpenFiles, "raise the limit of open files (ulimit -n)"
	case errors.Is(cause, unix.ENOSYS):
		e.Kind, e.hint = ErrNoSupport, "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_PERF_EVENTS"
	case errors.Is(cause, ebpf.ErrNotSupported):
		e.Kind, e.hint = ErrNoSupport, "use a newer kernel, 6.1 or later"
		if lockedDown() {
			e.Kind, e.hint = ErrLockdown, "boot without lockdown=confidentiality"
		}
	case lockedDown():
		// Helpers that read kernel memory are unknown to the verifier then.
		e.Kind, e.hint = ErrLockdown, "boot without lockdown=confidentiality"
	}
	return e
}

// ownFiles is how many files a Sampler has open besides two for each CPU: maps,
// programs, their types, links; rounded up.
const ownFiles = 48

// checkOpenFiles fails when the process may not open that many files more. In
// the middle of loading, the failure to open one looks like a kernel that
// lacks a feature.
func checkOpenFiles(more int) error {
	const op = "open files for sampling"
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fail(op, err)
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fail(op, err)
	}
	if uint64(len(files)+more) > limit.Cur {
		return fail(op, unix.EMFILE)
	}
	return nil
}

// inUserNamespace tells whether user IDs are mapped; in the first namespace
// every one stands for itself (user_namespaces(7)).
func inUserNamespace() bool {
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !slices.Equal(strings.Fields(string(ids)), []string{"0", "0", "4294967295"})
}

// lockedDown tells whether the kernel keeps its memory from root.
func lockedDown() bool {
	modes, err := os.ReadFile("/sys/kernel/security/lockdown")
	return err == nil && strings.Contains(string(modes), "[confidentiality]")
}
