package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/tollgate-dev/tollgate/diff"
)

// simulatedRuns returns runs of a program of 40 functions, with scale as the cost of its hottest one
// relative to the base version.
func simulatedRuns(random *rand.Rand, runs int, prefix string, scale float64) []diff.Run {
	out := make([]diff.Run, runs)
	for r := range out {
		p := &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
			PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
			Period:     1_000_000,
		}
		total := 0.0
		for i := range 40 {
			mean := 3000 / float64(i+3)
			if i == 0 {
				mean *= scale
			}
			n := int64(mean + random.NormFloat64()*mean*0.01)
			total += float64(n)
			function := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("%sf%d", prefix, i), Filename: "/src/f.c", StartLine: int64(i + 1)}
			location := &profile.Location{ID: function.ID, Line: []profile.Line{{Function: function, Line: int64(i + 2)}}}
			p.Function = append(p.Function, function)
			p.Location = append(p.Location, location)
			p.Sample = append(p.Sample, &profile.Sample{
				Location: []*profile.Location{location}, Value: []int64{n, n * p.Period}, Label: map[string][]string{"target": {"1"}},
			})
		}
		out[r] = diff.Run{Profile: p, CPUSeconds: total / 1000, Work: 1, Anchor: 0.01 * (1 + 0.001*random.NormFloat64())}
	}
	return out
}

// Whatever package diff makes of runs can be shown and follows the schema.
func TestReportsOfRealComparisons(t *testing.T) {
	schema := resultSchema(t)
	for _, test := range []struct {
		name       string
		base, head int
		prefix     string
		scale      float64
		paired     bool
		want       string // beginning of the text; "" for any verdict
	}{
		{"regression", 10, 10, "", 1.3, true, "FAIL  f0 "},
		{"improvement", 10, 10, "", 0.7, true, ""},
		{"nothing", 10, 10, "", 1, true, ""},
		{"unpaired", 5, 8, "", 1.3, false, "FAIL  f0 "},
		{"few runs", 2, 2, "", 1.3, false, ""},
		{"one run", 1, 1, "", 1.3, false, "INCONCLUSIVE  "},
		{"other program", 5, 5, "other_", 1, false, "INCONCLUSIVE  "},
	} {
		t.Run(test.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, 8))
			base := simulatedRuns(random, test.base, "", 1)
			head := simulatedRuns(random, test.head, test.prefix, test.scale)
			r, err := diff.Compare(base, head, diff.Options{Paired: test.paired})
			if err != nil {
				t.Fatal(err)
			}
			validate(t, schema, r, exampleMeta())
			got := render(t, r, Meta{}, TextOptions{Width: 100})
			if !strings.HasPrefix(got, test.want) || strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
				t.Errorf("the text begins otherwise than %q or has a number that is none:\n%s", test.want, got)
			}
			if line := Summary(r, Meta{}); strings.Contains(line, "\n") || !strings.HasPrefix(line, r.Verdict.String()+": ") {
				t.Errorf("summary %q", line)
			}
			t.Log("\n" + got)
		})
	}
}
