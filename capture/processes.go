package capture

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// process is what is known of one process (thread group).
type process struct {
	comm  string
	run   uint32            // the run whose target tree it belongs to; 0 is none
	files map[uint16]uint64 // when each was mapped, ns; 0 before the fork
}

// processes follows the processes of the machine through their events. A
// process that was there before the session is read from /proc when it first
// matters. It is not safe for concurrent use.
type processes struct {
	procRoot string
	byPID    map[uint32]*process
	// release is called for every file that a process no longer maps.
	release func(file uint16)
}

// maxProcesses bounds the table; beyond it processes that are gone without
// an event are looked for.
const maxProcesses = 1 << 16

func newProcesses(procRoot string, release func(file uint16)) *processes {
	return &processes{procRoot: procRoot, byPID: map[uint32]*process{}, release: release}
}

// get returns process pid, asking /proc for its name when it is new.
func (t *processes) get(pid uint32) *process {
	p := t.byPID[pid]
	if p == nil {
		p = &process{}
		if data, err := os.ReadFile(filepath.Join(t.procRoot, strconv.Itoa(int(pid)), "comm")); err == nil {
			p.comm = strings.TrimSuffix(string(data), "\n")
		}
		t.put(pid, p)
	}
	return p
}

// name returns the name of process pid, or that of its thread where /proc has
// nothing to tell any more.
func (t *processes) name(pid uint32, thread string) string {
	p := t.get(pid)
	if p.comm == "" {
		p.comm = thread
	}
	return p.comm
}

func (t *processes) put(pid uint32, p *process) {
	if len(t.byPID) >= maxProcesses {
		t.sweep()
	}
	t.byPID[pid] = p
}

// sweep drops processes that no longer exist, or all where none can be told.
func (t *processes) sweep() {
	for pid := range t.byPID {
		if _, err := os.Stat(filepath.Join(t.procRoot, strconv.Itoa(int(pid)))); err != nil {
			t.exit(pid)
		}
	}
	for pid := range t.byPID {
		if len(t.byPID) < maxProcesses {
			return
		}
		t.exit(pid)
	}
}

// fork records that child was forked by parent. An entry of a process that
// had the same number before is dropped.
func (t *processes) fork(parent, child uint32, comm string, run uint32) (shared []uint16) {
	t.exit(child)
	p := &process{comm: comm, run: run}
	if from := t.byPID[parent]; from != nil {
		// fork copies the address space, and a child may run for long
		// without exec.
		for file := range from.files {
			shared = append(shared, file)
		}
		if p.comm == "" {
			p.comm = from.comm
		}
	}
	t.put(child, p)
	return shared
}

// execDuration is about how long execve takes from the first mapping of the
// new program to its event.
const execDuration = 20e6 // ns

// exec records that pid runs a new program: its old mappings are gone. The
// mappings of the new program are reported before the event of its start.
func (t *processes) exec(pid uint32, comm string, run uint32, at uint64) {
	old := t.byPID[pid]
	fresh := &process{comm: comm, run: run}
	if old != nil {
		for file, mapped := range old.files {
			if mapped+execDuration < at {
				continue
			}
			if fresh.files == nil {
				fresh.files = map[uint16]uint64{}
			}
			fresh.files[file] = mapped
			delete(old.files, file)
		}
	}
	t.exit(pid)
	t.put(pid, fresh)
}

// exit forgets pid.
func (t *processes) exit(pid uint32) {
	p := t.byPID[pid]
	if p == nil {
		return
	}
	delete(t.byPID, pid)
	for file := range p.files {
		t.release(file)
	}
}

// maps records that pid maps file; it returns false when that was known.
func (t *processes) maps(pid uint32, file uint16, at uint64) bool {
	p := t.get(pid)
	if p.files == nil {
		p.files = map[uint16]uint64{}
	}
	_, known := p.files[file]
	p.files[file] = at
	return !known
}

// commonName is the name under which samples outside the target are merged:
// kernel threads carry a CPU or a work queue behind a slash.
func commonName(comm string) string {
	name, _, _ := strings.Cut(comm, "/")
	if name == "" {
		return comm
	}
	return name
}
