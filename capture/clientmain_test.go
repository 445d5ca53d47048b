package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
)

// clientMain is a client of its own process: it runs its arguments under a
// real collector, prints the statistics of each run as a line of JSON, and
// writes the last profile to the file PROFILE. RUNS and FREQUENCY are numbers;
// COLLECTOR is another kind of collector.
func clientMain() int {
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	frequency, _ := strconv.Atoi(os.Getenv("FREQUENCY"))
	runs, _ := strconv.Atoi(os.Getenv("RUNS"))
	ctx := context.Background()
	collector := os.Getenv("COLLECTOR")
	if collector == "" {
		collector = "real"
	}
	c, err := Dial(ctx, DialOptions{
		Options: Options{Frequency: frequency},
		Command: []string{self}, Env: append(os.Environ(), collectorEnv+"="+collector),
	})
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	for range max(runs, 1) {
		result, err := c.Run(ctx, Command{
			Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stderr, Stderr: os.Stderr,
			Env: append(os.Environ(), collectorEnv+"="),
		})
		if err != nil {
			return fail(err)
		}
		json.NewEncoder(os.Stdout).Encode(result.Stats)
		fmt.Fprintf(os.Stderr, "exit %d, interrupted by %v\n", result.ExitCode, result.Interrupted)
		if path := os.Getenv("PROFILE"); path != "" {
			if err := os.WriteFile(path, result.Profile, 0o644); err != nil {
				return fail(err)
			}
		}
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "%+v\n", err)
	return 1
}
