package suite

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"
)

const (
	// FileName is what the configuration of a repository is called.
	FileName = "tollgate.yaml"

	// EventCPUClock samples by a timer, EventCycles by CPU cycles.
	EventCPUClock = "cpu-clock"
	EventCycles   = "cycles"

	// DefaultFrequency is the sampling rate in Hz where none is given.
	DefaultFrequency = 999
	// DefaultBuildTimeout is what a build may take where nothing is said.
	DefaultBuildTimeout = 30 * time.Minute

	// Unset is Suite.Warmup where the file does not say it.
	Unset = -1
)

// Suite is one benchmark, with defaults filled in.
type Suite struct {
	Name      string
	Command   Command
	Build     Command // zero: nothing to build
	Directory string  // where both run, relative to the file; "." for beside it
	Work      Work    // zero: told by Go benchmarks, else each run is one unit

	Runs         int // per side; 0: each subcommand has a default of its own
	Warmup       int // unmeasured runs; Unset: as Runs
	Frequency    int // samples per second and CPU
	Event        string
	Timeout      time.Duration // of a run; 0: none
	BuildTimeout time.Duration
	Scope        Scope
	Thresholds   Thresholds
	Ignore       []Pattern // the suite's, then those of defaults
	Accept       []Accept  // those for this suite, in the order of the file

	statistics *Statistics
}

func (s *Suite) apply(from settings) {
	set(&s.Runs, from.Runs)
	set(&s.Warmup, from.Warmup)
	set(&s.Frequency, from.Frequency)
	if from.Event != nil {
		s.Event = string(*from.Event)
	}
	if from.Timeout != nil {
		s.Timeout = time.Duration(*from.Timeout)
	}
	if from.BuildTimeout != nil {
		s.BuildTimeout = time.Duration(*from.BuildTimeout)
	}
	set(&s.Scope, from.Scope)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Ignores reports whether findings on the function do not count. They are
// still reported, and the function's cost stays part of the total.
func (s *Suite) Ignores(function string) bool {
	return slices.ContainsFunc(s.Ignore, func(p Pattern) bool { return p.Matches(function) })
}

// Accepts returns the entry that accepts the growth of a function. low is the
// low end of the interval of its effect, as a fraction of the baseline: growth
// is accepted as long as it may be no more than the entry's delta. nil: none
// does.
func (s *Suite) Accepts(function string, low float64) *Accept {
	for i := range s.Accept {
		if a := &s.Accept[i]; !a.Total && a.Function.Matches(function) && low <= a.Delta {
			return a
		}
	}
	return nil
}

// AcceptsTotal is Accepts for the CPU per unit of work as a whole.
func (s *Suite) AcceptsTotal(low float64) *Accept {
	for i := range s.Accept {
		if a := &s.Accept[i]; a.Total && low <= a.Delta {
			return a
		}
	}
	return nil
}

// Accept is a regression that is known and tolerated for a time.
type Accept struct {
	Suite    string  // a name, or "*"
	Function Pattern // zero where Total is set
	Total    bool    // the growth of the whole
	Delta    float64 // most that is accepted, as a fraction of the baseline
	Reason   string
	Expires  Date // the last day on which it holds, in UTC

	line, column int
}

// Expired reports whether the entry's last day is over at now.
func (a Accept) Expired(now time.Time) bool {
	return !now.UTC().Before(a.Expires.AddDate(0, 0, 1))
}

func (a Accept) what() string {
	if a.Total {
		return "the total"
	}
	return a.Function.String()
}

// ScopeKind says by what samples are selected.
type ScopeKind string

const (
	ScopeTarget  ScopeKind = "target"  // the command and its descendants
	ScopeSystem  ScopeKind = "system"  // everything on the machine
	ScopeProcess ScopeKind = "process" // processes of a name, in the target
	ScopeThread  ScopeKind = "thread"  // threads of a name, in the target
)

// Scope says which samples are judged. The zero Scope is the target.
type Scope struct {
	Kind ScopeKind
	Name string // of ScopeProcess and ScopeThread, as the kernel has it: at most 15 bytes
}

// Names limits of the kernel: TASK_COMM_LEN without the final zero.
const maxComm = 15

// Keeps reports whether a sample with these labels (those of pprof's
// Sample.Label) is inside the scope.
func (s Scope) Keeps(labels map[string][]string) bool {
	switch s.Kind {
	case ScopeSystem:
		return true
	case ScopeProcess:
		return len(labels["target"]) > 0 && slices.Contains(labels["comm"], s.Name)
	case ScopeThread:
		return len(labels["target"]) > 0 && slices.Contains(labels["thread"], s.Name)
	}
	return len(labels["target"]) > 0
}

// namedScope is the form of a scope that names something.
type namedScope struct {
	Process *string `yaml:"process"`
	Thread  *string `yaml:"thread"`
}

func (s *Scope) decode(d *decoder, path string, node ast.Node) {
	if text, ok := node.(*ast.StringNode); ok {
		switch kind := ScopeKind(text.Value); kind {
		case ScopeTarget, ScopeSystem:
			s.Kind = kind
		default:
			d.reject(path, "for a name write scope: {process: NAME} or {thread: NAME}", "unknown scope %q, must be target or system, or name a process or a thread", text.Value)
		}
		return
	}
	var named namedScope
	before := len(d.problems)
	d.object(path, node, valueOf(&named))
	if len(d.problems) > before {
		return
	}
	switch {
	case named.Process != nil && named.Thread != nil:
		d.reject(path, "", "names a process and a thread, must be one of them")
		return
	case named.Process != nil:
		*s = Scope{ScopeProcess, *named.Process}
	case named.Thread != nil:
		*s = Scope{ScopeThread, *named.Thread}
	default:
		d.reject(path, "", "names neither a process nor a thread")
		return
	}
	if s.Name == "" || len(s.Name) > maxComm {
		d.reject(path, "the kernel cuts the names of processes and threads after 15 bytes", "%q is not the name of a %s: 1 to %d bytes", s.Name, s.Kind, maxComm)
	}
}
