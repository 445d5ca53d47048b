package suite

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tollgate-dev/tollgate/diff"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// mustParse reads a file that has to be right.
func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	config, err := Parse(FileName, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func loadFull(t *testing.T) *Config {
	t.Helper()
	config, err := Load(filepath.Join("testdata", "valid", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Every problem of every wrong file: its place, its sentence and its hint.
func TestWrongFilesAreExplained(t *testing.T) {
	names, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range names {
		if filepath.Base(filepath.Dir(name)) == "valid" {
			continue
		}
		seen++
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(FileName, data)
			var wrong *FileError
			if !errors.As(err, &wrong) {
				t.Fatalf("error is %v, want a *FileError", err)
			}
			var b strings.Builder
			fmt.Fprintln(&b, wrong)
			for _, p := range wrong.Problems {
				if p.Hint != "" {
					fmt.Fprintf(&b, "hint %d:%d: %s\n", p.Line, p.Column, p.Hint)
				}
			}
			golden := strings.TrimSuffix(name, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("run with -update if this is meant (-want +got):\n%s", d)
			}
		})
	}
	if seen < 15 {
		t.Errorf("only %d wrong files", seen)
	}
}

func TestSuitesAreResolved(t *testing.T) {
	config := loadFull(t)
	parse, imports, server := config.Suites[0], config.Suites[1], config.Suites[2]
	if parse.Runs != 20 || parse.Warmup != 1 || parse.Timeout != 10*time.Minute || parse.BuildTimeout != time.Hour || parse.Directory != "." {
		t.Errorf("parse: %+v", parse)
	}
	if got := parse.Build.Args; !cmp.Equal(got, []string{"go", "test", "-c", "-o", "parse.test", "./parser"}) || parse.Build.String() != "go test -c -o parse.test ./parser" {
		t.Errorf("build is %q", got)
	}
	if parse.Command.Line != "./parse.test -test.bench Parse -test.benchtime 200x" || parse.Command.Args != nil {
		t.Errorf("command is %+v", parse.Command)
	}
	if imports.Command.Line != "./import --size 1000 <data.csv" || imports.Directory != "tools/import" || imports.Warmup != 0 ||
		imports.Scope != (Scope{ScopeProcess, "import"}) || imports.Work.Take != TakeLast || imports.Work.Pattern.String() != `imported (\d+) rows` {
		t.Errorf("import: %+v", imports)
	}
	if server.Event != EventCycles || server.Work.Units != 5000 || server.Scope != (Scope{ScopeThread, "worker"}) || len(server.Ignore) != 3 {
		t.Errorf("server: %+v", server)
	}
	if len(parse.Accept) != 2 || len(server.Accept) != 1 {
		t.Errorf("%d and %d accept entries, want 2 and 1", len(parse.Accept), len(server.Accept))
	}
	bare := mustParse(t, "suites: [{name: a, command: ./a}]").Suites[0]
	if bare.Frequency != DefaultFrequency || bare.Event != EventCPUClock || bare.Warmup != Unset || bare.Runs != 0 || bare.Timeout != 0 {
		t.Errorf("defaults: %+v", bare)
	}
}

func TestNumbersInEveryNotation(t *testing.T) {
	for text, want := range map[string]float64{"1e-4": 1e-4, "1E3": 1000, "0.5": 0.5, ".5": 0.5, "+2": 2, "7": 7} {
		s := mustParse(t, "suites: [{name: a, command: ./a, work: "+text+"}]").Suites[0]
		if s.Work.Units != want {
			t.Errorf("%s is %v", text, s.Work.Units)
		}
	}
	for _, text := range []string{"'1e3'", "0x10", ".inf", ".nan", "1_000", "1e999", "1e19", "1.2.3", "-1"} {
		if c, err := Parse(FileName, []byte("suites: [{name: a, command: ./a, work: "+text+"}]")); err == nil {
			t.Errorf("%s is %v", text, c.Suites[0].Work.Units)
		}
	}
}

func TestThresholdsOfTheFirstPatternHold(t *testing.T) {
	parse := loadFull(t).Suites[0]
	for name, want := range map[string]Limits{
		"main.main":             {0.005, 0.0025, 0.03, 0.01},
		"parser.(*Lexer).Next":  {0.003, 0.001, 0.03, 0.01},
		"parser.(*Lexer).Next2": {0.005, 0.0025, 0.03, 0.01},
		"crypto.hash32":         {0.005, 0.0025, 0, 0.01},
		"[kernel] hash_lookup":  {0.005, 0.0025, 0, 0.01}, // the suite's exceptions precede those of defaults
		"[kernel] do_syscall":   {0.02, 0.0025, 0.03, 0.04},
	} {
		if got := parse.Thresholds.Limits(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestOptionsReachTheDecision(t *testing.T) {
	config := loadFull(t)
	o := config.Suites[0].Options()
	want := diff.Options{
		Scope:     diff.ScopeTarget,
		MinEffect: 0.0025, RelativeMinEffect: 0.03, FailEffect: 0.005, Equivalence: 0.01, TotalMinEffect: 0.01, TotalEquivalence: 0.05,
		FunctionBudget: 0.007, GroupBudget: 0.001, TotalBudget: 0.002,
		MinShare: 0.005, Confidence: 0.95, FutilityP: -1, PowerTarget: 0.9, // 0 in the file is zero, not the default
		ReferenceTrim: 0.3, ReferenceCap: 0.05, ReferenceMinCount: 5, ReferenceMoved: 0.4, ReferenceShift: 0.1,
		CoverIncrease: 0.8, CoverBaseline: 0.5, RenameCosine: 0.8, RenameRatio: 2, LayoutVariance: 0.0001,
		TrendMinCount: 10, WinsorLow: -1, WinsorHigh: 1, NoisyRatio: 3, VarianceFloor: 0.25,
		Looks: []diff.Look{{Pairs: 5, Spend: 0.1}, {Pairs: 20, Spend: 0.9}},
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })
	if d := cmp.Diff(want, o, near, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Weight" || p.String() == "Touched" }, cmp.Ignore())); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if _, err := diff.NewSequence(20, o); err != nil {
		t.Errorf("diff refuses the options: %v", err)
	}
	bare := mustParse(t, "suites: [{name: a, command: ./a, scope: system}]").Suites[0]
	if got := bare.Options(); got.Scope != diff.ScopeAll || got.MinEffect != 0 || got.Looks != nil {
		t.Errorf("without statistics: %+v", got)
	}
}

// The thresholds that diff takes for the total when nothing is said, which are
// not exported for pairs.
func TestTotalDefaultsAreThoseOfDiff(t *testing.T) {
	margin, pass := totalDefaults(true)
	const step = 0.001
	if _, err := diff.NewSequence(5, diff.Options{TotalMinEffect: pass}); err != nil {
		t.Errorf("a margin of %v: %v", pass, err)
	}
	if _, err := diff.NewSequence(5, diff.Options{TotalMinEffect: pass + step}); err == nil {
		t.Errorf("a margin of %v is accepted: the default of pass is not %v", pass+step, pass)
	}
	if _, err := diff.NewSequence(5, diff.Options{TotalEquivalence: margin}); err != nil {
		t.Errorf("a pass of %v: %v", margin, err)
	}
	if _, err := diff.NewSequence(5, diff.Options{TotalEquivalence: margin - step}); err == nil {
		t.Errorf("a pass of %v is accepted: the default of margin is not %v", margin-step, margin)
	}
}

func TestChoosingASuite(t *testing.T) {
	config := loadFull(t)
	if s, err := config.Suite("import"); err != nil || s.Name != "import" {
		t.Errorf("import: %v, %v", s, err)
	}
	_, err := config.Suite("prase")
	var hinter interface{ Hint() string }
	if !errors.Is(err, ErrNoSuite) || !errors.As(err, &hinter) || !strings.Contains(hinter.Hint(), `did you mean "parse"?`) {
		t.Errorf("a misspelt suite: %v", err)
	}
	if _, err := config.Suite(""); !errors.Is(err, ErrNoSuite) {
		t.Errorf("no name among three suites: %v", err)
	}
	if s, err := mustParse(t, "suites: [{name: a, command: ./a}]").Suite(""); err != nil || s.Name != "a" {
		t.Errorf("no name and one suite: %v, %v", s, err)
	}
}

func TestExpiredEntriesFail(t *testing.T) {
	config := loadFull(t)
	if err := config.CheckExpiry(time.Date(2031, 6, 30, 23, 59, 59, 0, time.UTC)); err != nil {
		t.Errorf("on the last day: %v", err)
	}
	// Midnight in UTC is still the day before in New York.
	err := config.CheckExpiry(time.Date(2031, 6, 30, 20, 0, 0, 0, time.FixedZone("EDT", -4*3600)))
	want := "read testdata/valid/full.yaml:66:5: accept[1]: the accepted growth of the total in suite \"*\" has expired on 2031-06-30 (hardened allocator, all suites)"
	if !errors.Is(err, ErrExpired) || err.Error() != want {
		t.Errorf("after the last day: %v\nwant %s", err, want)
	}
	if err := config.CheckExpiry(time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC)); strings.Count(fmt.Sprint(err), "\n") != 1 {
		t.Errorf("both expired: %v", err)
	}
}

func TestAcceptHoldsWhileTheIntervalReachesDelta(t *testing.T) {
	config := loadFull(t)
	parse, server := config.Suites[0], config.Suites[2]
	const accepted = "parser.(*Parser).recover"
	for _, tt := range []struct {
		function string
		low      float64
		want     bool
	}{
		{accepted, 0.019, true},
		{accepted, 0.02, true},
		{accepted, 0.021, false},
		{accepted, -0.01, true},
		{accepted + ".func1", 0.01, false},
	} {
		if got := parse.Accepts(tt.function, tt.low) != nil; got != tt.want {
			t.Errorf("%s from %v: accepted is %v", tt.function, tt.low, got)
		}
	}
	if server.Accepts(accepted, 0.01) != nil {
		t.Error("an entry of another suite accepts")
	}
	if a := server.AcceptsTotal(0.015); a == nil || a.Reason != "hardened allocator, all suites" {
		t.Errorf("the total: %+v", a)
	}
	if server.AcceptsTotal(0.016) != nil {
		t.Error("more than delta is accepted")
	}
}

func TestFindLooksUpToTheRepositoryAndNoFurther(t *testing.T) {
	top := t.TempDir()
	repository := filepath.Join(top, "repository")
	deep := filepath.Join(repository, "a", "b")
	for _, dir := range []string{deep, filepath.Join(repository, ".git")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string) string {
		t.Helper()
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write(filepath.Join(top, FileName))
	if name, err := Find(deep); !errors.Is(err, ErrNotFound) {
		t.Errorf("a file above the repository: %s, %v", name, err)
	}
	old := write(filepath.Join(repository, "tollgate.yml"))
	_, err := Find(deep)
	var hinter interface{ Hint() string }
	if !errors.As(err, &hinter) || !strings.Contains(hinter.Hint(), "rename") {
		t.Errorf("tollgate.yml: %v", err)
	}
	os.Remove(old)
	root := write(filepath.Join(repository, FileName))
	if name, err := Find(deep); err != nil || name != root {
		t.Errorf("found %s, %v, want %s", name, err, root)
	}
	near := write(filepath.Join(repository, "a", FileName))
	if name, err := Find(deep); err != nil || name != near {
		t.Errorf("found %s, %v, want %s", name, err, near)
	}
	// Outside of a repository only the directory itself counts.
	if name, err := Find(top); err != nil || name != filepath.Join(top, FileName) {
		t.Errorf("found %s, %v", name, err)
	}
	outside := filepath.Join(top, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if name, err := Find(outside); !errors.Is(err, ErrNotFound) {
		t.Errorf("a file above a directory without repository: %s, %v", name, err)
	}
}

func TestLoadNamesTheCause(t *testing.T) {
	name := filepath.Join(t.TempDir(), FileName)
	if _, err := Load(name); err == nil || err.Error() != "read "+name+": no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(name, []byte(strings.Repeat("#", maxFile+1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(name); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a huge file: %v", err)
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"main.main", "main.main", true},
		{"main.main", "main.main2", false},
		{"main.main", "xmain.main", false},
		{"parser.(*Lexer).Next", "parser.(*Lexer).Next", true},
		{"runtime.*", "runtime.mallocgc", true},
		{"runtime.*", "internal/runtime.x", false},
		{"*/parser.*", "example.com/mod/parser.(*Lexer).Next", true},
		{"std::vec*<int>", "std::vector<int>", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "acb", false},
		{"a.b*", "axb", false},
		{"/^runtime\\.gc/", "runtime.gcDrain", true},
		{"/gc/", "runtime.gcDrain", true},
		{"/^gc/", "runtime.gcDrain", false},
		{"/", "/", true},
		{"main.main", "", false},
		{"*", "", false},
		{"*", "x\ny", true},
	} {
		p, err := NewPattern(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Matches(tt.name); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.pattern, tt.name, got)
		}
	}
	if (Pattern{}).Matches("x") || (Pattern{}).Matches("") {
		t.Error("the zero pattern matches")
	}
}

func TestScopes(t *testing.T) {
	target := map[string][]string{"target": {"1"}, "comm": {"server"}, "thread": {"worker"}}
	other := map[string][]string{"comm": {"server"}}
	for _, tt := range []struct {
		scope         Scope
		target, other bool
	}{
		{Scope{}, true, false},
		{Scope{Kind: ScopeTarget}, true, false},
		{Scope{Kind: ScopeSystem}, true, true},
		{Scope{ScopeProcess, "server"}, true, false},
		{Scope{ScopeProcess, "worker"}, false, false},
		{Scope{ScopeThread, "worker"}, true, false},
		{Scope{ScopeThread, "server"}, false, false},
	} {
		if tt.scope.Keeps(target) != tt.target || tt.scope.Keeps(other) != tt.other {
			t.Errorf("%+v keeps target %v, other %v", tt.scope, tt.scope.Keeps(target), tt.scope.Keeps(other))
		}
	}
}

func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Parse(FileName, data)
		if err != nil {
			var wrong *FileError
			if !errors.As(err, &wrong) || len(wrong.Problems) == 0 || err.Error() == "" {
				t.Fatalf("error without problems: %v", err)
			}
			for _, p := range wrong.Problems {
				if p.Line < 1 || p.Column < 1 {
					t.Errorf("problem at %d:%d: %s", p.Line, p.Column, p)
				}
			}
			return
		}
		for i := range config.Suites {
			s := &config.Suites[i]
			if s.Name == "" || s.Command.IsZero() || s.Frequency < 1 {
				t.Errorf("suite %+v", s)
			}
			o := s.Options()
			if len(o.Looks) > 0 {
				if _, err := diff.NewSequence(o.Looks[len(o.Looks)-1].Pairs, o); err != nil {
					t.Errorf("diff refuses what was accepted: %v", err)
				}
			} else if _, err := diff.NewSequence(20, o); err != nil {
				t.Errorf("diff refuses what was accepted: %v", err)
			}
		}
	})
}
