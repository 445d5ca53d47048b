package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/tollgate-dev/tollgate/diff"
)

// SchemaVersion is the version of the JSON document. Properties may be added within a version.
const SchemaVersion = 1

// Schema is the JSON Schema (2020-12) of what JSON writes.
//
//go:embed schema/result.schema.json
var Schema []byte

// number is a float that JSON can hold: what is infinite or undefined becomes null.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// points converts a fraction to percentage points, or to per cent.
func points(fraction float64) number {
	// Rounded to 1e-10 so that 0.0225 does not come out as 2.2499999999999996.
	if p := math.Round(fraction*1e12) / 1e10; !math.IsNaN(p) && !math.IsInf(p, 0) {
		return number(p)
	}
	return number(fraction * 100)
}

type document struct {
	SchemaVersion int            `json:"schema_version"`
	ToolVersion   string         `json:"tool_version,omitempty"`
	Suite         string         `json:"suite,omitempty"`
	Time          time.Time      `json:"time,omitzero"`
	Verdict       string         `json:"verdict"`
	Reason        documentReason `json:"reason"`
	Advisory      bool           `json:"advisory"`
	Paired        bool           `json:"paired"`

	Findings []documentFinding  `json:"findings"`
	Total    documentTotal      `json:"total"`
	Warnings []diff.Warning     `json:"warnings"`
	Base     documentSide       `json:"base"`
	Head     documentSide       `json:"head"`
	Function []documentFunction `json:"functions"`

	MDE              number `json:"mde_pp"`
	MDEFunction      string `json:"mde_function,omitempty"`
	MDEMedian        number `json:"mde_median_pp"`
	PairsNeeded      int    `json:"pairs_needed"`
	Confidence       number `json:"confidence"`
	Equivalence      number `json:"equivalence_pp"`
	TotalEquivalence number `json:"total_equivalence_percent"`
	FunctionAlpha    number `json:"function_alpha"`
	GroupAlpha       number `json:"group_alpha"`
	TotalAlpha       number `json:"total_alpha"`
}

type documentReason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// documentEvidence is what findings and tested functions have in common.
type documentEvidence struct {
	Function   string `json:"function"`
	SystemName string `json:"system_name,omitempty"`
	File       string `json:"file"`
	Line       int    `json:"line"`
	Object     string `json:"object,omitempty"`
	Effect     number `json:"effect_pp"`
	Low        number `json:"ci_low_pp"`
	High       number `json:"ci_high_pp"`
	P          number `json:"p"`
	Q          number `json:"q"`
	ShareBase  number `json:"share_base"`
	ShareHead  number `json:"share_head"`
	DF         number `json:"df"`
}

type documentFinding struct {
	Kind     diff.Kind      `json:"kind"`
	Severity diff.Severity  `json:"severity"`
	Group    diff.GroupKind `json:"group,omitempty"`
	documentEvidence
	Runs    int              `json:"runs"`
	Text    string           `json:"text,omitempty"`
	Touched bool             `json:"touched,omitempty"`
	Through *documentCaller  `json:"through,omitempty"`
	Callers []documentCaller `json:"callers,omitempty"`
}

type documentCaller struct {
	Function  string `json:"function"`
	File      string `json:"file"`
	Line      int    `json:"line"`
	Object    string `json:"object,omitempty"`
	Coverage  number `json:"coverage"`
	ShareBase number `json:"share_base"`
}

type documentFunction struct {
	documentEvidence
	Upper    number `json:"upper_pp"`
	PImprove number `json:"p_improve"`
	QImprove number `json:"q_improve"`
	MDE      number `json:"mde_pp"`
	Shifted  bool   `json:"shifted"`
}

type documentTotal struct {
	Tested      bool            `json:"tested"`
	Sampled     bool            `json:"sampled"`
	Effect      number          `json:"effect_percent"`
	Low         number          `json:"ci_low_percent"`
	High        number          `json:"ci_high_percent"`
	Upper       number          `json:"upper_percent"`
	P           number          `json:"p"`
	PImprove    number          `json:"p_improve"`
	DF          number          `json:"df"`
	MDE         number          `json:"mde_percent"`
	PairsNeeded int             `json:"pairs_needed"`
	Reference   number          `json:"reference_effect_percent"`
	Anchor      *documentAnchor `json:"anchor,omitempty"`
}

type documentAnchor struct {
	Effect number `json:"effect_percent"`
	Low    number `json:"ci_low_percent"`
	High   number `json:"ci_high_percent"`
	P      number `json:"p"`
	Moved  bool   `json:"moved"`
}

type documentSide struct {
	Source      string    `json:"source,omitempty"`
	Command     string    `json:"command,omitempty"`
	Commit      string    `json:"commit,omitempty"`
	Branch      string    `json:"branch,omitempty"`
	Dirty       bool      `json:"dirty"`
	Time        time.Time `json:"time,omitzero"`
	Environment string    `json:"environment,omitempty"`
	Partial     string    `json:"partial,omitempty"`
	Runs        int       `json:"runs"`
	Samples     number    `json:"samples"`
	CPUSeconds  number    `json:"cpu_seconds"`
	CV          number    `json:"cv"`
	Functions   int       `json:"functions"`
	Event       string    `json:"event,omitempty"`
}

