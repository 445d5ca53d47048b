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

// ring reads a BPF ring buffer in place. The kernel maps the data twice in a
// row, so that a record that wraps is contiguous.
type ring struct {
	consumerPage []byte
	producerPage []byte // and the data, twice
	consumer     *uint64
	producer     *uint64
	data         []byte
	mask         uint64
}

// newRing maps the ring buffer fd of size bytes.
func newRing(fd int, size int) (*ring, error) {
	page := os.Getpagesize()
	consumer, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring buffer: %w", err)
	}
	producer, err := unix.Mmap(fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
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
// record that is being written, and after limit bytes.
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
			visit(r.data[at+ringHeader : at+ringHeader+size])
		}
		position += (ringHeader + size + 7) &^ 7
	}
	return position
}

// release gives the space up to position back to the kernel.
func (r *ring) release(position uint64) { atomic.StoreUint64(r.consumer, position) }
