package suite

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func parseText(t *testing.T, text string) []Benchmark {
	t.Helper()
	found, err := ParseBenchmarks(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The files are the output of go1.26 for a package with the benchmarks Small,
// Sub (with sub-benchmarks a-1 and b), Noisy (prints a line in each round) and
// Own (ReportMetric):
//
//	plain.txt    go test -bench . -benchmem -cpu 2
//	verbose.txt  go test -bench . -v -cpu 1
//	json.txt     go test -bench . -json -cpu 2
func TestOutputOfGoTest(t *testing.T) {
	for _, tt := range []struct {
		file  string
		procs int
	}{{"plain.txt", 2}, {"verbose.txt", 0}, {"json.txt", 2}} {
		data, err := os.ReadFile(filepath.Join("testdata", "gobench", tt.file))
		if err != nil {
			t.Fatal(err)
		}
		found := parseText(t, string(data))
		var names []string
		for _, b := range found {
			names = append(names, b.Name)
			if b.Package != "example.com/bench" || b.N < 1 || b.NsPerOp <= 0 {
				t.Errorf("%s: %+v", tt.file, b)
			}
		}
		if tt.procs == 0 {
			// "a-1" looks like a benchmark "a" with GOMAXPROCS 1.
			if b := &found[1]; b.Procs == 1 && b.Name == "BenchmarkSub/a" {
				b.Procs, names[1] = 0, "BenchmarkSub/a-1"
			}
		}
		for _, b := range found {
			if b.Procs != tt.procs {
				t.Errorf("%s: %+v", tt.file, b)
			}
		}
		want := []string{"BenchmarkSmall", "BenchmarkSub/a-1", "BenchmarkSub/b", "BenchmarkNoisy", "BenchmarkOwn"}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("%s: -want +got:\n%s", tt.file, d)
			continue
		}
		if own := found[4].Metrics["rows/op"]; own != 12 {
			t.Errorf("%s: own metric is %v", tt.file, own)
		}
	}
}

func TestResultsAreRead(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []Benchmark
	}{
		{"with memory", "BenchmarkX-8 \t 1000\t 1234.5 ns/op\t 56 B/op\t 2 allocs/op\n",
			[]Benchmark{{Name: "BenchmarkX", Procs: 8, N: 1000, NsPerOp: 1234.5, Metrics: map[string]float64{"B/op": 56, "allocs/op": 2}}}},
		{"one processor", "BenchmarkX 7 5 ns/op", []Benchmark{{Name: "BenchmarkX", N: 7, NsPerOp: 5}}},
		{"dash in a name", "BenchmarkX/size=-1 7 5 ns/op", []Benchmark{{Name: "BenchmarkX/size=", Procs: 1, N: 7, NsPerOp: 5}}},
		{"packages", "pkg: a\nBenchmarkX-2 1 5 ns/op\nPASS\npkg: b\r\nBenchmarkX-2 2 5 ns/op\r\n",
			[]Benchmark{{Package: "a", Name: "BenchmarkX", Procs: 2, N: 1, NsPerOp: 5}, {Package: "b", Name: "BenchmarkX", Procs: 2, N: 2, NsPerOp: 5}}},
		{"output in between", "BenchmarkX-2 \thello\nworld\n   10\t 5 ns/op\n", []Benchmark{{Name: "BenchmarkX", Procs: 2, N: 10, NsPerOp: 5}}},
		{"name alone, then the result", "BenchmarkX\nBenchmarkX-2 10 5 ns/op\n", []Benchmark{{Name: "BenchmarkX", Procs: 2, N: 10, NsPerOp: 5}}},
		{"no name", "10 5 ns/op\n", nil},
		{"prose", "Benchmarking is 3 ns/op\nBenchmark X is slow\n", nil},
		{"no iterations", "BenchmarkX-2 0 5 ns/op\nBenchmarkX-2 -3 5 ns/op\n", nil},
		{"infinite", "BenchmarkX-2 3 +Inf ns/op\nBenchmarkX-2 3 NaN ns/op\n", nil},
		{"no unit", "BenchmarkX-2 3 5\n", nil},
		{"skipped", "BenchmarkX-2\n--- SKIP: BenchmarkX-2\n", nil},
		{"long line", strings.Repeat("x", 3*maxOutputLine) + "\nBenchmarkX-2 3 5 ns/op\n", []Benchmark{{Name: "BenchmarkX", Procs: 2, N: 3, NsPerOp: 5}}},
		{"split events", `{"Action":"output","Package":"a","Output":"BenchmarkX-2 \t"}` + "\n" +
			`{"Action":"output","Package":"b","Output":"BenchmarkY-2 \t"}` + "\n" +
			`{"Action":"output","Package":"a","Output":"3\t5 ns/op\n"}` + "\n" +
			`{"Action":"pass","Package":"a"}` + "\n" +
			`{"Action":"output","Package":"b","Output":"4\t6 ns/op\n"}`,
			[]Benchmark{{Package: "a", Name: "BenchmarkX", Procs: 2, N: 3, NsPerOp: 5}, {Package: "b", Name: "BenchmarkY", Procs: 2, N: 4, NsPerOp: 6}}},
		{"braces that are no events", "{\nBenchmarkX-2 3 5 ns/op\n", []Benchmark{{Name: "BenchmarkX", Procs: 2, N: 3, NsPerOp: 5}}},
	} {
		if d := cmp.Diff(tt.want, parseText(t, tt.text)); d != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, d)
		}
	}
	if _, err := ParseBenchmarks(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a broken reader: %v", err)
	}
}

