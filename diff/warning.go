package diff

import "fmt"

// Warning is a doubt about the comparison: what is odd, and what to do. Code
// is stable.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// Codes of Warning.
const (
	WarnOneRun            = "one-run"
	WarnFewRuns           = "few-runs"
	WarnFewSamples        = "few-samples"
	WarnNoSamples         = "no-samples"
	WarnDuplicateRun      = "duplicate-run"
	WarnZeroVariance      = "zero-variance"
	WarnUnevenRuns        = "uneven-runs"
	WarnLengthDiffers     = "length-differs"
	WarnPeriodDiffers     = "period-differs"
	WarnNoPeriod          = "no-period"
	WarnScopeDiffers      = "scope-differs"
	WarnSampledCPU        = "sampled-cpu"
	WarnNoAnchor          = "no-anchor"
	WarnAnchorMoved       = "anchor-moved"
	WarnUnstableReference = "unstable-reference"
	WarnReferenceMoved    = "reference-moved"
	WarnNoCommon          = "no-common-functions"
	WarnOneSided          = "one-sided-functions"
	WarnUnsymbolized      = "unsymbolized"
	WarnNothingTested     = "nothing-tested"
)

// warnings collects doubts in the order in which they arise.
type warnings []Warning

func (w *warnings) add(code, hint, format string, args ...any) {
	*w = append(*w, Warning{Code: code, Text: fmt.Sprintf(format, args...), Hint: hint})
}
