package baseline

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// gzippedProfile returns a profile with target samples of main.work and other samples of idler, one
// location each.
func gzippedProfile(t testing.TB, target, other int64) []byte {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: SamplesType, Unit: "count"}, {Type: CPUType, Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: CPUType, Unit: "nanoseconds"},
		Period:     1_000_000,
		TimeNanos:  time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC).UnixNano(),
	}
	add := func(name string, n int64, labels map[string][]string) {
		if n == 0 {
			return
		}
		function := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: name + ".c"}
		location := &profile.Location{ID: function.ID, Line: []profile.Line{{Function: function, Line: 7}}}
		p.Function = append(p.Function, function)
		p.Location = append(p.Location, location)
		p.Sample = append(p.Sample, &profile.Sample{
			Location: []*profile.Location{location}, Value: []int64{n, n * p.Period}, Label: labels,
		})
	}
	add("main.work", target, map[string][]string{TargetLabel: {"1"}})
	add("idler", other, map[string][]string{"comm": {"idler"}})
	var buf bytes.Buffer
	if err := p.Write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func testHeader() Manifest {
	return Manifest{
		ToolVersion:   "v0.0.0-test",
		Suite:         "parse",
		Command:       []string{"./bench", "-n", "3"},
		Commit:        strings.Repeat("0123456789", 4),
		Branch:        "main",
		Time:          time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Env:           testEnv(),
		Frequency:     999,
		Event:         "cpu-clock",
		Warmup:        1,
		RequestedRuns: 2,
	}
}

func testEnv() Env {
	return Env{
		CPUModel: "Example CPU (family 6 model 85 stepping 7)", Cores: 4, MemoryBytes: 16 << 30,
		Kernel: "6.1.0-18-amd64", Arch: "amd64", Virtualisation: "kvm", Toolchain: "go1.26.0 linux/amd64",
	}
}

func testRun(target, other uint64) RunInfo {
	return RunInfo{
		WorkUnits: 1, AnchorSeconds: 0.01,
		Accounting: Accounting{
			WallSeconds: 1.5, CPUSeconds: 1.2, UserSeconds: 1, SystemSeconds: 0.2, SampledSeconds: float64(target) / 999,
			Samples: target + other, TargetSamples: target, Complete: target - 1,
			Truncated:       map[string]uint64{"no_rule": 1},
			StealSeconds:    0.01,
			ContextSwitches: ContextSwitches{Voluntary: 3, Involuntary: 4},
			Others:          []Consumer{{Comm: "idler", CPUSeconds: float64(other) / 999}},
		},
	}
}

