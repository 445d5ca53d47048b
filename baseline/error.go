package baseline

import (
	"errors"
	"io/fs"
	"syscall"
)

var (
	// ErrExists says that something is already where a recording should be written.
	ErrExists = errors.New("already exists and is not empty")
	// ErrNotFound says that a store has no baseline of that name.
	ErrNotFound = errors.New("no such baseline")
	// ErrCorrupt says that a recording contradicts itself or cannot be decoded.
	ErrCorrupt = errors.New("recording is damaged")
	// ErrNoSamples says that a profile holds nothing to compare.
	ErrNoSamples = errors.New("no samples")
	// ErrSuite says that two recordings are of different suites.
	ErrSuite = errors.New("different suites")
)

// Error is an operation that failed on an object, its cause, and what to do about it.
type Error struct {
	Op     string // what was tried, as in "load recording"
	Object string // on what
	Err    error
	Advice string // one sentence for the user; may be empty
}

func (e *Error) Error() string {
	cause := bare(e.Err)
	if e.Object == "" {
		return e.Op + ": " + cause.Error()
	}
	return e.Op + " " + e.Object + ": " + cause.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do, or that of the cause, or "".
func (e *Error) Hint() string {
	if e.Advice != "" {
		return e.Advice
	}
	var hinted interface{ Hint() string }
	if errors.As(e.Err, &hinted) {
		return hinted.Hint()
	}
	return adviceFor(e.Err)
}

// adviceFor returns what to do about an error of the file system.
func adviceFor(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free some space, or write to another file system with -o"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return "choose a directory you can write to with -o"
	}
	return ""
}

// damaged is a cause with ErrCorrupt in its chain.
type damaged struct{ cause error }

func (d damaged) Error() string   { return d.cause.Error() }
func (d damaged) Unwrap() []error { return []error{ErrCorrupt, d.cause} }

// bare strips the path from an error of the file system, for sentences that have named it already.
func bare(err error) error {
	//nolint:errorlint // an error that says more than the path must keep it
	if path, ok := err.(*fs.PathError); ok {
		return path.Err
	}
	return err
}
