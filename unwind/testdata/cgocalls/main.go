// A program whose stack goes from Go through C to Go and to C again, where it
// stops itself for a debugger to read the stack.
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
extern void goCallback(int);

static __attribute__((noinline)) void c_bottom(void) {
	__asm__ volatile("int3");
}

static __attribute__((noinline)) int c_recurse(int depth, volatile int *sink) {
	if (depth == 0)
		goCallback(1);
	else
		c_recurse(depth - 1, sink);
	return *sink += depth;
}

static __attribute__((noinline)) int c_enter(int depth) {
	volatile int sink = 0;
	return c_recurse(depth, &sink) + sink;
}
*/
import "C"

import "os"

//export goCallback
func goCallback(n C.int) {
	C.c_bottom()
}

//go:noinline
func callC() {
	C.c_enter(5)
}

//go:noinline
func callLeaf() {
	C.c_bottom()
}

func main() {
	if len(os.Args) > 1 {
		callLeaf()
	}
	callC()
}
