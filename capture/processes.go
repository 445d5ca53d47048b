package capture

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is what is known of one process (thread group).
type process struct {
	comm  string
	run   uint32            // the run whose target tree it belongs to; 0 is none
	files map[uint16]uint64 // when each was mapped, ns; 0 before the fork
	// space is complete when known is set: all mappings were made since the
	// session began, or were read from /proc.
	space addressSpace
	known bool
	// generated is the number of the code that the process generates; 0 until
	// a sample hits it.
	generated uint16
	asked     int // how often /proc was asked for the mappings
}

// leaver is a process whose exit was reported.
type leaver struct {
	pid     uint32
	process *process
}

// processes follows the processes of the machine through their events. A
// process that was there before the session is read from /proc when it first
// matters. It is not safe for concurrent use.
type processes struct {
	procRoot string
	byPID    map[uint32]*process
	mappings int // in all address spaces, shared ones counted each time
	// Newer kernels report an exit before the address space is gone, so that a
	// sample may follow. leaving are those reported since the last tick, left
	// those before.
	leaving, left []leaver
	// seen is called for the files of mappings that were read from /proc.
	seen func(m region, path string)
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
	if run != 0 {
		// The root of a target is a copy of a process that was there before.
		if from := t.get(parent); !from.known && from.asked < maxAsked {
			t.ask(parent, from, func(addressSpace) bool { return true })
		}
	}
	if from := t.byPID[parent]; from != nil {
		// fork copies the address space, and a child may run for long
		// without exec.
		for file := range from.files {
			shared = append(shared, file)
		}
		if p.comm == "" {
			p.comm = from.comm
		}
		p.known = from.known
		t.setSpace(p, slices.Clip(from.space))
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
		fresh.known, fresh.asked = old.known, old.asked
		t.setSpace(fresh, old.space)
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

// leave records that the last thread of pid is exiting.
func (t *processes) leave(pid uint32) {
	p := t.byPID[pid]
	if p == nil {
		return
	}
	t.leaving = append(t.leaving, leaver{pid, p})
	for file := range p.files {
		t.release(file)
	}
	p.files = nil
}

// tick forgets the processes that left before the last tick.
func (t *processes) tick() {
	for _, l := range t.left {
		if t.byPID[l.pid] == l.process {
			t.exit(l.pid)
		}
	}
	clear(t.left)
	t.left, t.leaving = t.leaving, t.left[:0]
}

// exit forgets pid.
func (t *processes) exit(pid uint32) {
	p := t.byPID[pid]
	if p == nil {
		return
	}
	delete(t.byPID, pid)
	t.setSpace(p, nil)
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

// maxAllMappings bounds the mappings of all processes together, 72 bytes each.
const maxAllMappings = 1 << 18

// maxAsked bounds how often the mappings of a process are read from /proc.
const maxAsked = 3

// setSpace gives p its mappings, or none where there is no room for more.
func (t *processes) setSpace(p *process, space addressSpace) {
	t.mappings -= len(p.space)
	if t.mappings+len(space) > maxAllMappings {
		space, p.known = nil, false
	}
	p.space = space
	t.mappings += len(space)
}

// mapped records that p has made a mapping.
func (t *processes) mapped(p *process, m region) { t.setSpace(p, p.space.with(m)) }

// image records that pid has given up all its mappings in execve.
func (t *processes) image(pid uint32) {
	p := t.get(pid)
	t.setSpace(p, nil)
	p.known, p.asked = true, 0
}

// doubt records that mappings were lost.
func (t *processes) doubt() {
	for _, p := range t.byPID {
		p.known, p.asked = false, 0
	}
}

// spaceOf returns the mappings that process pid had when a sample was taken in
// the file that sampled tells of.
func (t *processes) spaceOf(pid uint32, sampled region) addressSpace {
	p := t.get(pid)
	agrees := func(space addressSpace) bool {
		m := space.find(sampled.start)
		return m != nil && m.start == sampled.start && m.offset == sampled.offset
	}
	if (!p.known || !agrees(p.space)) && p.asked < maxAsked {
		// The sampled mapping must be among them: another process may have the
		// number by now, or another program.
		t.ask(pid, p, agrees)
	}
	t.mapped(p, sampled)
	return p.space
}

// ask reads the mappings of process pid from /proc, and takes them if they
// are accepted.
func (t *processes) ask(pid uint32, p *process, accept func(addressSpace) bool) {
	p.asked++
	space, err := readSpace(t.procRoot, pid, t.seen)
	if err != nil || !accept(space) {
		return
	}
	p.known = true
	t.setSpace(p, space)
}
