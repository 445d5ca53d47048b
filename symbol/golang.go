package symbol

import (
	"github.com/tollgate-dev/tollgate/internal/gopclntab"
	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// goLines looks an address up in the table that Go programs keep for their own
// tracebacks. It comes before DWARF: it is the same in stripped binaries, so
// names do not change with -ldflags=-s, and needs no section to be inflated. C
// code linked into the program is not in it.
func (b *Binary) goLines(vaddr uint64) []Line {
	if !b.loaded.golang {
		b.loaded.golang = true
		b.golang = loadGo(b.file)
	}
	if b.golang == nil {
		return nil
	}
	frames := b.golang.Lines(vaddr)
	if len(frames) == 0 {
		return nil
	}
	lines := make([]Line, len(frames))
	for i, frame := range frames {
		lines[i] = Line{
			Function: frame.Function, System: frame.System,
			File: frame.File, Line: frame.Line, StartLine: frame.StartLine,
		}
	}
	return lines
}

// loadGo opens the table, or returns nil where there is none. A file without
// the section is searched only when its section headers are gone: the search
// reads all of its data.
func loadGo(file *safeelf.File) *gopclntab.Table {
	if !mayBeGo(file) {
		return nil
	}
	table, err := gopclntab.New(file)
	if err != nil {
		return nil
	}
	return table
}

// hasGoTable reports whether the table has its own section. PIEs have it under
// the second name.
func hasGoTable(file *safeelf.File) bool {
	return file.Section(".gopclntab") != nil || file.Section(".data.rel.ro.gopclntab") != nil
}

func mayBeGo(file *safeelf.File) bool {
	// External linking may merge the section into another, but keeps notes.
	return hasGoTable(file) || file.Section(".note.go.buildid") != nil ||
		file.Section(".go.buildinfo") != nil || len(file.Sections) == 0
}