// writeRecording writes a recording of n runs with 1000+i target and 10 other samples each.
func writeRecording(t testing.TB, dir string, header Manifest, n int) {
	t.Helper()
	w, err := Create(dir, header, CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := w.Add(testRun(uint64(1000+i), 10), gzippedProfile(t, int64(1000+i), 10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestLoadReturnsWhatWasWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "out")
	writeRecording(t, dir, testHeader(), 2)
	r, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Suite != "parse" || r.Env != testEnv() || r.Frequency != 999 || !r.Time.Equal(testHeader().Time) || r.Partial != "" {
		t.Errorf("manifest came back as %+v", r.Manifest)
	}
	if len(r.Runs) != 2 || len(r.Profiles) != 2 || r.Runs[1].TargetSamples != 1001 || r.Runs[1].Others[0].Comm != "idler" {
		t.Fatalf("runs came back as %+v", r.Runs)
	}
	if got := r.Profiles[1].Sample[0].Value[0]; got != 1001 {
		t.Errorf("second profile starts with %d samples, want 1001", got)
	}
	if got, want := r.CPUSeconds(), 2.4; got != want {
		t.Errorf("CPU-seconds %g, want %g", got, want)
	}
	names := fileNames(t, dir)
	if want := "manifest.json run-001.pb.gz run-002.pb.gz"; strings.Join(names, " ") != want {
		t.Errorf("directory holds %q, want %q", names, want)
	}
}

func TestLoadNamesWhatIsWrong(t *testing.T) {
	edit := func(old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, ManifestName)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(data, []byte(old)) {
				t.Fatalf("manifest has no %q:\n%s", old, data)
			}
			write(t, path, bytes.Replace(data, []byte(old), []byte(new), 1))
		}
	}
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string
		is     error
	}{
		{"newer version", edit(`"schema_version": 1`, `"schema_version": 2`), "schema version 2 is newer than 1", nil},
		{"no version", edit(`"schema_version": 1,`, ``), "schema_version is missing", ErrCorrupt},
		{"version of another type", edit(`"schema_version": 1`, `"schema_version": "1"`), "line 2: json: cannot unmarshal", ErrCorrupt},
		{"field of another type", edit(`"frequency_hz": 999`, `"frequency_hz": "fast"`), "json: cannot unmarshal string into Go struct field Manifest.frequency_hz", ErrCorrupt},
		{"no frequency", edit(`"frequency_hz": 999`, `"frequency_hz": 0`), "frequency_hz is 0, want a positive number", ErrCorrupt},
		{"no command", edit(`"./bench",
    "-n",
    "3"`, ``), "command is empty", ErrCorrupt},
		{"profile outside", edit(`run-001.pb.gz`, `../run-001.pb.gz`), `file "../run-001.pb.gz" is not a plain file name`, ErrCorrupt},
		{"profile twice", edit(`run-002.pb.gz`, `run-001.pb.gz`), `run 2: file "run-001.pb.gz" is also that of run 1`, ErrCorrupt},
		{"negative seconds", edit(`"cpu_seconds": 1.2`, `"cpu_seconds": -1.2`), "run 1: cpu_seconds is -1.2", ErrCorrupt},
		{"count above the profile's", edit(`"samples": 1010`, `"samples": 1011`), "it has 1010 samples, the manifest says 1011", ErrCorrupt},
		{"target count below the profile's", edit(`"target_samples": 1001`, `"target_samples": 1000`), "run 2: run-002.pb.gz: it has 1001 samples of the target, the manifest says 1000", ErrCorrupt},
		{"manifest cut short", func(t *testing.T, dir string) {
			path := filepath.Join(dir, ManifestName)
			data, _ := os.ReadFile(path)
			write(t, path, data[:len(data)/2])
		}, "unexpected end of JSON input", ErrCorrupt},
		{"data after the manifest", func(t *testing.T, dir string) {
			path := filepath.Join(dir, ManifestName)
			data, _ := os.ReadFile(path)
			write(t, path, append(data, "{}"...))
		}, "invalid character '{' after top-level value", ErrCorrupt},
		{"no manifest", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, ManifestName)) }, "no manifest.json", nil},
		{"profile missing", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "run-002.pb.gz")) }, "run 2: run-002.pb.gz: the profile is missing", ErrCorrupt},
		{"profile swapped", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "run-001.pb.gz"), gzippedProfile(t, 5, 5))
		}, "run 1: run-001.pb.gz: checksum is", ErrCorrupt},
		{"profile cut short", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "run-001.pb.gz")
			data, _ := os.ReadFile(path)
			write(t, path, data[:len(data)/2])
		}, "run 1: run-001.pb.gz: the gzip stream is cut short", ErrCorrupt},
		{"profile empty", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "run-001.pb.gz"), nil)
		}, "run 1: run-001.pb.gz: the file is empty", ErrCorrupt},
		{"profile a directory", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "run-001.pb.gz"))
			if err := os.Mkdir(filepath.Join(dir, "run-001.pb.gz"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "run 1: run-001.pb.gz: not a regular file", nil},
		{"profile a link to elsewhere", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "run-001.pb.gz"))
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "run-001.pb.gz")); err != nil {
				t.Fatal(err)
			}
		}, "path escapes from parent", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			writeRecording(t, dir, testHeader(), 2)
			test.damage(t, dir)
			_, err := Load(dir)
			if err == nil {
				t.Fatal("loaded without an error")
			}
			if !strings.HasPrefix(err.Error(), "load recording "+dir+": ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want the recording and %q", err, test.want)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %q is not %q", err, test.is)
			}
			if test.is == nil && errors.Is(err, ErrCorrupt) {
				t.Errorf("error %q is taken for damage", err)
			}
		})
	}
}

