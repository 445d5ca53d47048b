// Package baseline keeps recordings: the profiles of repeated runs of one command in one
// environment, with a manifest that says how they came about. It writes them so that no half-written
// recording is ever visible, checks them when they are read, and stores them as named baselines.
package baseline

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// SchemaVersion is the version of the manifest this package writes and the newest it reads. Fields
// may be added within a version; a reader ignores those it does not know.
const SchemaVersion = 1

// ManifestName is the name of the manifest in a recording's directory.
const ManifestName = "manifest.json"

// ManifestSchema is the JSON Schema (2020-12) of the manifest.
//
//go:embed schema/manifest.schema.json
var ManifestSchema []byte

// Manifest describes a recording. Its JSON form is manifest.json.
type Manifest struct {
	SchemaVersion int       `json:"schema_version"` // set by Writer
	ToolVersion   string    `json:"tool_version"`
	Suite         string    `json:"suite"`
	Command       []string  `json:"command"`                     // argv
	Dir           string    `json:"working_directory,omitempty"` // relative to the repository's root where there is one
	Commit        string    `json:"commit,omitempty"`            // full hash; empty outside a git repository
	Branch        string    `json:"branch,omitempty"`            // empty when HEAD is detached
	Dirty         bool      `json:"dirty"`                       // tracked files differed from Commit
	Time          time.Time `json:"time"`                        // start of the first run
	Env           Env       `json:"environment"`
	Frequency     int       `json:"frequency_hz"`
	Event         string    `json:"event"` // "cpu-clock" or "cycles"
	Warmup        int       `json:"warmup_runs"`
	RequestedRuns int       `json:"requested_runs"`
	Partial       string    `json:"partial,omitempty"` // why fewer than RequestedRuns are here; empty when all are
	Runs          []RunInfo `json:"runs"`
}

// RunInfo describes one run of the command.
type RunInfo struct {
	File     string    `json:"file"`   // name of the profile in the recording's directory; set by Writer
	SHA256   string    `json:"sha256"` // of the file's bytes, lower-case hexadecimal; set by Writer
	Time     time.Time `json:"time,omitzero"`
	ExitCode int       `json:"exit_code"`
	Signal   string    `json:"signal,omitempty"` // name of the signal that ended the command, as in "SIGKILL"
	// WorkUnits is how much work the run did, 1 where every run does the same.
	WorkUnits float64 `json:"work_units"`
	// Benchmarks are the results that Go benchmarks of fixed time printed: the work that the run did, which
	// only a comparison of both sides turns into units.
	Benchmarks []Benchmark `json:"benchmarks,omitempty"`
	// AnchorSeconds is the CPU time of the calibration kernel beside this run; 0 means none was run.
	AnchorSeconds float64 `json:"anchor_seconds,omitempty"`
	Accounting
}

// Benchmark is one line of results of a Go benchmark.
type Benchmark struct {
	Name       string  `json:"name"` // with its package and GOMAXPROCS
	Iterations float64 `json:"iterations"`
	NsPerOp    float64 `json:"ns_per_op"` // wall time; 0 where the line does not have it
}

// Accounting is what was counted during a run beside its profile. Seconds are CPU-seconds unless they
// say otherwise, and belong to the target's process tree unless they say otherwise.
type Accounting struct {
	WallSeconds    float64 `json:"wall_seconds"`
	CPUSeconds     float64 `json:"cpu_seconds"` // exact, from the scheduler
	UserSeconds    float64 `json:"user_seconds"`
	SystemSeconds  float64 `json:"system_seconds"`
	SampledSeconds float64 `json:"sampled_seconds"` // target samples times the sampling period

	Samples       uint64 `json:"samples"`        // of the whole system, in the profile
	TargetSamples uint64 `json:"target_samples"` // of the target, in the profile
	Lost          uint64 `json:"lost"`           // taken but not in the profile
	Complete      uint64 `json:"complete"`       // target samples unwound to the outermost frame
	// CompletedLater counts those of Complete that were unwound from a copy of their stack.
	CompletedLater uint64            `json:"completed_later,omitempty"`
	Truncated      map[string]uint64 `json:"truncated,omitempty"`    // target samples by the reason the unwinder stopped early
	Unsymbolized   uint64            `json:"unsymbolized,omitempty"` // target samples whose leaf has no name
	Unreadable     map[string]uint64 `json:"unreadable,omitempty"`   // mapped files without unwind tables, by reason
	// OutstandingThreads counts ended threads whose final CPU time had not been reported in time; their
	// CPU is missing from CPUSeconds.
	OutstandingThreads uint64 `json:"outstanding_threads,omitempty"`

	StealSeconds        float64         `json:"steal_seconds"` // whole machine, taken by the hypervisor
	CollectorCPUSeconds float64         `json:"collector_cpu_seconds,omitempty"`
	ContextSwitches     ContextSwitches `json:"context_switches"`
	Others              []Consumer      `json:"others,omitempty"` // top CPU users outside the target, largest first
}

