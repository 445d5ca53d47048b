package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

// burn is the measured program of the scripts: `burn MS [CODE]` uses that many milliseconds of CPU,
// then ends with CODE.
func burn() {
	ms, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "usage: burn MS [CODE]")
		os.Exit(64)
	}
	spin(time.Duration(ms) * time.Millisecond)
	if len(os.Args) > 2 {
		code, _ := strconv.Atoi(os.Args[2])
		os.Exit(code)
	}
}

// spin works until it has used d of CPU time, whatever else runs on the machine.
func spin(d time.Duration) uint64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := newAnchor()
	start, err := threadCPU()
	x := uint64(1)
	for err == nil {
		for range 1 << 12 {
			x = scramble(x ^ a.table[x&(anchorWords-1)])
		}
		var now int64
		if now, err = threadCPU(); now-start >= int64(d) {
			break
		}
	}
	return x
}
