// A program for scripts/test-kernel.sh: it spins four calls deep in a
// goroutine, half of the time in the runtime, which changes to the stack of its
// thread for that.
package main

import (
	"fmt"
	"runtime"
)

var sink uint64

//go:noinline
func leaf(n int) uint64 {
	x := uint64(88172645463325252)
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// trace spends its time below runtime.systemstack.
//
//go:noinline
func trace(n int) uint64 {
	var text [4096]byte
	sum := 0
	for range n {
		sum += runtime.Stack(text[:], false)
	}
	return uint64(sum)
}

//go:noinline
func inner(n int) uint64 { return leaf(50*n) + trace(n/100) + sink }

//go:noinline
func middle(n int) uint64 {
	sum := uint64(0)
	for range 8 {
		sum += inner(n)
	}
	return sum
}

//go:noinline
func outer(n int) uint64 { return middle(n) ^ sink }

func main() {
	done := make(chan bool)
	go func() {
		for range 2 {
			sink += outer(10000)
		}
		done <- true
	}()
	<-done
	fmt.Println("goworkload:", sink&1)
}
