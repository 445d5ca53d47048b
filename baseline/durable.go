package baseline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const reserveName = ".reserve"

// makeHidden makes a hidden sibling of final and locks it. The lock tells a living writer from a
// killed one, whatever became of its process id.
func makeHidden(final string) (string, *os.File, error) {
	const attempts = 10
	for range attempts {
		temp, err := os.MkdirTemp(filepath.Dir(final), hiddenPrefix(final)+"*")
		if err != nil {
			return "", nil, err
		}
		lock, _, err := lockDir(temp)
		if err != nil {
			continue // another writer's sweep took it, not locked yet, for abandoned
		}
		// MkdirTemp is private; a recording is as readable as what the user creates otherwise. Like
		// that, this fails if the sweep was faster.
		if err := os.Chmod(temp, 0o777&^umask()); err != nil {
			_ = lock.Close()
			continue
		}
		return temp, lock, nil
	}
	return "", nil, fmt.Errorf("no hidden directory after %d attempts", attempts)
}

// hiddenPrefix starts the names of hidden directories that belong to final.
func hiddenPrefix(final string) string { return "." + filepath.Base(final) + ".partial-" }

// sweep removes the hidden directories of killed writers that hold no completed run, and returns
// those that do. What it cannot read or remove it leaves alone.
func sweep(final string) []string {
	parent := filepath.Dir(final)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil
	}
	var kept []string
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), hiddenPrefix(final)) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		lock, locked, err := lockDir(path)
		if err != nil {
			continue // its writer lives
		}
		if !locked {
			_ = lock.Close()
			continue // its writer may live
		}
		if _, err := os.Stat(filepath.Join(path, ManifestName)); err == nil {
			kept = append(kept, path)
		} else {
			_ = os.RemoveAll(path) // tried again by the next writer
		}
		_ = lock.Close()
	}
	return kept
}

// Abandoned returns the hidden directories in which killed writers left completed runs of a recording
// that was to be at dir. Each is a recording that Load reads.
func Abandoned(dir string) []string {
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range entries {
		path := filepath.Join(filepath.Dir(dir), entry.Name())
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), hiddenPrefix(dir)) {
			continue
		}
		lock, _, err := lockDir(path)
		if err != nil {
			continue // its writer lives
		}
		if _, err := os.Stat(filepath.Join(path, ManifestName)); err == nil {
			found = append(found, path)
		}
		_ = lock.Close()
	}
	return found
}

// lockDir opens and locks a directory, or fails at once if another process holds the lock. File
// systems that cannot lock a directory, such as NFS, leave it open and not locked.
func lockDir(path string) (dir *os.File, locked bool, err error) {
	if dir, err = os.Open(path); err != nil {
		return nil, false, err
	}
	switch err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return dir, true, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		_ = dir.Close()
		return nil, false, fmt.Errorf("lock %s: %w", path, err)
	}
	return dir, false, nil
}

// writeDurable writes a file so that after its return, or after a crash, path holds either all of
// data or what it held before.
func writeDurable(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr // NFS and quotas report a full disk only here
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the failed write is what matters
		return err
	}
	return syncDir(filepath.Dir(path))
}

// reserve sets disk space aside under a name.
func reserve(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, reserveBytes)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = nil // then a full disk may cost the run that met it, not those before
	}
	return errors.Join(err, file.Close())
}

// exchange swaps two directories in one step. Needs kernel 3.15+ and support of the file system.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, unix.EINVAL) {
		err = nil // some network file systems cannot sync a directory
	}
	return errors.Join(err, dir.Close())
}

// umask returns the process's file mode creation mask. It can only be read by setting it, so it is
// taken from the kernel's text instead, which no other goroutine can see change.
func umask() os.FileMode {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0o022
	}
	for line := range strings.Lines(string(status)) {
		var mask uint32
		if n, _ := fmt.Sscanf(line, "Umask: %o", &mask); n == 1 {
			return os.FileMode(mask)
		}
	}
	return 0o022
}

// plainName reports whether name is a single visible path element of printable ASCII.
func plainName(name string) bool {
	if name == "" || name[0] == '.' || len(name) > 255 {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || c == '/' || c == '\\' {
			return false
		}
	}
	return true
}
