package revision

import (
	"path"
	"slices"
)

// Functions knows the extent of the functions in profiles, as far as samples
// show it, and tells which of them a change touches. The zero value is not of
// use: see Changes.Functions.
type Functions struct {
	changes *Changes
	extents map[string][]extent // by name
}

// extent is the lines of a function that are known on one side.
type extent struct {
	side       Side
	file       string
	start, end int
}

// Functions returns an empty set of functions, to be told about each line that
// profiles have.
func (c *Changes) Functions() *Functions {
	return &Functions{changes: c, extents: make(map[string][]extent)}
}

// Add tells a line of a function: its start line, where that is recorded, and
// each line that a sample has. Lines below 1 are not known and left out. Name
// and file are as the profile, or whoever asks Touched, has them.
func (f *Functions) Add(side Side, name, file string, line int) {
	if line < 1 || name == "" || file == "" {
		return
	}
	known := f.extents[name]
	for i := range known {
		if e := &known[i]; e.side == side && e.file == file {
			e.start, e.end = min(e.start, line), max(e.end, line)
			return
		}
	}
	f.extents[name] = append(known, extent{side, file, line, line})
}

// Touched reports whether the change touches the function of that name, on
// either side. Where functions share a name, only those in files of the same
// last element as file count; "" stands for any file.
func (f *Functions) Touched(name, file string) bool {
	return slices.ContainsFunc(f.extents[name], func(e extent) bool {
		return (file == "" || path.Base(file) == path.Base(e.file)) && f.changes.TouchedOn(e.side, e.file, e.start, e.end)
	})
}
