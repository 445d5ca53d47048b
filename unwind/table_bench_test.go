package unwind

import (
	"os"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// BenchmarkNewTable measures compilation of .eh_frame; MB/s are those of the
// section. TOLLGATE_BENCH_ELF adds a file.
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
		b.Run(path, func(b *testing.B) {
			f, err := safeelf.Open(path)
			if err != nil {
				b.Skipf("no such file on this machine: %v", err)
			}
			defer f.Close()
			var table *Table
			for b.Loop() {
				if table, err = NewTable(f, NewRuleSet()); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(table.Stats.CFIBytes))
			b.ReportMetric(float64(len(table.Rows)), "rows")
			bytes := 4*len(table.Rows) + 8*len(table.Pages)
			b.ReportMetric(float64(bytes)/float64(len(table.Rows)), "B/row")
			b.ReportMetric(float64(table.Stats.FDEs), "FDEs")
		})
	}
}
