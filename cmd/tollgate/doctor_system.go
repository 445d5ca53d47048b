package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func inspectKernel() finding {
	f := finding{Status: statusOK, Name: "kernel"}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		f.Status, f.Detail = statusFail, err.Error()
		return f
	}
	f.Detail = fmt.Sprintf("%s %s, %d CPUs", unix.ByteSliceToString(uts.Release[:]),
		unix.ByteSliceToString(uts.Machine[:]), runtime.NumCPU())
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		f.Status, f.Mend = statusFail, "use an amd64 or arm64 machine"
	}
	return f
}

// initialPIDNamespace is the inode number of the first PID namespace (PROC_PID_INIT_INO, linux
// include/linux/proc_ns.h).
const initialPIDNamespace = "pid:[4026531836]"

// inspectContainer looks for the two namespaces that matter: BPF numbers processes as the first PID
// namespace does, and root of a user namespace has no say over the kernel.
func inspectContainer() finding {
	f := finding{Status: statusOK, Name: "container", Detail: "none, or one that shares the host's processes"}
	if pid, err := os.Readlink("/proc/self/ns/pid"); err == nil && pid != initialPIDNamespace {
		f.Status = statusFail
		f.Detail = "this container numbers processes on its own, which BPF does not know of"
		f.Mend = "start it with --privileged --pid=host"
		return f
	}
	if ids, ok := readSetting("/proc/self/uid_map"); ok {
		// The first one maps every ID to itself.
		if !slices.Equal(strings.Fields(ids), []string{"0", "0", "4294967295"}) {
			f.Status = statusFail
			f.Detail = "a user namespace: its root is not root to the kernel"
			f.Mend = "use a rootful container with --privileged --pid=host, or the machine itself"
		}
	}
	return f
}

func (a *app) inspectRights() finding {
	f := finding{Status: statusOK, Name: "privileges"}
	missing := missingCapabilities()
	if os.Geteuid() == 0 {
		f.Detail = "root"
		if who, err := a.sudoInvoker(); err == nil && who != nil {
			f.Detail = fmt.Sprintf("root by sudo; the measured command runs as user %d", who.Credential.Uid)
		}
		if len(missing) > 0 {
			f.Status = statusFail
			f.Detail = "root without " + strings.Join(missing, ", ")
			f.Mend = "start the container with --privileged --pid=host"
		}
		return f
	}
	if len(missing) == 0 {
		f.Detail = "not root, with all capabilities that sampling needs"
		return f
	}
	f.Status = statusFail
	f.Mend = "run as root, or allow sudo without a password (in a terminal, sudo -v first will do)"
	sudo, err := a.lookPath("sudo")
	if err != nil {
		f.Detail = "not root, and there is no sudo"
		return f
	}
	if out, err := exec.Command(sudo, "-n", "true").CombinedOutput(); err != nil {
		f.Detail = fmt.Sprintf("not root, and sudo refuses (%s)", oneLine(string(out)))
		return f
	}
	return finding{Status: statusOK, Name: f.Name, Detail: "sudo without a password, for the collector only"}
}

func inspectParanoid() finding {
	f := finding{Status: statusOK, Name: "perf_event_paranoid"}
	value, ok := readSetting("/proc/sys/kernel/perf_event_paranoid")
	if !ok {
		f.Status, f.Detail, f.Mend = statusFail, "no perf events in this kernel", "use a kernel with CONFIG_PERF_EVENTS"
		return f
	}
	f.Detail = value + ", which does not bind root"
	return f
}

func inspectKptr() finding {
	f := finding{Status: statusOK, Name: "kptr_restrict"}
	value, ok := readSetting("/proc/sys/kernel/kptr_restrict")
	switch {
	case !ok:
		f.Detail = "not there"
	case value == "2":
		f.Status = statusWarn
		f.Detail = "2, kernel functions stay without names"
		f.Mend = "sudo sysctl kernel.kptr_restrict=1"
	default:
		f.Detail = value + ", kernel functions get names"
	}
	return f
}

// inspectLockdown reads the mode in brackets, as in "[none] integrity confidentiality"
// (kernel_lockdown(7)). Confidentiality takes bpf_probe_read_kernel away.
func inspectLockdown() finding {
	f := finding{Status: statusOK, Name: "lockdown", Detail: "off"}
	modes, ok := readSetting("/sys/kernel/security/lockdown")
	if !ok {
		return f
	}
	if strings.Contains(modes, "[confidentiality]") {
		f.Status = statusFail
		f.Detail = "confidentiality, which forbids BPF to read kernel memory"
		f.Mend = "boot with lockdown=integrity, or without Secure Boot"
	} else if strings.Contains(modes, "[integrity]") {
		f.Detail = "integrity, which does no harm"
	}
	return f
}
