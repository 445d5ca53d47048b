package main

import (
	"cmp"
	"path/filepath"
	"strings"
)

// workload is what is measured: a command, and where it runs.
type workload struct {
	command []string
	dir     string // "" is the current directory
}

// String renders the command for a line of progress.
func (w workload) String() string { return shorten(commandLine(w.command), 60) }

// where is the directory, to ask about it.
func (w workload) where() string { return cmp.Or(w.dir, ".") }

// fixedTime reports whether command is a Go benchmark that runs for a fixed time: a slower version
// then does less work in the same CPU time, and looks no slower in total.
func fixedTime(command []string) bool {
	prefix := "-test."
	if filepath.Base(command[0]) == "go" {
		if len(command) < 2 || command[1] != "test" {
			return false
		}
		prefix = "-"
	}
	benchmarks, fixedWork := false, false
	for i, arg := range command[1:] {
		if strings.HasPrefix(arg, "--") {
			arg = arg[1:]
		}
		name, value, joined := strings.Cut(arg, "=")
		if !joined && i+2 < len(command) {
			value = command[i+2]
		}
		// go test takes its own flags in the form of the test binary's, too.
		name = strings.TrimPrefix(name, "-test.")
		name = strings.TrimPrefix(name, prefix)
		switch name {
		case "bench":
			benchmarks = true
		case "benchtime":
			fixedWork = strings.HasSuffix(value, "x")
		}
	}
	return benchmarks && !fixedWork
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
func (p *progress) warnOfWorkload(command []string) {
	if fixedTime(command) {
		p.warn("a Go benchmark runs for a fixed time by default, which hides a slowdown of the whole; give it fixed work with -benchtime=100x")
	}
	if buildsFirst(command) {
		p.warn("%s %s compiles first, and the compiler's CPU counts; build once (as with go test -c) and measure the program",
			filepath.Base(command[0]), command[1])
	}
}
