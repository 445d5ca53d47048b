package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/bpf"
)

// sighting is where a mapped file was seen, and so where it can be opened.
type sighting struct {
	pid        uint32
	start, end uint64 // process addresses of the mapping; 0 where unknown
	path       string // as the process sees it; "" where unknown
}

// openMapped opens the file that has key where it was seen. The process may
// have ended, the path may name another file by now, and both may be
// somebody's intent: what is opened is a regular file and has the inode.
//
// name is the path to show; it is not "" when only the opening failed.
func openMapped(procRoot string, key bpf.FileKey, at sighting) (file *os.File, name string, err error) {
	name = strings.TrimSuffix(at.path, " (deleted)")
	process := fmt.Sprintf("%s/%d", procRoot, at.pid)
	var failures []error
	try := func(path string, exact bool) bool {
		candidate, err := openRegular(path)
		if err == nil {
			if err = verify(candidate, key, exact); err == nil {
				file = candidate
				return true
			}
			candidate.Close()
		}
		failures = append(failures, err)
		return false
	}
	// The path first: it needs no privilege beyond reading, and unlike
	// map_files it works after the process unmapped the file.
	if name != "" && filepath.IsAbs(name) {
		if try(process+"/root"+name, true) || try(name, true) {
			return file, name, nil
		}
	}
	if at.end != 0 {
		// The kernel's own link to the mapped file, also to a deleted one. It
		// shows an overlay's inode where key has the one below.
		link := fmt.Sprintf("%s/map_files/%x-%x", process, at.start, at.end)
		if try(link, false) {
			if target, err := os.Readlink(link); err == nil && name == "" {
				name = strings.TrimSuffix(target, " (deleted)")
			}
			return file, name, nil
		}
	}
	if try(process+"/exe", true) {
		if target, err := os.Readlink(process + "/exe"); err == nil && name == "" {
			name = strings.TrimSuffix(target, " (deleted)")
		}
		return file, name, nil
	}
	return nil, name, errors.Join(failures...)
}

// openRegular opens path for reading if it is a regular file. Neither a FIFO
// nor a device must block or act.
func openRegular(path string) (*os.File, error) {
	// O_PATH opens nothing yet, so that the type is known before a driver is.
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("open %s: not a regular file", path)
	}
	real, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(real), path), nil
}

var errOtherFile = errors.New("it is another file by now")

// verify checks that file is the one that has key. Without exact, only what
// an overlay or a subvolume does not translate is compared.
func verify(file *os.File, key bpf.FileKey, exact bool) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return fmt.Errorf("stat %s: %w", file.Name(), err)
	}
	if key.Mtime != 0 && key.Mtime != uint64(stat.Mtim.Nano()) {
		return fmt.Errorf("verify %s: %w", file.Name(), errOtherFile)
	}
	if !exact {
		return nil
	}
	dev := unix.Major(stat.Dev)<<20 | unix.Minor(stat.Dev)
	if stat.Ino != key.Ino || dev != key.Dev && !translatesDevice(file) {
		return fmt.Errorf("verify %s: %w", file.Name(), errOtherFile)
	}
	return nil
}

// translatesDevice tells whether stat shows another device for the file than
// the kernel has in its inode: overlays of the layer below, btrfs of the
// subvolume.
func translatesDevice(file *os.File) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(file.Fd()), &fs) != nil {
		return false
	}
	return fs.Type == unix.OVERLAYFS_SUPER_MAGIC || fs.Type == unix.BTRFS_SUPER_MAGIC
}

// contentKey completes the key of a mapping record, which lacks the time of
// modification, by that of the open file.
func contentKey(key bpf.FileKey, file *os.File) (bpf.FileKey, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return key, fmt.Errorf("stat %s: %w", file.Name(), err)
	}
	key.Mtime = uint64(stat.Mtim.Nano())
	return key, nil
}

// readVDSO returns a copy of the vDSO that the kernel maps into this process,
// and so into every 64-bit process.
func readVDSO() ([]byte, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, fmt.Errorf("read vdso: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		var start, end uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil || end <= start || end-start > 1<<20 {
			break
		}
		memory, err := os.Open("/proc/self/mem")
		if err != nil {
			return nil, fmt.Errorf("read vdso: %w", err)
		}
		defer memory.Close()
		data := make([]byte, end-start)
		if _, err := memory.ReadAt(data, int64(start)); err != nil {
			return nil, fmt.Errorf("read vdso: %w", err)
		}
		return data, nil
	}
	return nil, errors.New("read vdso: the kernel maps none")
}

// image is the bytes of an ELF file: an open file, or memory.
type image struct {
	io.ReaderAt
	size int64
	file *os.File // nil for memory
}

func fileImage(file *os.File) (*image, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return &image{ReaderAt: file, size: info.Size(), file: file}, nil
}

func memoryImage(data []byte) *image {
	return &image{ReaderAt: bytes.NewReader(data), size: int64(len(data))}
}

func (i *image) Close() error {
	if i.file == nil {
		return nil
	}
	return i.file.Close()
}
