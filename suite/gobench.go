package suite

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Benchmark is one line of results of `go test -bench`.
type Benchmark struct {
	Package string  // "" when the output does not say
	Name    string  // with sub-benchmarks, without the suffix of GOMAXPROCS
	Procs   int     // GOMAXPROCS; 0 when the name does not end in it: 1
	N       float64 // iterations, the units of work
	NsPerOp float64 // wall time of one; 0 when the line does not have it
	// Metrics are the other numbers of the line by unit, such as B/op.
	Metrics map[string]float64
}

// Key identifies the benchmark in the runs of both sides.
func (b Benchmark) Key() string {
	key := b.Package + "." + b.Name
	if b.Procs > 0 {
		key += "-" + strconv.Itoa(b.Procs)
	}
	return key
}

const (
	// maxOutputLine bounds a line; the rest of a longer one is no result.
	maxOutputLine = 64 << 10
	// maxBenchmarks bounds the results of one output.
	maxBenchmarks = 100_000
)

// ParseBenchmarks reads the results in the output of `go test -bench`, also
// with -json and -v, and with other output in between. Lines that are no
// results are skipped. The format is that of
// https://go.dev/design/14313-benchmark-format.
func ParseBenchmarks(r io.Reader) ([]Benchmark, error) {
	p := benchmarkParser{plain: &benchmarkLines{}}
	in := bufio.NewReaderSize(r, maxOutputLine)
	for {
		line, err := in.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			line = nil
			_, err = in.ReadSlice('\n')
		}
		p.line(line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read benchmark results: %w", err)
		}
		if len(p.found) >= maxBenchmarks {
			return nil, fmt.Errorf("read benchmark results: more than %d", maxBenchmarks)
		}
	}
	return p.found, nil
}

// benchmarkParser follows the output of a `go test`.
type benchmarkParser struct {
	found []Benchmark
	plain *benchmarkLines
	// events has the lines of each package under -json, where one line of
	// output may be split over several events.
	events map[string]*benchmarkLines
}

// benchmarkLines is the state of one stream of lines.
type benchmarkLines struct {
	pkg     string
	part    string // of a line whose end has not come
	pending string // a benchmark's name whose numbers have not come
}

func (p *benchmarkParser) line(line []byte) {
	if len(line) == 0 || line[0] != '{' {
		p.text(p.plain, string(line))
		return
	}
	// `go doc test2json` has the fields.
	var event struct{ Action, Package, Output string }
	if json.Unmarshal(line, &event) != nil || event.Action == "" {
		p.text(p.plain, string(line))
		return
	}
	if event.Action != "output" {
		return
	}
	lines := p.events[event.Package]
	if lines == nil {
		if p.events == nil {
			p.events = make(map[string]*benchmarkLines)
		}
		if len(p.events) >= maxBenchmarks {
			return
		}
		lines = &benchmarkLines{pkg: event.Package}
		p.events[event.Package] = lines
	}
	lines.part += event.Output
	for {
		whole, rest, ended := strings.Cut(lines.part, "\n")
		if !ended {
			break
		}
		p.text(lines, whole)
		lines.part = rest
	}
	if len(lines.part) > maxOutputLine {
		lines.part = ""
	}
}

// text takes one line of output.
func (p *benchmarkParser) text(state *benchmarkLines, line string) {
	line = strings.TrimRight(line, "\r\n")
	if pkg, ok := strings.CutPrefix(line, "pkg: "); ok {
		state.pkg, state.pending = strings.TrimSpace(pkg), ""
		return
	}
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return
	}
	name := state.pending
	if isBenchmarkName(fields[0]) {
		name, fields = fields[0], fields[1:]
	}
	state.pending = ""
	if name == "" {
		return
	}
	b, ok := parseResult(fields)
	if !ok {
		// What the benchmark printed came between its name and its numbers.
		state.pending = name
		return
	}
	b.Package = state.pkg
	b.Name, b.Procs = cutProcs(name)
	p.found = append(p.found, b)
}

