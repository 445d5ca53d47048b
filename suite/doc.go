// Package suite reads tollgate.yaml: what is measured, how, and what is
// tolerated. It also knows the output of Go benchmarks, which tells the units
// of work of a run without configuration.
package suite
