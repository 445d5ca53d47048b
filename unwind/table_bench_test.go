package unwind

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// BenchmarkNewTable measures the compilation of .eh_frame: MB/s are those of
// the section, and cpu-MB/s the same by the thread's CPU time, which other
// load on the machine disturbs less. TOLLGATE_BENCH_ELF adds a file.
func BenchmarkNewTable(b *testing.B) {
	paths := []string{
		"/usr/lib/x86_64-linux-gnu/libc.so.6",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
	}
	if path := os.Getenv("TOLLGATE_BENCH_ELF"); path != "" {
		paths = append(paths, path)
	}
	for _, path := range paths {
		b.Run(filepath.Base(path), func(b *testing.B) {
			f, err := safeelf.Open(path)
			if err != nil {
				b.Skipf("no such file on this machine: %v", err)
			}
			defer f.Close()
			rules := NewRuleSet()
			table, err := NewTable(f, rules) // reads the file into the page cache
			if err != nil {
				b.Fatal(err)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := threadTime(b)
			for b.Loop() {
				if table, err = NewTable(f, rules); err != nil {
					b.Fatal(err)
				}
			}
			seconds := threadTime(b) - start
			b.SetBytes(int64(table.Stats.CFIBytes))
			b.ReportMetric(float64(table.Stats.CFIBytes)*float64(b.N)/seconds/1e6, "cpu-MB/s")
			b.ReportMetric(float64(len(table.Rows)), "rows")
			bytes := 4*len(table.Rows) + 8*len(table.Pages)
			b.ReportMetric(float64(bytes)/float64(len(table.Rows)), "B/row")
			b.ReportMetric(float64(table.Stats.FDEs), "FDEs")
		})
	}
}

// threadTime returns the CPU time of the calling thread in seconds.
func threadTime(b *testing.B) float64 {
	b.Helper()
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &time); err != nil {
		b.Fatal(err)
	}
	return float64(time.Nano()) / 1e9
}
