package capture

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// Addresses of the process that pendingSample is of.
const (
	textStart    = 0x10000
	programStart = 0x7f0000000000
	stackStart   = 0x7ffe00000000
)

// pendingFixture is a process that maps a text file, whose code can be followed
// by frame pointer alone, and a program that calls it from its first
// instruction.
type pendingFixture struct {
	text, program bpf.FileKey
	entry         uint64 // file offset
	records       []bpf.Record
}

func newPendingFixture(t *testing.T) *pendingFixture {
	t.Helper()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("not a program"), 0o644); err != nil {
		t.Fatal(err)
	}
	path := program(t, "program", "")
	elf, err := safeelf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer elf.Close()
	entry, ok := elf.Offset(elf.Entry)
	if !ok {
		t.Fatalf("%s has no entry point", path)
	}
	f := &pendingFixture{text: keyOf(t, text), program: keyOf(t, path), entry: entry}
	mmap := func(start uint64, path string, key bpf.FileKey) *bpf.Mmap {
		return &bpf.Mmap{PID: uint32(os.Getpid()), Path: path, Mapping: bpf.Mapping{Start: start, End: start + 1<<24, Key: withoutMtime(key)}}
	}
	f.records = []bpf.Record{
		&bpf.Image{PID: uint32(os.Getpid())},
		mmap(textStart, text, f.text),
		mmap(programStart, path, f.program),
	}
	return f
}

// sample is one in the text file, called by the program.
func (f *pendingFixture) sample(run uint32) *bpf.Sample {
	// (fp) = 0, (fp+8) = the return address
	stack := binary.NativeEndian.AppendUint64(make([]byte, 64+16), 0)
	stack = binary.NativeEndian.AppendUint64(stack, programStart+f.entry+1)
	registers := make([]uint64, frameRegisters+32)
	registers[0], registers[1], registers[2] = textStart+0x10, stackStart+64, stackStart+80
	return &bpf.Sample{
		Time: later(), PID: uint32(os.Getpid()), TID: 1, Run: run, Reason: uint8(unwind.StopTablePending), Kernel: true,
		KernelFrames: []uint64{77},
		UserFrames:   []bpf.Frame{textStart + 0x10},
		Miss:         &bpf.Mapping{Start: textStart, End: textStart + 1<<24, Key: f.text},
		Registers:    registers, Stack: stack, StackBase: stackStart,
	}
}

func TestPendingSampleIsCompletedInUserSpace(t *testing.T) {
	fixture := newPendingFixture(t)
	f := newFakeSampler()
	s := startFake(t, f, "/proc")
	if err := s.Begin(1, 7); err != nil {
		t.Fatal(err)
	}
	sample := fixture.sample(1)
	f.give(fixture.records...)
	f.give(sample, sample)
	other := fixture.sample(0) // outside the target
	f.give(other)
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	_, stats, err := s.End(1)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Samples != 3 || stats.TargetSamples != 2 || stats.Complete != 2 || stats.CompletedLater != 2 || len(stats.Truncated) != 0 {
		t.Errorf("statistics %+v", stats)
	}
	if len(r.stacks.list) != 2 || r.stacks.list[0].count != 2 {
		t.Fatalf("%d stacks", len(r.stacks.list))
	}
	got := r.stacks.list[0]
	if !slices.Equal(got.kernel, []uint64{77}) || !got.inKernel || got.pid != uint32(os.Getpid()) {
		t.Errorf("the sample lost what it had: %+v", got)
	}
	if len(got.user) != 2 || got.user[0]&offsetMask != 0x10 || got.user[1]&offsetMask != fixture.entry {
		t.Fatalf("frames %#x, want offset 0x10 and %#x", got.user, fixture.entry)
	}
	if file := s.tables.file(uint16(got.user[1] >> fileShift)); file == nil || filepath.Base(file.name) != "program" {
		t.Errorf("the caller is in %v", file)
	}
	if r.waiting.bytes != 0 || len(s.tables.views) != 0 {
		t.Errorf("%d bytes are kept, %d tables in view", r.waiting.bytes, len(s.tables.views))
	}
}

