package main

import (
	"io"
	"os"
	"strconv"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

const defaultWidth = 100 // columns, where there is no terminal to ask

// isTerminal reports whether stream, one of the app's three, is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// colored reports whether text written to w may carry colours (https://no-color.org).
func (a *app) colored(w io.Writer) bool {
	return isTerminal(w) && a.env.get("NO_COLOR") == "" && a.env.get("TERM") != "dumb"
}

// width returns the columns that text written to w may take.
func (a *app) width(w io.Writer) int {
	if columns, err := strconv.Atoi(a.env.get("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	if file, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return defaultWidth
}

// sameTerminal reports whether both streams are terminals, and then one and the same in practice: a
// session has one controlling terminal.
func sameTerminal(a, b any) bool { return isTerminal(a) && isTerminal(b) }
