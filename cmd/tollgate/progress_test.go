package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestProgressPrintsPlainLinesWithoutATerminal(t *testing.T) {
	var out strings.Builder
	p := newProgress(&app{stderr: &out})
	p.begin(false, "run %d/%d", 1, 2)
	p.within("building tables for libc.so.6")
	p.end()
	p.begin(false, "run %d/%d", 2, 2)
	p.note("kept")
	p.end()
	want := "tollgate: run 1/2\ntollgate: run 2/2\ntollgate: kept\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestProgressLeavesNothingOfItsLineOnATerminal(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, live: true, width: 40}
	p.begin(false, "run 1/2")
	p.within("building tables for a library with a very long name.so")
	p.note("kept")
	p.end()
	screen := playTerminal(out.String())
	if want := "tollgate: kept\n"; screen != want {
		t.Errorf("the screen ends as %q, want %q", screen, want)
	}
	for _, line := range regexp.MustCompile(`\r\x1b\[K|\n`).Split(out.String(), -1) {
		if n := len([]rune(line)); n >= 40 {
			t.Errorf("line %q has %d columns and wraps at 40", line, n)
		}
	}
}

func TestProgressYieldsTheTerminalToTheCommand(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, live: true, width: 80}
	p.begin(true, "run 1/2")
	p.within("building tables for libc.so.6")
	p.end()
	if want := "tollgate: run 1/2\n"; out.String() != want {
		t.Errorf("printed %q, want only %q", out.String(), want)
	}
}

// playTerminal returns what is on the screen after text, as far as progress uses a terminal.
func playTerminal(text string) string {
	var done, line strings.Builder
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\r\x1b[K"):
			line.Reset()
			text = text[len("\r\x1b[K"):]
		case text[0] == '\n':
			done.WriteString(line.String() + "\n")
			line.Reset()
			text = text[1:]
		default:
			line.WriteByte(text[0])
			text = text[1:]
		}
	}
	return done.String() + line.String()
}
