// Package report renders the result of a comparison: as text for a person and as JSON for programs.
// It never decides; everything it shows is in diff.Result.
package report

import (
	"time"

	"github.com/tollgate-dev/tollgate/diff"
)

// Meta is what a report says about a comparison beside its result. Empty fields are left out.
type Meta struct {
	ToolVersion string
	Suite       string
	Time        time.Time // of the comparison
	Base, Head  Side
	// PerUnit: runs did more than one unit of work, so that CPU-seconds are those of a unit.
	PerUnit bool
	// Touched: the change between the sides is known, and findings say whether it touches them.
	Touched bool
	// Notes are doubts that are not about the statistics, such as a partial recording. They are shown
	// after the warnings of the result.
	Notes []diff.Warning
	// Reproduce and Accept are command lines: how to get this result again, and how to make head the
	// new baseline.
	Reproduce string
	Accept    string
}

// Side describes where the runs of one side came from.
type Side struct {
	Source      string // as the user named it: a directory, a baseline's name
	Command     string
	Commit      string // full hash
	Branch      string
	Dirty       bool
	Time        time.Time // of the first run
	Environment string    // one line
	Partial     string    // why runs are missing
}

// label tells a person in a few words which version this is: where the runs came from and their
// commit, or the command where that is all that tells the sides apart. side is "base" or "head".
func (s Side) label(side string) string {
	source := s.Source
	if source == side {
		source = "" // the line says so already
	}
	if s.Commit == "" {
		return or(source, or(s.Command, s.Source))
	}
	label := s.Commit
	if len(label) > 12 {
		label = label[:12]
	}
	if s.Dirty {
		label += "+changes"
	}
	if s.Branch != "" {
		label += " (" + s.Branch + ")"
	}
	if source != "" {
		label = source + ", " + label
	}
	return label
}
