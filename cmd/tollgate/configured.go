package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/revision"
	"github.com/tollgate-dev/tollgate/suite"
)

// wrappedOrConfigured is wrapped for commands that take COMMAND from tollgate.yaml where none is given.
func wrappedOrConfigured(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && cmd.ArgsLenAtDash() < 0 {
		return nil
	}
	return wrapped(cmd, args)
}

// loadConfiguration reads the tollgate.yaml that holds here. An accepted regression whose time is over
// is an error in it.
func loadConfiguration() (*suite.Config, error) {
	file, err := suite.Find(".")
	if err != nil {
		return nil, err
	}
	if here, err := filepath.Abs("."); err == nil {
		if relative, err := filepath.Rel(here, file); err == nil {
			file = relative
		}
	}
	config, err := suite.Load(file)
	if err == nil {
		err = config.CheckExpiry(time.Now())
	}
	if err != nil {
		return nil, fail(exitUsage, err, "")
	}
	return config, nil
}

// configure returns what to measure: command, or the one of a suite of tollgate.yaml where there is no
// command. --suite, or --name without a command, chooses the suite, and what it says holds where no flag
// says otherwise. A command without --suite has nothing to do with the file.
func (s *sampling) configure(command []string) (workload, error) {
	if len(command) > 0 && s.suiteName == "" {
		return workload{command: command}, nil
	}
	config, err := loadConfiguration()
	if errors.Is(err, suite.ErrNotFound) {
		if s.suiteName != "" {
			return workload{}, fail(exitUsage, err, "")
		}
		return workload{}, usageError("write it after two dashes, as in -- ./bench, or describe it in "+suite.FileName, "no command to measure")
	}
	if err != nil {
		return workload{}, err
	}
	name := s.suiteName
	if name == "" {
		name = s.name
	}
	if s.suite, err = config.Suite(name); err != nil {
		return workload{}, fail(exitUsage, err, "")
	}
	s.file = config.Name
	s.adopt(s.suite)
	w := workload{command: command, work: s.suite.Work}
	if len(command) > 0 {
		return w, nil
	}
	if w.command = s.suite.Command.Args; len(w.command) == 0 {
		w.command = shellCommand(s.suite.Command.Line)
	}
	w.dir, err = s.directory()
	return w, err
}

// adopt takes over the settings of a suite that no flag gives.
func (s *sampling) adopt(from *suite.Suite) {
	given := s.flags.Changed
	if from.Runs > 0 && !given("runs") && s.runsConfigured {
		s.runs = from.Runs
	}
	if from.Warmup != suite.Unset && !given("warmup") {
		s.warmup = from.Warmup
	}
	if !given("frequency") {
		s.frequency = from.Frequency
	}
	if !given("event") {
		s.event = from.Event
	}
	if !given("timeout") {
		s.timeout = from.Timeout
	}
	if s.name == "" {
		s.name = from.Name
	}
}

// directory is where the suite runs: "" for the current directory.
func (s *sampling) directory() (string, error) {
	dir, err := filepath.Abs(filepath.Join(filepath.Dir(s.file), s.suite.Directory))
	if err != nil {
		return "", fail(exitEnvironment, err, "")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", usageError("mend directory in "+s.file, "suite %s: there is no directory %s", s.suite.Name, dir)
	}
	if here, err := filepath.Abs("."); err == nil && here == dir {
		return "", nil
	}
	return dir, nil
}

// buildCommand is the suite's build; empty where there is nothing to build.
func (s *sampling) buildCommand() []string {
	switch {
	case s.suite == nil || s.suite.Build.IsZero():
		return nil
	case len(s.suite.Build.Args) > 0:
		return s.suite.Build.Args
	}
	return shellCommand(s.suite.Build.Line)
}

// findWorkload returns an error if the program of w could not be executed. What a build makes may not be
// there yet.
func (a *app) findWorkload(w workload, s *sampling) error {
	if len(s.buildCommand()) > 0 {
		return nil
	}
	return a.findProgram(w.program())
}

// build runs the suite's build, as the invoking user.
func (b *bench) build(ctx context.Context, w workload) error {
	command := b.options.buildCommand()
	if len(command) == 0 {
		return nil
	}
	dir, err := b.options.directory()
	if err != nil {
		return err
	}
	build := revision.Build{Side: b.options.suite.Name, Args: command, Dir: dir, Env: b.app.env, Timeout: b.options.suite.BuildTimeout}
	if err := b.progress.build(ctx, build); err != nil {
		return err
	}
	return b.app.findProgram(w.program())
}

// build runs a build, and shows what it printed if it failed.
func (p *progress) build(ctx context.Context, build revision.Build) error {
	p.begin(false, "building %s", build.Side)
	defer p.end()
	err := build.Run(ctx)
	if ctx.Err() != nil {
		return errInterrupted
	}
	var failed *revision.BuildError
	if !errors.As(err, &failed) {
		return err
	}
	p.end()
	const lines = 20
	for _, line := range failed.Tail(lines) {
		p.note("build of %s: %s", build.Side, shorten(oneLine(line), 500))
	}
	return fail(exitCommand, fmt.Errorf("%w (%s)", failed, shorten(commandLine(build.Args), 60)), failed.Hint())
}
