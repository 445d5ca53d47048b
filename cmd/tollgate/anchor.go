package main

import (
	"fmt"
	"math/bits"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	anchorWords  = 1 << 17 // 1 MiB: more than a first-level cache, within a second-level one
	anchorRounds = 8 << 20
)

// anchor is the calibration kernel: a fixed piece of work that runs around every measured run. Its
// CPU time says how fast the machine was just then; a program that got slower together with the
// anchor met a slower machine.
type anchor struct {
	table []uint64
}

func newAnchor() *anchor {
	a := &anchor{table: make([]uint64, anchorWords)}
	x := uint64(0x9e3779b97f4a7c15)
	for i := range a.table {
		x = scramble(x)
		a.table[i] = x
	}
	return a
}

// measure runs the work once and returns the CPU time it took, in seconds of this thread. The work
// allocates nothing, calls nothing and is the same each time: half arithmetic, half dependent loads,
// as programs are.
func (a *anchor) measure() (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, err := threadCPU()
	if err != nil {
		return 0, err
	}
	if a.work() == 0 {
		// Never happens; it keeps the compiler from dropping the work.
		return 0, fmt.Errorf("run calibration kernel: no result")
	}
	end, err := threadCPU()
	if err != nil {
		return 0, err
	}
	return float64(end-start) / 1e9, nil
}

func (a *anchor) work() uint64 {
	x, sum := uint64(1), uint64(1)
	for range anchorRounds {
		x = scramble(x ^ a.table[x&(anchorWords-1)])
		sum += bits.RotateLeft64(x, 17) ^ sum>>3
	}
	return sum | 1
}

// scramble is one step of xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift
// generators, scrambled").
func scramble(x uint64) uint64 {
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	return x * 0x2545f4914f6cdd1d
}

// threadCPU reads the CPU time of the calling thread in nanoseconds.
func threadCPU() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("read thread CPU clock: %w", err)
	}
	return ts.Nano(), nil
}
