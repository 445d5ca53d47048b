package report

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tollgate-dev/tollgate/diff"
)

func resultSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("result.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, r *diff.Result, m Meta) {
	t.Helper()
	var buf bytes.Buffer
	if err := JSON(&buf, r, m); err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(buf.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Fatalf("%v\n%.4000s", err, buf.Bytes())
	}
}

func TestJSONFollowsItsSchema(t *testing.T) {
	schema := resultSchema(t)
	for name, r := range examples() {
		t.Run(name, func(t *testing.T) {
			validate(t, schema, r, exampleMeta())
			validate(t, schema, r, Meta{})
		})
	}
}

// Results full of numbers that JSON does not have must come out as null, not as an error.
func TestJSONOfAnyNumbersFollowsItsSchema(t *testing.T) {
	schema := resultSchema(t)
	random := rand.New(rand.NewPCG(3, 4))
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 0.5, 1e-300, 1, math.SmallestNonzeroFloat64}
	for range 300 {
		r := failing()
		scramble(reflect.ValueOf(r).Elem(), func() float64 { return special[random.IntN(len(special))] })
		validate(t, schema, nonNegative(r), exampleMeta())
	}
}

// scramble replaces every float64 in v.
func scramble(v reflect.Value, next func() float64) {
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(next())
	case reflect.Struct:
		for i := range v.NumField() {
			scramble(v.Field(i), next)
		}
	case reflect.Slice:
		for i := range v.Len() {
			scramble(v.Index(i), next)
		}
	}
}

// nonNegative puts the fields that the schema bounds below back into their range.
func nonNegative(r *diff.Result) *diff.Result {
	fix := func(fields ...*float64) {
		for _, f := range fields {
			*f = math.Abs(*f)
		}
	}
	fix(&r.Base.Samples, &r.Base.CPUSeconds, &r.Base.CV, &r.Head.Samples, &r.Head.CPUSeconds, &r.Head.CV)
	return r
}

func TestJSONHasTheValuesOfTheResult(t *testing.T) {
	var buf bytes.Buffer
	if err := JSON(&buf, failing(), exampleMeta()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdict  string `json:"verdict"`
		Suite    string `json:"suite"`
		Findings []struct {
			Kind      string  `json:"kind"`
			Function  string  `json:"function"`
			File      string  `json:"file"`
			Line      int     `json:"line"`
			Effect    float64 `json:"effect_pp"`
			Low       float64 `json:"ci_low_pp"`
			High      float64 `json:"ci_high_pp"`
			P         float64 `json:"p"`
			Q         float64 `json:"q"`
			ShareBase float64 `json:"share_base"`
			ShareHead float64 `json:"share_head"`
		} `json:"findings"`
		Warnings  []diff.Warning `json:"warnings"`
		Functions []struct {
			Function string   `json:"function"`
			Upper    *float64 `json:"upper_pp"`
		} `json:"functions"`
		Total struct {
			Effect float64 `json:"effect_percent"`
		} `json:"total"`
		Base struct {
			Commit string `json:"commit"`
			Runs   int    `json:"runs"`
		} `json:"base"`
	}
	if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	first := got.Findings[0]
	if got.Verdict != "fail" || got.Suite != "parse" || len(got.Findings) != 6 || len(got.Warnings) != 1 || got.Total.Effect != 3.1 || got.Base.Runs != 10 || len(got.Base.Commit) != 40 {
		t.Errorf("document %+v", got)
	}
	if first.Kind != "regression" || first.Function != "parser.(*Lexer).Next" || first.File != "/src/parser/lexer.go" || first.Line != 41 ||
		first.Effect != 2.31 || first.Low != 1.82 || first.High != 2.8 || first.P != 1e-6 || first.Q != 2e-5 || first.ShareBase != 0.121 || first.ShareHead != 0.1441 {
		t.Errorf("first finding %+v", first)
	}
	if len(got.Functions) != 1 || got.Functions[0].Function != "parser.(*Lexer).Next" || got.Functions[0].Upper != nil {
		t.Errorf("functions %+v, want the tested one with an unbounded interval as null", got.Functions)
	}
}

// Programs index into these without asking whether they are there.
func TestJSONListsAreNeverNull(t *testing.T) {
	var buf bytes.Buffer
	if err := JSON(&buf, &diff.Result{}, Meta{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"findings": []`, `"warnings": []`, `"functions": []`} {
		if !bytes.Contains(buf.Bytes(), []byte(want)) {
			t.Errorf("%s is not in\n%s", want, buf.Bytes())
		}
	}
}

func TestJSONNamesGroupsAndCallers(t *testing.T) {
	caller := diff.Caller{Function: "http.handle", File: "/src/http.go", Line: 7, Object: "prog", Coverage: 1.02, ShareBase: 0.3}
	r := failing()
	r.GroupAlpha = 0.001
	r.Findings = []diff.Finding{
		{Kind: diff.Regression, Severity: diff.Fails, Function: "runtime.memmove", Through: &caller, Callers: []diff.Caller{caller}},
		{Kind: diff.Regression, Severity: diff.Fails, Group: diff.GroupPackage, Function: "encoding/json", Touched: true},
		{Kind: diff.Regression, Severity: diff.Fails, Group: diff.GroupCalls, Function: "main.parse"},
	}
	validate(t, resultSchema(t), r, exampleMeta())
	var buf bytes.Buffer
	if err := JSON(&buf, r, exampleMeta()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		GroupAlpha float64 `json:"group_alpha"`
		Findings   []struct {
			Group    string `json:"group"`
			Touched  bool   `json:"touched"`
			Function string `json:"function"`
			Through  *struct {
				Function string  `json:"function"`
				Line     int     `json:"line"`
				Coverage float64 `json:"coverage"`
			} `json:"through"`
			Callers []struct {
				ShareBase float64 `json:"share_base"`
			} `json:"callers"`
		} `json:"findings"`
	}
	if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if f := got.Findings[0]; f.Group != "" || f.Through == nil || f.Through.Function != "http.handle" || f.Through.Line != 7 || f.Through.Coverage != 1.02 || len(f.Callers) != 1 || f.Callers[0].ShareBase != 0.3 {
		t.Errorf("got %+v, want memmove through http.handle", f)
	}
	if f := got.Findings[1]; f.Group != "package" || !f.Touched || got.Findings[0].Touched || f.Function != "encoding/json" || f.Through != nil || got.GroupAlpha != 0.001 {
		t.Errorf("got %+v at %v, want a package without callers at 0.001", f, got.GroupAlpha)
	}
	if text := render(t, r, exampleMeta(), TextOptions{}); !bytes.Contains([]byte(text), []byte("package encoding/json")) || !bytes.Contains([]byte(text), []byte("main.parse with what it calls")) {
		t.Errorf("the text does not name the groups:\n%s", text)
	}
}
