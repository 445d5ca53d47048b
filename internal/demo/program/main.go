// Program accesslog is what `tollgate demo` measures: it reads a web server's
// access log, which it makes up first, and prints what the server did, as
// JSON. Its argument is how many times it reads the log; without one it does
// so for about one and a half seconds.
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	rounds := 200
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil || n < 1 || len(os.Args) > 2 {
			fmt.Fprintln(os.Stderr, "usage: accesslog [ROUNDS]")
			os.Exit(2)
		}
		rounds = n
	}
	if err := run(rounds); err != nil {
		fmt.Fprintln(os.Stderr, "accesslog:", err)
		os.Exit(1)
	}
}

func run(rounds int) error {
	const lines = 20000
	log := generateLog(lines)
	stats := newStats()
	for i := 0; i < rounds; i++ {
		if err := analyze(log, stats); err != nil {
			return err
		}
	}
	return writeReport(os.Stdout, stats)
}

// analyze adds every line of the log to stats.
func analyze(log []byte, stats *stats) error {
	var (
		entry entry
		key   []byte
	)
	for number := 1; len(log) > 0; number++ {
		var line []byte
		line, log = cutLine(log)
		if err := entry.parse(line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		key = pathKey(key[:0], entry.path)
		stats.add(&entry, key, classifyAgent(entry.agent))
	}
	return nil
}

// cutLine splits the first line off the log.
func cutLine(log []byte) (line, rest []byte) {
	for i, c := range log {
		if c == '\n' {
			return log[:i], log[i+1:]
		}
	}
	return log, nil
}
