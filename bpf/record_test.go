package bpf

import (
	"encoding/binary"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/unwind"
)

// sampleBytes is a sample as the kernel writes it.
func sampleBytes(header samplerSampleRecord, words ...uint64) []byte {
	data := make([]byte, int(unsafe.Sizeof(header))+8*len(words))
	*(*samplerSampleRecord)(unsafe.Pointer(&data[0])) = header
	for i, word := range words {
		binary.NativeEndian.PutUint64(data[int(unsafe.Sizeof(header))+8*i:], word)
	}
	return data
}

func TestDecodeSample(t *testing.T) {
	header := samplerSampleRecord{Pid: 1, Tid: 2, Cpu: 3, Run: 4, Cgroup: 5, Class: 1, Reason: 2, KernelFrames: 1, UserFrames: 2}
	copy(header.Comm[:], []int8{'a', 'b', 0, 'c'})
	header.Header.Time, header.Header.Kind = 6, recordSample
	header.Header.Flags = sampleKernel | sampleMiss
	data := sampleBytes(header, 100, 7<<48|200, 300, 0x1000, 0x2000, 0x30, 11, 9<<32|8, 12)
	var d drain
	if !d.decodeSample(data) {
		t.Fatal("a well-formed sample is refused")
	}
	want := Sample{
		Time: 6, PID: 1, TID: 2, CPU: 3, Run: 4, Cgroup: 5, Comm: "ab", Class: ClassExit, Reason: 2, Kernel: true,
		KernelFrames: []uint64{100}, UserFrames: []Frame{7<<48 | 200, 300},
		Miss: &Mapping{Start: 0x1000, End: 0x2000, Offset: 0x30, Key: FileKey{Ino: 11, Dev: 8, Gen: 9, Mtime: 12}},
	}
	if !reflect.DeepEqual(d.sample, want) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", d.sample, d.sample.Miss, want, want.Miss)
	}
	if id, offset := d.sample.UserFrames[0].File(); id != 7 || offset != 200 {
		t.Errorf("frame is offset %d of file %d", offset, id)
	}

	// The copy of the stack comes in pieces before the sample.
	header.Header.Flags, header.Registers, header.StackBytes = 0, 2, 5
	data = sampleBytes(header, 100, 200, 300, 1, 2)
	piece := samplerStackRecord{Cpu: 3, Bytes: 3, Data: [4096]uint8{1, 2, 3, 99}}
	piece.Header.Time = 6
	give := func(piece samplerStackRecord) bool {
		return d.decodeStack(unsafe.Slice((*byte)(unsafe.Pointer(&piece)), unsafe.Sizeof(piece)))
	}
	piece.Address = 0x7000
	stale := piece
	stale.Header.Time = 5
	give(stale)
	give(piece)
	other := piece
	other.Cpu = 2
	give(other)
	if !d.decodeSample(data) || d.sample.Registers != nil || d.sample.Stack != nil {
		t.Errorf("raw copies, before all pieces came: %v %v", d.sample.Registers, d.sample.Stack)
	}
	piece.Address = 0x7002
	if give(piece) {
		t.Error("accepted a piece that overlaps the one before")
	}
	piece.Address, piece.Bytes, piece.Data = 0x7003, 2, [4096]uint8{4, 5}
	give(piece)
	if !d.decodeSample(data) || !slices.Equal(d.sample.Registers, []uint64{1, 2}) || !slices.Equal(d.sample.Stack, []byte{1, 2, 3, 4, 5}) || d.sample.Resume != 1 || d.sample.StackBase != 0x7000 {
		t.Errorf("raw copies: %v %v of frame %d", d.sample.Registers, d.sample.Stack, d.sample.Resume)
	}
	header.Header.Flags = sampleLeaf
	if !d.decodeSample(sampleBytes(header, 100, 200, 300, 1, 2)) || d.sample.Resume != 0 || d.sample.Stack == nil {
		t.Errorf("registers of the leaf: %v of frame %d", d.sample.Registers, d.sample.Resume)
	}
	piece.Bytes = 4097
	if give(piece) {
		t.Error("accepted a piece larger than its record")
	}
	piece.Bytes, piece.Header.Time = 4096, 7
	for range maxStack / 4096 {
		give(piece)
		piece.Address += 4096
	}
	// A page that was never used is left out.
	holed := piece
	holed.Header.Time, holed.Address, holed.Bytes = 8, 0x7ff0, 16
	give(holed)
	holed.Address, holed.Bytes = 0xa000, 8
	if !give(holed) || d.stacks[3].holes != 0b110 || len(d.stacks[3].data) != 16+0x2000+8 || d.stacks[3].data[16+0x2000] != 4 {
		t.Errorf("holes %b in %d bytes", d.stacks[3].holes, len(d.stacks[3].data))
	}
	holed.Address = 1 << 40
	if give(holed) {
		t.Error("accepted a piece far away")
	}
	give(holed)
	*d.stacks[3] = stackCopy{time: 7, base: piece.Address - maxStack, data: make([]byte, maxStack)}
	if give(piece) || len(d.stacks[3].data) != maxStack {
		t.Errorf("kept %d bytes of a stack, want %d at most", len(d.stacks[3].data), maxStack)
	}
}

