package main

import "testing"

func TestScheduleBlocksAreBalanced(t *testing.T) {
	s := newSchedule(7)
	starts := map[side]int{}
	for block := range 200 {
		a, b := s.next(), s.next()
		if a[0] == a[1] || b[0] == b[1] {
			t.Fatalf("block %d: a pair runs one side twice: %v %v", block, a, b)
		}
		if a[0] != b[1] || a[1] != b[0] {
			t.Fatalf("block %d = %v %v, want ABBA or BAAB", block, a, b)
		}
		starts[a[0]]++
	}
	// 200 fair draws stay within 6 standard deviations of 100 for any honest seed.
	if starts[base] < 58 || starts[base] > 142 {
		t.Errorf("base opens %d of 200 blocks, want about half", starts[base])
	}
}

func TestScheduleFollowsItsSeed(t *testing.T) {
	order := func(seed uint64) (out [64]side) {
		s := newSchedule(seed)
		for i := range out {
			out[i] = s.next()[0]
		}
		return out
	}
	first, again, other := order(1), order(1), order(2)
	if first != again {
		t.Error("one seed gave two orders")
	}
	if first == other {
		t.Error("two seeds gave one order")
	}
}
