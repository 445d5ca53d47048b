package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/tollgate-dev/tollgate/capture"
	"golang.org/x/sys/unix"
)

const privilegeHint = "run as root, or allow sudo without a password; tollgate doctor shows what is missing"

// collectorCommand returns how to start the privileged half on this machine: this very program with
// the hidden command, directly where we have the rights, else through sudo.
func (a *app) collectorCommand(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fail(exitEnvironment, fmt.Errorf("find own executable: %w", err), "")
	}
	command := append([]string{self, collectorName}, args...)
	if os.Geteuid() == 0 || capable() {
		return command, nil
	}
	sudo, err := a.lookPath("sudo")
	if err != nil {
		return nil, fail(exitEnvironment, errors.New("sampling the system needs root, and there is no sudo"), privilegeHint)
	}
	return append([]string{sudo, "-n", "--"}, command...), nil
}

// lookPath finds a program on the PATH of the app's environment.
func (a *app) lookPath(name string) (string, error) {
	for _, dir := range strings.Split(a.env.get("PATH"), ":") {
		if dir == "" {
			dir = "."
		}
		path := dir + "/" + name
		if info, err := os.Stat(path); err == nil && !info.IsDir() && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// explainSudo replaces the error of a collector that did not start by the reason, when the reason is
// that sudo wants a password.
func explainSudo(ctx context.Context, command []string, err error) error {
	if len(command) < 2 || command[1] != "-n" {
		return err
	}
	probe := exec.CommandContext(ctx, command[0], "-n", "true")
	var stderr bytes.Buffer
	probe.Stderr = &stderr
	if probe.Run() == nil {
		return err
	}
	reason, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	if reason == "" {
		reason = "sudo -n refused"
	}
	return fail(exitEnvironment, fmt.Errorf("sampling the system needs root: %s", reason),
		"run sudo -v first, or run as root; tollgate doctor shows what is missing")
}

// needed are the capabilities of the collector: to load and attach, to open perf events on every
// CPU (CAP_SYS_ADMIN on kernels with Debian's perf_event_paranoid 3), and to read other users' /proc.
var needed = [...]struct {
	bit  int
	name string
}{
	{unix.CAP_BPF, "CAP_BPF"},
	{unix.CAP_PERFMON, "CAP_PERFMON"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
}

// capable reports whether this process may do all that the collector does.
func capable() bool { return len(missingCapabilities()) == 0 }

// missingCapabilities names what this process lacks of needed.
func missingCapabilities() []string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	var missing []string
	for _, c := range needed {
		if err != nil || data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			missing = append(missing, c.name)
		}
	}
	return missing
}

// sudoInvoker returns who ran `sudo tollgate`; nil when this process is not root by way of sudo.
func (a *app) sudoInvoker() (*capture.Identity, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	who, err := capture.InvokingUser(a.env.get)
	if err != nil {
		return nil, fail(exitEnvironment, fmt.Errorf("find the user who ran sudo: %w", err), "unset SUDO_UID to measure as root")
	}
	return who, nil
}

// drop gives up root for good: from here on this process, the command it measures and the files it
// writes are the invoking user's. The collector has to be running by then.
func (a *app) drop(who *capture.Identity) error {
	if who == nil {
		return nil
	}
	uid, gid := int(who.Credential.Uid), int(who.Credential.Gid)
	groups := make([]int, len(who.Credential.Groups))
	for i, group := range who.Credential.Groups {
		groups[i] = int(group)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"groups", func() error { return syscall.Setgroups(groups) }},
		{"group", func() error { return syscall.Setresgid(gid, gid, gid) }},
		{"user", func() error { return syscall.Setresuid(uid, uid, uid) }},
	} {
		if err := step.do(); err != nil {
			return fail(exitEnvironment, fmt.Errorf("become user %d: set %s: %w", uid, step.name, err), "")
		}
	}
	a.env = who.Environ(a.env)
	return nil
}
