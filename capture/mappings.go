package capture

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/bpf"
)

// region is a range of a process's memory that holds code.
type region struct {
	start, end uint64 // process addresses
	offset     uint64 // file offset shown at start
	key        bpf.FileKey
	id         uint16 // number of the file; 0 where it has none yet
	loose      bool   // from /proc, which does not tell key.Gen
}

// mapped tells whether m is file contents, not generated code.
func (m *region) mapped() bool { return m.key.Ino != 0 }

// addressSpace is the code mappings of a process in the order in which they
// were made. A mapping hides what earlier ones had at its addresses. What is in
// the slice never changes, so a sample keeps the mappings of its moment by
// keeping the slice.
type addressSpace []region

// find returns the mapping of addr, or nil.
func (a addressSpace) find(addr uint64) *region {
	for i := len(a) - 1; i >= 0; i-- {
		if addr >= a[i].start && addr < a[i].end {
			return &a[i]
		}
	}
	return nil
}

// maxMappings bounds the mappings of one process. Engines that compile code
// make and unmake thousands; libraries are some hundred.
const maxMappings = 512

// with returns the address space after m was made.
func (a addressSpace) with(m region) addressSpace {
	if m.end <= m.start {
		return a
	}
	if old := a.find(m.start); old != nil && *old == m {
		return a
	}
	if len(a) >= maxMappings {
		a = a.compact()
	}
	return append(a, m)
}

// compact returns a copy without what is hidden, and without the oldest
// generated code and then the oldest mappings, until half of maxMappings is
// free.
func (a addressSpace) compact() addressSpace {
	keep := make([]bool, len(a))
	kept := 0
	for i := range a {
		keep[i] = true
		for _, later := range a[i+1:] {
			if later.start <= a[i].start && a[i].end <= later.end {
				keep[i] = false
				break
			}
		}
		if keep[i] {
			kept++
		}
	}
	for _, code := range []bool{false, true} {
		for i := range a {
			if kept <= maxMappings/2 {
				break
			}
			if keep[i] && a[i].mapped() == code {
				keep[i] = false
				kept--
			}
		}
	}
	fresh := make(addressSpace, 0, maxMappings)
	for i := range a {
		if keep[i] {
			fresh = append(fresh, a[i])
		}
	}
	return fresh
}

// maxMapsFile bounds what is read of /proc/PID/maps, in bytes.
const maxMapsFile = 4 << 20

// readSpace reads the code mappings of a live process; seen is called for each
// file with its path.
func readSpace(procRoot string, pid uint32, seen func(m region, path string)) (addressSpace, error) {
	path := fmt.Sprintf("%s/%d/maps", procRoot, pid)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxMapsFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var space addressSpace
	for line := range bytes.Lines(data) {
		m, name, ok := parseMapsLine(strings.TrimSuffix(string(line), "\n"))
		if !ok {
			continue
		}
		if seen != nil && m.mapped() && m.key != bpf.VDSO() {
			seen(m, name)
		}
		if space = append(space, m); len(space) == maxMappings {
			break
		}
	}
	return space, nil
}

// parseMapsLine reads a line of /proc/PID/maps (proc_pid_maps(5)); ok is false
// when it is no code.
func parseMapsLine(line string) (m region, path string, ok bool) {
	// address perms offset dev inode pathname
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 || len(fields[1]) < 3 || fields[1][2] != 'x' {
		return m, "", false
	}
	if len(fields) == 6 {
		path = strings.TrimLeft(fields[5], " ")
	}
	from, to, _ := strings.Cut(fields[0], "-")
	major, minor, _ := strings.Cut(fields[3], ":")
	var numbers [5]uint64
	for i, text := range []string{from, to, fields[2], major, minor} {
		n, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return m, "", false
		}
		numbers[i] = n
	}
	inode, err := strconv.ParseUint(fields[4], 10, 64)
	if err != nil || numbers[1] <= numbers[0] || numbers[0]>>63 != 0 {
		return m, "", false // the last: vsyscall, which is the kernel's
	}
	m = region{start: numbers[0], end: numbers[1], offset: numbers[2], loose: true}
	m.key = bpf.FileKey{Ino: inode, Dev: uint32(numbers[3])<<20 | uint32(numbers[4])}
	if path == "[vdso]" {
		m.key, m.offset = bpf.VDSO(), 0
	}
	if inode == 0 && path != "[vdso]" {
		m.key = bpf.FileKey{}
	}
	return m, path, true
}

// rewritten tells whether the file that had key when it was opened under path
// has other contents by now.
func rewritten(path string, key bpf.FileKey) bool {
	var stat unix.Stat_t
	if path == "" || unix.Stat(path, &stat) != nil {
		return false
	}
	return stat.Ino == key.Ino && uint64(stat.Mtim.Nano()) != key.Mtime
}
