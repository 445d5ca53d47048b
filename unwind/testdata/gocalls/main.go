// A Go program that stops itself at the bottom of the path its argument
// names, for a debugger to read its stack. It is linked with
// -checklinkname=0.
package main

import (
	"os"
	"runtime"
	"slices"
	_ "unsafe" // for go:linkname
)

//go:linkname systemstack runtime.systemstack
func systemstack(fn func())

var sink int

//go:noinline
func bottom() {
	runtime.Breakpoint()
	sink++
}

//go:noinline
func recurse(depth int) int {
	if depth == 0 {
		bottom()
		return sink
	}
	return recurse(depth-1) + depth
}

//go:noinline
func large(depth int) int {
	var block [3000]int
	for i := range block {
		block[i] = sink + depth
	}
	recurse(depth)
	return block[depth]
}

//go:noinline
func callback() {
	values := []int{3, 1, 2}
	slices.SortFunc(values, func(a, b int) int {
		bottom()
		return a - b
	})
}

//go:noinline
func switched() {
	systemstack(func() { bottom() })
	sink++
}

//go:noinline
func fault(p *int) {
	defer func() {
		recover()
		bottom()
	}()
	sink += *p
}

//go:noinline
func garbage() {
	bottom()
	runtime.GC()
	blocks := make(map[int][]byte)
	for i := range 100 {
		blocks[i] = make([]byte, 1000+sink)
	}
	runtime.Gosched()
}

func main() {
	switch os.Args[1] {
	case "recurse":
		recurse(40)
	case "large":
		large(5)
	case "callback":
		callback()
	case "goroutine":
		done := make(chan bool)
		go func() {
			recurse(5)
			close(done)
		}()
		<-done
	case "systemstack":
		switched()
	case "garbage":
		garbage()
	case "fault":
		fault(nil)
	}
}
