package symbol

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkLines measures lookups of random addresses in a C++ program, or in
// the file that TOLLGATE_BENCH_BINARY names with debug files below
// TOLLGATE_BENCH_DEBUG.
//
// Cold: 1,000 addresses of a file just opened. Warm: one address of a file in
// which all were looked up before.
func BenchmarkLines(b *testing.B) {
	program := os.Getenv("TOLLGATE_BENCH_BINARY")
	options := Options{DebugDirs: []string{os.Getenv("TOLLGATE_BENCH_DEBUG")}}
	if program == "" {
		dir := b.TempDir()
		run(b, dir, "g++ -std=c++17 -O2 -g -o program $T/shapes.cc")
		program = filepath.Join(dir, "program")
	}
	const batch = 1000
	addrs := sampleVaddrs(b, program, batch)
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			binary, err := Open(program, options)
			if err != nil {
				b.Fatal(err)
			}
			for _, addr := range addrs {
				binary.Lines(addr)
			}
			binary.Close()
		}
		b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "addr/s")
	})
	b.Run("warm", func(b *testing.B) {
		binary := open(b, program, options)
		for _, addr := range addrs {
			binary.Lines(addr)
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			binary.Lines(addrs[i%batch])
			i++
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "addr/s")
	})
}
