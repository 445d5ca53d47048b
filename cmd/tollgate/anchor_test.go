package main

import "testing"

func TestAnchorDoesTheSameWorkEachTime(t *testing.T) {
	a, b := newAnchor(), newAnchor()
	first := a.work()
	if again := a.work(); again != first {
		t.Errorf("second pass = %#x, first was %#x", again, first)
	}
	if other := b.work(); other != first {
		t.Errorf("another anchor = %#x, first was %#x", other, first)
	}
}

func TestAnchorMeasuresItsOwnCPUWithoutAllocating(t *testing.T) {
	a := newAnchor()
	var seconds float64
	allocs := testing.AllocsPerRun(1, func() {
		var err error
		if seconds, err = a.measure(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("measure allocates %v times a run, want none", allocs)
	}
	// Wide enough for a slow machine and for one under an emulator; the upper bound keeps the anchor
	// from costing more than the runs it surrounds.
	if seconds < 0.002 || seconds > 2 {
		t.Errorf("anchor took %.3f s of CPU, want about 0.05", seconds)
	}
}

func BenchmarkAnchor(b *testing.B) {
	a := newAnchor()
	for b.Loop() {
		a.work()
	}
}
