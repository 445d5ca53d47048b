package capture

import (
	"io"
	"testing"

	"github.com/tollgate-dev/tollgate/bpf"
)

// benchSample is sample i of a target with 26 frames and 200 distinct stacks.
func benchSample(i int, r *bpf.Sample) {
	frames := r.UserFrames[:0]
	for depth := range 26 {
		frames = append(frames, bpf.Frame(uint64(1)<<fileShift|uint64(0x1000+depth*64+(i%200)*4)))
	}
	*r = bpf.Sample{Time: later(), PID: 10, TID: 10 + uint32(i%4), CPU: uint32(i % 2), Run: 1, Comm: "worker", UserFrames: frames}
}

func benchSession(b *testing.B) *Session {
	f := newFakeSampler()
	s := startWith(b.Context(), Options{Event: EventCPUClock, Frequency: 999}, f, b.TempDir(), func() {})
	b.Cleanup(func() { s.Close() })
	if err := s.Begin(1, 7); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkSample is the collector's own cost of a sample after the ring.
func BenchmarkSample(b *testing.B) {
	s := benchSession(b)
	var r bpf.Sample
	s.mu.Lock()
	defer s.mu.Unlock()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		benchSample(i, &r)
		s.sample(&r)
	}
}

// BenchmarkFinish makes and encodes the profile of 10 s at 999 Hz.
func BenchmarkFinish(b *testing.B) {
	for b.Loop() {
		s := benchSession(b)
		var r bpf.Sample
		s.mu.Lock()
		for i := range 9990 {
			benchSample(i, &r)
			s.sample(&r)
		}
		s.mu.Unlock()
		p, _, err := s.End(1)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
