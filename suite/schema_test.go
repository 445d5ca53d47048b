package suite

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tollgate-dev/tollgate/capture"
	"github.com/tollgate-dev/tollgate/diff"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("tollgate.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("tollgate.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validate checks a YAML document as an editor does.
func validate(t *testing.T, schema *jsonschema.Schema, data []byte) error {
	t.Helper()
	var document any
	if err := yaml.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(document)
	if err != nil {
		t.Skip("JSON has no way to say it: ", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

// Files that are right, and files whose mistake is beyond a schema, are
// accepted by it; files of the wrong form by neither.
func TestSchemaAgreesWithParse(t *testing.T) {
	schema := compileSchema(t)
	for dir, want := range map[string]struct{ schema, parse bool }{
		"valid":   {true, true},
		"meaning": {true, false},
		"form":    {false, false},
	} {
		names, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
		if err != nil || len(names) == 0 {
			t.Fatal("no files in ", dir, err)
		}
		for _, name := range names {
			t.Run(filepath.ToSlash(name), func(t *testing.T) {
				data, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := validate(t, schema, data); (err == nil) != want.schema {
					t.Errorf("schema: %v", err)
				}
				if _, err := Parse(name, data); (err == nil) != want.parse {
					t.Errorf("parse: %v", err)
				}
			})
		}
	}
}

// Scalars where the two could differ.
func TestSchemaReadsScalarsLikeParse(t *testing.T) {
	schema := compileSchema(t)
	file := func(key, value string) string {
		return "suites: [{name: a, command: ./a}]\nstatistics: {}\ndefaults: {" + key + ": " + value + "}\n"
	}
	for _, tt := range []struct {
		key, value string
		want       bool
	}{
		{"timeout", "90s", true}, {"timeout", "1h30m", true}, {"timeout", "1.5h", true}, {"timeout", "10", false},
		{"timeout", "10 m", false}, {"timeout", "-1s", false}, {"timeout", "1d", false}, {"timeout", "''", false},
		{"thresholds", "{fail: 0.5%}", true}, {"thresholds", "{fail: .5%}", true}, {"thresholds", "{fail: 0.5 pp}", true},
		{"thresholds", "{fail: +1%}", true}, {"thresholds", "{fail: -1%}", false}, {"thresholds", "{fail: '%'}", false},
		{"thresholds", "{fail: 1 percent}", false}, {"thresholds", "{fail: 0.01}", false},
		{"runs", "10", true}, {"runs", "10001", false}, {"runs", "1.5", false}, {"runs", "'10'", false},
		{"scope", "target", true}, {"scope", "Target", false}, {"ignore", "[]", true}, {"ignore", "['']", false},
	} {
		data := []byte(file(tt.key, tt.value))
		if err := validate(t, schema, data); (err == nil) != tt.want {
			t.Errorf("schema on %s: %s: %v", tt.key, tt.value, err)
		}
		if _, err := Parse(FileName, data); (err == nil) != tt.want {
			t.Errorf("parse on %s: %s: %v", tt.key, tt.value, err)
		}
	}
}

// property is as much of the schema of a key as Go code has, too.
type property struct {
	Ref        string              `json:"$ref"`
	Minimum    *float64            `json:"minimum"`
	Maximum    *float64            `json:"maximum"`
	Default    any                 `json:"default"`
	Properties map[string]property `json:"properties"`
	OneOf      []property          `json:"oneOf"`
}

func readSchema(t *testing.T) (root property, defs map[string]property) {
	t.Helper()
	var schema struct {
		property
		Defs map[string]property `json:"$defs"`
	}
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	return schema.property, schema.Defs
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	root, defs := readSchema(t)
	compare := func(typ reflect.Type, described map[string]property) {
		t.Helper()
		fields, names := fieldsOf(typ)
		var keys []string
		for key := range described {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		slices.Sort(names)
		if !slices.Equal(keys, names) {
			t.Errorf("%v has the keys\n%q, the schema describes\n%q", typ, names, keys)
			return
		}
		for _, name := range names {
			is := described[name]
			if target, ok := defs[strings.TrimPrefix(is.Ref, "#/$defs/")]; ok && is.Minimum == nil && is.Maximum == nil {
				is.Minimum, is.Maximum = target.Minimum, target.Maximum
			}
			field := fields[name]
			kind := field.Type
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			if kind == reflect.TypeFor[Percent]() {
				continue // written as text, which a schema cannot bound
			}
			for _, bound := range []struct {
				tag string
				is  *float64
			}{{"min", is.Minimum}, {"max", is.Maximum}} {
				text := field.Tag.Get(bound.tag)
				switch {
				case text == "" && bound.is == nil:
				case text == "" || bound.is == nil:
					t.Errorf("%v.%s: %s is %q in the code, %v in the schema", typ, name, bound.tag, text, bound.is)
				default:
					if x, err := strconv.ParseFloat(text, 64); err != nil || x != *bound.is {
						t.Errorf("%v.%s: %s is %q in the code, %v in the schema", typ, name, bound.tag, text, *bound.is)
					}
				}
			}
		}
	}
	compare(reflect.TypeFor[document](), root.Properties)
	compare(reflect.TypeFor[settings](), defs["settings"].Properties)
	compare(reflect.TypeFor[suiteEntry](), defs["suite"].Properties)
	compare(reflect.TypeFor[acceptEntry](), defs["accept"].Properties)
	compare(reflect.TypeFor[Thresholds](), defs["thresholds"].Properties)
	compare(reflect.TypeFor[TotalThresholds](), defs["thresholds"].Properties["total"].Properties)
	compare(reflect.TypeFor[FunctionThresholds](), defs["function"].Properties)
	compare(reflect.TypeFor[Statistics](), defs["statistics"].Properties)
	compare(reflect.TypeFor[Look](), defs["look"].Properties)
	compare(reflect.TypeFor[workPattern](), defs["work"].OneOf[1].Properties)
	named := map[string]property{}
	for _, form := range defs["scope"].OneOf[1:] {
		for key, p := range form.Properties {
			named[key] = p
		}
	}
	compare(reflect.TypeFor[namedScope](), named)
}

// What the schema calls a default is what diff and Suite take.
func TestSchemaKnowsTheDefaults(t *testing.T) {
	_, defs := readSchema(t)
	o := reflect.ValueOf(diff.DefaultOptions())
	fields, _ := fieldsOf(reflect.TypeFor[Statistics]())
	for key, p := range defs["statistics"].Properties {
		if key == "looks" {
			continue
		}
		if want := o.FieldByName(fields[key].Name).Float(); p.Default != want {
			t.Errorf("%s: default %v, want %v", key, p.Default, want)
		}
	}
	limits := Thresholds{}.Limits("f")
	for key, want := range map[string]float64{"fail": limits.Fail, "margin": limits.Margin, "relative_margin": limits.RelativeMargin, "pass": limits.Pass} {
		text, _ := defs["thresholds"].Properties[key].Default.(string)
		if got, err := parsePercent(text); err != nil || got != want {
			t.Errorf("%s: default %q, want %v", key, text, want)
		}
	}
	s := mustParse(t, "suites: [{name: a, command: ./a}]").Suites[0]
	if got := defs["frequency"].Default; got != float64(s.Frequency) || s.Frequency != capture.DefaultFrequency {
		t.Errorf("frequency: default %v, %d here, %d in capture", got, s.Frequency, capture.DefaultFrequency)
	}
	if got := *defs["frequency"].Maximum; got != capture.MaxFrequency {
		t.Errorf("frequency: at most %v, %d in capture", got, capture.MaxFrequency)
	}
	if EventCPUClock != capture.EventCPUClock || EventCycles != capture.EventCycles || defs["event"].Default != EventCPUClock {
		t.Errorf("events: %q and %q, default %v", EventCPUClock, EventCycles, defs["event"].Default)
	}
	if got := defs["build_timeout"].Default; got != s.BuildTimeout.String() {
		t.Errorf("build_timeout: default %v, want %v", got, s.BuildTimeout)
	}
}

// A constant that diff gains must find its way into the file: into Statistics
// under the same name, or into Thresholds and Options.
func TestEveryConstantOfDiffCanBeSet(t *testing.T) {
	thresholds := []string{"FailEffect", "MinEffect", "RelativeMinEffect", "Equivalence", "TotalMinEffect", "TotalEquivalence"}
	here := reflect.TypeFor[Statistics]()
	there := reflect.TypeFor[diff.Options]()
	for _, field := range reflect.VisibleFields(there) {
		if field.Type.Kind() != reflect.Float64 || slices.Contains(thresholds, field.Name) {
			continue
		}
		own, ok := here.FieldByName(field.Name)
		if !ok {
			t.Errorf("diff.Options.%s: add it to suite.Statistics and to suite/schema/tollgate.schema.json", field.Name)
			continue
		}
		if got, want := own.Tag.Get("yaml"), snakeCase(field.Name); got != want {
			t.Errorf("%s is called %s, want %s", field.Name, got, want)
		}
	}
	for _, field := range reflect.VisibleFields(here) {
		if _, ok := there.FieldByName(field.Name); !ok {
			t.Errorf("suite.Statistics.%s: diff.Options has no such field", field.Name)
		}
	}
}

func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