func TestPendingSampleGoesOnAfterWhatTheKernelUnwound(t *testing.T) {
	fixture := newPendingFixture(t)
	f := newFakeSampler()
	s := startFake(t, f, "/proc")
	if err := s.Begin(1, 7); err != nil {
		t.Fatal(err)
	}
	sample := fixture.sample(1)
	// The text file is the caller of generated code.
	sample.UserFrames = []bpf.Frame{0x500000000, textStart + 0x10 - 1}
	sample.Resume = 1
	sample.Registers = sample.Registers[:frameRegisters]
	f.give(fixture.records...)
	f.give(sample)
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	_, stats, err := s.End(1)
	if err != nil {
		t.Fatal(err)
	}
	if stats.CompletedLater != 1 {
		t.Errorf("statistics %+v", stats)
	}
	user := r.stacks.list[0].user
	if len(user) != 3 || user[0]&offsetMask != 0x500000000 || user[1]&offsetMask != 0xf || user[2]&offsetMask != fixture.entry {
		t.Errorf("frames %#x", user)
	}
}

func TestCopyThatIsTooShortStaysPending(t *testing.T) {
	fixture := newPendingFixture(t)
	f := newFakeSampler()
	s := startFake(t, f, "/proc")
	if err := s.Begin(1, 7); err != nil {
		t.Fatal(err)
	}
	sample := fixture.sample(1)
	sample.Stack = sample.Stack[:len(sample.Stack)-1]
	f.give(fixture.records...)
	f.give(sample)
	_, stats, err := s.End(1)
	if err != nil {
		t.Fatal(err)
	}
	if stats.CompletedLater != 0 || stats.Truncated["table_pending"] != 1 {
		t.Errorf("statistics %+v", stats)
	}
}

// Samples in a file that is rewritten under the same inode before they are
// unwound are not taken for samples in its new contents.
func TestRewrittenFileIsNotUnwound(t *testing.T) {
	fixture := newPendingFixture(t)
	tables, kernel := newTestTables(t, 1<<20)
	program := fixture.records[2].(*bpf.Mmap)
	id := tables.mapped(program, true)
	kernel.waitBound(t, fixture.program)
	w := walk{tables: tables, space: addressSpace{{start: programStart, end: programStart + 1<<24, key: withoutMtime(fixture.program), id: id}}}
	rule := func() (unwind.Rule, bool) {
		tables.mu.Lock()
		defer tables.mu.Unlock()
		defer tables.endWalks()
		return w.Rule(programStart + fixture.entry)
	}
	if _, ok := rule(); !ok {
		t.Fatalf("no rule for the program: %+v", w)
	}
	if err := os.Chtimes(program.Path, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if got, ok := rule(); ok || !w.stale {
		t.Errorf("rule %v of a file with other contents", got)
	}
}

func TestWaitingSamplesAreBounded(t *testing.T) {
	w := newWaiting()
	w.maxBytes = 4096
	sample := &bpf.Sample{Registers: make([]uint64, frameRegisters), Stack: make([]byte, 1024)}
	kept := 0
	for range 10 {
		if w.fits(sample) && w.add(newPending(sample, stack{}, nil), 1) {
			kept++
		}
	}
	if kept != 3 || w.bytes > w.maxBytes {
		t.Errorf("%d samples of %d bytes are kept", kept, w.bytes)
	}
	if w.fits(&bpf.Sample{Registers: make([]uint64, frameRegisters), Resume: 1}) {
		t.Error("took a sample that goes on behind its last frame")
	}
	tables, _ := newTestTables(t, 1<<20)
	finished := 0
	w.byFile[1][2].taken = maxWait + 2
	w.giveUp(tables, maxWait+1, func(s *stack) {
		finished++
		if s.reason != unwind.StopTablePending {
			t.Errorf("given up with %s", s.reason)
		}
	})
	if finished != 2 || len(w.byFile[1]) != 1 {
		t.Errorf("%d samples were given up, %d are left", finished, len(w.byFile[1]))
	}
}

func TestSettleEndsWithoutTheTable(t *testing.T) {
	tables, _ := newTestTables(t, 1<<20)
	tables.mu.Lock()
	f := tables.add(bpf.FileKey{Ino: 5, Mtime: 1}, sighting{})
	f.opening = true // for ever
	tables.mu.Unlock()
	w := newWaiting()
	sample := &bpf.Sample{Registers: make([]uint64, frameRegisters), Stack: make([]byte, 8)}
	w.add(newPending(sample, stack{}, nil), f.id)
	finished := 0
	w.settle(tables, time.Now().Add(20*time.Millisecond), func(*stack) { finished++ })
	if finished != 1 || len(w.byFile) != 0 || w.bytes != 0 {
		t.Errorf("%d finished, %d files and %d bytes left", finished, len(w.byFile), w.bytes)
	}
}
