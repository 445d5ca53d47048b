package bpf

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
)

// Rule tells how to get from a frame to its caller. Fields and numbers are
// those of unwind.Rule.
type Rule struct {
	CFA, Reg, FP, RA          uint8
	CFAOff                    int32 // bytes, as all offsets
	FPOff, RAOff, BXOff, Off2 int16
}

// Page is where the rows of 64 KiB of file offset are.
type Page struct{ First, Count uint32 }

// TableRef is a table in the kernel. The zero value is "no table": the frames
// of such a file are followed by frame pointer.
type TableRef struct {
	pages span
	rows  *[]span
}

// rowsPerChunk is ROWS_PER_CHUNK of abi.h.
const rowsPerChunk = 1 << 18

// settle is how long freed space rests before it is used again. A sample that
// began before its table was unbound may still read it; the longest takes
// about 100 us.
const settle = 10 * time.Millisecond

// tables is the memory of unwind tables, shared with the kernel.
type tables struct {
	mu       sync.Mutex
	rows     array[uint32]
	pages    array[samplerTablePage]
	rules    array[samplerUnwindRule]
	rowSpace *space
	pgSpace  *space
	resting  []rest
	now      func() time.Time
}

// rest is space that was freed at a time.
type rest struct {
	at  time.Time
	ref TableRef
}

// newTables takes the contents of the three arrays.
func newTables(rows array[uint32], pages array[samplerTablePage], rules array[samplerUnwindRule]) *tables {
	return &tables{
		rows: rows, pages: pages, rules: rules,
		rowSpace: newSpace(uint32(rows.length), rowsPerChunk),
		pgSpace:  newSpace(uint32(pages.length), uint32(pages.length)),
		now:      time.Now,
	}
}

