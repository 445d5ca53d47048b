package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/diff"
)

type diffOptions struct {
	app        *app
	base, head []string
	paired     bool
	suite      string
	json       jsonFile
}

func newDiffCommand(a *app) *cobra.Command {
	o := diffOptions{app: a}
	cmd := &cobra.Command{
		Use:   "diff BASE HEAD [FLAGS]",
		Short: "Compare two recordings, or pprof files of any tool",
		Long: `Compare two recordings and give the verdict. BASE and HEAD are directories written by tollgate record,
or CPU profiles from any tool in pprof's format: a file, a directory of them, a pattern, or several
with commas between; each file is one run. --base and --head say the same, and may be repeated.`,
		Example: `  tollgate diff base head
  tollgate diff old.pb.gz,old2.pb.gz 'new*.pb.gz'
  tollgate diff --base a1.pb.gz --base a2.pb.gz --head b1.pb.gz --head b2.pb.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.arguments(cmd, args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringSliceVar(&o.base, "base", nil, "`PROFILES` of the base side")
	cmd.Flags().StringSliceVar(&o.head, "head", nil, "`PROFILES` of the head side")
	cmd.Flags().BoolVar(&o.paired, "paired", false, "run i of BASE and run i of HEAD ran beside each other, as those of compare -o did")
	cmd.Flags().StringVar(&o.suite, "suite", "", "judge by the suite `NAME` of tollgate.yaml")
	o.json.register(cmd)
	return cmd
}

// arguments takes the two sides from where the user wrote them.
func (o *diffOptions) arguments(cmd *cobra.Command, args []string) error {
	flags := len(o.base) > 0 || len(o.head) > 0
	hint := "usage: " + cmd.UseLine()
	switch {
	case flags && len(args) > 0:
		return usageError(hint, "give both sides as arguments, or both as --base and --head")
	case flags && len(o.base) == 0:
		return usageError(hint, "missing --base")
	case flags && len(o.head) == 0:
		return usageError(hint, "missing --head")
	case flags:
		return nil
	}
	if err := exactArgs("BASE", "HEAD")(cmd, args); err != nil {
		return err
	}
	o.base, o.head = args[:1], args[1:]
	return nil
}

func (o *diffOptions) run(context.Context) error {
	if err := o.json.check(); err != nil {
		return err
	}
	base, err := baseline.Read(o.base...)
	if err != nil {
		return missingError(err, o.base...)
	}
	head, err := baseline.Read(o.head...)
	if err != nil {
		return missingError(err, o.head...)
	}
	var by policy
	if o.suite != "" {
		config, err := loadConfiguration()
		if err != nil {
			return fail(exitUsage, err, "")
		}
		if by.suite, err = config.Suite(o.suite); err != nil {
			return fail(exitUsage, err, "")
		}
	}
	result, err := by.judge(base, head, diff.Options{Paired: o.paired})
	if err != nil {
		return err
	}
	return o.app.present(result, metaOf(base, head), &o.json)
}
