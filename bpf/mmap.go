package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmapRingPages is the size of each CPU's ring of mapping records, a power of
// two. A process of ten libraries makes about 1.5 KB of records.
const mmapRingPages = 32

// mmapRing reads the mapping records (PERF_RECORD_MMAP2) of one CPU.
type mmapRing struct {
	event  perfEvent
	memory []byte
	meta   *unix.PerfEventMmapPage
	data   []byte
	record []byte // a record that wraps, put together
}

// openMmapRings makes each CPU record the executable mappings that are made on
// it. The event is one that never counts.
func openMmapRings(cpus []int) ([]*mmapRing, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitSampleIDAll |
			unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Wakeup:  uint32(mmapRingPages * os.Getpagesize() / 2), // bytes
		Clockid: unix.CLOCK_MONOTONIC,
	}
	var rings []*mmapRing
	for _, cpu := range cpus {
		ring, err := openMmapRing(&attr, cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // the CPU went offline in the meantime
		}
		if err != nil {
			for _, ring := range rings {
				ring.close()
			}
			return nil, fail(fmt.Sprintf("open mapping records of cpu %d", cpu), err)
		}
		rings = append(rings, ring)
	}
	return rings, nil
}

func openMmapRing(attr *unix.PerfEventAttr, cpu int) (*mmapRing, error) {
	fd, err := openEvent(attr, cpu)
	if err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	memory, err := unix.Mmap(fd, 0, (1+mmapRingPages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &mmapRing{
		event: perfEvent{cpu, fd}, memory: memory,
		meta: (*unix.PerfEventMmapPage)(unsafe.Pointer(&memory[0])), data: memory[page:],
	}, nil
}

func (r *mmapRing) close() {
	unix.Munmap(r.memory)
	unix.Close(r.event.fd)
}

// read calls visit for each record and gives its space back to the kernel.
func (r *mmapRing) read(visit func(kind uint32, misc uint16, record []byte)) {
	const header = 8
	head, tail := atomic.LoadUint64(&r.meta.Data_head), r.meta.Data_tail
	mask := uint64(len(r.data) - 1)
	for tail < head {
		at := tail & mask
		kind := binary.NativeEndian.Uint32(r.data[at:])
		misc := binary.NativeEndian.Uint16(r.data[at+4:])
		size := uint64(binary.NativeEndian.Uint16(r.data[at+6:]))
		if size < header {
			break
		}
		record := r.data[at:min(at+size, uint64(len(r.data)))]
		if uint64(len(record)) < size {
			r.record = append(append(r.record[:0], record...), r.data[:size-uint64(len(record))]...)
			record = r.record
		}
		visit(kind, misc, record[header:])
		tail += size
	}
	atomic.StoreUint64(&r.meta.Data_tail, head)
}

// miscCommExec marks a PERF_RECORD_COMM that stands for an execve
// (PERF_RECORD_MISC_COMM_EXEC, uapi/linux/perf_event.h).
const miscCommExec = 1 << 13

// parseComm reads the body of a PERF_RECORD_COMM: pid, tid, name, and the
// sample id of openMmapRings. ok is false when it is no execve.
func parseComm(misc uint16, body []byte) (image Image, ok bool) {
	const trailer = 24
	if misc&miscCommExec == 0 || len(body) < 8+trailer {
		return image, false
	}
	return Image{
		Time: binary.NativeEndian.Uint64(body[len(body)-trailer+8:]),
		PID:  binary.NativeEndian.Uint32(body),
	}, true
}

// parseMmap reads the body of a PERF_RECORD_MMAP2 whose sample id is that of
// openMmapRings.
func parseMmap(body []byte) (Mmap, bool) {
	const fixed, trailer = 64, 24 // up to the path; pid, tid, time, cpu
	if len(body) < fixed+trailer {
		return Mmap{}, false
	}
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(body[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(body[at:]) }
	path, _, _ := bytes.Cut(body[fixed:len(body)-trailer], []byte{0})
	mmap := Mmap{
		Time: u64(len(body) - trailer + 8),
		PID:  u32(0), TID: u32(4),
		Mapping: Mapping{
			Start: u64(8), End: u64(8) + u64(16), Offset: u64(24),
			Key: FileKey{Ino: u64(40), Dev: u32(32)<<20 | u32(36), Gen: uint32(u64(48))},
		},
		Prot: u32(56), Path: string(path),
	}
	if mmap.Path == "[vdso]" {
		mmap.Mapping.Key, mmap.Mapping.Offset = VDSO(), 0
	}
	return mmap, true
}
