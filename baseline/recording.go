package baseline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/pprof/profile"
)

const (
	maxManifestBytes = 64 << 20
	maxFileBytes     = 1 << 30
	// maxProfileBytes bounds what a profile may decompress to: a million samples with stacks of their
	// own take a tenth of it, and a hostile file must not take all memory.
	maxProfileBytes = 2 << 30
)

// Names of the sample types and the label that recordings use.
const (
	SamplesType = "samples" // unit "count"
	CPUType     = "cpu"     // unit "nanoseconds"
	TargetLabel = "target"  // on every sample of the wrapped command's process tree
)

// Recording is repeated runs of one command in one environment.
type Recording struct {
	Manifest
	Source string // where it was read from, as the user wrote it
	// Foreign says that the profiles came without a manifest, so that nothing but the file names in
	// Manifest.Runs is known about them.
	Foreign  bool
	Profiles []Profile // one for each of Manifest.Runs, in the same order
}

// Profile is the profile of one run, decoded and as it was stored.
type Profile struct {
	*profile.Profile
	Raw []byte
}

// Load reads the recording in a directory and checks that the manifest and the profiles agree.
func Load(dir string) (*Recording, error) {
	fail := func(err error, advice string) (*Recording, error) {
		return nil, &Error{Op: "load recording", Object: dir, Err: err, Advice: advice}
	}
	// A root pins the directory itself: a recording that is replaced meanwhile cannot lend some of
	// its files, and no link in it leads elsewhere.
	root, err := os.OpenRoot(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fail(bare(err), "name a directory written by tollgate record, or pprof files")
		}
		return fail(bare(err), "")
	}
	defer root.Close()
	data, err := readAll(root, ManifestName, maxManifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(fmt.Errorf("no %s", ManifestName), "name a directory written by tollgate record, or pprof files")
	}
	if err != nil {
		return fail(fmt.Errorf("%s: %w", ManifestName, bare(err)), "")
	}
	manifest, err := ParseManifest(data)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", ManifestName, damagedUnlessNewer(err)), "")
	}
	recording := &Recording{Manifest: *manifest, Source: dir}
	for i, info := range manifest.Runs {
		p, err := loadRun(root, info)
		if err != nil {
			err = fmt.Errorf("run %d: %s: %w", i+1, info.File, err)
			if errors.Is(err, ErrNoSamples) {
				return fail(err, "the command used too little CPU to be sampled; let it do more work, or raise --frequency")
			}
			return fail(err, "record again; the files of a recording belong together and must not be edited")
		}
		recording.Profiles = append(recording.Profiles, p)
	}
	return recording, nil
}

func loadRun(root *os.Root, info RunInfo) (Profile, error) {
	raw, err := readAll(root, info.File, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Profile{}, damaged{errors.New("the profile is missing")}
	}
	if err != nil {
		return Profile{}, bare(err)
	}
	sum := sha256.Sum256(raw)
	sumErr := error(nil)
	if got := hex.EncodeToString(sum[:]); got != info.SHA256 {
		sumErr = fmt.Errorf("checksum is %.12s…, the manifest says %.12s…", got, info.SHA256)
	}
	// A file cut short fails both tests; how it is broken says more than that it is.
	plain, err := gunzip(raw)
	if err != nil {
		return Profile{}, damaged{err}
	}
	if sumErr != nil {
		return Profile{}, damaged{sumErr}
	}
	parsed, err := profile.ParseUncompressed(plain)
	if err == nil {
		err = parsed.CheckValid()
	}
	if err != nil {
		return Profile{}, damaged{err}
	}
	if err := checkCounts(parsed, info); err != nil {
		return Profile{}, err
	}
	return Profile{Profile: parsed, Raw: raw}, nil
}

