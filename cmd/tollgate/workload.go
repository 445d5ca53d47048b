package main

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/tollgate-dev/tollgate/suite"
)

// workload is what is measured: a command, and where it runs.
type workload struct {
	command []string
	dir     string     // "" is the current directory
	work    suite.Work // how much a run does
}

// String renders the command for a line of progress.
func (w workload) String() string { return shorten(commandLine(w.command), 60) }

// where is the directory, to ask about it.
func (w workload) where() string { return cmp.Or(w.dir, ".") }

// program is the path of the program, or its name on the PATH.
func (w workload) program() string {
	name := w.command[0]
	if w.dir != "" && strings.ContainsRune(name, '/') && !filepath.IsAbs(name) {
		return filepath.Join(w.dir, name)
	}
	return name
}

// buildsFirst reports whether command compiles a program before it runs it: then the compiler's work
// is measured with it.
func buildsFirst(command []string) bool {
	if len(command) < 2 {
		return false
	}
	switch filepath.Base(command[0]) {
	case "go":
		return command[1] == "test" || command[1] == "run"
	case "cargo":
		return command[1] == "test" || command[1] == "run" || command[1] == "bench"
	}
	return false
}

// warnOfWorkload tells the user about commands that hide what they should show.
func (p *progress) warnOfWorkload(w workload) {
	command := w.command
	if warning, fixed := suite.FixedTime(command); fixed {
		switch {
		case w.work.Units > 0:
			p.warn("%s", warning)
		case w.work.Pattern == nil:
			p.warn("a Go benchmark runs for a fixed time by default; the iterations that it prints count as its work, and fixed work with -benchtime=100x is more exact")
		}
	}
	if buildsFirst(command) {
		p.warn("%s %s compiles first, and the compiler's CPU counts; build once (as with go test -c) and measure the program",
			filepath.Base(command[0]), command[1])
	}
}
