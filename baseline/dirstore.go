package baseline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// layoutVersion is the version of the directory store's layout, kept in layoutName.
const (
	layoutVersion = 1
	layoutName    = "version"
	baselinesName = "baselines"
)

// dirStore keeps each baseline as a recording in dir/baselines/NAME.
type dirStore struct {
	dir string
}

func (s *dirStore) path(name string) string { return filepath.Join(s.dir, baselinesName, name) }

func (s *dirStore) Load(ctx context.Context, name string) (*Recording, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := s.checkLayout(); err != nil {
		return nil, err
	}
	var recording *Recording
	err := s.stable(ctx, name, func(path string) (err error) {
		recording, err = Load(path)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) {
		return nil, &Error{
			Op: "load baseline", Object: name, Err: fmt.Errorf("%w in %s", ErrNotFound, s.dir),
			Advice: "tollgate baseline list shows those there are, tollgate baseline save NAME RECORDING makes one",
		}
	}
	if err != nil {
		return nil, err
	}
	return recording, nil
}

// stable calls read with the directory of a baseline, and again while it fails because a Save has
// replaced the directory and removed the files under its hands.
func (s *dirStore) stable(ctx context.Context, name string, read func(path string) error) error {
	path := s.path(name)
	for {
		if err := ctx.Err(); err != nil {
			return &Error{Op: "read baseline", Object: name, Err: err}
		}
		before, err := os.Stat(path)
		if err != nil {
			return &Error{Op: "read baseline", Object: name, Err: err}
		}
		err = read(path)
		if err == nil {
			return nil
		}
		if after, statErr := os.Stat(path); statErr == nil && os.SameFile(before, after) {
			return err
		}
	}
}

func (s *dirStore) Save(ctx context.Context, name string, r *Recording) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &Error{Op: "save baseline", Object: name, Err: err}
	}
	if err := s.prepare(); err != nil {
		return err
	}
	return r.Save(s.path(name), CreateOptions{Replace: true})
}

func (s *dirStore) List(ctx context.Context) ([]Entry, error) {
	if err := s.checkLayout(); err != nil {
		return nil, err
	}
	found, err := os.ReadDir(filepath.Join(s.dir, baselinesName)) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Op: "list baselines", Object: s.dir, Err: bare(err)}
	}
	var entries []Entry
	for _, f := range found {
		if err := ctx.Err(); err != nil {
			return nil, &Error{Op: "list baselines", Object: s.dir, Err: err}
		}
		if !f.IsDir() || strings.HasPrefix(f.Name(), ".") {
			continue
		}
		entry := Entry{Name: f.Name()}
		err := s.stable(ctx, f.Name(), entry.read)
		if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) {
			continue // deleted meanwhile
		}
		if err != nil {
			entry = Entry{Name: f.Name(), Bytes: entry.Bytes, Saved: entry.Saved, Err: err}
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// read fills in what the directory tells without reading the profiles.
func (e *Entry) read(path string) error {
	fail := func(err error) error { return &Error{Op: "read baseline", Object: e.Name, Err: err} }
	root, err := os.OpenRoot(path)
	if err != nil {
		return fail(bare(err))
	}
	defer root.Close()
	files, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fail(bare(err))
	}
	e.Bytes = 0
	for _, file := range files {
		if info, err := file.Info(); err == nil && info.Mode().IsRegular() {
			e.Bytes += info.Size()
			if file.Name() == ManifestName {
				e.Saved = info.ModTime()
			}
		}
	}
	data, err := readAll(root, ManifestName, maxManifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(damaged{fmt.Errorf("no %s", ManifestName)})
	}
	if err != nil {
		return fail(fmt.Errorf("%s: %w", ManifestName, bare(err)))
	}
	manifest, err := ParseManifest(data)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", ManifestName, damagedUnlessNewer(err)))
	}
	e.Manifest = *manifest
	return nil
}

func (s *dirStore) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &Error{Op: "delete baseline", Object: name, Err: err}
	}
	if err := s.checkLayout(); err != nil {
		return err
	}
	path := s.path(name)
	// Renamed first, so that it is gone in one step.
	doomed, err := os.MkdirTemp(filepath.Dir(path), ".deleted-*")
	if err == nil {
		err = os.Rename(path, filepath.Join(doomed, "deleted"))
		err = errors.Join(err, os.RemoveAll(doomed))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{
			Op: "delete baseline", Object: name, Err: fmt.Errorf("%w in %s", ErrNotFound, s.dir),
			Advice: "tollgate baseline list shows those there are",
		}
	}
	if err != nil {
		return &Error{Op: "delete baseline", Object: name, Err: err}
	}
	return nil
}

// prepare makes the store's directory and marks its layout.
func (s *dirStore) prepare() error {
	if err := s.checkLayout(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, baselinesName), 0o777); err != nil {
		return &Error{Op: "create store", Object: s.dir, Err: err}
	}
	marker := filepath.Join(s.dir, layoutName)
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	// Writers that race write the same bytes.
	file, err := os.OpenFile(marker, os.O_WRONLY|os.O_CREATE, 0o666)
	if err == nil {
		_, err = fmt.Fprintln(file, layoutVersion)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return &Error{Op: "create store", Object: s.dir, Err: err}
	}
	return nil
}

// checkLayout returns an error if a newer version has written the store.
func (s *dirStore) checkLayout() error {
	data, err := os.ReadFile(filepath.Join(s.dir, layoutName))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 { // empty: a writer is just about it
		return nil
	}
	if err != nil {
		return &Error{Op: "open store", Object: s.dir, Err: err}
	}
	var version int
	if _, err := fmt.Sscanf(string(data), "%d", &version); err != nil {
		return &Error{
			Op: "open store", Object: s.dir, Err: fmt.Errorf("%s holds %.20q, want a number", layoutName, data),
			Advice: "choose another directory with --store if this is no store",
		}
	}
	if version > layoutVersion {
		return &Error{Op: "open store", Object: s.dir, Err: &VersionError{Found: version, Supported: layoutVersion}}
	}
	return nil
}
