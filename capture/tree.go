package capture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is the running command with its descendants, as the client sees it.
type tree struct {
	client *Client
	run    uint32
	root   *os.Process
	waited chan error
	grace  time.Duration

	ended   time.Time // when the root was reaped; zero before
	waitErr error
}

// wait returns when the command ended by itself or was stopped. The error is
// for a run that has no result.
func (t *tree) wait(ctx context.Context, timeout time.Duration, signals <-chan os.Signal, result *RunResult) error {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	for {
		select {
		case err := <-t.waited:
			t.reaped(err)
			return nil
		case received := <-signals:
			result.Interrupted = received.(syscall.Signal)
			// SIGTERM never comes from a terminal. The others do where there
			// is one, and then the command has got them, too.
			if received == unix.SIGTERM || !inForeground() {
				_ = t.root.Signal(received) // it may have ended just now
			}
		case <-expired:
			result.TimedOut = true
			return t.stop()
		case <-ctx.Done():
			return both(fmt.Errorf("run: %w", context.Cause(ctx)), t.stop())
		case <-t.client.gone:
			// Nothing will come of this run: do not make the user wait.
			return both(t.client.died("the run"), t.stop())
		}
	}
}

func (t *tree) reaped(err error) { t.ended, t.waitErr = time.Now(), err }

// stop sends SIGTERM to every process of the tree, and SIGKILL to those left
// after the grace period. It returns when none is left.
func (t *tree) stop() error {
	const poll, killPatience = 20 * time.Millisecond, 5 * time.Second
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for _, step := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{{unix.SIGTERM, t.grace}, {unix.SIGKILL, killPatience}} {
		deadline := time.Now().Add(step.patience)
		signalled := map[int]bool{}
		for time.Now().Before(deadline) {
			left := t.members()
			for _, pid := range left {
				// Once each, but also those forked in the meantime.
				if !signalled[pid] {
					unix.Kill(pid, step.signal)
					unix.Kill(pid, unix.SIGCONT) // a stopped process ends only when continued
					signalled[pid] = true
				}
			}
			if len(left) == 0 && !t.ended.IsZero() {
				return nil
			}
			select {
			case err := <-t.waited:
				t.reaped(err)
				t.waited = nil
			case <-tick.C:
			}
		}
	}
	if t.ended.IsZero() {
		return newError(CodeInternal, fmt.Errorf("run: process %d does not end after SIGKILL", t.root.Pid), "")
	}
	return nil
}

// members returns the live processes of the tree. The collector knows also
// those whose parents are gone; without it only descendants are found.
func (t *tree) members() []int {
	select {
	case <-t.client.gone:
	default:
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if answer, err := t.client.call(ctx, request{Op: opMembers, Run: t.run}); err == nil {
			var pids []int
			for _, pid := range answer.Members {
				pids = append(pids, int(pid))
			}
			return pids
		}
	}
	if !t.ended.IsZero() {
		return nil // its process ID may be another's by now
	}
	return descendants("/proc", t.root.Pid)
}

// descendants returns pid and the processes below it that are not zombies.
func descendants(procRoot string, pid int) []int {
	entries, err := os.ReadDir(procRoot)
	if err != nil {
		return []int{pid}
	}
	children := map[int][]int{}
	zombie := map[int]bool{}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := readStat(filepath.Join(procRoot, entry.Name(), "stat"))
		if err != nil { // it ended while the list was read
			continue
		}
		children[int(stat.parent)] = append(children[int(stat.parent)], child)
		zombie[child] = stat.state == 'Z' || stat.state == 'X'
	}
	var out []int
	for todo := []int{pid}; len(todo) > 0; {
		at := todo[0]
		todo = append(todo[1:], children[at]...)
		if !zombie[at] {
			out = append(out, at)
		}
	}
	return out
}
