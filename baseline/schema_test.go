package baseline

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func manifestSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(ManifestSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("manifest.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("manifest.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestManifestsFollowTheirSchema(t *testing.T) {
	schema := manifestSchema(t)
	full := testHeader()
	full.Dir, full.Dirty = "bench", true
	bare := Manifest{Command: []string{"true"}, Time: full.Time, Frequency: 1, Event: "cycles"}
	for name, header := range map[string]Manifest{"full": full, "bare": bare} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			w, err := Create(dir, header, CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			run := testRun(5, 1)
			if name == "bare" {
				run = RunInfo{}
			} else {
				run.Signal, run.Time = "SIGKILL", full.Time
				run.Benchmarks = []Benchmark{{Name: "parser.BenchmarkParse-8", Iterations: 1000, NsPerOp: 52.5}}
				run.Unreadable = map[string]uint64{"truncated": 1}
				run.OutstandingThreads, run.Unsymbolized, run.CollectorCPUSeconds = 1, 1, 0.1
			}
			if err := w.Add(run, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Salvage("interrupted"); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join(dir, ManifestName))
			if err != nil {
				t.Fatal(err)
			}
			document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(document); err != nil {
				t.Errorf("%v\n%s", err, data)
			}
		})
	}
}

// The schema tolerates unknown properties, so validation alone would not notice a field it lacks.
func TestSchemaDescribesEveryField(t *testing.T) {
	var schema struct {
		Properties map[string]any `json:"properties"`
		Defs       map[string]struct {
			Properties map[string]struct {
				Properties map[string]any `json:"properties"`
				Items      struct {
					Properties map[string]any `json:"properties"`
				} `json:"items"`
			} `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(ManifestSchema, &schema); err != nil {
		t.Fatal(err)
	}
	run := schema.Defs["run"].Properties
	check(t, reflect.TypeFor[Manifest](), keys(schema.Properties))
	check(t, reflect.TypeFor[Env](), keys(schema.Defs["environment"].Properties))
	check(t, reflect.TypeFor[RunInfo](), keys(run))
	check(t, reflect.TypeFor[ContextSwitches](), keys(run["context_switches"].Properties))
	check(t, reflect.TypeFor[Consumer](), keys(run["others"].Items.Properties))
}

func check(t *testing.T, typ reflect.Type, described []string) {
	t.Helper()
	var written []string
	for _, field := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			written = append(written, name)
		}
	}
	slices.Sort(written)
	slices.Sort(described)
	if !slices.Equal(written, described) {
		t.Errorf("%v has the fields\n%q, the schema describes\n%q", typ, written, described)
	}
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}
