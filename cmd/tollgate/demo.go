package main

import "github.com/spf13/cobra"

func newDemoCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "demo", Short: "x", Long: gateCodes, RunE: func(*cobra.Command, []string) error { return nil }}
}
