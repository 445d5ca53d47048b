package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/tollgate-dev/tollgate/capture"
)

const collectorName = "_collector"

// newCollectorCommand is the privileged half of the program. It speaks over its standard streams and
// ends with its stdin, so that it never outlives the half that started it.
func newCollectorCommand(a *app) *cobra.Command {
	var probe bool
	cmd := &cobra.Command{
		Use:    collectorName,
		Short:  "The privileged half, started by the other commands",
		Hidden: true,
		Args:   exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if probe {
				return json.NewEncoder(a.stdout).Encode(probePrivileged())
			}
			return serve(cmd.Context(), a)
		},
	}
	cmd.Flags().BoolVar(&probe, "probe", false, "try what sampling needs, print the findings as JSON and end")
	return cmd
}

func serve(ctx context.Context, a *app) error {
	// Ctrl-C in a terminal reaches the collector too. It has to finish the run that is being
	// interrupted, and learns from its stdin when to end.
	signal.Ignore(os.Interrupt, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGPIPE)
	if err := capture.Serve(context.WithoutCancel(ctx), a.stdin, a.stdout); err != nil {
		return fail(exitEnvironment, fmt.Errorf("collector: %w", err), "")
	}
	return nil
}
