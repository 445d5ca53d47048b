package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
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

// linger is the measured program of scripts about signals: its second run says that it is there by
// opening the FIFO ready, waits for SIGINT or SIGTERM, notes its end and ends with 0. (A shell will
// not do: dash loses a signal that arrives just before its wait.)
func linger() {
	spin(30 * time.Millisecond)
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
