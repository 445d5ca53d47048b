package main

import (
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// scriptSignals is `signals SIGNAL CODE FIFO COMMAND...`: starts COMMAND, waits until something in it
// opens FIFO for writing, sends SIGNAL to COMMAND alone, and demands that it ends with CODE (-1: by
// the signal). COMMAND finds the FIFO's path in $FIFO.
func scriptSignals(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: signals SIGNAL CODE FIFO COMMAND...")
	}
	signal := unix.SignalNum("SIG" + args[0])
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	fifo := ts.MkAbs(args[2])
	ts.Check(unix.Mkfifo(fifo, 0o666))
	defer os.Remove(fifo)

	program, err := exec.LookPath(args[3])
	ts.Check(err)
	command := exec.Command(program, args[4:]...)
	command.Dir = ts.MkAbs(".")
	command.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "TMPDIR="+ts.Getenv("TMPDIR"), "PATH="+ts.Getenv("PATH"), "FIFO="+fifo)
	command.Stdout, command.Stderr = ts.Stdout(), ts.Stderr()
	// After a SIGKILL the measured command may live on and hold the streams.
	command.WaitDelay = 5 * time.Second
	ts.Check(command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	opened := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(fifo)
		opened <- err
	}()
	select {
	case err := <-opened:
		ts.Check(err)
	case <-ended:
		ts.Fatalf("%s ended before it opened %s", args[3], args[2])
	}
	ts.Check(command.Process.Signal(signal))
	<-ended
	if got := command.ProcessState.ExitCode(); got != want {
		ts.Fatalf("%s ended with exit code %d after SIG%s, want %d", args[3], got, args[0], want)
	}
}
