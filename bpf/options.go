// Package bpf samples all CPUs from inside the kernel and unwinds user stacks
// there. It is the sole owner of what the kernel programs and user space share.
//
// Needs kernel 6.1 with BTF.
package bpf

import (
	"fmt"
	"math/bits"
)

// Event is what makes a CPU take a sample.
type Event uint8

const (
	// CPUClock samples by a timer of the CPU. It works in every machine.
	CPUClock Event = iota
	// Cycles samples by the cycle counter, which sees code that runs with
	// interrupts disabled. It needs a PMU, which most virtual machines lack.
	Cycles
)

func (e Event) String() string {
	if e == Cycles {
		return "cycles"
	}
	return "cpu-clock"
}

// Limits and defaults of Options.
const (
	DefaultFrequency = 99
	MaxFrequency     = 10_000
	DefaultRows      = 4 << 20
	DefaultPages     = 64 << 10
	// MaxUserFrames is where the unwinding of a stack ends.
	MaxUserFrames = 1024
)

// Options tells Load how to sample. The zero value is useful.
type Options struct {
	Event     Event
	Frequency int // Hz per CPU; 0 is DefaultFrequency
	// MaxRows is the room for rows of unwind tables, 4 bytes each; 0 is
	// DefaultRows, other values are rounded up to 262,144.
	MaxRows int
	// RingBytes is the size of the ring buffer; 0 is a size by the number of
	// CPUs, other values are rounded up to a power of two.
	RingBytes int
	// Measure keeps the time that the program takes in Counters.Nanoseconds,
	// at the price of two clock readings a sample.
	Measure bool
	// CopyAll copies the stack of every sample, so that user space can unwind
	// it as well and compare.
	CopyAll bool
}

// Bounds of the ring buffer by default. A CPU at 4,999 Hz makes about 3 MB of
// records a second when stacks are 50 frames deep, so that user space may be
// late by some hundred milliseconds.
const (
	ringBytesPerCPU = 1 << 20
	minRingBytes    = 4 << 20
	maxRingBytes    = 64 << 20
)

// withDefaults fills in what is 0, for a machine of the given number of CPUs,
// and rounds.
func (o Options) withDefaults(cpus int) (Options, error) {
	if o.Frequency == 0 {
		o.Frequency = DefaultFrequency
	}
	if o.MaxRows == 0 {
		o.MaxRows = DefaultRows
	}
	if o.RingBytes == 0 {
		o.RingBytes = min(max(cpus*ringBytesPerCPU, minRingBytes), maxRingBytes)
	}
	if o.Frequency < 1 || o.Frequency > MaxFrequency {
		return o, fmt.Errorf("sample at %d Hz: not between 1 and %d", o.Frequency, MaxFrequency)
	}
	if o.Event > Cycles {
		return o, fmt.Errorf("sample by event %d: unknown", o.Event)
	}
	// More rows than 2^30 would overflow a page's first row.
	if o.MaxRows < 0 || o.MaxRows > 1<<30 {
		return o, fmt.Errorf("make room for %d rows: not between 1 and %d", o.MaxRows, 1<<30)
	}
	if o.RingBytes < 0 || o.RingBytes > 1<<30 {
		return o, fmt.Errorf("make a ring of %d bytes: not between 1 and %d", o.RingBytes, 1<<30)
	}
	o.MaxRows = (o.MaxRows + rowsPerChunk - 1) / rowsPerChunk * rowsPerChunk
	// Four of the largest samples fit into the smallest ring.
	o.RingBytes = max(1<<bits.Len(uint(o.RingBytes-1)), 64<<10)
	return o, nil
}
