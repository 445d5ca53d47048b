package diff

import "fmt"

// Verdict is the outcome of a comparison.
type Verdict uint8

const (
	// Inconclusive: the runs show neither a regression nor its absence.
	Inconclusive Verdict = iota
	// Pass: regressions of Options.Equivalence and above are ruled out.
	Pass
	// Fail: a regression is shown.
	Fail
)

// String returns "inconclusive", "pass" or "fail".
func (v Verdict) String() string {
	switch v {
	case Pass:
		return "pass"
	case Fail:
		return "fail"
	}
	return "inconclusive"
}

// MarshalText encodes the verdict as String does.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText decodes what MarshalText wrote.
func (v *Verdict) UnmarshalText(text []byte) error {
	for _, known := range []Verdict{Inconclusive, Pass, Fail} {
		if known.String() == string(text) {
			*v = known
			return nil
		}
	}
	return fmt.Errorf("decode verdict: %q is not pass, fail or inconclusive", text)
}

// Kind says what a finding is about.
type Kind string

const (
	// Regression: a function costs more.
	Regression Kind = "regression"
	// Improvement: a function costs less.
	Improvement Kind = "improvement"
	// CostShift: cost moved between functions, and their sum did not grow.
	CostShift Kind = "cost-shift"
	// Uniform: the total moved and no single function accounts for it.
	// Function is empty.
	Uniform Kind = "uniform"
)

// Severity says what a finding does to the verdict.
type Severity string

const (
	// Fails: the finding turns the verdict to Fail.
	Fails Severity = "fail"
	// Warns: worth a look, and no reason to fail.
	Warns Severity = "warn"
	// Informs: good or neutral news.
	Informs Severity = "info"
)

// Interval is a confidence interval, in the unit of the effect it belongs to.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Function identifies a function of the compared programs.
type Function struct {
	// Name is the canonical, source-level name.
	Name string `json:"name"`
	// SystemName is the linkage name, with its suffixes, of the heaviest
	// variant.
	SystemName string `json:"system_name,omitempty"`
	// File and Line are where the function starts (or its hottest line, when
	// the start is not recorded), 0 when unknown; head's, else base's.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Object is the base name of the mapped file; Kernel tells kernel code.
	Object string `json:"object,omitempty"`
	Kernel bool   `json:"kernel,omitempty"`
}

// Finding is a change that the evidence supports. Effects, intervals and
// shares are fractions of the baseline's total CPU per unit of work, so that
// 0.012 is +1.2 percentage points.
type Finding struct {
	Kind     Kind
	Severity Severity

	// Group is empty for a finding on one function. Otherwise Function is the
	// name of the group, or for GroupCalls the function that calls.
	Group      GroupKind
	Function   string // empty for Uniform
	SystemName string
	File       string
	Line       int
	Object     string

	Effect    float64
	CI        Interval // two-sided, at Options.Confidence
	P         float64  // one-sided, against the minimum effect
	Q         float64  // after weighted Benjamini-Hochberg
	ShareBase float64
	ShareHead float64
	Runs      int // base and head runs together
	DF        float64

	// Through is the deepest frame that explains the growth: most of it, as
	// Options.CoverIncrease says, happened below a frame that held no more than
	// Options.CoverBaseline of the function before. nil where no frame does.
	// Callers are all such frames, best coverage first.
	Through *Caller
	Callers []Caller

	// Touched: the change under test touches the function. Of a group, some
	// function in it.
	Touched bool

	// Text is one sentence on why the severity is what it is; may be empty.
	Text string

	kernel bool
}

// Subject returns what the finding is about, as a sentence calls it.
func (f Finding) Subject() string { return f.Group.phrase(f.Function) }

// Delta is the evidence on one function, found guilty or not. Units as in
// Finding.
type Delta struct {
	Function

	Effect float64
	CI     Interval
	// Upper is the upper bound that holds at once, at Options.Confidence, for
	// all functions whose share reached Options.MinShare on some side. The
	// bounds of smaller functions are as wide, though not counted. A pass needs
	// every one below Options.Equivalence.
	Upper float64
	// LogRatio is the estimate on the scale of the test: the logarithm of
	// head's cost over base's. StdErr is its standard error, Margin the bound
	// on the same scale that the test demands.
	LogRatio float64
	StdErr   float64
	Margin   float64
	DF       float64

	// P and Q are of the one-sided test for growth, PImprove and QImprove of
	// the one for shrinking. All are 1 where Tested is false.
	P, Q               float64
	PImprove, QImprove float64
	Weight             float64
	// Layout is the standard deviation of LogRatio that another layout of the
	// same code is taken to cause, and LayoutQ is Q with it counted in, which
	// has to be significant too for the function to fail the gate. Layout is 0
	// for code that the change touches or that was not rebuilt.
	Layout  float64
	LayoutQ float64
	// Tested: the pooled mean share reached Options.MinShare.
	Tested bool
	// Shifted: the cost moved. Either only one side has the function, and the
	// functions that only one side has did not grow as a whole; or its callers
	// with what they call, its file or its package did not. It is reported as
	// CostShift, and its bound does not stand against a pass.
	Shifted bool
	domain  *shiftDomain // that it moved in, where Shifted
	// Touched: the change under test touches the function.
	Touched bool
	// Was is base's name for the function, where it is another one.
	Was string

	ShareBase, ShareHead float64
	// SamplesBase and SamplesHead are mean self samples per run.
	SamplesBase, SamplesHead float64
	// OwnVariance and PriorVariance are what StdErr was moderated from: the
	// variance of the log cost between runs, and what functions of this size
	// show.
	OwnVariance, PriorVariance float64

	// MDE is the smallest effect that the gate would have found with
	// probability Options.PowerTarget; PairsNeeded is the number of pairs that
	// brings it to Options.Equivalence (0 when no number does).
	MDE         float64
	PairsNeeded int
}

