package bpf

import (
	"fmt"
	"testing"
	"time"
)

// ready is the time from nothing to sampling.
func BenchmarkLoad(b *testing.B) {
	requirePrivileges(b)
	for b.Loop() {
		s, err := Load(Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Enable(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// What one sample costs in the kernel, by number of user frames. The two clock
// readings that measure it are part of it.
func BenchmarkSample(b *testing.B) {
	s := load(b, Options{Frequency: 4999, Measure: true})
	r := newResolver(b, s)
	program := build(b, "stacks.c")
	for _, depth := range []int{1, 20, 120, 500, 1000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			r.t = b
			_, run := start(b, s, program, "recurse", fmt.Sprint(depth))
			complete := 0
			sampleUntil(b, s, r, run, func(sample *Sample) bool {
				if sample.Reason == 0 {
					complete++
				}
				return complete == 10
			})
			before, err := s.Cost(run)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := s.Enable(); err != nil {
					b.Fatal(err)
				}
				for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
					s.Wait(20 * time.Millisecond)
					s.Drain(func(Record) {})
				}
				if err := s.Disable(); err != nil {
					b.Fatal(err)
				}
			}
			after, err := s.Cost(run)
			if err != nil {
				b.Fatal(err)
			}
			samples := float64(after.Samples - before.Samples)
			b.ReportMetric(float64(after.Nanoseconds-before.Nanoseconds)/samples, "ns/sample")
			b.ReportMetric(float64(after.Frames-before.Frames)/samples, "frames/sample")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// Upload of a table of a million rows.
func BenchmarkLoadTable(b *testing.B) {
	s := load(b, Options{})
	rows := make([]uint32, 1<<20)
	var pages []Page
	for first := 0; first < len(rows); first += 1 << 12 {
		pages = append(pages, Page{uint32(first), 1 << 12})
	}
	for b.Loop() {
		ref, err := s.LoadTable(rows, pages)
		if err != nil {
			b.Fatal(err)
		}
		s.tables.mu.Lock()
		s.tables.pgSpace.release(ref.pages)
		s.tables.rowSpace.release(*ref.rows...)
		s.tables.mu.Unlock()
	}
}
