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

// array is an array map that user space only writes, and rarely. It is mapped
// for each write alone: the kernel populates a mapping when it is made, so that
// a lasting one would keep all of the array in the resident set.
type array[T any] struct {
	fd     int // -1 for memory that no kernel shares
	memory []T // of fd -1
	length int // entries
}

// newArray returns an array of the given number of entries in m, whose values
// hold one or more of them each.
func newArray[T any](m *ebpf.Map, length int) (array[T], error) {
	var entry T
	if bytes := int(m.ValueSize()) * int(m.MaxEntries()); m.ValueSize()%8 != 0 || bytes != length*int(unsafe.Sizeof(entry)) {
		return array[T]{}, fmt.Errorf("map %s: %d bytes are not %d entries", m, bytes, length)
	}
	return array[T]{fd: m.FD(), length: length}, nil
}

// edit calls write with the entries from first up to end.
func (a array[T]) edit(first, end uint32, write func(entries []T)) error {
	if first >= end {
		return nil
	}
	if a.fd < 0 {
		write(a.memory[first:end])
		return nil
	}
	var entry T
	size, page := int64(unsafe.Sizeof(entry)), int64(os.Getpagesize())
	from := int64(first) * size / page * page
	skip := int64(first)*size - from
	memory, err := unix.Mmap(a.fd, from, int(int64(end)*size-from), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map entries %d to %d: %w", first, end, err)
	}
	write(unsafe.Slice((*T)(unsafe.Pointer(&memory[skip])), end-first))
	return unix.Munmap(memory)
}

// monotonic returns the time in ns on CLOCK_MONOTONIC, which all records use.
func monotonic() uint64 {
	var now unix.Timespec
	// Fails only for an unknown clock.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return uint64(now.Nano())
}
