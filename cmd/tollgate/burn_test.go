package main

import (
	"fmt"
	"math/bits"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// burn is the measured program of the scripts: `burn MS [CODE [PLANTED]]` uses that many milliseconds
// of CPU in five functions of equal share, PLANTED ms more in the function planted, then ends with CODE.
func burn() {
	var numbers [3]int // MS, CODE, PLANTED
	for i, arg := range os.Args[1:] {
		n, err := strconv.Atoi(arg)
		if err != nil || i >= len(numbers) {
			fmt.Fprintln(os.Stderr, "usage: burn MS [CODE [PLANTED]]")
			os.Exit(64)
		}
		numbers[i] = n
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	share := time.Duration(numbers[0]) * time.Millisecond / 5
	x := multiply(share) ^ rotate(share) ^ shift(share) ^ divide(share)
	x ^= planted(share + time.Duration(numbers[2])*time.Millisecond)
	if x == 0 { // keeps the work from being dropped
		fmt.Println()
	}
	os.Exit(numbers[1])
}

// deadline ends loops after an amount of CPU time of this thread, whatever else runs on the machine.
type deadline int64

func after(d time.Duration) deadline {
	now, err := threadCPU()
	if err != nil {
		panic(err)
	}
	return deadline(now + int64(d))
}

func (d deadline) reached() bool {
	now, err := threadCPU()
	return err != nil || now >= int64(d)
}

const burnStride = 1 << 15 // steps between two looks at the clock

//go:noinline
func multiply(d time.Duration) uint64 {
	x := uint64(1)
	for end := after(d); !end.reached(); {
		for range burnStride {
			x = x*0x2545f4914f6cdd1d + 1
		}
	}
	return x
}

//go:noinline
func rotate(d time.Duration) uint64 {
	x := uint64(1)
	for end := after(d); !end.reached(); {
		for range burnStride {
			x = bits.RotateLeft64(x, 7) ^ x + 3
		}
	}
	return x
}

//go:noinline
func shift(d time.Duration) uint64 {
	x := uint64(1)
	for end := after(d); !end.reached(); {
		for range burnStride {
			x ^= x<<13 ^ x>>7
		}
	}
	return x
}

//go:noinline
func divide(d time.Duration) uint64 {
	x := ^uint64(0)
	for end := after(d); !end.reached(); {
		for range burnStride / 8 {
			x = x/3 + ^uint64(0)>>1
		}
	}
	return x
}

//go:noinline
func planted(d time.Duration) uint64 {
	x := uint64(1)
	for end := after(d); !end.reached(); {
		for range burnStride {
			x = x + x>>5 ^ 0x55
		}
	}
	return x
}

// linger is the measured program of scripts about signals: its second run says that it is there by
// opening the FIFO ready, waits for SIGINT or SIGTERM, notes its end and ends with 0. (A shell will
// not do: dash loses a signal that arrives just before its wait.)
func linger() {
	runtime.LockOSThread()
	shift(30 * time.Millisecond)
	runs, err := os.OpenFile("count", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = runs.WriteString("x")
	}
	if info, statErr := os.Stat("count"); err == nil && statErr == nil && info.Size() != 2 {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if err == nil {
		err = os.WriteFile("lingering", []byte(strconv.Itoa(os.Getpid())), 0o666)
	}
	if err == nil {
		err = os.WriteFile("ready", nil, 0o666)
	}
	if err == nil {
		<-signals
		err = os.WriteFile("command-ended", nil, 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
}
