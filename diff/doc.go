// Package diff decides whether the runs of one version of a program cost more
// CPU than the runs of another, and which functions are to blame.
//
// The run is the experimental unit, never the sample: every function has its
// own run-to-run variance, estimated from the runs and shrunk towards what
// functions of its size show (as limma does for genes), and is tested against
// a minimum effect. The package is pure: no files, no clock, no randomness.
package diff
