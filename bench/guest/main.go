// Command guest is the init process of a virtual machine that proves the
// sampler on another kernel or architecture: it records programs, checks their
// stacks, prints GUEST-EXIT and the number of failures, and powers off.
//
// scripts/test-kernel.sh builds the machine around it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/capture"
)

// program is what is recorded, and the stacks that its samples must have.
type program struct {
	path string
	// chain is the stack of most samples, from the leaf to the start.
	chain []string
	// special is a stack that some samples must have.
	special []string
	what    string // what is special
}

var programs = []program{
	{
		path:    "/workload",
		chain:   []string{"leaf", "inner", "middle", "outer", "main"},
		special: []string{"handler", "leaf", "inner", "middle", "outer", "main"}, what: "in a signal handler",
	},
	{
		path:    "/goworkload",
		chain:   []string{"main.inner", "main.middle", "main.outer", "main.main.func1", "runtime.goexit"},
		special: []string{"runtime.systemstack", "runtime.Stack", "main.trace", "main.inner", "main.middle", "main.outer", "main.main.func1", "runtime.goexit"}, what: "on the stack of the thread",
	},
}

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is the init process of a virtual machine")
		os.Exit(2)
	}
	// Libraries that looked at /proc before it was mounted keep a failure, so
	// the work is done by a fresh image.
	if os.Getenv("GUEST_MOUNTED") == "" {
		if err := mount(); err != nil {
			fmt.Println("guest:", err)
		}
		env := append(os.Environ(), "GUEST_MOUNTED=1", "PATH=/")
		fmt.Println("guest:", syscall.Exec("/init", []string{"/init"}, env))
	}
	failures := 0
	if err := check(); err != nil {
		// The verifier's last lines name the instruction; the message has the first.
		if verifier := (*ebpf.VerifierError)(nil); errors.As(err, &verifier) {
			fmt.Println(strings.Join(verifier.Log[max(0, len(verifier.Log)-60):], "\n"))
		}
		fmt.Println("guest: FAIL:", err)
		failures = 1
	}
	fmt.Printf("GUEST-EXIT %d\n", failures)
	unix.Sync()
	// The console is slower than the power switch.
	time.Sleep(200 * time.Millisecond)
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("guest:", err)
	}
	select {}
}

func mount() error {
	var failed error
	for target, kind := range map[string]string{"/proc": "proc", "/sys": "sysfs", "/dev": "devtmpfs", "/tmp": "tmpfs"} {
		if err := os.MkdirAll(target, 0o755); err != nil {
			failed = errors.Join(failed, err)
		}
		if err := unix.Mount(kind, target, kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			failed = errors.Join(failed, fmt.Errorf("mount %s: %w", target, err))
		}
	}
	return failed
}

// check records each program twice and checks the second run, whose tables are
// known from its first instruction.
func check() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		fmt.Printf("guest: %s %s\n", unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Machine[:]))
	}
	begin := time.Now()
	session, err := capture.Start(context.Background(), capture.Options{Frequency: 999})
	if err != nil {
		return fmt.Errorf("start sampling: %w", err)
	}
	defer session.Close()
	fmt.Printf("guest: ready after %d ms\n", time.Since(begin).Milliseconds())
	var failed []error
	run := uint32(0)
	for _, p := range programs {
		var last error
		for range 2 {
			run++
			if last = record(session, run, p); last != nil {
				fmt.Printf("guest: %s, run %d: %v\n", p.path, run, last)
			}
		}
		failed = append(failed, last)
	}
	return errors.Join(failed...)
}

func record(session *capture.Session, run uint32, p program) error {
	if err := session.Begin(run, uint32(os.Getpid())); err != nil {
		return err
	}
	cmd := exec.Command(p.path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := session.Disarm(run); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	prof, stats, err := session.End(run)
	if err != nil {
		return err
	}
	fmt.Printf("guest: %s, run %d: %d target samples, %d complete, %d of them later, %d not copied, %v truncated, %.3f CPU-s exact, %.3f sampled, %d lost\n",
		p.path, run, stats.TargetSamples, stats.Complete, stats.CompletedLater, stats.Uncopied, stats.Truncated, stats.CPUSeconds, stats.SampledSeconds, stats.Lost)
	return verify(prof, stats, p)
}

// verify wants most samples below the whole chain, some of them special, and
// complete.
func verify(prof *profile.Profile, stats capture.Stats, p program) error {
	var target, inChain, special int64
	for _, sample := range prof.Sample {
		if len(sample.Label["target"]) == 0 {
			continue
		}
		target += sample.Value[0]
		names := stack(sample)
		if follows(names, p.chain) {
			inChain += sample.Value[0]
		}
		if follows(names, p.special) {
			special += sample.Value[0]
		}
	}
	fmt.Printf("guest: %d target samples, %d below %s, %d of them %s\n", target, inChain, strings.Join(p.chain, " < "), special, p.what)
	switch {
	case target < 20:
		return fmt.Errorf("only %d target samples", target)
	case float64(inChain) < 0.9*float64(target):
		printStacks(prof)
		return fmt.Errorf("%d of %d samples have the whole stack", inChain, target)
	case special == 0:
		printStacks(prof)
		return fmt.Errorf("no sample %s has the stack below it", p.what)
	case float64(stats.Complete) < 0.9*float64(stats.TargetSamples):
		return fmt.Errorf("%d of %d samples are complete", stats.Complete, stats.TargetSamples)
	}
	return nil
}

func stack(sample *profile.Sample) []string {
	var names []string
	for _, location := range sample.Location {
		for _, line := range location.Line {
			names = append(names, line.Function.Name)
		}
	}
	return names
}

// follows tells whether want occurs in names in this order.
func follows(names, want []string) bool {
	for _, name := range names {
		if len(want) > 0 && name == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

func printStacks(prof *profile.Profile) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for i, sample := range prof.Sample {
		if len(sample.Label["target"]) > 0 && i < 40 {
			fmt.Fprintf(out, "guest: %d %s\n", sample.Value[0], strings.Join(stack(sample), " < "))
		}
	}
}
