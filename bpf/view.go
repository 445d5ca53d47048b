package bpf

import (
	"fmt"
	"os"
	"sort"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TableView reads a table that LoadTable has loaded. It is for the moment: the
// table must not be unloaded before the view is closed, nor may Sampler.
type TableView struct {
	pages []samplerTablePage
	rows  []viewedRows
}

// viewedRows are the rows of one span.
type viewedRows struct {
	span
	rows   []uint32
	memory []byte // nil where no kernel shares it
}

// View opens a table for reading.
func (s *Sampler) View(ref TableRef) (*TableView, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	view, err := s.tables.view(ref)
	if err != nil {
		return nil, fmt.Errorf("view table: %w", err)
	}
	return view, nil
}

func (t *tables) view(ref TableRef) (*TableView, error) {
	v := &TableView{}
	if ref.rows == nil {
		return v, nil
	}
	err := t.pages.edit(ref.pages.start, ref.pages.end, func(entries []samplerTablePage) {
		v.pages = append(v.pages, entries...)
	})
	if err != nil {
		return nil, err
	}
	for _, span := range *ref.rows {
		rows, memory, err := t.rows.read(span.start, span.end)
		if err != nil {
			v.Close()
			return nil, err
		}
		v.rows = append(v.rows, viewedRows{span, rows, memory})
	}
	return v, nil
}

// Rule returns the number of the rule that holds at a file offset, as the
// kernel's programs find it; 0 is no rule.
func (v *TableView) Rule(offset uint64) uint16 {
	const pageBits = 16
	if offset>>pageBits >= uint64(len(v.pages)) {
		return 0
	}
	page, low := v.pages[offset>>pageBits], uint32(offset&(1<<pageBits-1))
	if page.Count == 0 {
		return 0
	}
	for _, r := range v.rows {
		if page.First < r.start || page.First >= r.end || page.Count > r.end-page.First {
			continue
		}
		rows := r.rows[page.First-r.start:][:page.Count]
		n := sort.Search(len(rows), func(i int) bool { return rows[i]&0xffff > low })
		if n == 0 {
			return 0
		}
		return uint16(rows[n-1] >> 16)
	}
	return 0
}

// Close ends the view.
func (v *TableView) Close() {
	for _, r := range v.rows {
		if r.memory != nil {
			unix.Munmap(r.memory)
		}
	}
	v.rows, v.pages = nil, nil
}

// read returns the entries from first up to end, and the memory to unmap when
// they are not needed any more; nil where there is none.
func (a array[T]) read(first, end uint32) (entries []T, memory []byte, err error) {
	if first >= end {
		return nil, nil, nil
	}
	if a.fd < 0 {
		return a.memory[first:end], nil, nil
	}
	var entry T
	size, page := int64(unsafe.Sizeof(entry)), int64(os.Getpagesize())
	from := int64(first) * size / page * page
	skip := int64(first)*size - from
	memory, err = unix.Mmap(a.fd, from, int(int64(end)*size-from), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map entries %d to %d: %w", first, end, err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[skip])), end-first), memory, nil
}

// NewTableView returns a view of a table that is not in the kernel.
func NewTableView(rows []uint32, pages []Page) *TableView {
	v := &TableView{rows: []viewedRows{{span{0, uint32(len(rows))}, rows, nil}}}
	for _, page := range pages {
		v.pages = append(v.pages, samplerTablePage{First: page.First, Count: page.Count})
	}
	return v
}
