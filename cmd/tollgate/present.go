package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/report"
)

// present prints a result, writes it as JSON where the user asked for it, and turns the verdict into
// the exit code.
func (a *app) present(result *diff.Result, meta report.Meta, json *jsonFile) error {
	here, err := os.Getwd()
	if err != nil {
		here = "" // file names stay absolute
	}
	return a.presentBelow(here, result, meta, json)
}

// presentBelow does so with the names of files below root relative to it.
func (a *app) presentBelow(root string, result *diff.Result, meta report.Meta, json *jsonFile) error {
	text := a.stdout
	if json.toStdout() {
		text = a.stderr
	}
	options := report.TextOptions{Color: a.colored(text), Root: root}
	if isTerminal(text) {
		options.Width = a.width(text)
	}
	if err := report.Text(text, result, meta, options); err != nil {
		return fail(exitEnvironment, fmt.Errorf("write result: %w", err), "")
	}
	if err := json.write(a.stdout, func(w io.Writer) error { return report.JSON(w, result, meta) }); err != nil {
		return err
	}
	return verdictCode(result.Verdict)
}

func decodeProfile(data []byte) (*profile.Profile, error) {
	return profile.Parse(bytes.NewReader(data))
}

// commandLine renders an argument list so that a shell would read it back.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg
		if split, ok := plainWords("x " + arg); arg == "" || !ok || len(split) != 2 || split[1] != arg {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return oneLine(strings.Join(words, " "))
}

// again renders the command line that gives this result once more, with flags that pin what chance
// decided the first time.
func (a *app) again(flags ...string) string {
	args := append([]string{"tollgate"}, a.args...)
	if len(a.args) > 0 && len(flags) > 0 && !slices.Contains(a.args, flags[0]) {
		args = slices.Insert(args, 2, flags...)
	}
	return commandLine(args)
}

// shorten cuts a line to at most n characters.
func shorten(line string, n int) string {
	if runes := []rune(line); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return line
}

// metaOf describes two recordings for a report.
func metaOf(base, head *baseline.Recording) report.Meta {
	m := report.Meta{
		ToolVersion: toolVersion(),
		Suite:       head.Suite,
		Time:        time.Now().UTC(),
		Base:        sideOf(base),
		Head:        sideOf(head),
	}
	for _, r := range []*baseline.Recording{base, head} {
		for _, info := range r.Manifest.Runs {
			m.PerUnit = m.PerUnit || info.WorkUnits != 1 || len(info.Benchmarks) > 0
		}
		if r.Partial != "" {
			m.Notes = append(m.Notes, diff.Warning{
				Code: "partial-recording",
				Text: fmt.Sprintf("%s has %s of %d: %s", r.Source, plural(len(r.Manifest.Runs), "run"), r.RequestedRuns, r.Partial),
			})
		}
	}
	return m
}

func sideOf(r *baseline.Recording) report.Side {
	s := report.Side{Source: r.Source, Commit: r.Commit, Branch: r.Branch, Dirty: r.Dirty, Time: r.Time, Partial: r.Partial}
	if len(r.Command) > 0 {
		s.Command = commandLine(r.Command)
	}
	if !r.Foreign {
		s.Environment = r.Env.String()
	}
	return s
}