// Twice the work at the same speed must give the same CPU per unit, and a
// slower benchmark must show although every run takes the same time.
func TestWorkOfFixedTimeShowsASlowdown(t *testing.T) {
	run := func(nX, nsX, nY, nsY float64) []Benchmark {
		return []Benchmark{{Name: "BenchmarkX", Procs: 1, N: nX, NsPerOp: nsX}, {Name: "BenchmarkY", Procs: 1, N: nY, NsPerOp: nsY}}
	}
	// A second of each: X does 100 a second, Y 1e6; in head X takes twice as long.
	outputs := [][]Benchmark{run(100, 1e7, 1e6, 1000), run(200, 1e7, 2e6, 1000), run(50, 2e7, 1e6, 1000)}
	units, err := WorkOf(outputs, 2)
	if err != nil {
		t.Fatal(err)
	}
	cpu := []float64{2, 4, 2}
	base, again, head := cpu[0]/units[0], cpu[1]/units[1], cpu[2]/units[2]
	if math.Abs(again/base-1) > 1e-9 {
		t.Errorf("CPU per unit is %v and %v for the same speed", base, again)
	}
	if got := head / base; math.Abs(got-4.0/3) > 1e-9 {
		t.Errorf("head costs %v of base, want 4/3: one of two halves doubled", got)
	}

	single := [][]Benchmark{{{Name: "BenchmarkX", N: 100, Metrics: map[string]float64{"rows/s": 3}}}, {{Name: "BenchmarkX", N: 50}}}
	if units, err := WorkOf(single, 1); err != nil || units[0] != 2*units[1] {
		t.Errorf("without ns/op: %v, %v", units, err)
	}
	for name, bad := range map[string][][]Benchmark{
		"no results":       {outputs[0], nil},
		"a benchmark less": {outputs[0], outputs[1][:1]},
		"a benchmark more": {outputs[0][:1], outputs[1]},
		"none in base":     {nil, outputs[0]},
		"mixed, no ns/op":  {{outputs[0][0], {Name: "BenchmarkZ", N: 1}}},
	} {
		if _, err := WorkOf(bad, 1); !errors.Is(err, ErrNoWork) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := WorkOf(outputs, 0); !errors.Is(err, ErrNoWork) {
		t.Errorf("no baseline: %v", err)
	}
}

func TestWorkByPattern(t *testing.T) {
	work := func(text string) Work {
		t.Helper()
		return mustParse(t, "suites: [{name: a, command: ./a, work: "+text+"}]").Suites[0].Work
	}
	const output = "warm: 5 rows\nrows: none\nimported 1,000 rows\nimported 2.5e3 rows\n"
	for _, tt := range []struct {
		work string
		want float64
	}{
		{`{pattern: 'imported (\S+) rows'}`, 3500},
		{`{pattern: 'imported (\S+) rows', take: first}`, 1000},
		{`{pattern: 'imported (\S+) rows', take: last}`, 2500},
		{`{pattern: '(?m)^warm: (\d+)'}`, 5},
		{`2.5`, 2.5},
	} {
		got, err := work(tt.work).Count([]byte(output))
		if err != nil || got != tt.want {
			t.Errorf("%s: %v, %v, want %v", tt.work, got, err, tt.want)
		}
	}
	for _, bad := range []string{`{pattern: 'exported (\d+)'}`, `{pattern: 'rows: (\S+)'}`, `{pattern: 'imported (x)?'}`} {
		if got, err := work(bad).Count([]byte(output)); !errors.Is(err, ErrNoWork) {
			t.Errorf("%s: %v, %v", bad, got, err)
		}
	}
	if got, err := work(`{pattern: '(\d+) done'}`).Count([]byte("0 done")); !errors.Is(err, ErrNoWork) {
		t.Errorf("0 units: %v, %v", got, err)
	}
	if got, err := (Work{}).Count(nil); got != 1 || err != nil {
		t.Errorf("nothing given: %v, %v", got, err)
	}
	benchmark := []string{"go", "test", "-bench", "."}
	for _, tt := range []struct {
		work    Work
		command []string
		want    bool
	}{
		{Work{}, benchmark, true}, {Work{Units: 3}, benchmark, false}, {Work{}, []string{"./a"}, false},
		{work(`{pattern: '(\d+)'}`), []string{"./a"}, true},
	} {
		if got := tt.work.NeedsOutput(tt.command); got != tt.want {
			t.Errorf("%+v with %q needs the output: %v", tt.work, tt.command, got)
		}
	}
}

func TestFixedTimeIsSeen(t *testing.T) {
	for _, tt := range []struct {
		command string // separated by |
		want    bool
	}{
		{"go|test|-bench|.|./...", true},
		{"go|test|-bench=Parse|-benchtime|2s|.", true},
		{"go|test|-bench=Parse|-benchtime=200x|.", false},
		{"go|test|--bench=Parse|--benchtime|200x|.", false},
		{"go|test|./pkg|-bench|.|-benchtime=1x", false},
		{"go|test|-test.bench=Parse|.", true},
		{"go|test|-bench=|.", false},
		{"go|test|-benchtime=100x|-bench=.|-benchtime=3s", true},
		{"go|test|-bench=.|-benchtime=x", true},
		{"./parse.test|-test.bench|Parse", true},
		{"./parse.test|-test.bench|Parse|-test.benchtime|100x", false},
		{"./program|-bench|all", false},
		{"/usr/local/go/bin/go|test|./...", false},
		{"go|build|-bench", false},
		{"go", false},
		{"env|GOMAXPROCS=2|go|test|-bench|.", true},
		{"taskset|-c|0|nice|go|test|-bench|.|-benchtime|9x", false},
		{"sh|-c|cd sub && go test -run '^$' -bench 'Parse' ./... | tee out", true},
		{"sh|-c|go test -bench . -benchtime 100x", false},
		{"bash|-ec|go test -bench .", true},
		{"bash|script.sh|-bench|.", false},
		{"sh|-c", false},
		{"go|test|-run=Bench|-args|-bench=.", false},
	} {
		if warning, got := FixedTime(strings.Split(tt.command, "|")); got != tt.want || (warning != "") != tt.want {
			// The separator is in one of the scripts, too, which must not matter.
			t.Errorf("FixedTime(%q) = %v, want %v", tt.command, got, tt.want)
		}
	}
	if _, ok := FixedTime(nil); ok {
		t.Error("no command is a benchmark")
	}
}

func FuzzParseBenchmarks(f *testing.F) {
	names, err := filepath.Glob("testdata/gobench/*.txt")
	if err != nil || len(names) == 0 {
		f.Fatal("no outputs: ", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("BenchmarkX-2 3 5 ns/op\n{\"Action\":\"output\",\"Output\":\"BenchmarkY 1 2 B/op\\n\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := ParseBenchmarks(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range found {
			if !isBenchmarkName(b.Name) || b.N < 1 || math.IsNaN(b.NsPerOp) || math.IsInf(b.NsPerOp, 0) || b.Procs < 0 {
				t.Errorf("%+v", b)
			}
		}
		units, err := WorkOf([][]Benchmark{found}, 1)
		if err == nil && math.IsNaN(units[0]) {
			t.Errorf("%v units of %+v", units, found)
		}
	})
}
