package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/calibration"
	"github.com/tollgate-dev/tollgate/diff"
)

const calibrationPairs = 10

type calibrateOptions struct {
	app *app
	sampling
	from    string
	output  string
	gates   int
	seed    uint64
	json    jsonFile
	command []string
}

func newCalibrateCommand(a *app) *cobra.Command {
	o := calibrateOptions{app: a}
	cmd := &cobra.Command{
		Use:   "calibrate [--runs PAIRS] [FLAGS] -- COMMAND...",
		Short: "Say what this machine can detect, by comparing a command with itself",
		Long: `Run COMMAND again and again, and say what a gate on this machine can detect: how wall time and the
functions' shares vary between runs, how often the gate would be red for equal programs, the smallest
regression that it would see, and how many pairs and which frequency to use.

The false-red rate is found by dealing the runs to base and head in many ways, each judged as compare
and check do it. Its bound is exact (Clopper and Pearson), and holds for runs like these.`,
		Example: `  tollgate calibrate -- ./bench
  tollgate calibrate --runs 20 -o aa --json aa.json -- ./bench
  tollgate calibrate --from aa`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.from == "" {
				return wrapped(cmd, args)
			}
			if len(args) > 0 {
				return usageError("leave out one of them", "--from names runs that were taken already, and %q would take others", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			if !cmd.Flags().Changed("seed") {
				o.seed = rand.Uint64N(1 << 32)
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "use the runs of the recording `DIR` instead of taking any")
	flags.StringVarP(&o.output, "output", "o", "", "keep the runs in `DIR`, for --from")
	flags.IntVar(&o.gates, "gates", calibration.DefaultGates, "deal the runs to the sides in `N` ways")
	flags.Uint64Var(&o.seed, "seed", 0, "seed `N` of the deals (default: drawn, and printed)")
	o.json.register(cmd)
	o.register(cmd, calibrationPairs, "take `PAIRS` of runs", 1)
	return cmd
}

func (o *calibrateOptions) run(ctx context.Context) error {
	const maxGates = 100000
	if o.gates < 1 || o.gates > maxGates {
		return usageError(fmt.Sprintf("give a number from 1 to %d", maxGates), "--gates is %d", o.gates)
	}
	if err := o.json.check(); err != nil {
		return err
	}
	p := newProgress(o.app)
	defer p.end()
	recording, err := o.recording(ctx, p)
	if err != nil {
		return err
	}
	result, err := o.study(ctx, recording, p)
	if err != nil {
		return err
	}
	text := o.app.stdout
	if o.json.toStdout() {
		text = o.app.stderr
	}
	page := calibrationPage{app: o.app, result: result, recording: recording, colored: o.app.colored(text)}
	if err := page.write(text); err != nil {
		return err
	}
	return o.json.write(o.app.stdout, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	})
}

// recording takes the runs, or reads those that were taken.
func (o *calibrateOptions) recording(ctx context.Context, p *progress) (*baseline.Recording, error) {
	if o.from != "" {
		recording, err := baseline.Read(o.from)
		if err != nil {
			return nil, missingError(err, o.from)
		}
		if runs := len(recording.Profiles); runs < 2*calibration.LeastPairs {
			return nil, usageError(fmt.Sprintf("record with --runs %d", 2*calibrationPairs),
				"calibrate with %s: it has %s, and %d are the least", o.from, plural(runs, "run"), 2*calibration.LeastPairs)
		}
		return recording, nil
	}
	if err := o.check(o.command); err != nil {
		return nil, err
	}
	if o.runs < calibration.LeastPairs {
		return nil, usageError(fmt.Sprintf("give %d or more; %d pairs say something about false reds", calibration.LeastPairs, calibrationPairs), "--runs is %d", o.runs)
	}
	if err := o.app.findProgram(o.command[0]); err != nil {
		return nil, err
	}
	if o.output != "" {
		if err := vacantDirectory(o.output); err != nil {
			return nil, err
		}
	}
	return o.measure(ctx, p)
}

// measure takes all runs one after another: neighbours make a pair.
func (o *calibrateOptions) measure(ctx context.Context, p *progress) (*baseline.Recording, error) {
	app := *o.app
	if o.json.toStdout() {
		app.stdout = app.stderr
	}
	p.warnOfWorkload(o.command)
	all := o.sampling
	all.runs *= 2
	b, err := app.openBench(ctx, &all, p)
	if err != nil {
		return nil, err
	}
	defer b.close()
	header, err := b.header(ctx, workload{command: o.command})
	if err != nil {
		return nil, err
	}
	p.note("calibrating with %s: %d runs of %s", plural(o.runs, "pair"), all.runs, shorten(commandLine(o.command), 60))
	store := &recorder{recording: &baseline.Recording{Source: "these runs", Manifest: header}, progress: p}
	if o.output != "" {
		if err := store.create(o.output); err != nil {
			return nil, err
		}
	}
	_, err = b.series(ctx, workload{command: o.command}, store.add)
	var failed *commandFailure
	if errors.As(err, &failed) {
		err = fail(exitCommand, fmt.Errorf("%s of %s failed: %s", failed.what, shorten(commandLine(o.command), 60), failed.run.why(o.timeout)),
			"a calibration needs a command that succeeds; try it alone first")
	}
	if keepErr := store.finish(err, ""); err == nil {
		err = keepErr
	}
	return store.recording, err
}

// study judges the runs in all ways.
func (o *calibrateOptions) study(ctx context.Context, r *baseline.Recording, p *progress) (*calibration.Result, error) {
	judged, failed, err := judgedRuns(r)
	if err != nil {
		return nil, err
	}
	if failed > 0 {
		p.warn("%s of %s ended with an error and %s left out", plural(failed, "run"), r.Source, wasWere(failed))
	}
	var runs []calibration.Run
	for i, info := range r.Manifest.Runs {
		if info.ExitCode == 0 {
			runs = append(runs, calibration.Run{Run: judged[len(runs)], WallSeconds: r.Manifest.Runs[i].WallSeconds})
		}
	}
	p.busy("judging the program against itself")
	defer p.end()
	result, err := calibration.Study(ctx, runs, calibration.Options{
		Decision:  diff.Options{},
		Frequency: r.Frequency,
		Gates:     o.gates,
		Seed:      o.seed,
		Progress:  func(done, total int) { p.within(fmt.Sprintf("%d/%d gates", done, total)) },
	})
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, errInterrupted
	case errors.Is(err, diff.ErrNoSamples):
		return nil, fail(exitInconclusive, err, "the command used too little CPU to be sampled; let it do more work, or raise --frequency")
	}
	return nil, fail(exitUsage, err, "")
}
