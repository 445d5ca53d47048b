package baseline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// unfinished is the Partial of a recording whose writer has neither committed nor salvaged it, which
// is what a reader finds after the writer was killed.
const unfinished = "the recording was interrupted"

// reserveBytes is kept free for the last run that a full disk takes, and for its manifest.
const reserveBytes = 64 << 10

// CreateOptions change where and over what a Writer writes.
type CreateOptions struct {
	// Replace lets Commit replace a recording that is already there, atomically.
	Replace bool
}

// Writer writes a recording. Until Commit or Salvage everything is in a hidden directory beside the
// final one. After each Add that directory is a valid recording marked partial, so that a killed
// writer loses no completed run.
type Writer struct {
	// Abandoned lists hidden recordings with completed runs that killed writers left at this place.
	Abandoned []string

	dir      string // final directory, absolute, symbolic links resolved
	temp     string // hidden sibling
	replace  bool
	lock     *os.File // temp, locked while this writer lives
	manifest Manifest
	write    func(path string, data []byte) error // writeDurable; replaced by tests
	exchange func(a, b string) error              // exchange; replaced by tests
}

// Create prepares a recording at dir with everything of header but SchemaVersion, Partial and Runs.
// It fails with ErrExists if something else than an empty directory is there, unless o.Replace is
// set and it is a recording.
func Create(dir string, header Manifest, o CreateOptions) (*Writer, error) {
	fail := func(err error, advice string) (*Writer, error) {
		return nil, &Error{Op: "create recording", Object: dir, Err: err, Advice: advice}
	}
	final, err := resolve(dir)
	if err != nil {
		return fail(err, "")
	}
	if err := vacant(final, o.Replace); err != nil {
		if errors.Is(err, ErrExists) && !o.Replace {
			return fail(err, "choose another directory with -o, or remove this one")
		}
		return fail(err, "choose another directory with -o")
	}
	parent := filepath.Dir(final)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return fail(err, "")
	}
	abandoned := sweep(final)
	temp, lock, err := makeHidden(final)
	if err != nil {
		return fail(err, "")
	}
	w := &Writer{
		Abandoned: abandoned,
		dir:       final,
		temp:      temp,
		replace:   o.Replace,
		lock:      lock,
		manifest:  header,
		write:     writeDurable,
		exchange:  exchange,
	}
	w.manifest.SchemaVersion = SchemaVersion
	w.manifest.Runs = nil
	if err := reserve(filepath.Join(temp, reserveName)); err != nil {
		_ = w.Discard()
		return fail(err, "")
	}
	return w, nil
}

// Runs returns how many runs are safely on disk.
func (w *Writer) Runs() int { return len(w.manifest.Runs) }

// Add stores the gzipped pprof profile of a completed run. When it returns nil the run is on disk
// and survives a crash. When it fails, the runs added before are untouched.
func (w *Writer) Add(info RunInfo, profile []byte) error {
	number := len(w.manifest.Runs) + 1
	fail := func(err error) error {
		return &Error{Op: "write recording", Object: w.dir, Err: fmt.Errorf("run %d: %w", number, bare(err))}
	}
	if w.lock == nil {
		return fail(os.ErrClosed)
	}
	sum := sha256.Sum256(profile)
	info.File = fmt.Sprintf("run-%03d.pb.gz", number)
	info.SHA256 = hex.EncodeToString(sum[:])
	if err := info.check(); err != nil {
		return fail(err)
	}
	if err := w.writeFile(info.File, profile); err != nil {
		return fail(err)
	}
	next := w.manifest
	next.Partial = unfinished
	next.Runs = append(w.manifest.Runs[:number-1:number-1], info)
	if err := w.writeManifest(next); err != nil {
		_ = os.Remove(filepath.Join(w.temp, info.File)) // no manifest names it
		return fail(err)
	}
	w.manifest = next
	return nil
}

// Commit makes the recording visible in one step. If it fails the completed runs stay in a hidden
// directory that the error names.
func (w *Writer) Commit() error {
	return w.finish("")
}

// Salvage makes what there is visible, marked with the reason for what is missing, and returns the
// number of runs kept. Without a completed run it leaves nothing behind. It works on a full disk.
func (w *Writer) Salvage(reason string) (int, error) {
	if len(w.manifest.Runs) == 0 {
		return 0, w.Discard()
	}
	if reason == "" {
		reason = unfinished
	}
	return len(w.manifest.Runs), w.finish(reason)
}

