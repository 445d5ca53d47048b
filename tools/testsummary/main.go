// Command testsummary reads the output of `go test -json` and prints what
// `go test` would: a line for each package and the output of failed tests.
// To that it adds each skipped test with its reason, and a last line with the
// counts. It fails when a test failed, when the tests did not build, or when
// a test that had to run (-must) did not pass.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	must := flag.String("must", "", "`file` of tests that have to pass, a package and a test on each line")
	flag.Parse()
	os.Exit(run(os.Stdin, os.Stdout, *must))
}

func run(in io.Reader, out io.Writer, must string) int {
	var required []test
	if must != "" {
		var err error
		if required, err = readRequired(must); err != nil {
			fmt.Fprintln(out, "testsummary:", err)
			return 2
		}
	}
	s := newSummary(out)
	if err := s.read(in); err != nil {
		fmt.Fprintln(out, "testsummary:", err)
		return 2
	}
	if !s.finish(required) {
		return 1
	}
	return 0
}

// test is a test function, or a subtest, of a package.
type test struct {
	pkg, name string
}

// readRequired reads a package, without the module's path, and a test on each
// line. # starts a comment.
func readRequired(path string) (required []test, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		switch len(fields) {
		case 0:
		case 2:
			required = append(required, test{fields[0], fields[1]})
		default:
			return nil, fmt.Errorf("%s:%d: want a package and a test, got %q", path, i+1, line)
		}
	}
	if len(required) == 0 {
		return nil, fmt.Errorf("%s: no tests", path)
	}
	return required, nil
}

// event is one line of the output; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build event
	Test        string
	Output      string
	FailedBuild string
}

// summary gathers the results of tests.
type summary struct {
	out     io.Writer
	output  map[test][]string // of unfinished tests
	result  map[test]string   // pass, fail or skip
	reasons []string          // of skipped tests
	broken  bool              // a package failed outside of its tests
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: make(map[test][]string), result: make(map[test]string)}
}

func (s *summary) read(in io.Reader) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			// The go command's own messages are no JSON.
			fmt.Fprintln(s.out, scanner.Text())
			continue
		}
		s.add(e)
	}
	return scanner.Err()
}

func (s *summary) add(e event) {
	at := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "build-fail":
		s.broken = true
	case "output":
		if e.Test != "" {
			s.output[at] = append(s.output[at], e.Output)
		} else if e.Output != "PASS\n" {
			fmt.Fprint(s.out, e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.broken = s.broken || e.Action == "fail"
			if e.Action == "fail" {
				s.printUnfinished(e.Package)
			}
			return
		}
		s.result[at] = e.Action
		if e.Action == "fail" {
			for _, line := range s.output[at] {
				fmt.Fprint(s.out, line)
			}
		}
		if e.Action == "skip" {
			s.reasons = append(s.reasons, fmt.Sprintf("%s %s: %s", shortPackage(e.Package), e.Test, skipReason(s.output[at])))
		}
		delete(s.output, at)
	}
}

// printUnfinished prints the output of tests that a panic or a time limit cut
// off.
func (s *summary) printUnfinished(pkg string) {
	for at, lines := range s.output {
		if at.pkg == pkg {
			for _, line := range lines {
				fmt.Fprint(s.out, line)
			}
			delete(s.output, at)
		}
	}
}

// skipReason returns what the test said last.
func skipReason(lines []string) string {
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		// "file_test.go:12: reason"
		if _, reason, ok := strings.Cut(line, ": "); ok {
			return reason
		}
		return line
	}
	return "no reason given"
}

// shortPackage returns the package's path in the module.
func shortPackage(path string) string {
	if _, rest, ok := strings.Cut(path, "/tollgate/"); ok {
		return rest
	}
	return path
}

// finish prints skipped and missing tests and the counts, and reports whether
// all is well.
func (s *summary) finish(required []test) bool {
	counts := make(map[string]int)
	passed := make(map[test]bool)
	for at, result := range s.result {
		counts[result]++
		passed[test{shortPackage(at.pkg), at.name}] = result == "pass"
	}
	slices.Sort(s.reasons)
	for _, reason := range s.reasons {
		fmt.Fprintf(s.out, "skipped: %s\n", reason)
	}
	missing := 0
	for _, want := range required {
		if !passed[want] {
			missing++
			fmt.Fprintf(s.out, "did not run: %s %s\n", want.pkg, want.name)
		}
	}
	verdict := "ok"
	good := counts["fail"] == 0 && !s.broken && missing == 0 && counts["pass"] > 0
	if !good {
		verdict = "FAIL"
	}
	if len(required) > 0 {
		fmt.Fprintf(s.out, "privileged: %d of %d tests ran\n", len(required)-missing, len(required))
	}
	fmt.Fprintf(s.out, "%s: %d passed, %d failed, %d skipped\n", verdict, counts["pass"], counts["fail"], counts["skip"])
	return good
}
