// Command cost measures what sampling costs and prints each figure beside its
// target. It needs root, gcc, and a built command line (bin/tollgate).
//
// Figures are ratios within one run: what is compared takes turns, so that the
// drift of a shared machine falls on both sides.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options of a measurement.
type options struct {
	tollgate string        // the command line under test
	dir      string        // scratch
	slowdown time.Duration // of the interleaved measurements at each rate
}

// figure is one measured quantity beside its target.
type figure struct {
	name     string
	measured string
	target   string
	met      string // "yes", "no", or "" where there is no target
}

// section is a group of figures measured together.
type section struct {
	name    string
	measure func(context.Context, options) ([]figure, error)
}

func sections() []section {
	return []section{
		{"ready", measureReady},
		{"table", measureTables},
		{"sample", measureSample},
		{"slowdown", measureSlowdown},
		{"record", measureRecord},
		{"memory", measureMemory},
		{"storm", measureStorm},
	}
}

func main() {
	var o options
	var only string
	flag.StringVar(&o.tollgate, "tollgate", "bin/tollgate", "the command to measure")
	flag.DurationVar(&o.slowdown, "slowdown", 75*time.Second, "how long to measure the slowdown at each rate")
	flag.StringVar(&only, "only", "", "comma-separated sections: ready,table,sample,slowdown,record,memory,storm")
	flag.Parse()
	if err := run(o, only); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// run measures the sections in only, or all.
func run(o options, only string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "tollgate-cost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir
	wanted := strings.Split(only, ",")
	fmt.Println("| figure | measured | target | met |")
	fmt.Println("| --- | --- | --- | --- |")
	for _, s := range sections() {
		if only != "" && !slices.Contains(wanted, s.name) {
			continue
		}
		figures, err := s.measure(ctx, o)
		for _, f := range figures {
			fmt.Printf("| %s | %s | %s | %s |\n", f.name, f.measured, f.target, f.met)
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
	}
	return nil
}

// met tells whether value reaches a target it must not exceed.
func met(value, limit float64) string {
	if value <= limit {
		return "yes"
	}
	return "no"
}
