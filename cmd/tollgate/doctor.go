package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// finding is one line of the doctor: something that was tried, what came of it, and how to mend it.
type finding struct {
	Status string `json:"status"` // ok, warn or fail
	Name   string `json:"name"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"`
}

const (
	statusOK   = "ok"
	statusWarn = "warn" // works, with something missing
	statusFail = "fail" // Tollgate cannot measure here
)

type doctorOptions struct {
	app    *app
	binary string
	json   bool
}

func newDoctorCommand(a *app) *cobra.Command {
	o := doctorOptions{app: a}
	cmd := &cobra.Command{
		Use:   "doctor [BINARY] [FLAGS]",
		Short: "Say in one line each what this machine lacks, and the mend",
		Long: `Try everything that sampling needs, and say in one line each what works and how to mend what does not.
With BINARY, a path or a program on the PATH, also say what unwinding and symbols will find in it.

Ends with 0 when Tollgate can measure here, and with 4 when a line says fail.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("usage: "+cmd.UseLine(), "unexpected argument %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.binary = args[0]
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print the findings as JSON")
	return cmd
}

func (o *doctorOptions) run(ctx context.Context) error {
	findings := o.app.inspectSystem()
	findings = append(findings, o.app.inspectPrivileged(ctx)...)
	if o.binary != "" {
		more, err := o.app.inspectBinary(o.binary)
		if err != nil {
			return err
		}
		findings = append(findings, more...)
	}
	if o.json {
		encoder := json.NewEncoder(o.app.stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(findings); err != nil {
			return fail(exitEnvironment, fmt.Errorf("write findings: %w", err), "")
		}
	} else {
		printFindings(o.app.stdout, findings, o.app.colored(o.app.stdout))
	}
	for _, f := range findings {
		if f.Status == statusFail {
			return silent(exitEnvironment)
		}
	}
	return nil
}

func printFindings(w io.Writer, findings []finding, colored bool) {
	nameWidth := 0
	for _, f := range findings {
		nameWidth = max(nameWidth, len(f.Name))
	}
	colors := map[string]string{statusOK: "\x1b[32m", statusWarn: "\x1b[33m", statusFail: "\x1b[31m"}
	for _, f := range findings {
		status := fmt.Sprintf("%-4s", f.Status)
		if colored {
			status = colors[f.Status] + status + "\x1b[0m"
		}
		line := fmt.Sprintf("%s  %-*s  %s", status, nameWidth, f.Name, oneLine(f.Detail))
		if f.Mend != "" {
			line += "; mend: " + oneLine(f.Mend)
		}
		fmt.Fprintln(w, line)
	}
}

// privilegedTests names what inspectPrivileged reports, for when it cannot be tried.
var privilegedTests = [...]string{"BTF", "ring buffer", "perf events", "PMU", "kernel symbols", "BPF"}

// inspectPrivileged has the collector's own program try what needs privileges, started the same way.
func (a *app) inspectPrivileged(ctx context.Context) []finding {
	untried := func(err error) []finding {
		reason, mend := err.Error(), "see privileges, or run tollgate doctor as root"
		var out []finding
		for _, name := range privilegedTests {
			out = append(out, finding{Status: statusFail, Name: name, Detail: "not tried: " + reason, Mend: mend})
		}
		return out
	}
	command, err := a.collectorCommand("--probe")
	if err != nil {
		return untried(errors.New("needs root or sudo"))
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	process.Env = a.env
	var stdout, stderr bytes.Buffer
	process.Stdout, process.Stderr = &stdout, &stderr
	// The collector ends when its stdin does.
	stdin, err := process.StdinPipe()
	if err != nil {
		return untried(err)
	}
	defer stdin.Close()
	if err := process.Run(); err != nil {
		reason, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		if reason == "" {
			reason = err.Error()
		}
		return untried(errors.New(reason))
	}
	var findings []finding
	if err := json.Unmarshal(stdout.Bytes(), &findings); err != nil {
		return untried(fmt.Errorf("read the answer of %s: %w", command[0], err))
	}
	return findings
}

// inspectSystem reports what can be seen without privileges.
func (a *app) inspectSystem() []finding {
	return []finding{
		inspectKernel(),
		inspectContainer(),
		a.inspectRights(),
		inspectParanoid(),
		inspectKptr(),
		inspectLockdown(),
	}
}

// readSetting returns a file of /proc or /sys without its newline; ok is false where there is none.
func readSetting(path string) (string, bool) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err == nil
}