// isBenchmarkName tells Benchmark and BenchmarkXxx from other words.
func isBenchmarkName(word string) bool {
	rest, ok := strings.CutPrefix(word, "Benchmark")
	return ok && (rest == "" || rest[0] < 'a' || rest[0] > 'z')
}

// parseResult reads the iterations and the pairs of number and unit.
func parseResult(fields []string) (Benchmark, bool) {
	if len(fields) < 3 || len(fields)%2 == 0 {
		return Benchmark{}, false
	}
	n, err := strconv.ParseUint(fields[0], 10, 63)
	if err != nil || n == 0 {
		return Benchmark{}, false
	}
	b := Benchmark{N: float64(n)}
	for i := 1; i < len(fields); i += 2 {
		x, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return Benchmark{}, false
		}
		if fields[i+1] == "ns/op" {
			b.NsPerOp = x
			continue
		}
		if b.Metrics == nil {
			b.Metrics = make(map[string]float64)
		}
		b.Metrics[fields[i+1]] = x
	}
	return b, true
}

// cutProcs splits the suffix "-8" from a benchmark's name. With GOMAXPROCS 1
// there is none, and what looks like one belongs to a sub-benchmark; the two
// cannot be told apart, so that Key does not depend on it.
func cutProcs(name string) (string, int) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return name, 0
	}
	procs, err := strconv.Atoi(name[i+1:])
	if err != nil || procs < 1 || name[i+1] == '+' {
		return name, 0
	}
	return name[:i], procs
}

// WorkOf returns the units of work of runs of Go benchmarks, base and head in
// that order of indices: outputs are the results of each run, of either side,
// and the first bases of them are the baseline's.
//
// One iteration of a benchmark counts as its mean time per operation over the
// runs of the baseline, so that the units are seconds of the baseline's time
// and benchmarks of any cost add up. With a single benchmark this is
// proportional to its iterations, whose number is exact. The rounds in which
// `go test` searches for the number of iterations are not in its output: with
// benchmarks of fixed time, CPU per unit is off by what these take.
//
// ErrNoWork is returned when there are no results, or when runs have different
// benchmarks.
func WorkOf(outputs [][]Benchmark, bases int) ([]float64, error) {
	if bases < 1 || bases > len(outputs) {
		return nil, fmt.Errorf("count iterations: %w: %d runs of the baseline among %d", ErrNoWork, bases, len(outputs))
	}
	cost, times := make(map[string]float64), make(map[string]int)
	for _, output := range outputs[:bases] {
		for _, b := range output {
			cost[b.Key()] += b.NsPerOp
			times[b.Key()]++
		}
	}
	for key := range cost {
		cost[key] /= float64(times[key])
		if cost[key] <= 0 {
			// A line with metrics of its own only: any weight will do for one.
			cost[key] = 1e9
			if len(cost) > 1 {
				return nil, fmt.Errorf("count iterations: %w: %s has no ns/op", ErrNoWork, key)
			}
		}
	}
	units := make([]float64, len(outputs))
	for i, output := range outputs {
		seen := make(map[string]bool)
		for _, b := range output {
			weight, known := cost[b.Key()]
			if !known {
				return nil, fmt.Errorf("count iterations: %w: %s is not in the baseline", ErrNoWork, b.Key())
			}
			seen[b.Key()] = true
			units[i] += b.N * weight / 1e9
		}
		if len(seen) == 0 {
			return nil, fmt.Errorf("count iterations: %w: run %d printed no results of benchmarks", ErrNoWork, i+1)
		}
		if len(seen) < len(cost) {
			return nil, fmt.Errorf("count iterations: %w: run %d lacks %d of %d benchmarks", ErrNoWork, i+1, len(cost)-len(seen), len(cost))
		}
	}
	return units, nil
}
