package suite

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotFound says that there is no tollgate.yaml.
	ErrNotFound = errors.New("no " + FileName)
	// ErrNoSuite says that a file has no suite of that name.
	ErrNoSuite = errors.New("no such suite")
	// ErrExpired says that the time of an accepted regression is over.
	ErrExpired = errors.New("accepted regression has expired")
	// ErrNoWork says that an output does not tell the units of work.
	ErrNoWork = errors.New("no units of work")
)

// Problem is one thing wrong in a file.
type Problem struct {
	Line, Column int    // 1-based; columns count characters
	Path         string // where in the document, as in "suites[0].runs"; may be empty
	Text         string // what is wrong
	Hint         string // what to do about it; may be empty
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Text
	}
	return p.Path + ": " + p.Text
}

// FileError holds everything that is wrong in a file, in the order of its lines.
type FileError struct {
	Name     string
	Problems []Problem
	cause    error // ErrExpired, or nil
}

// Error has one line for each problem: "read FILE:LINE:COLUMN: what is wrong".
func (e *FileError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "read %s:%d:%d: %s", e.Name, p.Line, p.Column, p)
	}
	return b.String()
}

// Hint returns what to do about the first problem that has a remedy.
func (e *FileError) Hint() string {
	for _, p := range e.Problems {
		if p.Hint != "" {
			return p.Hint
		}
	}
	return ""
}

func (e *FileError) Unwrap() error { return e.cause }

// hinted is an error with a way out.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }
func (h *hinted) Hint() string  { return h.hint }
