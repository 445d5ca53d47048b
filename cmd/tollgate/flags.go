package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tollgate-dev/tollgate/capture"
	"github.com/tollgate-dev/tollgate/suite"
)

// sampling are the flags of every command that measures.
type sampling struct {
	runs      int
	warmup    int
	frequency int
	event     string
	name      string
	timeout   time.Duration
	discard   bool
	debugDirs []string

	suiteName      string // of tollgate.yaml, as the user chose it
	runsConfigured bool   // the number of runs is the suite's to say
	flags          *pflag.FlagSet
	suite          *suite.Suite // that was chosen; nil: the flags say all
	file           string       // it stands in
}

// register adds the flags. What runs counts is said by the command.
func (s *sampling) register(cmd *cobra.Command, runs int, runsUsage string, warmup int) {
	flags := cmd.Flags()
	s.flags, s.runsConfigured = flags, true
	flags.StringVar(&s.suiteName, "suite", "", "take from tollgate.yaml what no flag says: the suite `NAME` (default without a command: the only one)")
	flags.IntVar(&s.runs, "runs", runs, runsUsage)
	flags.IntVar(&s.warmup, "warmup", warmup, "take `N` unmeasured runs first")
	flags.IntVar(&s.frequency, "frequency", capture.DefaultFrequency, "samples per second and CPU, in `HZ`")
	flags.StringVar(&s.event, "event", capture.EventCPUClock, "`EVENT` to sample by: cpu-clock, or cycles where there is a PMU")
	flags.StringVar(&s.name, "name", "", "`NAME` of what is measured (default: the suite's, or the command's base name)")
	flags.DurationVar(&s.timeout, "timeout", 0, "end a run that takes longer than `TIME`, as in 90s or 10m (default: no limit)")
	flags.BoolVar(&s.discard, "discard-stdout", false, "throw the command's standard output away; its standard error stays")
	flags.StringSliceVar(&s.debugDirs, "debug-dir", nil, "further `DIR` with separate debug files")
}

// check rejects values out of range and fills in the suite's name from the measured command.
func (s *sampling) check(command []string) error {
	const maxRuns = 10000
	switch {
	case s.runs < 1 || s.runs > maxRuns:
		return usageError(fmt.Sprintf("give a number from 1 to %d", maxRuns), "--runs is %d", s.runs)
	case s.warmup < 0 || s.warmup > maxRuns:
		return usageError("give 0 or a small number", "--warmup is %d", s.warmup)
	case s.frequency < 1 || s.frequency > capture.MaxFrequency:
		return usageError(fmt.Sprintf("give a number from 1 to %d; the default is %d", capture.MaxFrequency, capture.DefaultFrequency),
			"--frequency is %d", s.frequency)
	case s.event != capture.EventCPUClock && s.event != capture.EventCycles:
		return usageError("the events are cpu-clock and cycles", "unknown event %q", s.event)
	case s.timeout < 0:
		return usageError("give a time such as 90s, or leave it out", "--timeout is %s", s.timeout)
	}
	for i, dir := range s.debugDirs {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return usageError("", "find debug directory: %w", err)
		}
		s.debugDirs[i] = absolute
	}
	if s.name == "" {
		s.name = suiteOf(command)
	}
	if strings.ContainsFunc(s.name, func(r rune) bool { return !unicode.IsPrint(r) }) || len(s.name) > 200 {
		return usageError("use up to 200 printable characters", "--name %q cannot name a suite", s.name)
	}
	return nil
}

// suiteOf names the suite of a command when the user did not: its program, and the first word of what
// comes after it when that says more than the program does.
func suiteOf(command []string) string {
	name := filepath.Base(command[0])
	switch name {
	case "sh", "bash", "env", "nice", "time", "timeout", "sudo":
		return name
	case "go", "cargo", "make", "npm", "python", "python3", "node", "java", "ninja":
		if len(command) > 1 && !strings.HasPrefix(command[1], "-") {
			return name + "-" + filepath.Base(command[1])
		}
	}
	return name
}

// fileName turns a suite's name into something that is safe in a path.
func fileName(suite string) string {
	return strings.Map(func(r rune) rune {
		if r < math.MaxInt8 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)) {
			return r
		}
		return '_'
	}, suite)
}