// checkCounts compares the samples in a profile with what the manifest says of it.
func checkCounts(p *profile.Profile, info RunInfo) error {
	index := typeIndex(p, SamplesType)
	if index < 0 || typeIndex(p, CPUType) < 0 {
		return damaged{fmt.Errorf("sample types %s and %s are not both there", SamplesType, CPUType)}
	}
	var all, target uint64
	for _, sample := range p.Sample {
		n := sample.Value[index]
		if n < 0 {
			return damaged{fmt.Errorf("a sample has the count %d", n)}
		}
		all += uint64(n)
		if len(sample.Label[TargetLabel]) > 0 {
			target += uint64(n)
		}
	}
	switch {
	case all != info.Samples:
		return damaged{fmt.Errorf("it has %d samples, the manifest says %d", all, info.Samples)}
	case target != info.TargetSamples:
		return damaged{fmt.Errorf("it has %d samples of the target, the manifest says %d", target, info.TargetSamples)}
	case all == 0:
		return ErrNoSamples
	case target == 0:
		return fmt.Errorf("%w of the target", ErrNoSamples)
	}
	return nil
}

// typeIndex returns the index of a sample type, or -1.
func typeIndex(p *profile.Profile, name string) int {
	for i, t := range p.SampleType {
		if t.Type == name {
			return i
		}
	}
	return -1
}

// Save writes r to dir as a recording, in one step.
func (r *Recording) Save(dir string, o CreateOptions) error {
	if r.Foreign {
		return &Error{
			Op: "save recording", Object: dir, Err: fmt.Errorf("%s has no manifest", r.Source),
			Advice: "only what tollgate record has written can be saved, since nothing is known of other profiles' environment",
		}
	}
	w, err := Create(dir, r.Manifest, o)
	if err != nil {
		return err
	}
	for i, info := range r.Runs {
		if err := w.Add(info, r.Profiles[i].Raw); err != nil {
			_ = w.Discard() // the source is still there
			return err
		}
	}
	if r.Partial != "" {
		_, err := w.Salvage(r.Partial)
		return err
	}
	return w.Commit()
}

// Name returns what to call r in a sentence: its suite, or where it came from.
func (r *Recording) Name() string {
	if r.Suite != "" {
		return r.Suite
	}
	return filepath.Base(r.Source)
}

// CPUSeconds returns the exact CPU-seconds of the target over all runs; 0 for foreign profiles.
func (r *Recording) CPUSeconds() float64 {
	var sum float64
	for _, run := range r.Runs {
		sum += run.CPUSeconds
	}
	return sum
}

// Comparable returns nil if the CPU of a and b can be compared: same suite, same event, and
// environments that agree. Differing suites are ErrSuite, differing environments an *EnvError.
// Foreign recordings are always comparable: nothing is known against it.
func Comparable(a, b *Recording) error {
	if a.Foreign || b.Foreign {
		return nil
	}
	fail := func(err error, advice string) error {
		return &Error{Op: "compare", Object: a.Source + " with " + b.Source, Err: err, Advice: advice}
	}
	if a.Suite != b.Suite {
		return fail(fmt.Errorf("%w: %q and %q", ErrSuite, a.Suite, b.Suite),
			"record both with the same --name if they do the same work")
	}
	if a.Event != b.Event {
		return fail(fmt.Errorf("different events: %q and %q", a.Event, b.Event), "record both with the same --event")
	}
	if err := a.Env.Comparable(b.Env); err != nil {
		return fail(err, "")
	}
	return nil
}

// readAll reads a regular file of at most limit bytes.
func readAll(root *os.Root, name string, limit int64) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	return readLimited(file, limit)
}

func readLimited(r io.Reader, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("larger than %d MiB", limit>>20)
	}
	return buf.Bytes(), nil
}

// damagedUnlessNewer adds ErrCorrupt to errors about a manifest, except that it is too new.
func damagedUnlessNewer(err error) error {
	var version *VersionError
	if errors.As(err, &version) {
		return err
	}
	return damaged{err}
}
