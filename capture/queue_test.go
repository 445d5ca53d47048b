package capture

import "testing"

func TestQueueServesTheFirstClassFirstAndIsBounded(t *testing.T) {
	q := newQueue[int]()
	quit := make(chan struct{})
	q.put(1, false)
	q.put(2, true)
	q.put(3, true)
	for _, want := range []int{2, 3, 1} {
		if got, ok := q.take(quit); got != want || !ok {
			t.Fatalf("took %d, %v, want %d", got, ok, want)
		}
	}
	n := 0
	for q.put(n, false) {
		n++
	}
	if n != maxQueue {
		t.Errorf("queue took %d items, want %d", n, maxQueue)
	}
	close(quit)
	if _, ok := q.take(quit); ok {
		t.Error("took an item after quit")
	}
}
