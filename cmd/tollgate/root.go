package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// app is what a command sees of the world. Only this package reads the environment, prints or exits.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            environment
	args           []string // the command line, without the program's name
}

// run executes one command line and returns its exit code. Streams that are *os.File are inherited
// by the measured command as they are.
func run(stdin io.Reader, stdout, stderr io.Writer, args, env []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: environment(env), args: args}
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return conclude(stderr, root.ExecuteContext(ctx))
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "tollgate COMMAND",
		Short: "Tell a performance regression from noise, per function, on any machine",
		Long: `Tollgate runs a benchmark under whole-system CPU sampling and decides, function by function, whether
it got slower. It needs no rebuild, no instrumentation and no frame pointers; root (or sudo) for the
sampling only.

  tollgate demo                                            see it catch a planted regression
  tollgate doctor                                          see what this machine lacks
  tollgate compare main --build 'make' -- ./bench          your change against its base, here and now
  tollgate compare --base-command './old' -- ./new         two programs
  tollgate calibrate -- ./bench                            see what this machine can detect
  tollgate record -o base -- ./bench                       keep the profiles of a run
  tollgate baseline save main base; tollgate check -- ./bench`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
		Args:                       cobra.ArbitraryArgs,
		SuggestionsMinimumDistance: 2,
	}
	// Cobra's template would name a command with subcommands twice, and knows nothing of exit codes.
	usage := strings.Replace(root.UsageTemplate(), "{{if .HasAvailableSubCommands}}\n  {{.CommandPath}} [command]{{end}}", "", 1)
	root.SetUsageTemplate(usage + "\n{{index .Annotations \"" + codesAnnotation + "\"}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(fmt.Sprintf("%s --help lists the flags; the command to measure comes after --", cmd.CommandPath()), "%w", err)
	})
	root.AddCommand(
		newRecordCommand(a), newDiffCommand(a), newCompareCommand(a), newCheckCommand(a), newCalibrateCommand(a),
		newBaselineCommand(a), newDoctorCommand(a), newDemoCommand(a), newVersionCommand(a),
		newCollectorCommand(a),
	)
	annotateCodes(root)
	return root
}

const codesAnnotation = "codes"

// annotateCodes gives every command the exit codes that end its help.
func annotateCodes(cmd *cobra.Command) {
	codes := gateCodes
	if cmd.Name() == "record" {
		codes = recordCodes
	}
	cmd.Annotations = map[string]string{codesAnnotation: codes}
	// What stands after the two dashes is part of the usage, and nothing comes after it.
	cmd.DisableFlagsInUseLine = true
	for _, child := range cmd.Commands() {
		annotateCodes(child)
	}
}

// unknownCommand suggests what may have been meant. Someone who writes `tollgate ./bench` forgot record.
func unknownCommand(parent *cobra.Command, name string) error {
	path := parent.CommandPath()
	hint := path + " --help lists the commands"
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s %s?", path, strings.Join(near, " or "+path+" "))
	} else if strings.ContainsRune(name, '/') {
		hint = fmt.Sprintf("did you mean tollgate record -- %s?", name)
	}
	return usageError(hint, "unknown command %q for %s", name, path)
}

// wrapped is the argument rule of commands that measure COMMAND: it stands after --, and nothing else
// stands before it.
func wrapped(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0:
		return usageError("write it after two dashes: "+cmd.CommandPath()+" -- COMMAND ARGUMENTS...", "no command to measure")
	case dash < 0:
		return usageError(fmt.Sprintf("write %s -- %s", cmd.CommandPath(), strings.Join(args, " ")),
			"the command to measure must stand after --")
	case dash > 0:
		return usageError(cmd.CommandPath()+" --help shows the usage", "unexpected argument %q before --", args[0])
	case args[0] == "":
		return usageError("write the program after two dashes", "the command to measure is empty")
	}
	return nil
}

// exactArgs demands the named arguments, no more and no less.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := fmt.Sprintf("usage: %s", cmd.UseLine())
		if len(args) < len(names) {
			return usageError(hint, "missing argument %s", names[len(args)])
		}
		if len(args) > len(names) {
			return usageError(hint, "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// environment is a list of KEY=VALUE, as os.Environ gives it.
type environment []string

func (e environment) lookup(key string) (string, bool) {
	// The last setting wins, as it does for exec.Cmd.
	for i := len(e) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(e[i], "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

func (e environment) get(key string) string {
	v, _ := e.lookup(key)
	return v
}