// Total is the evidence on the CPU per unit of work as a whole. Effects are
// fractions of the baseline.
type Total struct {
	// Effect is that of ln(CPU/work); P is one-sided, for growth beyond
	// Options.TotalMinEffect; Upper is the bound a pass needs below
	// Options.TotalEquivalence.
	Effect   float64
	CI       Interval
	P        float64
	PImprove float64
	Upper    float64
	StdErr   float64 // of the log ratio
	DF       float64
	MDE      float64
	// PairsNeeded brings MDE to Options.TotalEquivalence; 0 when none does.
	PairsNeeded int

	// ReferenceEffect is the part that the reference set of functions shares:
	// what a uniform slowdown looks like.
	ReferenceEffect float64
	ReferenceCI     Interval

	// Anchor is the change of the calibration kernel's time, and AnchorMoved
	// whether it accounts for that of the total. HasAnchor is false when some
	// run came without one.
	HasAnchor    bool
	AnchorEffect float64
	AnchorCI     Interval
	AnchorP      float64 // two-sided, against no change
	AnchorMoved  bool

	// Tested is false where no variance between runs exists. Sampled is true
	// when the CPU-seconds were counted from samples.
	Tested  bool
	Sampled bool
}

// Side summarises the runs of one side.
type Side struct {
	Runs       int
	Samples    float64 // judged samples, of all runs
	CPUSeconds float64 // mean per run, divided by the units of work
	// CV is the coefficient of variation of CPUSeconds, 0 for one run.
	CV        float64
	Functions int
	Period    float64 // sampling period in the unit of the event; 0 unknown
	Event     string  // what the period counts: "cpu", "cycles"
}

// Reference describes the set of functions that runs were normalised by.
type Reference struct {
	Functions int     // in the set
	Moved     float64 // part of the weight that moved
	Stable    bool    // false: no normalisation took place
}

// Prior describes the variance that functions were shrunk towards:
// A + B/count, with DF degrees of freedom (0: no shrinkage).
type Prior struct {
	A, B, DF  float64
	Functions int // that the fit used
}

// Reason says in one sentence why the verdict is what it is. Code is stable.
type Reason struct {
	Code string
	Text string
}

// Codes of Reason.
const (
	ReasonRegression    = "regression"     // a function costs more
	ReasonUniform       = "uniform"        // the total is up, no function accounts for it
	ReasonRuledOut      = "ruled-out"      // regressions of the size that matters are ruled out
	ReasonMachine       = "machine"        // the total moved and so did the machine
	ReasonUnanchored    = "unanchored"     // the total moved and nothing tells program from machine
	ReasonTotalSampled  = "total-sampled"  // the total moved, and is known from samples only
	ReasonWide          = "wide"           // the bounds are too wide to pass
	ReasonAdvisory      = "advisory"       // one run a side
	ReasonZeroVariance  = "zero-variance"  // runs of a side are copies of one another
	ReasonNotComparable = "not-comparable" // no common functions, or far less work
)

// Stop tells a sequential caller what to do next.
type Stop string

const (
	// StopPass and StopFail: the verdict stands, take no more runs.
	StopPass Stop = "pass"
	StopFail Stop = "fail"
	// StopFutile: nothing hints at a regression, more runs would not find one.
	StopFutile Stop = "futile"
	// StopContinue: take runs up to the next look.
	StopContinue Stop = "continue"
	// StopExhausted: this was the last look.
	StopExhausted Stop = "exhausted"
)

// Result is the verdict with all of its evidence. All numbers are finite: where
// one run a side leaves a quantity unknown (Advisory), it is 0, and p- and
// q-values are 1.
type Result struct {
	Verdict Verdict
	Reason  Reason
	// Stop is about the sequence of looks; without one it is never
	// StopContinue.
	Stop Stop
	// Advisory: one run a side, effects without a test behind them.
	Advisory bool
	Paired   bool

	Findings  []Finding // failing first, then by size
	Functions []Delta   // largest absolute effect first
	// Groups are the tested groups and calling contexts, for growth and for
	// shrinking.
	Groups []Aggregate
	// Renames are functions that were matched under different names.
	Renames []Rename
	Total   Total

	// MDE is the largest of the tested functions' minimum detectable effects,
	// MDEFunction the function it belongs to, MDEMedian the median;
	// PairsNeeded is the number of pairs that brings all of them and the
	// total's to the equivalence bounds (0 when no number does).
	MDE         float64
	MDEFunction string
	MDEMedian   float64
	PairsNeeded int

	// FunctionAlpha, GroupAlpha and TotalAlpha are the levels that Q and Total.P
	// were held against at this look; Confidence is that of the intervals.
	FunctionAlpha, GroupAlpha, TotalAlpha float64
	Confidence                            float64
	// Equivalence and TotalEquivalence are the bounds a pass had to meet.
	Equivalence, TotalEquivalence float64
	Tested                        int

	Warnings   []Warning
	Base, Head Side
	Reference  Reference
	Prior      Prior
}
