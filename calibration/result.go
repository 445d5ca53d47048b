package calibration

// SchemaVersion is the version of the JSON form of Result.
const SchemaVersion = 1

// Result is what the runs of one program say about the machine and the gate.
// Effects, shares and rates are fractions, as in package diff; nothing is
// infinite or not a number.
type Result struct {
	SchemaVersion int    `json:"schema_version"`
	Verdict       Fit    `json:"verdict"`
	Reason        string `json:"reason"` // one sentence

	Pairs     int    `json:"pairs"` // that the runs make
	Runs      int    `json:"runs"`
	Frequency int    `json:"frequency_hz"`
	Seed      uint64 `json:"seed"`

	Wall   Spread `json:"wall"`   // seconds
	CPU    Spread `json:"cpu"`    // CPU-seconds of the target, per unit of work
	Anchor Spread `json:"anchor"` // CPU-seconds of the calibration kernel; zero without one

	Noise       Noise          `json:"noise"`
	Gates       []Gate         `json:"gates"`
	Detectable  Detectable     `json:"detectable"`
	Recommended Recommendation `json:"recommended"`
	Warnings    []Warning      `json:"warnings"`
}

// Fit is the verdict on a machine.
type Fit string

const (
	// Fits: the gate finds the regressions that it should within MostPairs
	// pairs, if need be at a higher frequency.
	Fits Fit = "fit"
	// Noisy: it takes more pairs than that, or more work in a run.
	Noisy Fit = "noisy"
	// Unsound: more reds between equal programs than the budget allows, beyond
	// chance. Nothing that the gate says here is to be believed.
	Unsound Fit = "unsound"
)

// Spread is a quantity over runs.
type Spread struct {
	Mean float64 `json:"mean"`
	CV   float64 `json:"cv"` // coefficient of variation
}

// Noise is the variance between runs of the functions that the gate tests.
type Noise struct {
	Functions int `json:"functions"`
	// MedianCV is that of a function's cost relative to all others.
	MedianCV float64 `json:"median_cv"`
	// MedianRatio is the median of variance over the multinomial limit: 1 is
	// what sampling alone makes.
	MedianRatio float64 `json:"median_ratio"`
	// Noisiest have the largest ratios, largest first.
	Noisiest []FunctionNoise `json:"noisiest"`
}

// FunctionNoise is the noise of one function.
type FunctionNoise struct {
	Function
	CV    float64 `json:"cv"`
	Ratio float64 `json:"ratio"`
}

// Function names a function and its part of the CPU.
type Function struct {
	Name  string  `json:"name"`
	File  string  `json:"file,omitempty"`
	Line  int     `json:"line,omitempty"`
	Share float64 `json:"share"`
}

// Gate is how often a gate came to which verdict on the same program. Every
// red is false.
type Gate struct {
	// Name is "compare" for pairs of neighbouring runs with looks in between,
	// "check" for one look at two sets of runs.
	Name string `json:"name"`
	// Judged is the number of distinct ways of taking the runs for base and
	// head that were judged.
	Judged       int     `json:"judged"`
	Red          int     `json:"red"`
	Pass         int     `json:"pass"`
	Inconclusive int     `json:"inconclusive"`
	Rate         float64 `json:"red_rate"`
	// Low and High are the exact bounds of Clopper and Pearson, each holding
	// with a confidence of 95 %.
	Low  float64 `json:"red_rate_low"`
	High float64 `json:"red_rate_high"`
	// MeanPairs is what a gate took until it stopped.
	MeanPairs float64 `json:"mean_pairs"`
	// Blamed are the functions that the red gates named first, most often
	// first.
	Blamed []string `json:"blamed"`
}

// Detectable are the smallest regressions that Pairs pairs show with the
// power of diff.Options.PowerTarget.
type Detectable struct {
	Power  float64 `json:"power"`
	Median float64 `json:"median"` // of the tested functions
	Worst  float64 `json:"worst"`
	// WorstFunction is the one of Worst.
	WorstFunction string               `json:"worst_function"`
	Functions     []DetectableFunction `json:"functions"` // the largest
	Total         DetectableTotal      `json:"total"`
}

// DetectableFunction is the smallest regression to be seen in a function.
type DetectableFunction struct {
	Function
	Effect float64 `json:"effect"`
	// Goal is what should be seen: diff.Options.Equivalence, or twice the
	// function's margin where that is more. Pairs is the number that shows it.
	Goal  float64 `json:"goal"`
	Pairs int     `json:"pairs"`
}

// DetectableTotal is the smallest growth of the total to be seen; all 0 where
// nothing is known about it.
type DetectableTotal struct {
	Effect float64 `json:"effect"`
	Goal   float64 `json:"goal"`  // diff.Options.TotalEquivalence
	Pairs  int     `json:"pairs"` // that show it; 0: no number does
}

// Recommendation is how to run the gate here.
type Recommendation struct {
	// Pairs is the number of pairs, or runs a side, that shows the goal in
	// every function: more than MostPairs where neither a higher frequency nor
	// 50 times the work makes those suffice; 0: out of reach.
	Pairs     int `json:"pairs"`
	Frequency int `json:"frequency_hz"`
	// Work is how many times the work of a run it takes; 1 is as it is.
	Work int `json:"work"`
	// Seconds is how long Pairs pairs take.
	Seconds float64 `json:"seconds"`
	// Why is a clause on what decided.
	Why string `json:"why"`
}

// Warning is a doubt about the calibration itself.
type Warning struct {
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}
