// Package diff decides whether the runs of one version of a program cost more
// CPU than the runs of another, and which functions are to blame.
//
// The run is the experimental unit, never the sample: every function has its
// own run-to-run variance, estimated from the runs and shrunk towards what
// functions of its size show (as limma does for genes), and is tested against
// a minimum effect. The package is pure: no files, no clock, no randomness.
//
// The steps of [Compare], each in its own file: counts and stack (samples per
// function and who calls it), rename (functions under another name), matrix
// (functions matched by canonical name), machine (histories from several
// machines), reference (run factors from the functions that hold still),
// variance (trend and prior), estimate (effects and tests), touched, total,
// multiplicity, layout, shift, family (tests of groups), diffuse (tests of
// calling contexts), calls (explanation by callers), power, verdict.
//
// Choices that the procedure leaves open:
//   - A pass needs every function's simultaneous upper bound below
//     Options.Equivalence, tested or not, and the total's own 95 % bound below
//     Options.TotalEquivalence. The functions' level is shared by those of
//     Options.MinShare or more on either side, the total's by the looks.
//   - A total that is up fails the gate only where CPU-seconds are exact, the
//     calibration kernel did not move and, without a kernel, the runs were
//     interleaved.
//   - Where the reference set itself moved by more than 1 %, and the kernel did
//     not, functions that only held still are not blamed for it.
//   - A group's margin is relative to the root of the sum of the squared shares
//     in it: the noise of many functions averages out. Groups are not tested
//     where there is no stable reference set.
//   - Cost moved only where less than half of a function's growth is left in a
//     domain of less than half of the program, the rest of which got cheaper.
//     Equivalence alone would excuse small growth in a domain of one function.
//   - Growth below a caller is a shift where the functions that grew there did
//     not grow by half as much over all callers.
//   - A function that is new or vanished is tested like any other; the share
//     carries half a sample, so that its effect is its share.
package diff
