package capture

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// collectorNice is the priority of the collector's threads, apart from the
// few that are urgent: every unit gives the target about 1.25 times the weight.
const collectorNice = 5

// highest is the offset of the system call's result, which is 20-nice
// (getpriority(2), "C library/kernel differences").
const highest = 20

// urgent returns a function that gives the calling goroutine a thread of its
// own with the priority this process was started with. It is for the
// goroutines between a miss and the table in the kernel: they take little CPU,
// but until they are done the stacks of the missed file are cut short, and at
// a low priority a busy machine makes a table of 10 ms take 100.
func urgent() func() {
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return func() {
		if err != nil {
			return
		}
		runtime.LockOSThread()
		// Without the privilege to raise it the priority stays low.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, highest-priority)
	}
}

// lowerPriority sets the nice value of every thread of this process; Linux
// keeps it per thread, and threads to come inherit it.
func lowerPriority(taskDir string, nice int) error {
	entries, err := os.ReadDir(taskDir)
	if err != nil {
		return fmt.Errorf("lower priority: %w", err)
	}
	for _, entry := range entries {
		tid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// Who started the collector with a lower priority still wants it.
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && highest-now >= nice {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("lower priority of thread %d: %w", tid, err)
		}
	}
	return nil
}
