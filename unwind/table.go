package unwind

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sort"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// pageBits is the number of offset bits in a row: a page is 64 KiB of file.
const pageBits = 16

// Page is the range of a table's rows that describe 64 KiB of the file.
type Page struct {
	First, Count uint32
}

// Table holds the unwind rules of one file. Rows are sorted within a page; a
// row is the index of its rule shifted left by 16, and the low 16 bits of the
// file offset from which the rule holds up to the next row. Page i covers
// offsets [i<<16, (i+1)<<16). A page that has code starts with a row at its
// first byte, so a lookup never needs the page before.
type Table struct {
	Rows  []uint32
	Pages []Page
	Stats TableStats
}

// TableStats tells what a table was made of.
type TableStats struct {
	CFIBytes   int  // size of .eh_frame and .debug_frame
	FDEs       int  // frame description entries compiled
	Skipped    int  // entries that were malformed or of an unknown kind
	GoFuncs    int  // functions compiled from Go's pclntab
	CodeBytes  int  // bytes of executable segments
	ChainBytes int  // of those, bytes that only a frame pointer can unwind
	RulesFull  bool // the RuleSet was full, so some code has no rule

	// GoError tells why a Go program's pclntab was not used.
	GoError error
}

// NewTable compiles the call frame information of f: .eh_frame, .debug_frame
// and Go's pclntab, whichever it has. Code that none of them describes gets
// CFAChain. Malformed entries are skipped and counted; an error is returned
// only when the architecture is unsupported (ErrUnsupported) or a section
// cannot be read.
func NewTable(f *safeelf.File, rules *RuleSet) (table *Table, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := faultOf(recover()); fault != nil {
			table, err = nil, fmt.Errorf("build unwind table: %w", fault)
		}
	}()
	arch, err := archOf(f)
	if err != nil {
		return nil, fmt.Errorf("build unwind table: %w", err)
	}
	segments := executableSegments(f)
	t := &Table{}
	c := rules.compiler()
	defer rules.compilers.Put(c)
	for _, source := range []struct {
		read func(*safeelf.File) (frameSection, bool, error)
		rank rank
	}{{ehFrame, rankEHFrame}, {debugFrame, rankDebugFrame}} {
		section, ok, err := source.read(f)
		if err != nil {
			return nil, fmt.Errorf("build unwind table: %w", err)
		}
		if !ok {
			continue
		}
		// Real sections hold about one row per 5 bytes and one FDE per 50. The
		// end of an open one is not known.
		if !section.open {
			c.rows = slices.Grow(c.rows, len(section.data)/5)
			c.spans = slices.Grow(c.spans, len(section.data)/44)
		}
		fdes, skipped := c.section(section, arch, source.rank, segments)
		t.Stats.FDEs += fdes
		t.Stats.Skipped += skipped
		if !section.open {
			t.Stats.CFIBytes += len(section.data)
		}
	}
	// A table that cannot be read leaves the frame pointer, which Go keeps.
	t.Stats.GoFuncs, t.Stats.GoError = c.goFunctions(f, arch, segments)
	c.sortSpans()
	entry := uint64(0)
	if isProgram(f) {
		entry = f.Entry
	}
	l := layout{compiler: c, table: t, entry: entry}
	l.build(segments)
	t.Stats.RulesFull = c.full
	return t, nil
}

// Lookup returns the rule for a file offset, the zero Rule where the table
// has no code.
func (t *Table) Lookup(rules *RuleSet, off uint64) Rule {
	page := off >> pageBits
	if page >= uint64(len(t.Pages)) {
		return Rule{}
	}
	p := t.Pages[page]
	if uint64(p.First)+uint64(p.Count) > uint64(len(t.Rows)) {
		return Rule{}
	}
	rows := t.Rows[p.First : p.First+p.Count]
	low := uint32(off & (1<<pageBits - 1))
	next := sort.Search(len(rows), func(i int) bool { return rows[i]&(1<<pageBits-1) > low })
	if next == 0 {
		return Rule{}
	}
	return rules.At(uint16(rows[next-1] >> pageBits))
}
