package suite

import (
	"path"
	"strings"
)

// FixedTimeWarning is what FixedTime says about a command.
const FixedTimeWarning = "a Go benchmark runs for a fixed time by default, which hides a slowdown of the whole; " +
	"give it fixed work with -benchtime=100x"

// FixedTime reports whether a command is a Go benchmark that runs for a fixed
// time, with a sentence for the user: a slower version then does less work in
// the same CPU time, and looks no slower in total. It looks through wrappers
// (env, nice, taskset, ...) and the line of a `sh -c`.
func FixedTime(command []string) (warning string, ok bool) {
	if isFixedTime(command, 0) {
		return FixedTimeWarning, true
	}
	return "", false
}

func isFixedTime(command []string, depth int) bool {
	if len(command) == 0 || depth > 2 {
		return false
	}
	switch path.Base(command[0]) {
	case "sh", "bash", "dash", "zsh", "ksh", "busybox":
		for i, arg := range command[:len(command)-1] {
			if i > 0 && strings.HasPrefix(arg, "-") && strings.HasSuffix(arg, "c") {
				return scriptIsFixedTime(command[i+1], depth)
			}
		}
		return false
	}
	for i, arg := range command[:len(command)-1] {
		if path.Base(arg) == "go" && command[i+1] == "test" {
			return benchmarksForTime(command[i+2:], true)
		}
	}
	return benchmarksForTime(command[1:], false)
}

// scriptIsFixedTime looks at every command of a script. Quotes are taken off
// and otherwise left alone: expansions are not known here.
func scriptIsFixedTime(script string, depth int) bool {
	for _, line := range strings.FieldsFunc(script, func(r rune) bool { return strings.ContainsRune(";&|\n()", r) }) {
		words := strings.Fields(line)
		for i := range words {
			words[i] = strings.NewReplacer(`"`, "", `'`, "").Replace(words[i])
		}
		if isFixedTime(words, depth+1) {
			return true
		}
	}
	return false
}

// benchmarksForTime looks at the flags of `go test`, or of a test binary,
// whose flags all begin with "test.".
func benchmarksForTime(args []string, goTest bool) bool {
	benchmarks, fixedWork := false, false
	for i, arg := range args {
		if arg == "-args" || arg == "--args" {
			break
		}
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		short, long := strings.CutPrefix(name, "test.")
		if !goTest && !long {
			continue
		}
		switch short {
		case "bench":
			// As the testing package has it: an empty pattern runs none.
			benchmarks = value != "" && value != "^$"
		case "benchtime":
			count, times := strings.CutSuffix(value, "x")
			fixedWork = times && count != "" && strings.Trim(count, "0123456789") == ""
		}
	}
	return benchmarks && !fixedWork
}