// Matching counts do not help a profile that holds nothing to judge.
func TestLoadRefusesProfilesWithoutSamples(t *testing.T) {
	for _, test := range []struct {
		name          string
		target, other int64
		want          string
	}{
		{"none", 0, 0, "no samples"},
		{"none of the target", 0, 9, "no samples of the target"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			w, err := Create(dir, testHeader(), CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			info := RunInfo{WorkUnits: 1}
			info.Samples, info.TargetSamples = uint64(test.target+test.other), uint64(test.target)
			if err := w.Add(info, gzippedProfile(t, test.target, test.other)); err != nil {
				t.Fatal(err)
			}
			if err := w.Commit(); err != nil {
				t.Fatal(err)
			}
			_, err = Load(dir)
			if !errors.Is(err, ErrNoSamples) || !strings.HasSuffix(err.Error(), ": "+test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if hint := hintOf(err); !strings.Contains(hint, "--frequency") {
				t.Errorf("hint %q does not say what to do", hint)
			}
		})
	}
}

func TestParseManifestIgnoresUnknownFieldsOfItsVersion(t *testing.T) {
	m := testHeader()
	m.SchemaVersion = SchemaVersion
	run := testRun(3, 0)
	run.File, run.SHA256 = "run-001.pb.gz", strings.Repeat("a", 64)
	m.Runs = []RunInfo{run}
	data, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(`"suite"`), []byte(`"color": "red", "suite"`), 1)
	got, err := ParseManifest(data)
	if err != nil || got.Suite != "parse" {
		t.Errorf("suite %q, error %v; want parse and none", got.Suite, err)
	}
}

func TestComparableTellsSuitesFromMachines(t *testing.T) {
	a := &Recording{Manifest: testHeader(), Source: "a"}
	b := &Recording{Manifest: testHeader(), Source: "b"}
	if err := Comparable(a, b); err != nil {
		t.Errorf("equal recordings: %v", err)
	}
	b.Suite = "format"
	if err := Comparable(a, b); !errors.Is(err, ErrSuite) || err.Error() != `compare a with b: different suites: "parse" and "format"` {
		t.Errorf("other suite: %v", err)
	}
	b.Foreign = true
	if err := Comparable(a, b); err != nil {
		t.Errorf("foreign profiles: %v", err)
	}
	b = &Recording{Manifest: testHeader(), Source: "b"}
	b.Env.Cores = 64
	var env *EnvError
	if err := Comparable(a, b); !errors.As(err, &env) || !strings.Contains(hintOf(err), "tollgate compare") {
		t.Errorf("other machine: %v, hint %q", err, hintOf(err))
	}
	b = &Recording{Manifest: testHeader(), Source: "b"}
	b.Event = "cycles"
	if err := Comparable(a, b); err == nil {
		t.Error("other event: no error")
	}
}

func FuzzParseManifest(f *testing.F) {
	m := testHeader()
	m.SchemaVersion = SchemaVersion
	run := testRun(3, 0)
	run.File, run.SHA256 = "run-001.pb.gz", strings.Repeat("a", 64)
	m.Runs = []RunInfo{run}
	data, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema_version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			return
		}
		for _, run := range m.Runs {
			if filepath.Base(run.File) != run.File || !fs.ValidPath(run.File) {
				t.Errorf("accepted the file name %q", run.File)
			}
		}
		if _, err := m.encode(); err != nil {
			t.Errorf("accepted what cannot be written: %v", err)
		}
	})
}

func hintOf(err error) string {
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) {
		return ""
	}
	return hinted.Hint()
}

func fileNames(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func decode(t testing.TB, data []byte) *profile.Profile {
	t.Helper()
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
