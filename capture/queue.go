package capture

// queue is a bounded queue of two classes.
type queue[T any] struct{ first, second chan T }

const maxQueue = 1 << 12

func newQueue[T any]() queue[T] {
	return queue[T]{make(chan T, maxQueue), make(chan T, maxQueue)}
}

// put appends without waiting; it returns false when the queue is full.
func (q queue[T]) put(item T, first bool) bool {
	to := q.second
	if first {
		to = q.first
	}
	select {
	case to <- item:
		return true
	default:
		return false
	}
}

// take waits for an item, of the first class if there is one; ok is false
// when quit was closed.
func (q queue[T]) take(quit <-chan struct{}) (item T, ok bool) {
	select {
	case <-quit:
		return item, false
	case item = <-q.first:
		return item, true
	default:
	}
	select {
	case <-quit:
		return item, false
	case item = <-q.first:
	case item = <-q.second:
	}
	return item, true
}