// JSON writes the result with all of its evidence as one JSON document that follows Schema. Effects
// are in percentage points of the baseline's CPU, those of the total in per cent; shares are fractions.
// A number that does not exist, such as the bound of an interval without one, is null.
func JSON(w io.Writer, r *diff.Result, m Meta) error {
	d := document{
		SchemaVersion: SchemaVersion,
		ToolVersion:   m.ToolVersion,
		Suite:         m.Suite,
		Time:          m.Time,
		Verdict:       r.Verdict.String(),
		Reason:        documentReason(r.Reason),
		Advisory:      r.Advisory,
		Paired:        r.Paired,

		Findings: make([]documentFinding, 0, len(r.Findings)),
		Function: make([]documentFunction, 0, r.Tested),
		Warnings: append(append([]diff.Warning{}, r.Warnings...), m.Notes...),
		Total:    documentOfTotal(r.Total),
		Base:     documentOfSide(r.Base, m.Base),
		Head:     documentOfSide(r.Head, m.Head),

		MDE:              points(r.MDE),
		MDEFunction:      r.MDEFunction,
		MDEMedian:        points(r.MDEMedian),
		PairsNeeded:      r.PairsNeeded,
		Confidence:       number(r.Confidence),
		Equivalence:      points(r.Equivalence),
		TotalEquivalence: points(r.TotalEquivalence),
		FunctionAlpha:    number(r.FunctionAlpha),
		GroupAlpha:       number(r.GroupAlpha),
		TotalAlpha:       number(r.TotalAlpha),
	}
	for _, f := range r.Findings {
		var through *documentCaller
		if f.Through != nil {
			c := documentOfCaller(*f.Through)
			through = &c
		}
		var callers []documentCaller
		for _, c := range f.Callers {
			callers = append(callers, documentOfCaller(c))
		}
		d.Findings = append(d.Findings, documentFinding{
			Kind:     f.Kind,
			Severity: f.Severity,
			Group:    f.Group,
			documentEvidence: documentEvidence{
				Function: f.Function, SystemName: f.SystemName, File: f.File, Line: f.Line, Object: f.Object,
				Effect: points(f.Effect), Low: points(f.CI.Low), High: points(f.CI.High),
				P: number(f.P), Q: number(f.Q),
				ShareBase: number(f.ShareBase), ShareHead: number(f.ShareHead), DF: number(f.DF),
			},
			Runs:    f.Runs,
			Text:    f.Text,
			Touched: f.Touched,
			Through: through,
			Callers: callers,
		})
	}
	for _, f := range r.Functions {
		if !f.Tested {
			continue
		}
		d.Function = append(d.Function, documentFunction{
			documentEvidence: documentEvidence{
				Function: f.Name, SystemName: f.SystemName, File: f.File, Line: f.Line, Object: f.Object,
				Effect: points(f.Effect), Low: points(f.CI.Low), High: points(f.CI.High),
				P: number(f.P), Q: number(f.Q),
				ShareBase: number(f.ShareBase), ShareHead: number(f.ShareHead), DF: number(f.DF),
			},
			Upper:    points(f.Upper),
			PImprove: number(f.PImprove),
			QImprove: number(f.QImprove),
			MDE:      points(f.MDE),
			Shifted:  f.Shifted,
		})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return fmt.Errorf("write JSON report: %w", err)
	}
	return nil
}

func documentOfCaller(c diff.Caller) documentCaller {
	return documentCaller{
		Function: c.Function, File: c.File, Line: c.Line, Object: c.Object,
		Coverage: number(c.Coverage), ShareBase: number(c.ShareBase),
	}
}

func documentOfTotal(t diff.Total) documentTotal {
	d := documentTotal{
		Tested:      t.Tested,
		Sampled:     t.Sampled,
		Effect:      points(t.Effect),
		Low:         points(t.CI.Low),
		High:        points(t.CI.High),
		Upper:       points(t.Upper),
		P:           number(t.P),
		PImprove:    number(t.PImprove),
		DF:          number(t.DF),
		MDE:         points(t.MDE),
		PairsNeeded: t.PairsNeeded,
		Reference:   points(t.ReferenceEffect),
	}
	if t.HasAnchor {
		d.Anchor = &documentAnchor{
			Effect: points(t.AnchorEffect),
			Low:    points(t.AnchorCI.Low),
			High:   points(t.AnchorCI.High),
			P:      number(t.AnchorP),
			Moved:  t.AnchorMoved,
		}
	}
	return d
}

func documentOfSide(s diff.Side, m Side) documentSide {
	return documentSide{
		Source:      m.Source,
		Command:     m.Command,
		Commit:      m.Commit,
		Branch:      m.Branch,
		Dirty:       m.Dirty,
		Time:        m.Time,
		Environment: m.Environment,
		Partial:     m.Partial,
		Runs:        s.Runs,
		Samples:     number(s.Samples),
		CPUSeconds:  number(s.CPUSeconds),
		CV:          number(s.CV),
		Functions:   s.Functions,
		Event:       s.Event,
	}
}
