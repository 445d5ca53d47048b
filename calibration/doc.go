// Package calibration says what a machine can tell apart: from runs of one
// program, with the same program on both sides, it measures the noise between
// runs, the false-red rate of the gate, and the smallest regression that the
// gate would find. The package is pure: no files and no clock; what is drawn at
// random comes from a seed.
package calibration
