package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/calibration"
	"github.com/tollgate-dev/tollgate/diff"
	"github.com/tollgate-dev/tollgate/suite"
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
	save    bool // into tollgate.yaml

	work workload
}

func newCalibrateCommand(a *app) *cobra.Command {
	o := calibrateOptions{app: a}
	cmd := &cobra.Command{
		Use:   "calibrate [--runs PAIRS] [FLAGS] [-- COMMAND...]",
		Short: "Say what this machine can detect, by comparing a command with itself",
		Long: `Run COMMAND again and again, and say what a gate on this machine can detect: how wall time and the
functions' shares vary between runs, how often the gate would be red for equal programs, the smallest
regression that it would see, and how many pairs and which frequency to use.

The false-red rate is found by dealing the runs to base and head in many ways, each judged as compare
and check do it. Its bound is exact (Clopper and Pearson), and holds for runs like these.

Without COMMAND it is a suite of tollgate.yaml: the one that --suite names, or the only one. --write sets
the recommended runs and frequency there, and leaves everything else as it is.`,
		Example: `  tollgate calibrate -- ./bench
  tollgate calibrate --runs 20 -o aa --json aa.json -- ./bench
  tollgate calibrate --from aa`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.from == "" {
				return wrappedOrConfigured(cmd, args)
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
	flags.BoolVar(&o.save, "write", false, "set the recommended runs and frequency in tollgate.yaml")
	o.json.register(cmd)
	o.register(cmd, calibrationPairs, "take `PAIRS` of runs", 1)
	// The suite says how many runs a gate takes; the calibration finds that out.
	o.runsConfigured = false
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
	if err := o.chooseSuite(); err != nil {
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
	err = o.json.write(o.app.stdout, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	})
	if err != nil || !o.save {
		return err
	}
	return o.writeSettings(result, p)
}

// chooseSuite finds the suite of tollgate.yaml, and what to measure. With --from that is what was
// measured.
func (o *calibrateOptions) chooseSuite() error {
	if o.from != "" {
		if o.suiteName == "" && !o.save {
			return nil
		}
		config, err := loadConfiguration()
		if err != nil {
			return fail(exitUsage, err, "")
		}
		if o.suite, err = config.Suite(o.suiteName); err != nil {
			return fail(exitUsage, err, "")
		}
		o.file = config.Name
		return nil
	}
	var err error
	if o.work, err = o.configure(o.command); err != nil {
		return err
	}
	if o.save && o.suite == nil {
		return usageError("choose one with --suite", "--write needs a suite of %s", suite.FileName)
	}
	return nil
}

// writeSettings sets what is recommended in tollgate.yaml.
func (o *calibrateOptions) writeSettings(r *calibration.Result, p *progress) error {
	rec := r.Recommended
	if rec.Pairs == 0 || rec.Work > 1 {
		p.warn("%s is left as it is: no number of runs is recommended", o.file)
		return nil
	}
	values := map[string]int{"runs": rec.Pairs}
	if rec.Frequency > 0 {
		values["frequency"] = rec.Frequency
	}
	data, err := os.ReadFile(o.file)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("read %s: %w", o.file, err), "")
	}
	if data, err = suite.Set(o.file, data, o.suite.Name, values); err != nil {
		return fail(exitUsage, err, "")
	}
	if err := replaceFile(o.file, data); err != nil {
		return fail(exitEnvironment, fmt.Errorf("write %s: %w", o.file, err), "")
	}
	p.note("set runs: %d and frequency: %d of suite %s in %s", rec.Pairs, rec.Frequency, o.suite.Name, o.file)
	return nil
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
	if err := o.check(o.work.command); err != nil {
		return nil, err
	}
	if o.runs < calibration.LeastPairs {
		return nil, usageError(fmt.Sprintf("give %d or more; %d pairs say something about false reds", calibration.LeastPairs, calibrationPairs), "--runs is %d", o.runs)
	}
	if err := o.app.findWorkload(o.work, &o.sampling); err != nil {
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
	p.warnOfWorkload(o.work)
	all := o.sampling
	all.runs *= 2
	b, err := app.openBench(ctx, &all, p)
	if err != nil {
		return nil, err
	}
	defer b.close()
	p.note("calibrating with %s: %d runs of %s", plural(o.runs, "pair"), all.runs, o.work)
	return b.take(ctx, o.work, o.output, "these runs", "a calibration")
}

// study judges the runs in all ways.
func (o *calibrateOptions) study(ctx context.Context, r *baseline.Recording, p *progress) (*calibration.Result, error) {
	by := policy{o.suite}
	judged, infos, err := by.runs(r)
	if err != nil {
		return nil, err
	}
	if failed := len(r.Manifest.Runs) - len(judged); failed > 0 {
		p.warn("%s of %s ended with an error and %s left out", plural(failed, "run"), r.Source, wasWere(failed))
	}
	units, err := unitsOfWork(infos, nil)
	if err != nil {
		return nil, fail(exitCommand, err, "")
	}
	var runs []calibration.Run
	for i, run := range judged {
		if len(units) > 0 {
			run.Work = units[i]
		}
		runs = append(runs, calibration.Run{Run: run, WallSeconds: infos[i].WallSeconds})
	}
	p.busy("judging the program against itself")
	defer p.end()
	result, err := calibration.Study(ctx, runs, calibration.Options{
		Decision:  by.options(diff.Options{}),
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
