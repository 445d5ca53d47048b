package bpf

import (
	"cmp"
	"slices"
	"unsafe"
)

// drain is what Drain keeps between calls, so that it allocates nothing.
type drain struct {
	batch   []timed
	mmaps   []mapRecord // read, and not handed out yet
	lost    uint64      // mapping records
	sample  Sample
	process ProcessEvent
	miss    Mapping
	image   Image
	stacks  map[uint32]*stackCopy // by CPU
	names   map[[16]int8]string
}

// mapRecord is a record of perf's rings.
type mapRecord struct {
	Mmap
	image bool // it is an Image, of which Mmap holds Time and PID
}

// timed is a record in the ring.
type timed struct {
	time uint64
	data []byte
}

// maxNames bounds the thread names that are kept as strings.
const maxNames = 4096

// Drain calls handle for all records there are, in the order of time. A record
// is valid only during the call.
func (s *Sampler) Drain(handle func(Record)) error {
	if s.closed.Load() {
		return ErrClosed
	}
	d := &s.drain
	// A mapping is recorded before a sample can be taken in it. Reading the
	// mapping records after the end of the samples is fixed therefore misses
	// none that a sample needs; those younger than this moment wait, because
	// samples that precede them may not be visible yet.
	now := monotonic()
	end := s.ring.end()
	for _, ring := range s.mmaps {
		ring.read(d.addMmap)
	}
	slices.SortStableFunc(d.mmaps, func(a, b mapRecord) int { return cmp.Compare(a.Time, b.Time) })
	if d.lost > 0 {
		handle(&Lost{Time: now, Mmaps: d.lost})
		d.lost = 0
	}
	next := 0 // in d.mmaps
	for {
		d.batch = d.batch[:0]
		position := s.ring.records(end, uint64(s.options.RingBytes/4), d.add)
		if len(d.batch) == 0 {
			s.ring.release(position)
			break
		}
		sortBatch(d.batch)
		for _, record := range d.batch {
			for next < len(d.mmaps) && d.mmaps[next].Time <= record.time {
				d.handMap(&d.mmaps[next], handle)
				next++
			}
			d.hand(record.data, handle)
		}
		s.ring.release(position)
	}
	for next < len(d.mmaps) && d.mmaps[next].Time <= now {
		d.handMap(&d.mmaps[next], handle)
		next++
	}
	d.mmaps = slices.Delete(d.mmaps, 0, next)
	return nil
}

// add notes a record of the ring.
func (d *drain) add(data []byte) {
	if len(data) < int(unsafe.Sizeof(recordHeader{})) {
		return
	}
	d.batch = append(d.batch, timed{(*recordHeader)(unsafe.Pointer(&data[0])).Time, data})
}

// addMmap notes a record of a perf ring.
func (d *drain) addMmap(kind uint32, misc uint16, body []byte) {
	switch kind {
	case recordMmap2:
		if mmap, ok := parseMmap(body); ok {
			d.mmaps = append(d.mmaps, mapRecord{Mmap: mmap})
		}
	case recordComm:
		if image, ok := parseComm(misc, body); ok {
			d.mmaps = append(d.mmaps, mapRecord{Mmap: Mmap{Time: image.Time, PID: image.PID}, image: true})
		}
	case recordLost:
		d.lost += lostCount(body)
	}
}

// handMap hands out a record of perf's rings.
func (d *drain) handMap(r *mapRecord, handle func(Record)) {
	if r.image {
		d.image = Image{Time: r.Time, PID: r.PID}
		handle(&d.image)
		return
	}
	handle(&r.Mmap)
}

// sortBatch orders records by time. CPUs take turns in the ring within
// microseconds, so nearly all are in order already.
func sortBatch(batch []timed) {
	for i := 1; i < len(batch); i++ {
		for j := i; j > 0 && batch[j].time < batch[j-1].time; j-- {
			batch[j], batch[j-1] = batch[j-1], batch[j]
		}
	}
}

// hand decodes a record and hands it out.
func (d *drain) hand(data []byte, handle func(Record)) {
	switch header := (*recordHeader)(unsafe.Pointer(&data[0])); header.Kind {
	case recordSample:
		if d.decodeSample(data) {
			handle(&d.sample)
		}
	case recordStack:
		d.decodeStack(data)
	case recordFork, recordExec, recordExit, recordFree:
		if d.decodeProcess(data) {
			handle(&d.process)
		}
	}
}

// name returns a thread name as a string, the same one each time.
func (d *drain) name(comm *[16]int8) string {
	if name, ok := d.names[*comm]; ok {
		return name
	}
	if d.names == nil || len(d.names) >= maxNames {
		d.names = make(map[[16]int8]string)
	}
	name := commString(comm)
	d.names[*comm] = name
	return name
}

// commString returns the bytes of comm up to the first 0.
func commString(comm *[16]int8) string {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(comm)), len(comm))
	if end := slices.Index(bytes, 0); end >= 0 {
		bytes = bytes[:end]
	}
	return string(bytes)
}
