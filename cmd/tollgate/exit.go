package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tollgate-dev/tollgate/suite"
)

// The exit codes of every command. record differs in one point: it hands on the code of the command
// it ran.
const (
	exitPass         = 0   // no regression, or the command did what it was asked to do
	exitRegression   = 1   // a regression was found
	exitUsage        = 2   // wrong flags, arguments or input files
	exitInconclusive = 3   // the runs cannot tell, or there is no baseline to compare with
	exitEnvironment  = 4   // the kernel, a permission or the disk stands in the way
	exitStore        = 5   // the baseline store or the forge could not be reached
	exitCommand      = 6   // the measured command, or the build of one side, failed
	exitTimeout      = 124 // record: the command ran into --timeout, as timeout(1) has it
	exitCannotRun    = 126 // record: the command was found and could not be executed, as in a shell
	exitNotFound     = 127 // record: the command was not found, as in a shell
	exitInterrupted  = 130 // Ctrl-C: 128 + SIGINT
)

// gateCodes ends the help of every command but record.
const gateCodes = `Exit codes:
  0    pass
  1    a regression was found
  2    wrong usage or input
  3    inconclusive, or no baseline
  4    the environment: BPF, permission, kernel, disk
  5    the baseline store or the forge
  6    the measured command or a build failed
  130  interrupted`

// recordCodes ends the help of record.
const recordCodes = `Exit codes:
  The command's own code; 128+n when signal n ended it. Otherwise
  0    every run ended with 0
  2    wrong usage
  4    the environment: BPF, permission, kernel, disk
  124  the command ran into --timeout
  126  the command could not be executed
  127  the command was not found
  130  interrupted; the runs completed until then are kept`

// failure is an error that knows its exit code and, where there is one, the way out.
type failure struct {
	code int
	hint string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail makes a failure of err. The hint is one sentence without a full stop; empty when there is
// nothing better to say than the error itself.
func fail(code int, err error, hint string) error {
	return &failure{code: code, hint: hint, err: err}
}

// usageError is a failure that the command line or an input file caused.
func usageError(hint, format string, args ...any) error {
	return fail(exitUsage, fmt.Errorf(format, args...), hint)
}

// silent carries an exit code for which everything has been printed already: a verdict, or the
// wrapped command's own code.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// conclude prints err with its hint and returns the exit code that belongs to it.
func conclude(w io.Writer, err error) int {
	if err == nil {
		return exitPass
	}
	var quiet silent
	if errors.As(err, &quiet) {
		return int(quiet)
	}
	code, hint := exitEnvironment, ""
	var f *failure
	var hinter interface{ Hint() string }
	switch {
	case errors.As(err, &f):
		code, hint = f.code, f.hint
	case errors.Is(err, context.Canceled):
		code, err = exitInterrupted, errors.New("interrupted")
	}
	if hint == "" && errors.As(err, &hinter) {
		hint = hinter.Hint()
	}
	for _, message := range messages(err) {
		fmt.Fprintf(w, "tollgate: error: %s\n", oneLine(message))
	}
	if hint != "" {
		fmt.Fprintf(w, "tollgate: hint: %s\n", oneLine(hint))
	}
	return code
}

// messages are the sentences of an error: one, but of a configuration all that is wrong in it.
func messages(err error) []string {
	var file *suite.FileError
	if errors.As(err, &file) {
		return strings.Split(file.Error(), "\n")
	}
	return []string{err.Error()}
}

// oneLine keeps a message that quotes foreign output on the one line it is promised to take, free of
// control characters.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.TrimSpace(s), func(r rune) bool {
		return r == '\n' || r == '\r'
	}), "; ")
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
