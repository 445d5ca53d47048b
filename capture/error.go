package capture

import (
	"errors"
	"fmt"
)

// Code tells the classes of failures apart; cmd derives the exit code of it.
type Code string

// The codes of an Error.
const (
	// CodeEnvironment: this machine or these privileges do not allow sampling.
	CodeEnvironment Code = "environment"
	// CodeRequest: a caller asked for something that does not exist or is
	// out of range.
	CodeRequest Code = "request"
	// CodeCommand: the wrapped command could not be started.
	CodeCommand Code = "command"
	// CodeCollector: the collector ended or broke the protocol.
	CodeCollector Code = "collector"
	// CodeInternal: anything else.
	CodeInternal Code = "internal"
)

// Error is a failure that keeps its class and its hint across the wire.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what the user can do, one clause
	// ExitCode is what a shell would return for a command that could not be
	// started (126 or 127); 0 for other errors.
	ExitCode int `json:"exit_code,omitempty"`

	cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause where the error did not cross the wire.
func (e *Error) Unwrap() error { return e.cause }

// newError wraps cause, whose text becomes the message.
func newError(code Code, cause error, hint string) *Error {
	return &Error{Code: code, Message: cause.Error(), Hint: hint, cause: cause}
}

// hinted is implemented by errors of other packages that carry advice.
type hinted interface{ Hint() string }

// asError gives err the form that crosses the wire, with code where it has
// no class of its own.
func asError(err error, code Code) *Error {
	var typed *Error
	if errors.As(err, &typed) {
		if typed.Message == err.Error() {
			return typed
		}
		return &Error{Code: typed.Code, Message: err.Error(), Hint: typed.Hint, ExitCode: typed.ExitCode, cause: err}
	}
	hint := ""
	var advice hinted
	if errors.As(err, &advice) {
		hint = advice.Hint()
	}
	return newError(code, err, hint)
}

// both joins two errors, either of which may be nil, in one line.
func both(err, also error) error {
	switch {
	case err == nil:
		return also
	case also == nil:
		return err
	}
	return fmt.Errorf("%w; and %w", err, also)
}