// Discard removes everything written so far. After Commit or Salvage it does nothing.
func (w *Writer) Discard() error {
	if w.lock == nil {
		return nil
	}
	err := os.RemoveAll(w.temp)
	w.release()
	if err != nil {
		return &Error{Op: "discard recording", Object: w.temp, Err: err}
	}
	return nil
}

// finish writes the last manifest and moves the hidden directory into place.
func (w *Writer) finish(partial string) error {
	fail := func(err error, advice string) error {
		return &Error{Op: "finish recording", Object: w.dir, Err: err, Advice: advice}
	}
	if w.lock == nil {
		return fail(os.ErrClosed, "")
	}
	if len(w.manifest.Runs) == 0 {
		return fail(errors.New("no completed runs"), "")
	}
	last := w.manifest
	last.Partial = partial
	kept := "the completed runs are kept in " + w.temp
	if err := w.writeManifest(last); err != nil && partial == "" {
		return fail(err, kept)
	}
	// A salvaged recording may keep the manifest of the last Add: it is marked partial already, and
	// a full disk must not cost the runs.
	w.manifest = last
	if err := os.Remove(filepath.Join(w.temp, reserveName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err, kept)
	}
	if err := syncDir(w.temp); err != nil {
		return fail(err, kept)
	}
	if err := w.publish(); err != nil {
		return fail(err, kept)
	}
	w.release()
	if err := syncDir(filepath.Dir(w.dir)); err != nil {
		return fail(err, "")
	}
	return nil
}

// publish renames the hidden directory to the final one.
func (w *Writer) publish() error {
	// Not os.Rename, which refuses an existing directory that rename(2) replaces if it is empty.
	err := unix.Rename(w.temp, w.dir)
	occupied := errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY)
	switch {
	case !occupied:
		return err
	case !w.replace:
		return ErrExists // it appeared while the command ran
	}
	if err := vacant(w.dir, true); err != nil {
		return err
	}
	err = w.exchange(w.temp, w.dir)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EXDEV) {
		return w.replaceInSteps()
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(w.temp) // now the replaced recording
}

// replaceInSteps does without the exchange, which NFS, some FUSE file systems, and overlayfs for what
// came with the image do not have. A reader in between finds nothing, never a mixture.
func (w *Writer) replaceInSteps() error {
	old := w.temp + ".old"
	err := unix.Rename(w.dir, old)
	if errors.Is(err, unix.EXDEV) {
		// Overlayfs does not move directories of the image at all. The new recording is complete and
		// on disk, so that nothing is lost if this is cut short.
		if err := os.RemoveAll(w.dir); err != nil {
			return err
		}
		return unix.Rename(w.temp, w.dir)
	}
	if err != nil {
		return err
	}
	if err := unix.Rename(w.temp, w.dir); err != nil {
		return errors.Join(err, unix.Rename(old, w.dir))
	}
	return os.RemoveAll(old)
}

// writeManifest replaces the manifest in the hidden directory.
func (w *Writer) writeManifest(m Manifest) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	return w.writeFile(ManifestName, data)
}

// writeFile writes a file into the hidden directory, giving up the reserve if it must.
func (w *Writer) writeFile(name string, data []byte) error {
	path := filepath.Join(w.temp, name)
	err := w.write(path, data)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		if os.Remove(filepath.Join(w.temp, reserveName)) == nil {
			err = w.write(path, data)
		}
	}
	return err
}

// release ends the writer's claim on its hidden directory.
func (w *Writer) release() {
	_ = w.lock.Close() // read-only descriptor of a directory: nothing can be lost
	w.lock = nil
}

// resolve returns the absolute path of dir with the symbolic links of its existing part resolved.
func resolve(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("empty path")
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(absolute)
	if errors.Is(err, fs.ErrNotExist) {
		return absolute, nil
	}
	return real, err
}

// vacant returns nil if a recording can be put at dir: nothing or an empty directory is there, or a
// recording that may be replaced.
func vacant(dir string, replace bool) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENOTDIR):
		return errors.New("a file is there, want a directory")
	case err != nil:
		return err
	}
	// The directory is renamed over, which would pull it away from under a shell that stands in it.
	if here, err := os.Getwd(); err == nil && (here == dir || strings.HasPrefix(here, dir+"/")) {
		return errors.New("it is the current directory")
	}
	if len(entries) == 0 {
		return nil
	}
	if !replace {
		return ErrExists
	}
	if _, err := os.Stat(filepath.Join(dir, ManifestName)); err != nil {
		return fmt.Errorf("%w, and is no recording", ErrExists)
	}
	return nil
}
