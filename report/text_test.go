package report

import (
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tollgate-dev/tollgate/diff"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func exampleMeta() Meta {
	return Meta{
		ToolVersion: "v0.1.0",
		Suite:       "parse",
		Time:        time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Base: Side{
			Source: "baseline parse", Command: "./bench -n 3", Commit: strings.Repeat("0123456789", 4), Branch: "main",
			Environment: "Example CPU, 4 cores, 15.6 GiB, Linux 6.1.0, kvm",
		},
		Head: Side{
			Source: "head", Command: "./bench -n 3", Commit: strings.Repeat("abcdef0123", 4), Branch: "topic", Dirty: true,
			Environment: "Example CPU, 4 cores, 15.6 GiB, Linux 6.1.0, kvm",
		},
		Reproduce: "tollgate compare --base-command './bench-base -n 3' -- ./bench-head -n 3",
		Accept:    "tollgate baseline save parse head",
	}
}

// failing is the result of a comparison with findings of every kind and severity.
func failing() *diff.Result {
	return &diff.Result{
		Verdict: diff.Fail,
		Reason:  diff.Reason{Code: diff.ReasonRegression, Text: "parser.(*Lexer).Next costs 2.3 pp more of the baseline's CPU"},
		Stop:    diff.StopFail,
		Paired:  true,
		Findings: []diff.Finding{
			{
				Kind: diff.Regression, Severity: diff.Fails, Function: "parser.(*Lexer).Next", File: "/src/parser/lexer.go", Line: 41, Object: "bench",
				Effect: 0.0231, CI: diff.Interval{Low: 0.0182, High: 0.028}, P: 1e-6, Q: 2e-5, ShareBase: 0.121, ShareHead: 0.1441, Runs: 20, DF: 30,
			},
			{
				Kind: diff.Uniform, Severity: diff.Fails,
				Effect: 0.031, CI: diff.Interval{Low: 0.02, High: 0.042}, P: 0.0004, Q: 0.0004, ShareBase: 1, ShareHead: 1.031, Runs: 20, DF: 9,
				Text: "every function costs more while the calibration kernel stands still",
			},
			{
				Kind: diff.CostShift, Severity: diff.Warns, Function: "runtime.memmove", File: "/usr/local/go/src/runtime/memmove_amd64.s", Line: 31, Object: "bench",
				Effect: 0.009, CI: diff.Interval{Low: 0.004, High: 0.014}, P: 0.001, Q: 0.004, ShareBase: 0.04, ShareHead: 0.049, Runs: 20, DF: 25,
				Text: "the functions that only one side has cost no more as a whole",
			},
			{
				Kind: diff.CostShift, Severity: diff.Informs, Function: "memcpy", Object: "libc.so.6",
				Effect: -0.008, CI: diff.Interval{Low: -0.012, High: -0.004}, P: 0.001, Q: 0.004, ShareBase: 0.008, ShareHead: 0, Runs: 20, DF: 25,
			},
			{
				Kind: diff.Regression, Severity: diff.Warns, Function: "hash", File: "/src/hash.go", Line: 5, Object: "bench",
				Effect: 0.004, CI: diff.Interval{Low: 0.003, High: 0.005}, P: 0.001, Q: 0.004, ShareBase: 0.02, ShareHead: 0.024, Runs: 20, DF: 25,
				Text: "the growth is significant, and smaller than the 0.50 pp that fail the gate",
			},
			{
				Kind: diff.Improvement, Severity: diff.Informs, Function: "__libc_malloc", Object: "libc.so.6",
				Effect: -0.0122, CI: diff.Interval{Low: -0.017, High: -0.0071}, P: 0.0001, Q: 0.003, ShareBase: 0.06, ShareHead: 0.0478, Runs: 20, DF: 25,
			},
		},
		Functions: []diff.Delta{
			{Function: diff.Function{Name: "parser.(*Lexer).Next", File: "/src/parser/lexer.go", Line: 41}, Effect: 0.0231, Tested: true, P: 1e-6, Q: 2e-5, PImprove: 1, QImprove: 1, Upper: math.Inf(1), DF: math.Inf(1)},
			{Function: diff.Function{Name: "small"}, Effect: 0.0001, P: 1, Q: 1},
		},
		Total: diff.Total{
			Effect: 0.031, CI: diff.Interval{Low: 0.02, High: 0.042}, P: 0.0004, PImprove: 1, Upper: 0.043, DF: 9, MDE: 0.016, Tested: true,
			HasAnchor: true, AnchorEffect: 0.001, AnchorCI: diff.Interval{Low: -0.004, High: 0.006}, AnchorP: 0.6,
		},
		MDE: 0.0074, MDEFunction: "parser.(*Lexer).Next", MDEMedian: 0.0041, PairsNeeded: 10, Confidence: 0.95,
		Equivalence: 0.01, TotalEquivalence: 0.03, Tested: 37, FunctionAlpha: 0.007, TotalAlpha: 0.002,
		Warnings: []diff.Warning{{Code: diff.WarnFewRuns, Text: "three runs a side know little of their own noise", Hint: "take five runs or more with --runs"}},
		Base:     diff.Side{Runs: 10, Samples: 12345, CPUSeconds: 1.2312, CV: 0.021, Functions: 210, Event: "cpu"},
		Head:     diff.Side{Runs: 10, Samples: 12712, CPUSeconds: 1.2694, CV: 0.019, Functions: 214, Event: "cpu"},
	}
}

