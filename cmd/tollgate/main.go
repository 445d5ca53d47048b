// Command tollgate is a performance-regression gate for continuous integration: it samples the whole
// system while a benchmark runs, and compares per-function CPU with a baseline.
package main

import "os"

func main() {
	os.Exit(run(os.Stdin, os.Stdout, os.Stderr, os.Args[1:], os.Environ()))
}