// ContextSwitches counts how often threads of the target left a CPU.
type ContextSwitches struct {
	Voluntary   uint64 `json:"voluntary"`
	Involuntary uint64 `json:"involuntary"`
}

// Consumer is CPU time used outside the target, merged by thread name.
type Consumer struct {
	Comm       string  `json:"comm"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

// ParseManifest reads a manifest and checks that it is whole. It does not look at the profiles.
func ParseManifest(data []byte) (*Manifest, error) {
	// The version decides how to read the rest, so it is read first and alone.
	var version struct {
		SchemaVersion *int `json:"schema_version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, describeJSON(data, err)
	}
	switch {
	case version.SchemaVersion == nil:
		return nil, errors.New("schema_version is missing: not a manifest of a recording")
	case *version.SchemaVersion > SchemaVersion:
		return nil, &VersionError{Found: *version.SchemaVersion, Supported: SchemaVersion}
	case *version.SchemaVersion < 1:
		return nil, fmt.Errorf("schema_version is %d, want 1 to %d", *version.SchemaVersion, SchemaVersion)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	m := new(Manifest)
	if err := decoder.Decode(m); err != nil {
		return nil, describeJSON(data, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("data after the manifest's closing brace")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// check reports the first thing that makes m unusable.
func (m *Manifest) check() error {
	switch {
	case len(m.Command) == 0:
		return errors.New("command is empty")
	case m.Time.IsZero():
		return errors.New("time is missing")
	case m.Frequency <= 0:
		return fmt.Errorf("frequency_hz is %d, want a positive number", m.Frequency)
	case m.Event == "":
		return errors.New("event is missing")
	case len(m.Runs) == 0:
		return errors.New("it lists no runs")
	}
	seen := make(map[string]int, len(m.Runs))
	for i, run := range m.Runs {
		if err := run.check(); err != nil {
			return fmt.Errorf("run %d: %w", i+1, err)
		}
		if first, twice := seen[run.File]; twice {
			return fmt.Errorf("run %d: file %q is also that of run %d", i+1, run.File, first)
		}
		seen[run.File] = i + 1
	}
	return nil
}

func (r *RunInfo) check() error {
	if !plainName(r.File) {
		return fmt.Errorf("file %q is not a plain file name", r.File)
	}
	if len(r.SHA256) != 64 {
		return fmt.Errorf("sha256 of %s has %d characters, want 64", r.File, len(r.SHA256))
	}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"wall_seconds", r.WallSeconds},
		{"cpu_seconds", r.CPUSeconds},
		{"user_seconds", r.UserSeconds},
		{"system_seconds", r.SystemSeconds},
		{"sampled_seconds", r.SampledSeconds},
		{"work_units", r.WorkUnits},
		{"anchor_seconds", r.AnchorSeconds},
	} {
		if v.value < 0 {
			return fmt.Errorf("%s is %g, want no negative number", v.name, v.value)
		}
	}
	for _, b := range r.Benchmarks {
		if b.Iterations < 1 || b.NsPerOp < 0 {
			return fmt.Errorf("benchmark %.60q has %g iterations of %g ns, want 1 or more of no negative time", b.Name, b.Iterations, b.NsPerOp)
		}
	}
	if r.TargetSamples > r.Samples {
		return fmt.Errorf("target_samples is %d, more than the %d samples", r.TargetSamples, r.Samples)
	}
	return nil
}

// encode returns m as it is written to disk.
func (m *Manifest) encode() ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(m); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return buf.Bytes(), nil
}

// VersionError says that a manifest or a store was written by a newer version.
type VersionError struct {
	Found, Supported int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("schema version %d is newer than %d, the newest this version reads", e.Found, e.Supported)
}

// Hint says what to do.
func (e *VersionError) Hint() string { return "update tollgate, or record again with this version" }

// describeJSON adds the line to errors of package json that know only a byte offset.
func describeJSON(data []byte, err error) error {
	var (
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
		offset int64
	)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	default:
		return err
	}
	if offset > int64(len(data)) {
		offset = int64(len(data))
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:offset], []byte("\n")), err)
}