func passing() *diff.Result {
	r := failing()
	r.Verdict = diff.Pass
	r.Reason = diff.Reason{Code: diff.ReasonRuledOut, Text: "a regression of 1 pp in any function, or 3 % in total, is ruled out"}
	r.Findings = r.Findings[5:]
	r.Warnings = nil
	r.Total.Effect, r.Total.CI, r.Total.P = -0.012, diff.Interval{Low: -0.02, High: -0.004}, 0.99
	return r
}

// incomparable is what is made without runs: environments differ.
func incomparable() *diff.Result {
	const text = "environments differ in cores (4, 2)"
	return &diff.Result{
		Verdict:  diff.Inconclusive,
		Reason:   diff.Reason{Code: diff.ReasonNotComparable, Text: text},
		Warnings: []diff.Warning{{Code: "environment", Text: text, Hint: "use tollgate compare, which runs both versions here"}},
	}
}

// advisory is one run against one: no variance, so nothing that rests on it is a number.
func advisory() *diff.Result {
	nan, inf := math.NaN(), math.Inf(1)
	r := failing()
	r.Verdict, r.Advisory, r.Paired = diff.Inconclusive, true, false
	r.Reason = diff.Reason{Code: diff.ReasonAdvisory, Text: "one run a side says nothing about noise"}
	r.Findings = []diff.Finding{{
		Kind: diff.Regression, Severity: diff.Warns, Function: "f", Effect: 0.02, CI: diff.Interval{Low: -inf, High: inf},
		P: nan, Q: nan, ShareBase: 0.1, ShareHead: 0.12, DF: nan, Runs: 2,
	}}
	r.Total = diff.Total{Effect: 0.02, CI: diff.Interval{Low: nan, High: nan}, P: nan, PImprove: nan, Upper: inf, StdErr: nan, DF: nan, MDE: inf, Sampled: true}
	r.MDE, r.MDEMedian, r.PairsNeeded = inf, nan, 0
	r.Base = diff.Side{Runs: 1, Samples: 100, CPUSeconds: 0.1, CV: nan}
	r.Head = r.Base
	r.Functions[0].CI = diff.Interval{Low: nan, High: inf}
	return r
}

// noisy cannot tell with the runs it has.
func noisy() *diff.Result {
	r := failing()
	r.Verdict = diff.Inconclusive
	r.Reason = diff.Reason{Code: diff.ReasonWide, Text: "the bounds are too wide to pass"}
	r.Findings = nil
	r.PairsNeeded = 14
	return r
}

// hostile has names that attack a terminal, and one of 10 kB.
func hostile() *diff.Result {
	r := failing()
	names := []string{
		"evil\x1b[2J\x1b]0;owned\x07", "line\nbreak\r", "rtl\u202eevil\u2066", "zero\u200bwidth\ufeff", "bad\xff\xfeutf8",
		"tab\there", "c1\u009b31m", "separator\u2028x", "std::map<" + strings.Repeat("std::pair<int, std::string>, ", 350) + ">::operator[]",
		"解析器::次のトークンを読む", "combine\u0301\u0301",
	}
	r.Findings = nil
	for i, name := range names {
		r.Findings = append(r.Findings, diff.Finding{
			Kind: diff.Regression, Severity: diff.Fails, Function: name, File: "/src/" + name, Line: i, Object: name,
			Effect: 0.01, CI: diff.Interval{Low: 0.005, High: 0.015}, P: 0.001, Q: 0.002, ShareBase: 0.02, ShareHead: 0.03, Text: name,
		})
	}
	r.Reason.Text = names[0] + names[1]
	r.Warnings = []diff.Warning{{Code: "x", Text: names[2], Hint: names[3]}}
	return r
}

