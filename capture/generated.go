package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/symbol"
	"github.com/tollgate-dev/tollgate/unwind"
)

// generated is the code that one process has generated. It has a number like a
// file, and process addresses in place of offsets.
type generated struct {
	pid     uint32
	file    *os.File        // its perf map, open also after the process ended; nil until found
	version unix.Stat_t     // of what names holds
	names   *symbol.PerfMap // nil until read
	uid     uint32          // of the process
	path    string          // of the perf map as this process sees it; "" until known
}

const (
	maxGenerated     = 4096 // processes, each takes a number
	maxPerfMaps      = 64   // open files
	maxPerfMapBytes  = 64 << 20
	generatedPatient = 100 * time.Millisecond // between looks for a perf map
)

// generate returns the number of the code that process pid generates; 0 when
// there are none left.
func (t *tables) generate(pid uint32) uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.generations >= maxGenerated || len(t.files) > maxFiles {
		return 0
	}
	t.generations++
	f := &mappedFile{id: uint16(len(t.files)), name: "anonymous", attempts: maxAttempts}
	t.files = append(t.files, f)
	t.generated[f.id] = &generated{pid: pid}
	return f.id
}

// findPerfMaps starts to look for the perf maps that have not been found.
func (t *tables) findPerfMaps(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finding || len(t.generated) == 0 || now.Before(t.found.Add(generatedPatient)) {
		return
	}
	t.found, t.finding = now, true
	t.wg.Go(func() {
		t.openPerfMaps()
		t.mu.Lock()
		t.finding = false
		t.mu.Unlock()
	})
}

// openPerfMaps opens the perf maps that are there by now.
func (t *tables) openPerfMaps() {
	t.perfMaps.Lock() // taken before mu
	defer t.perfMaps.Unlock()
	t.mu.Lock()
	var missing []*generated
	open := 0
	for _, g := range t.generated {
		if g.file != nil {
			open++
		} else {
			missing = append(missing, g)
		}
	}
	t.mu.Unlock()
	for _, g := range missing {
		if open >= maxPerfMaps {
			return
		}
		file, err := g.open(t.procRoot)
		if err != nil {
			continue
		}
		open++
		t.mu.Lock()
		if g.file == nil {
			g.file, file = file, nil
		}
		t.mu.Unlock()
		if file != nil {
			file.Close()
		}
	}
}

var errForeignMap = errors.New("it belongs to another user")

// open opens the perf map, which must belong to the user of the process: it is
// read with privileges, and whoever may write to /tmp may put a link there. It
// is called by one goroutine at a time.
func (g *generated) open(procRoot string) (*os.File, error) {
	process := fmt.Sprintf("%s/%d", procRoot, g.pid)
	path := g.path
	if status, err := os.ReadFile(process + "/status"); err == nil {
		fields := bytes.Fields(statusLine(status, "Uid:"))
		pids := bytes.Fields(statusLine(status, "NSpid:"))
		if len(fields) < 2 || len(pids) == 0 {
			return nil, fmt.Errorf("read %s/status: %w", process, errMalformed)
		}
		uid, err := strconv.ParseUint(string(fields[1]), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read %s/status: %w", process, errMalformed)
		}
		g.uid = uint32(uid)
		name := fmt.Sprintf("/tmp/perf-%s.map", pids[len(pids)-1])
		path = process + "/root" + name
		// After its end it is found where this process sees it, if that is the
		// same place.
		if sameRoot(process + "/root") {
			g.path = name
		}
	}
	if path == "" {
		return nil, os.ErrNotExist
	}
	var link unix.Stat_t
	if err := unix.Lstat(path, &link); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil || stat.Uid != g.uid || stat.Ino != link.Ino || stat.Dev != link.Dev {
		file.Close()
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(errForeignMap, err))
	}
	return file, nil
}

// sameRoot tells whether root is the root directory of this process.
func sameRoot(root string) bool {
	var theirs, ours unix.Stat_t
	return unix.Stat(root, &theirs) == nil && unix.Stat("/", &ours) == nil && theirs.Dev == ours.Dev && theirs.Ino == ours.Ino
}

// statusLine returns what follows key in /proc/PID/status.
func statusLine(status []byte, key string) []byte {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			return rest
		}
	}
	return nil
}

// readPerfMaps reads the perf maps that are new or have changed.
func (t *tables) readPerfMaps() {
	t.openPerfMaps()
	t.mu.Lock()
	found := make(map[*generated]*os.File)
	for _, g := range t.generated {
		if g.file != nil {
			found[g] = g.file
		}
	}
	t.mu.Unlock()
	for g, file := range found {
		var stat unix.Stat_t
		if unix.Fstat(int(file.Fd()), &stat) != nil {
			continue
		}
		if g.names != nil && stat.Size == g.version.Size && stat.Mtim == g.version.Mtim {
			continue
		}
		names, err := symbol.ParsePerfMap(io.NewSectionReader(file, 0, maxPerfMapBytes))
		if err != nil {
			continue
		}
		t.mu.Lock()
		g.names, g.version = names, stat
		t.mu.Unlock()
	}
}

// dropPerfMaps forgets the names that a run needed, and the files of processes
// that are gone.
func (t *tables) dropPerfMaps() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, g := range t.generated {
		g.names = nil
		if _, err := os.Stat(fmt.Sprintf("%s/%d", t.procRoot, g.pid)); err == nil {
			continue
		}
		g.close()
		delete(t.generated, id)
	}
}

func (g *generated) close() {
	if g.file != nil {
		g.file.Close()
		g.file = nil
	}
}

// generatedBy returns the number of the code that process pid generates.
func (s *Session) generatedBy(pid uint32) uint16 {
	p := s.processes.get(pid)
	if p.generated == 0 {
		p.generated = s.tables.generate(pid)
	}
	return p.generated
}

// markGenerated gives the frames in generated code the number of that code.
// A last frame that lies in no mapping is not code.
func (s *Session) markGenerated(pid uint32, frames []uint64, reason unwind.StopReason) {
	last := len(frames) - 1
	for i, frame := range frames {
		outside := i == last && (reason == unwind.StopNoMapping || reason == unwind.StopBadPC || reason == unwind.StopTablePending)
		if frame>>fileShift == 0 && !outside {
			frames[i] |= uint64(s.generatedBy(pid)) << fileShift
		}
	}
}

// generates tells whether the process has code that is in no file.
func (a addressSpace) generates() bool {
	for i := range a {
		if !a[i].mapped() {
			return true
		}
	}
	return false
}

// generatedLocation is the function at an address in generated code; nil when
// it has no name. The caller holds mu of tables.
func (b *builder) generatedLocation(g *generated, addr uint64) *profile.Location {
	if g.names == nil {
		return nil
	}
	name, ok := g.names.Lookup(addr)
	if !ok {
		return nil
	}
	const file = "[generated]"
	key := locationKey{name: name, module: file}
	if known := b.locations[key]; known != nil {
		return known
	}
	mapping := b.mappings[file]
	if mapping == nil {
		mapping = b.addMapping(&profile.Mapping{File: file, HasFunctions: true})
		b.mappings[file] = mapping
	}
	return b.addLocation(key, &profile.Location{
		Mapping: mapping,
		Line:    []profile.Line{{Function: b.function(symbol.Line{Function: name, System: name})}},
	})
}
