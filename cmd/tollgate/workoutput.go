package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/suite"
)

// maxOutput bounds what is read of a command's output to find its units of work.
const maxOutput = 256 << 20

// workOutput keeps the standard output of a run whose units of work stand in it. It is a file and not a
// pipe, so that nobody has to run beside the command to empty it; the user sees it when the run ended.
type workOutput struct {
	file *os.File
}

// openOutput returns nil for a workload whose output is not needed: such a command writes where the user
// wants it, with nothing in between.
func (b *bench) openOutput(w workload) (*workOutput, error) {
	if !w.work.NeedsOutput(w.command) {
		return nil, nil
	}
	file, err := os.CreateTemp(b.app.env.get("TMPDIR"), "tollgate-output-*")
	if err != nil {
		return nil, fail(exitEnvironment, fmt.Errorf("keep the command's output: %w", err), "set TMPDIR to a directory you can write to")
	}
	// Nothing is left behind, however this process ends.
	if err := os.Remove(file.Name()); err != nil {
		return nil, fail(exitEnvironment, errors.Join(err, file.Close()), "")
	}
	return &workOutput{file}, nil
}

func (o *workOutput) close() error {
	if o == nil {
		return nil
	}
	return o.file.Close()
}

// stdout is where the command writes.
func (o *workOutput) stdout(b *bench) *os.File {
	if o == nil {
		return b.commandStdout()
	}
	return o.file
}

// count fills in how much work the run did, and hands the output on to the user.
func (o *workOutput) count(b *bench, w workload, run *measuredRun) error {
	run.info.WorkUnits = 1
	if w.work.Units > 0 {
		run.info.WorkUnits = w.work.Units
	}
	if o == nil {
		return nil
	}
	if _, err := o.file.Seek(0, io.SeekStart); err != nil {
		return fail(exitEnvironment, fmt.Errorf("read the command's output: %w", err), "")
	}
	data, err := io.ReadAll(io.LimitReader(o.file, maxOutput))
	if err != nil {
		return fail(exitEnvironment, fmt.Errorf("read the command's output: %w", err), "")
	}
	if !b.options.discard {
		if _, err := b.app.stdout.Write(data); err != nil {
			return fail(exitEnvironment, fmt.Errorf("write the command's output: %w", err), "")
		}
	}
	if run.failed() {
		return nil
	}
	if w.work.Pattern != nil {
		if run.info.WorkUnits, err = w.work.Count(data); err != nil {
			return fail(exitCommand, err, "")
		}
		return nil
	}
	found, err := suite.ParseBenchmarks(bytes.NewReader(data))
	if err != nil {
		return fail(exitCommand, err, "")
	}
	for _, f := range found {
		run.info.Benchmarks = append(run.info.Benchmarks, baseline.Benchmark{Name: f.Key(), Iterations: f.N, NsPerOp: f.NsPerOp})
	}
	return nil
}

// unitsOfWork returns the units of work of each run of both sides, by what Go benchmarks printed; nil
// where no run has such results.
func unitsOfWork(base, head []baseline.RunInfo) ([]float64, error) {
	var outputs [][]suite.Benchmark
	some := false
	for _, runs := range [][]baseline.RunInfo{base, head} {
		for _, info := range runs {
			some = some || len(info.Benchmarks) > 0
			var output []suite.Benchmark
			for _, b := range info.Benchmarks {
				output = append(output, suite.Benchmark{Name: b.Name, N: b.Iterations, NsPerOp: b.NsPerOp})
			}
			outputs = append(outputs, output)
		}
	}
	if !some {
		return nil, nil
	}
	return suite.WorkOf(outputs, len(base))
}
