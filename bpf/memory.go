package bpf

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// mapArray maps an array map whose values are T. Its memory is unmapped by
// Close.
func mapArray[T any](s *Sampler, array *ebpf.Map) ([]T, error) {
	var value T
	size := int(unsafe.Sizeof(value))
	if size != int(array.ValueSize()) || size%8 != 0 {
		return nil, fmt.Errorf("map %s: values of %d bytes, want %d", array, array.ValueSize(), size)
	}
	page := os.Getpagesize()
	bytes := (size*int(array.MaxEntries()) + page - 1) / page * page
	memory, err := unix.Mmap(array.FD(), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", array, err)
	}
	s.memory = append(s.memory, memory)
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), array.MaxEntries()), nil
}

// flatten returns the rows of all chunks.
func flatten(chunks []samplerRowChunk) []uint32 {
	return unsafe.Slice(&chunks[0].Rows[0], len(chunks)*rowsPerChunk)
}

// monotonic returns the time in ns on CLOCK_MONOTONIC, which all records use.
func monotonic() uint64 {
	var now unix.Timespec
	// Fails only for an unknown clock.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return uint64(now.Nano())
}
