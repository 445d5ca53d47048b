package baseline

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// profileSuffixes are the file names taken for profiles in a directory without a manifest.
var profileSuffixes = []string{".pb.gz", ".pprof", ".pb", ".prof"}

// Read reads one side of a comparison: a recording's directory or its manifest, or profiles from any
// tool as LoadProfiles takes them.
func Read(paths ...string) (*Recording, error) {
	if len(paths) == 1 {
		path := paths[0]
		if filepath.Base(path) == ManifestName {
			return Load(filepath.Dir(path))
		}
		if _, err := os.Stat(filepath.Join(path, ManifestName)); err == nil {
			return Load(path)
		}
	}
	return LoadProfiles(paths...)
}

// LoadProfiles reads pprof CPU profiles that came without a manifest, each one run. A path is a
// file, a directory (its *.pb.gz, *.pprof, *.pb and *.prof files), a pattern as of path/filepath's
// Match, or several of these with commas between.
func LoadProfiles(paths ...string) (*Recording, error) {
	source := strings.Join(paths, ",")
	recording := &Recording{Foreign: true, Source: source}
	var files []string
	for _, path := range paths {
		found, err := expand(path)
		if err != nil {
			return nil, &Error{
				Op: "load profiles", Object: path, Err: bare(err),
				Advice: "name a recording's directory, or pprof files; commas separate several",
			}
		}
		files = append(files, found...)
	}
	seen := make(map[string]bool, len(files))
	for _, file := range files {
		if seen[filepath.Clean(file)] {
			return nil, &Error{
				Op: "load profiles", Object: source, Err: fmt.Errorf("%s is named twice", file),
				Advice: "each file is one run; counting a run twice would understate the noise",
			}
		}
		seen[filepath.Clean(file)] = true
		p, err := loadForeign(file)
		if err != nil {
			return nil, err
		}
		recording.Profiles = append(recording.Profiles, p)
		recording.Runs = append(recording.Runs, RunInfo{File: file, WorkUnits: 1})
		// The oldest profile dates the recording.
		if at := p.TimeNanos; at > 0 && (recording.Time.IsZero() || time.Unix(0, at).Before(recording.Time)) {
			recording.Time = time.Unix(0, at).UTC()
		}
	}
	return recording, nil
}

// expand returns the files that path stands for, at least one.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return profilesIn(path)
	case err == nil:
		return []string{path}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if strings.Contains(path, ",") {
		var files []string
		for part := range strings.SplitSeq(path, ",") {
			if part == "" {
				continue
			}
			found, err := expand(part)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", part, bare(err))
			}
			files = append(files, found...)
		}
		if len(files) == 0 {
			return nil, errors.New("no file is named")
		}
		return files, nil
	}
	if strings.ContainsAny(path, "*?[") {
		files, err := filepath.Glob(path)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, errors.New("no file matches")
		}
		return files, nil
	}
	return nil, err
}

func profilesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		name := entry.Name()
		isProfile := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
		if !entry.IsDir() && name[0] != '.' && slices.ContainsFunc(profileSuffixes, isProfile) {
			files = append(files, filepath.Join(dir, name))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("neither %s nor profiles (*%s) are in it", ManifestName, strings.Join(profileSuffixes, ", *"))
	}
	return files, nil
}

func loadForeign(path string) (Profile, error) {
	fail := func(err error, advice string) (Profile, error) {
		return Profile{}, &Error{Op: "load profile", Object: path, Err: bare(err), Advice: advice}
	}
	file, err := os.Open(path)
	if err != nil {
		return fail(err, "")
	}
	defer file.Close()
	raw, err := readLimited(file, maxFileBytes)
	if err != nil {
		return fail(err, "")
	}
	const what = "the file must be a CPU profile in pprof's format, gzipped or not"
	plain := raw
	if bytes.HasPrefix(raw, gzipMagic) {
		if plain, err = gunzip(raw); err != nil {
			return fail(damaged{err}, what)
		}
	}
	if len(plain) == 0 {
		return fail(damaged{errors.New("the file is empty")}, what)
	}
	parsed, err := profile.ParseData(plain) // also knows the text formats of older tools
	if err != nil {
		return fail(damaged{err}, what)
	}
	if len(parsed.Sample) == 0 {
		return fail(ErrNoSamples, "the profiled program used too little CPU to be sampled, or the profiler was stopped too early")
	}
	return Profile{Profile: parsed, Raw: raw}, nil
}

var gzipMagic = []byte{0x1f, 0x8b}

func gunzip(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, errors.New("the file is empty")
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, gzipError(err)
	}
	plain, err := readLimited(reader, maxProfileBytes)
	if err != nil {
		return nil, gzipError(err)
	}
	return plain, nil
}

func gzipError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the gzip stream is cut short")
	}
	return err
}