// AppendRules sets the rules from index from on. Rules are never changed once
// a loaded table uses them.
func (s *Sampler) AppendRules(from int, rules []Rule) error {
	t := s.tables
	if s.closed.Load() {
		return ErrClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if from < 0 || from+len(rules) > t.rules.length {
		return fmt.Errorf("append %d rules at %d: more than %d", len(rules), from, t.rules.length)
	}
	err := t.rules.edit(uint32(from), uint32(from+len(rules)), func(entries []samplerUnwindRule) {
		for i, r := range rules {
			entries[i] = samplerUnwindRule{
				Cfa: r.CFA, Reg: r.Reg, Fp: r.FP, Ra: r.RA, CfaOff: r.CFAOff,
				FpOff: r.FPOff, RaOff: r.RAOff, BxOff: r.BXOff, Off2: r.Off2,
			}
		}
	})
	if err != nil {
		return fmt.Errorf("append %d rules: %w", len(rules), err)
	}
	return nil
}

// LoadTable copies a table into the kernel; pages[i] is for the file offsets
// from i<<16 on. The error is ErrNoSpace when other tables must go first.
func (s *Sampler) LoadTable(rows []uint32, pages []Page) (TableRef, error) {
	if s.closed.Load() {
		return TableRef{}, ErrClosed
	}
	if len(pages) == 0 {
		return TableRef{}, nil
	}
	return s.tables.load(rows, pages)
}

// UnloadTable frees the space of a table. Bind its file to another one, or
// Unbind it, first.
func (s *Sampler) UnloadTable(ref TableRef) {
	if ref.rows == nil || s.closed.Load() {
		return
	}
	t := s.tables
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resting = append(t.resting, rest{t.now(), ref})
}

func (t *tables) load(rows []uint32, pages []Page) (TableRef, error) {
	sizes := make([]uint32, len(pages))
	for i, page := range pages {
		if uint64(page.First)+uint64(page.Count) > uint64(len(rows)) || page.Count > 1<<16 {
			return TableRef{}, fmt.Errorf("load table: page %d has rows %d to %d of %d", i, page.First, uint64(page.First)+uint64(page.Count), len(rows))
		}
		sizes[i] = page.Count
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	ref, starts, err := t.reserve(sizes)
	if err != nil {
		return TableRef{}, fmt.Errorf("load table of %d rows and %d pages: %w", len(rows), len(pages), err)
	}
	if err := t.write(ref, starts, rows, pages); err != nil {
		t.pgSpace.release(ref.pages)
		t.rowSpace.release(*ref.rows...)
		return TableRef{}, fmt.Errorf("load table of %d rows and %d pages: %w", len(rows), len(pages), err)
	}
	return ref, nil
}

// write fills the space of ref, where the rows of page i go to starts[i].
func (t *tables) write(ref TableRef, starts []uint32, rows []uint32, pages []Page) error {
	next := 0 // pages lie in the order of the spans
	for _, span := range *ref.rows {
		err := t.rows.edit(span.start, span.end, func(entries []uint32) {
			for ; next < len(pages); next++ {
				page := pages[next]
				if page.Count > 0 && (starts[next] < span.start || starts[next] >= span.end) {
					return
				}
				if page.Count > 0 {
					copy(entries[starts[next]-span.start:], rows[page.First:page.First+page.Count])
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return t.pages.edit(ref.pages.start, ref.pages.end, func(entries []samplerTablePage) {
		for i, page := range pages {
			entries[i] = samplerTablePage{First: starts[i], Count: page.Count}
		}
	})
}

// reserve finds room for pages of the given numbers of rows, waiting for freed
// space to settle only when there is no other.
func (t *tables) reserve(sizes []uint32) (TableRef, []uint32, error) {
	for {
		t.reclaim()
		if starts, taken, ok := t.rowSpace.place(sizes); ok {
			if pages, ok := t.pgSpace.allocate(uint32(len(sizes))); ok {
				return TableRef{pages: pages, rows: &taken}, starts, nil
			}
			t.rowSpace.release(taken...)
		}
		if len(t.resting) == 0 {
			return TableRef{}, nil, ErrNoSpace
		}
		time.Sleep(settle - t.now().Sub(t.resting[0].at))
	}
}

// reclaim frees what has rested long enough.
func (t *tables) reclaim() {
	for len(t.resting) > 0 && t.now().Sub(t.resting[0].at) >= settle {
		ref := t.resting[0].ref
		t.resting = t.resting[1:]
		t.pgSpace.release(ref.pages)
		t.rowSpace.release(*ref.rows...)
	}
}

// Bind gives the file key an id, which must not be 0, and a table. The id
// marks its frames; binding a file again replaces both.
func (s *Sampler) Bind(key FileKey, id uint16, ref TableRef) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if id == 0 {
		return fmt.Errorf("bind file %d: id 0 means no file", key.Ino)
	}
	entry := samplerFileEntry{PageBase: ref.pages.start, PageCount: ref.pages.end - ref.pages.start, Id: id}
	err := s.objects.Files.Update(key.kernel(), &entry, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		err = s.objects.Files.Update(key.kernel(), &entry, ebpf.UpdateExist)
		s.Invalidate()
	}
	if err != nil {
		return fmt.Errorf("bind file %d: %w", key.Ino, err)
	}
	return nil
}

// Unbind makes the kernel forget the file, which misses again from now on. It
// is no error when the file is not bound.
func (s *Sampler) Unbind(key FileKey) error {
	if s.closed.Load() {
		return ErrClosed
	}
	err := s.objects.Files.Delete(key.kernel())
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("unbind file %d: %w", key.Ino, err)
	}
	s.Invalidate()
	return nil
}

// Invalidate empties the kernel's caches of mappings and rules.
func (s *Sampler) Invalidate() {
	if s.closed.Load() {
		return
	}
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	s.generation++
	// The variable is memory that is shared with the kernel.
	_ = s.objects.Generation.Set(s.generation)
}

func (k FileKey) kernel() *samplerFileKey {
	return &samplerFileKey{Ino: k.Ino, Dev: k.Dev, Gen: k.Gen, Mtime: k.Mtime}
}
