package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"os"
)

// workloadSource spins under a stack of a given depth, without frame pointers,
// and tells the CPU time that a fixed amount of work took.
const workloadSource = `
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sink;
static __attribute__((noinline)) unsigned long spin(unsigned long n) {
  unsigned long x = 88172645463325252UL;
  for (unsigned long i = 0; i < n; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
  return x;
}
static __attribute__((noinline)) unsigned long descend(int depth, unsigned long n) {
  unsigned long local[4] = {n, n + 1, n + 2, n + 3};
  __asm__ volatile("" : : "r"(local) : "memory");
  unsigned long x = depth > 0 ? descend(depth - 1, n) : spin(n);
  __asm__ volatile("" : : "r"(local) : "memory");
  return x + local[depth & 3];
}
int main(int argc, char **argv) {
  int depth = atoi(argv[1]);
  unsigned long n;
  while (scanf("%lu", &n) == 1) {
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    sink = descend(depth, n);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    printf("%ld\n", (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec);
    fflush(stdout);
  }
}
`

// buildWorkload compiles the workload and returns its path.
func buildWorkload(dir string) (string, error) {
	source := filepath.Join(dir, "workload.c")
	binary := filepath.Join(dir, "workload")
	if err := os.WriteFile(source, []byte(workloadSource), 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-o", binary, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the workload: %w: %s", err, out)
	}
	return binary, nil
}

// workload is a process that does a fixed amount of work on request.
type workload struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies *bufio.Scanner
}

// startWorkload starts the workload on the last CPU, below depth frames of its
// own, main and the C library's start code.
func startWorkload(binary string, depth int) (*workload, error) {
	cmd := exec.Command("taskset", "-c", lastCPU(), binary, strconv.Itoa(depth))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the workload: %w", err)
	}
	return &workload{cmd: cmd, in: in, replies: bufio.NewScanner(out)}, nil
}

// do spins n times and returns the CPU time it took in nanoseconds.
func (w *workload) do(n int) (float64, error) {
	if _, err := fmt.Fprintln(w.in, n); err != nil {
		return 0, fmt.Errorf("ask the workload: %w", err)
	}
	if !w.replies.Scan() {
		return 0, fmt.Errorf("read the workload's reply: %w", io.ErrUnexpectedEOF)
	}
	return strconv.ParseFloat(w.replies.Text(), 64)
}

func (w *workload) close() error {
	if err := w.in.Close(); err != nil {
		return err
	}
	return w.cmd.Wait()
}

// iterations returns how many spins take about nanoseconds of CPU.
func (w *workload) iterations(nanoseconds float64) (int, error) {
	const probe = 5_000_000
	if _, err := w.do(probe); err != nil { // pages and clocks warm
		return 0, err
	}
	took, err := w.do(probe)
	if err != nil {
		return 0, err
	}
	return int(probe * nanoseconds / took), nil
}

// lastCPU is the highest online CPU, for taskset.
func lastCPU() string {
	data, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return "0"
	}
	fields := strings.FieldsFunc(strings.TrimSpace(string(data)), func(r rune) bool { return r == ',' || r == '-' })
	return fields[len(fields)-1]
}