// many has more findings than anyone reads.
func many() *diff.Result {
	r := failing()
	for range 4999 {
		r.Findings = append(r.Findings, r.Findings[0])
	}
	return r
}

func examples() map[string]*diff.Result {
	return map[string]*diff.Result{
		"fail": failing(), "pass": passing(), "incomparable": incomparable(), "advisory": advisory(),
		"noisy": noisy(), "hostile": hostile(), "many": many(),
	}
}

func render(t *testing.T, r *diff.Result, m Meta, o TextOptions) string {
	t.Helper()
	var b strings.Builder
	if err := Text(&b, r, m, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFindingsSayWhetherTheChangeTouchesThem(t *testing.T) {
	r, m := failing(), exampleMeta()
	if text := render(t, r, m, TextOptions{}); strings.Contains(text, "the change") {
		t.Errorf("a change that is not known is spoken of:\n%s", text)
	}
	m.Touched = true
	r.Findings[0].Touched = true
	text := render(t, r, m, TextOptions{})
	for _, want := range []string{
		`(?m)^  parser\.\(\*Lexer\)\.Next .*\n    the change touches it$`,
		`(?m)^    the functions that only one side has cost no more as a whole; the change does not touch it$`,
		`(?m)^    every function costs more while the calibration kernel stands still$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no match for %s in\n%s", want, text)
		}
	}
}

func TestFindingsNameTheCallThatExplainsThem(t *testing.T) {
	r, m := failing(), exampleMeta()
	r.Findings[0].Through = &diff.Caller{Function: "main.\x1b[31mload", Coverage: 1.04}
	text := render(t, r, m, TextOptions{})
	if want := regexp.MustCompile(`(?m)^    100 % of the growth is below main\.\S*load$`); !want.MatchString(text) || strings.Contains(text, "\x1b") {
		t.Errorf("no match for %s in\n%q", want, text)
	}
}

func TestCPUSecondsOfAUnitAreCalledSo(t *testing.T) {
	m := exampleMeta()
	if text := render(t, failing(), m, TextOptions{}); !strings.Contains(text, " CPU-s each, CV") {
		t.Errorf("no CPU-seconds of a run in\n%s", text)
	}
	m.PerUnit = true
	if text := render(t, failing(), m, TextOptions{}); !strings.Contains(text, " CPU-s a unit of work, CV") || strings.Contains(text, "each") {
		t.Errorf("no CPU-seconds of a unit in\n%s", text)
	}
}

func TestTextIsAsInTheGoldenFiles(t *testing.T) {
	differing := exampleMeta()
	differing.Head.Environment = "Other CPU, 2 cores, 7.8 GiB, Linux 6.1.0, kvm"
	differing.Notes = []diff.Warning{{Code: "partial", Text: "base has 3 of 10 runs: the recording was interrupted"}}
	for _, test := range []struct {
		name    string
		result  *diff.Result
		meta    Meta
		options TextOptions
	}{
		{"fail-120", failing(), exampleMeta(), TextOptions{Width: 120, Root: "/src"}},
		{"fail-100-color", failing(), exampleMeta(), TextOptions{Width: 100, Color: true}},
		{"fail-60", failing(), exampleMeta(), TextOptions{Width: 60}},
		{"fail-piped", failing(), exampleMeta(), TextOptions{}},
		{"pass", passing(), exampleMeta(), TextOptions{Width: 100}},
		{"incomparable", incomparable(), differing, TextOptions{Width: 100}},
		{"advisory", advisory(), Meta{Base: Side{Source: "a.pb.gz"}, Head: Side{Source: "b.pb.gz"}}, TextOptions{Width: 100}},
		{"noisy", noisy(), exampleMeta(), TextOptions{Width: 100}},
		{"hostile", hostile(), exampleMeta(), TextOptions{Width: 110}},
		{"no-meta", failing(), Meta{}, TextOptions{Width: 100}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := render(t, test.result, test.meta, test.options)
			path := filepath.Join("testdata", test.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("run with -update if this is meant (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextFitsTheWidth(t *testing.T) {
	command := regexp.MustCompile(`^(reproduce|accept): `) // stay whole, to be copied
	for name, r := range examples() {
		for width := 60; width <= 160; width++ {
			for line := range strings.Lines(render(t, r, exampleMeta(), TextOptions{Width: width, Root: "/src"})) {
				line = strings.TrimSuffix(line, "\n")
				if columns(line) > width && !command.MatchString(line) {
					t.Fatalf("%s at %d: %d columns: %q", name, width, columns(line), line)
				}
				if strings.HasSuffix(line, " ") {
					t.Fatalf("%s at %d: trailing space: %q", name, width, line)
				}
			}
		}
	}
}

func TestTextIsInert(t *testing.T) {
	colors := regexp.MustCompile("\x1b\\[[0-9;]*m")
	meta := exampleMeta()
	const attack = "x\x1b[2J\u202e\u200b\u0085\n\x07y"
	meta.Suite, meta.Base.Commit, meta.Head.Branch, meta.Head.Environment, meta.Reproduce = attack, "", attack, attack, attack
	meta.Base.Source, meta.Notes = attack, []diff.Warning{{Text: attack, Hint: attack}}
	for _, width := range []int{0, 40, 80, 200} {
		got := colors.ReplaceAllString(render(t, hostile(), meta, TextOptions{Color: true, Width: width}), "")
		if !utf8.ValidString(got) {
			t.Error("invalid UTF-8")
		}
		for _, r := range got {
			if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || strings.ContainsRune("\u200b\u202e\u2066\u2028\ufeff", r)) {
				t.Errorf("width %d: %U is in the text", width, r)
			}
		}
	}
}

func TestTextWithoutColorHasNoEscapes(t *testing.T) {
	for name, r := range examples() {
		if got := render(t, r, exampleMeta(), TextOptions{Width: 90}); strings.Contains(got, "\x1b") {
			t.Errorf("%s: escape sequence in plain text", name)
		}
	}
}

func TestTextNamesTheVerdictFirst(t *testing.T) {
	for name, word := range map[string]string{"fail": "FAIL", "pass": "PASS", "noisy": "INCONCLUSIVE"} {
		if got := render(t, examples()[name], exampleMeta(), TextOptions{}); !strings.HasPrefix(got, word+"  parse: ") {
			t.Errorf("%s begins with %.40q", name, got)
		}
	}
}

func TestTextReportsAFailedWrite(t *testing.T) {
	broken := errors.New("broken pipe")
	if err := Text(writerFunc(func([]byte) (int, error) { return 0, broken }), passing(), Meta{}, TextOptions{}); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestSummaryIsOneInertLine(t *testing.T) {
	for name, want := range map[string]string{
		"fail":         "fail parse: parser.(*Lexer).Next +2.31 pp and 1 more (10 against 10 runs)",
		"pass":         "pass parse: a regression of 1 pp in any function, or 3 % in total, is ruled out (10 against 10 runs)",
		"incomparable": "inconclusive parse: environments differ in cores (4, 2)",
		"hostile":      `fail parse: evil\x1b[2J\x1b]0;owned\a +1.00 pp and 10 more (10 against 10 runs)`,
	} {
		if got := Summary(examples()[name], exampleMeta()); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestShortenKeepsBothEnds(t *testing.T) {
	for _, test := range []struct {
		in    string
		limit int
		want  string
	}{
		{"main.parse", 10, "main.parse"},
		{"main.parse", 9, "main…arse"},
		{"main.parse", 2, "m…"},
		{"main.parse", 1, "…"},
		{"main.parse", 0, ""},
		{"解析器の関数", 7, "解…数"},
		{"解析器の関数", 6, "解…数"},
	} {
		got := shorten(test.in, test.limit)
		if got != test.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", test.in, test.limit, got, test.want)
		}
		if columns(got) > test.limit {
			t.Errorf("shorten(%q, %d) takes %d columns", test.in, test.limit, columns(got))
		}
	}
}

func FuzzInert(f *testing.F) {
	f.Add("plain")
	f.Add("\x1b[31m\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := inert(s)
		for _, r := range got {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
				t.Errorf("inert(%q) has %U", s, r)
			}
		}
		if inert(got) != got {
			t.Errorf("inert(%q) = %q changes again", s, got)
		}
		for limit := range 12 {
			if c := columns(shorten(got, limit)); c > limit {
				t.Errorf("shorten(%q, %d) takes %d columns", got, limit, c)
			}
		}
	})
}

func TestSidesAreToldApart(t *testing.T) {
	commit := strings.Repeat("0123456789", 4)
	for _, test := range []struct {
		side Side
		want string
	}{
		{Side{}, ""},
		{Side{Source: "head"}, "head"},
		{Side{Source: "head", Command: "./new"}, "./new"},
		{Side{Source: "base", Command: "./new"}, "base"},
		{Side{Source: "head", Command: "./new", Commit: commit}, "012345678901"},
		{Side{Source: "runs", Command: "./new", Commit: commit, Branch: "topic", Dirty: true}, "runs, 012345678901+changes (topic)"},
	} {
		if got := test.side.label("head"); got != test.want {
			t.Errorf("%+v is called %q, want %q", test.side, got, test.want)
		}
	}
}