func TestDecodeSampleRefusesLengthsThatDoNotAddUp(t *testing.T) {
	header := samplerSampleRecord{KernelFrames: 1, UserFrames: 2, Registers: 1}
	header.Header.Flags = sampleMiss
	whole := sampleBytes(header, make([]uint64, 1+2+6+1)...)
	var d drain
	if !d.decodeSample(whole) {
		t.Fatal("a well-formed sample is refused")
	}
	for length := range whole {
		if d.decodeSample(whole[:length]) {
			t.Errorf("accepted with %d of %d bytes", length, len(whole))
		}
	}
}

func TestParseMmap(t *testing.T) {
	// struct of PERF_RECORD_MMAP2 in perf_event_open(2), then the sample id.
	var body []byte
	for _, word := range []uint64{2<<32 | 1, 0x1000, 0x500, 0x2000, 9<<32 | 8, 77, 66, 4<<32 | 5} {
		body = binary.NativeEndian.AppendUint64(body, word)
	}
	body = append(body, "/bin/a\x00\x00"...)
	for _, word := range []uint64{2<<32 | 1, 4321, 3} {
		body = binary.NativeEndian.AppendUint64(body, word)
	}
	got, ok := parseMmap(body)
	want := Mmap{
		Time: 4321, PID: 1, TID: 2, Prot: 5, Path: "/bin/a",
		Mapping: Mapping{Start: 0x1000, End: 0x1500, Offset: 0x2000, Key: FileKey{Ino: 77, Dev: 8<<20 | 9, Gen: 66}},
	}
	if !ok || got != want {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	if _, ok := parseMmap(body[:80]); ok {
		t.Error("accepted a truncated record")
	}
}

func TestParseComm(t *testing.T) {
	body := binary.NativeEndian.AppendUint64(nil, 2<<32|1)
	body = append(body, "cat\x00\x00\x00\x00\x00"...)
	for _, word := range []uint64{2<<32 | 1, 4321, 3} {
		body = binary.NativeEndian.AppendUint64(body, word)
	}
	if got, ok := parseComm(miscCommExec, body); !ok || got != (Image{Time: 4321, PID: 1}) {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := parseComm(0, body); ok {
		t.Error("took a new name for a new program")
	}
	if _, ok := parseComm(miscCommExec, body[:24]); ok {
		t.Error("accepted a truncated record")
	}
}

// A record that wraps around the end of perf's ring is put together.
func TestMmapRingWraps(t *testing.T) {
	data := make([]byte, 64)
	meta := &unix.PerfEventMmapPage{Data_head: 48 + 24 + 24, Data_tail: 48}
	put := func(at int, kind uint32, size uint16, fill byte) {
		record := make([]byte, size)
		binary.NativeEndian.PutUint32(record, kind)
		binary.NativeEndian.PutUint16(record[6:], size)
		for i := 8; i < len(record); i++ {
			record[i] = fill
		}
		for i, b := range record {
			data[(at+i)%len(data)] = b
		}
	}
	put(48, 10, 24, 'x')
	put(72, 2, 24, 'y')
	ring := &mmapRing{meta: meta, data: data}
	var got []string
	ring.read(func(kind uint32, _ uint16, record []byte) { got = append(got, string(rune('0'+kind))+string(record)) })
	if want := []string{":" + strings.Repeat("x", 16), "2" + strings.Repeat("y", 16)}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if meta.Data_tail != meta.Data_head {
		t.Errorf("tail %d, want %d", meta.Data_tail, meta.Data_head)
	}
}

// Every sample of a mapped file comes after the record of the mapping.
func TestMappingsComeBeforeTheirSamples(t *testing.T) {
	s := load(t, Options{Frequency: 4999})
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	run := lastRun.Add(1)
	runTarget(t, s, run, strings.Repeat("/bin/true;", 20))
	type pageOf struct {
		pid  uint32
		page uint64
	}
	mapped := make(map[pageOf]bool)
	var last uint64
	samples, ordered := 0, true
	handle := func(record Record) {
		var now uint64
		switch record := record.(type) {
		case *Mmap:
			now = record.Time
			for page := record.Mapping.Start >> 12; page < record.Mapping.End>>12; page++ {
				mapped[pageOf{record.PID, page}] = true
			}
		case *Sample:
			now = record.Time
			// A forked process has the mappings of its parent; what it
			// has called execve for are its own.
			if record.Run == run && record.Miss != nil && record.Comm == "true" {
				samples++
				if m := record.Miss; !mapped[pageOf{record.PID, m.Start >> 12}] {
					t.Errorf("sample of %d in %#x-%#x before the mapping", record.PID, m.Start, m.End)
				}
			}
		}
		ordered = ordered && (now == 0 || now >= last)
		last = max(last, now)
	}
	over := freed(t, s, run)
	drainUntil(t, s, handle, func() bool { return samples >= 5 && over() })
	if !ordered {
		t.Error("records are not in the order of time")
	}
}

// Rule and StopReason have numbers that C and Go must agree about.
func TestRulesHaveTheLayoutOfUnwind(t *testing.T) {
	u := reflect.TypeFor[unwind.Rule]()
	k := reflect.TypeFor[samplerUnwindRule]()
	if u.Size() != k.Size() {
		t.Fatalf("sizes %d and %d", u.Size(), k.Size())
	}
	for i := range u.NumField() {
		a, b := u.Field(i), k.Field(i+1) // structs.HostLayout comes first
		if a.Offset != b.Offset || a.Type.Size() != b.Type.Size() || !strings.EqualFold(a.Name, b.Name) {
			t.Errorf("field %d: %s at %d and %s at %d", i, a.Name, a.Offset, b.Name, b.Offset)
		}
	}
	text, err := os.ReadFile("headers/abi.h")
	if err != nil {
		t.Fatal(err)
	}
	_, enum, _ := strings.Cut(string(text), "enum stop_reason {")
	enum, _, _ = strings.Cut(enum, "STOP_REASONS")
	for i, name := range strings.FieldsFunc(enum, func(r rune) bool { return r == ',' || r == '\n' || r == '\t' }) {
		want := "STOP_" + strings.ToUpper(unwind.StopReason(i).String())
		if name != want {
			t.Errorf("reason %d is %s in C, %s in Go", i, name, want)
		}
	}
	if MaxUserFrames != unwind.MaxFrames {
		t.Errorf("%d and %d frames at most", MaxUserFrames, unwind.MaxFrames)
	}
}

// A record that wraps around the end of the kernel's ring buffer is put
// together, and does not disturb its neighbours.
func TestRingRecordThatWraps(t *testing.T) {
	const size = 64
	consumer, producer := uint64(size-24), uint64(size+24)
	ring := &ring{data: make([]byte, size), mask: size - 1, consumer: &consumer, producer: &producer}
	put := func(at int, text string) {
		binary.NativeEndian.PutUint32(ring.data[at%size:], uint32(len(text)))
		for i := range len(text) {
			ring.data[(at+ringHeader+i)%size] = text[i]
		}
	}
	put(size-24, "12345678")
	put(size-8, "abcdefghijkl")
	put(size+16, "")
	var got []string
	position := ring.records(ring.end(), size, func(data []byte) { got = append(got, string(data)) })
	if want := []string{"12345678", "abcdefghijkl", ""}; !slices.Equal(got, want) {
		t.Errorf("records are %q, want %q", got, want)
	}
	if position != producer {
		t.Errorf("position is %d, want %d", position, producer)
	}
	consumer, got = size-16, nil
	put(size-16, "12345678")
	put(size, "abcdefgh")
	ring.records(size+16, size, func(data []byte) { got = append(got, string(data)) })
	if want := []string{"12345678", "abcdefgh"}; !slices.Equal(got, want) {
		t.Errorf("records at the very end are %q, want %q", got, want)
	}
}
