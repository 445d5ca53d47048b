package bpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flags in the length of a record, and the size of its header
// (BPF_RINGBUF_BUSY_BIT and others, uapi/linux/bpf.h).
const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
)

// ring reads a BPF ring buffer in place. The kernel offers the data twice in a
// row, so that a record that wraps is contiguous; mapping it once takes half
// of the resident memory, and one record a turn has to be put together.
type ring struct {
	consumerPage []byte
	producerPage []byte // and the data
	consumer     *uint64
	producer     *uint64
	data         []byte
	mask         uint64
	wrapped      []byte // the record that wraps, put together
}

// newRing maps the ring buffer fd of size bytes.
func newRing(fd int, size int) (*ring, error) {
	page := os.Getpagesize()
	consumer, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring buffer: %w", err)
	}
	producer, err := unix.Mmap(fd, int64(page), page+size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(consumer)
		return nil, fmt.Errorf("map ring buffer: %w", err)
	}
	return &ring{
		consumerPage: consumer, producerPage: producer,
		consumer: (*uint64)(unsafe.Pointer(&consumer[0])),
		producer: (*uint64)(unsafe.Pointer(&producer[0])),
		data:     producer[page:], mask: uint64(size) - 1,
	}, nil
}

func (r *ring) close() {
	unix.Munmap(r.consumerPage)
	unix.Munmap(r.producerPage)
}

// end returns the position behind the last record.
func (r *ring) end() uint64 { return atomic.LoadUint64(r.producer) }

// records calls visit for the complete records from the consumer's position up
// to end, and returns the position behind the last one. It stops early at a
// record that is being written, and after limit bytes. What visit gets is valid
// until release.
func (r *ring) records(end, limit uint64, visit func(data []byte)) uint64 {
	start := atomic.LoadUint64(r.consumer)
	position := start
	for position < end && position-start < limit {
		at := position & r.mask
		length := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if length&ringBusy != 0 {
			break
		}
		size := uint64(length &^ (ringBusy | ringDiscard))
		if length&ringDiscard == 0 {
			visit(r.bytes(at+ringHeader, size))
		}
		position += (ringHeader + size + 7) &^ 7
	}
	return position
}

// bytes returns size bytes from at on, which may be the end of the data.
func (r *ring) bytes(at, size uint64) []byte {
	at &= r.mask // the header may end with the data
	if at+size <= uint64(len(r.data)) {
		return r.data[at : at+size]
	}
	r.wrapped = append(append(r.wrapped[:0], r.data[at:]...), r.data[:at+size-uint64(len(r.data))]...)
	return r.wrapped
}

// release gives the space up to position back to the kernel.
func (r *ring) release(position uint64) { atomic.StoreUint64(r.consumer, position) }
