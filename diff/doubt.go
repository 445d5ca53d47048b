package diff

import (
	"math"
	"slices"
	"strings"
)

// Bounds of doubt. They turn into warnings, and where a constant says so into
// an inconclusive verdict.
const (
	fewRuns          = 5    // below it, per side, effects must be very large
	fewSamples       = 500  // mean per run
	unevenRuns       = 3.0  // longest to shortest run of a side, in CPU per work
	lengthDiffers    = 2.0  // between the sides' means
	farLess          = 5.0  // head did so much less that it is not the same work: inconclusive
	littleCommon     = 0.10 // share in functions that both sides have: inconclusive
	muchOneSided     = 0.05 // share in functions that one side lacks
	muchUnsymbolized = 0.10 // share without function names
	anchorNoticeable = 0.01 // change of the calibration kernel
	driftMargin      = 0.01 // change of the reference set that is taken into account
)

// doubtRuns warns about the number, length and machine of the runs.
func (c *comparison) doubtRuns() {
	res, w := c.result, &c.warnings
	least := min(res.Base.Runs, res.Head.Runs)
	switch {
	case res.Advisory:
		w.add(WarnOneRun, "take 5 or more runs of each side",
			"one run a side: nothing is known about the variance between runs, so that no verdict is possible; intervals hold sampling noise only")
	case res.Base.Runs+res.Head.Runs < fewRuns+1 || c.options.Paired && least < fewRuns:
		w.add(WarnFewRuns, "take 5 or more runs of each side",
			"%d base and %d head runs: only large effects can be told from noise", res.Base.Runs, res.Head.Runs)
	}
	for _, side := range []struct {
		name string
		Side
		logCPU []float64
	}{{"base", res.Base, c.matrix.logCPU[:c.matrix.base]}, {"head", res.Head, c.matrix.logCPU[c.matrix.base:]}} {
		if perRun := side.Samples / float64(side.Runs); perRun < fewSamples {
			w.add(WarnFewSamples, "run the command longer, or sample at a higher frequency",
				"%.0f samples per %s run see only large effects", perRun, side.name)
		}
		if spread := math.Exp(slices.Max(side.logCPU) - slices.Min(side.logCPU)); spread > unevenRuns {
			w.add(WarnUnevenRuns, "look whether a run crashed or did other work",
				"the longest %s run took %.1f times the CPU of the shortest", side.name, spread)
		}
	}
	if ratio := math.Exp(c.meanLogRatio()); ratio > lengthDiffers || ratio < 1/lengthDiffers {
		w.add(WarnLengthDiffers, "look whether both sides did the same work to the end",
			"head took %.2f times base's CPU per unit of work", ratio)
	}
	if t := res.Total; t.HasAnchor && t.Tested && t.AnchorP < 0.01 && math.Abs(t.AnchorEffect) >= anchorNoticeable {
		w.add(WarnAnchorMoved, "use an idle or dedicated machine, or take more pairs",
			"the calibration kernel took %+.1f %% time beside head: the machine changed", 100*t.AnchorEffect)
	}
	if !c.options.Paired && c.anchors == nil && !c.sampled && !res.Advisory {
		w.add(WarnNoAnchor, "interleave the runs of both sides, or run the calibration kernel around them",
			"nothing tells a slower program from a slower machine: the total cannot fail the gate")
	}
}

// doubtFunctions warns about functions that cannot be matched or named, and
// about a reference set that moved.
func (c *comparison) doubtFunctions() {
	res, w := c.result, &c.warnings
	gone, added, unnamed, tested := 0.0, 0.0, 0.0, 0
	allZero := true
	for _, d := range res.Functions {
		switch {
		case d.ShareHead == 0:
			gone += d.ShareBase
		case d.ShareBase == 0:
			added += d.ShareHead
		}
		if strings.HasSuffix(d.Name, "[unsymbolized]") {
			unnamed += math.Max(d.ShareBase, d.ShareHead)
		}
		if d.Tested {
			tested++
			allZero = allZero && d.OwnVariance == 0
		}
	}
	switch {
	case c.commonShare() < littleCommon:
		w.add(WarnNoCommon, "compare runs of the same program, recorded with the same symbols",
			"the sides have next to no functions in common")
	case gone > muchOneSided || added > muchOneSided:
		w.add(WarnOneSided, "look whether functions were renamed, inlined or split",
			"functions with %.1f %% of base are not in head, functions with %.1f %% of head are not in base", 100*gone, 100*added)
	}
	if unnamed > muchUnsymbolized {
		w.add(WarnUnsymbolized, "keep symbols or debug files where the profile is recorded",
			"%.0f %% of the samples have no function name", 100*unnamed)
	}
	if tested == 0 && !res.Advisory {
		w.add(WarnNothingTested, "lower the least share of a function that is tested",
			"no function reaches a share of %.1f %%: single functions are bounded, not tested", 100*c.options.MinShare)
	}
	if tested > 0 && allZero {
		w.add(WarnZeroVariance, "take the runs independently of one another",
			"the runs of each side agree to the sample: their variance is not that of independent runs")
	}
	if c.drift.ratio != 0 {
		direction, still := "slower", "shrunk"
		if c.drift.ratio < 0 {
			direction, still = "faster", "grown"
		}
		w.add(WarnReferenceMoved, "read the effects of functions that held still as 0",
			"most of the program got %.1f %% %s; functions that only held still are not taken to have %s",
			100*math.Abs(math.Expm1(c.drift.ratio)), direction, still)
	}
}

// commonShare is the smaller side's share in functions that both sides have.
func (c *comparison) commonShare() float64 {
	base, head := 0.0, 0.0
	for _, d := range c.result.Functions {
		if d.ShareBase > 0 && d.ShareHead > 0 {
			base, head = base+d.ShareBase, head+d.ShareHead
		}
	}
	return math.Min(base, head)
}

// meanLogRatio is the log of head's CPU per unit of work over base's.
func (c *comparison) meanLogRatio() float64 {
	base, head := c.matrix.sides(c.matrix.logCPU)
	return head - base
}
