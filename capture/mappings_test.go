package capture

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tollgate-dev/tollgate/bpf"
)

func file(ino uint64) bpf.FileKey { return bpf.FileKey{Ino: ino, Dev: 8} }

func TestMappingsHideEarlierOnes(t *testing.T) {
	var space addressSpace
	space = space.with(region{start: 0x1000, end: 0x5000, key: file(1)})
	before := space
	space = space.with(region{start: 0x2000, end: 0x3000, key: file(2)})
	for _, test := range []struct {
		space addressSpace
		addr  uint64
		ino   uint64
	}{
		{space, 0x1000, 1}, {space, 0x1fff, 1}, {space, 0x2000, 2}, {space, 0x2fff, 2}, {space, 0x3000, 1},
		{before, 0x2000, 1}, // as a sample keeps it
	} {
		if m := test.space.find(test.addr); m == nil || m.key.Ino != test.ino {
			t.Errorf("%#x is in %+v, want file %d", test.addr, m, test.ino)
		}
	}
	for _, addr := range []uint64{0xfff, 0x5000} {
		if m := space.find(addr); m != nil {
			t.Errorf("%#x is in %+v, want none", addr, m)
		}
	}
	if again := space.with(region{start: 0x2000, end: 0x3000, key: file(2)}); len(again) != len(space) {
		t.Errorf("a mapping that is there already takes room: %+v", again)
	}
	if odd := space.with(region{start: 0x2000, end: 0x2000}); len(odd) != len(space) {
		t.Error("an empty mapping takes room")
	}
}

func TestMappingsAreBounded(t *testing.T) {
	var space addressSpace
	space = space.with(region{start: 1 << 40, end: 1<<40 + 4096, key: file(1)})
	for i := range uint64(10 * maxMappings) {
		space = space.with(region{start: i << 12, end: (i + 1) << 12})
	}
	if len(space) > maxMappings || cap(space) > maxMappings {
		t.Errorf("%d mappings of one process, room for %d, want at most %d", len(space), cap(space), maxMappings)
	}
	if m := space.find(1 << 40); m == nil || m.key.Ino != 1 {
		t.Error("a file went before generated code")
	}
	if space.find((10*maxMappings-1)<<12) == nil || space.find(0) != nil {
		t.Error("it is not the oldest that went")
	}
}

func TestChildrenInheritMappings(t *testing.T) {
	p := newProcesses(t.TempDir(), func(uint16) {})
	p.image(1)
	p.mapped(p.get(1), region{start: 0x1000, end: 0x2000, key: file(1)})
	p.fork(1, 2, "", 0)
	p.mapped(p.get(1), region{start: 0x3000, end: 0x4000, key: file(3)})
	p.mapped(p.get(2), region{start: 0x3000, end: 0x4000, key: file(2)})
	for pid, want := range map[uint32]uint64{1: 3, 2: 2} {
		if m := p.get(pid).space.find(0x3000); m == nil || m.key.Ino != want {
			t.Errorf("process %d has %+v at its own mapping, want file %d", pid, m, want)
		}
		if m := p.get(pid).space.find(0x1000); m == nil || m.key.Ino != 1 || !p.get(pid).known {
			t.Errorf("process %d lacks what both have: %+v", pid, m)
		}
	}
	// execve: the new program's mappings come between image and exec.
	p.image(2)
	p.mapped(p.get(2), region{start: 0x5000, end: 0x6000, key: file(5)})
	p.exec(2, "new", 0, 0)
	if space := p.get(2).space; len(space) != 1 || space[0].key.Ino != 5 || !p.get(2).known {
		t.Errorf("after execve: %+v", space)
	}
	// A process that gets the number of one that left is another one.
	p.leave(2)
	p.fork(1, 2, "", 0)
	p.tick()
	p.tick()
	if p.byPID[2] == nil || p.get(2).space.find(0x5000) != nil {
		t.Error("a process was taken for the one that had its number")
	}
	p.leave(2)
	p.tick()
	if p.byPID[2] == nil {
		t.Error("a process was forgotten before its last samples")
	}
	p.tick()
	p.exit(1)
	if len(p.byPID) != 0 || p.mappings != 0 {
		t.Errorf("%d processes and %d mappings are left", len(p.byPID), p.mappings)
	}
}

func TestAllMappingsAreBounded(t *testing.T) {
	p := newProcesses(t.TempDir(), func(uint16) {})
	full := make(addressSpace, maxMappings)
	for pid := range uint32(maxAllMappings/maxMappings + 8) {
		p.setSpace(p.get(pid+1), full)
	}
	if p.mappings > maxAllMappings {
		t.Errorf("%d mappings are kept, want at most %d", p.mappings, maxAllMappings)
	}
}

const mapsFile = `00400000-00452000 r-xp 00001000 08:02 173521                             /usr/bin/a program
00651000-00652000 r--p 00051000 08:02 173521                             /usr/bin/a program
00e03000-00e24000 rwxp 00000000 00:00 0                                  [heap]
7f0000000000-7f0000001000 r-xp 00000000 103:1f 9 /tmp/gone (deleted)
7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 r-xp 00000000 00:00 0                  [vsyscall]
garbage
7f1-7f0 r-xp 0 0:0 0
`

func TestMappingsOfProc(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "7/maps"), []byte(mapsFile), 0o644); err != nil {
		t.Fatal(err)
	}
	var paths []string
	got, err := readSpace(root, 7, func(_ region, path string) { paths = append(paths, path) })
	if err != nil {
		t.Fatal(err)
	}
	want := addressSpace{
		{start: 0x400000, end: 0x452000, offset: 0x1000, key: bpf.FileKey{Ino: 173521, Dev: 8<<20 | 2}, loose: true},
		{start: 0xe03000, end: 0xe24000, loose: true},
		{start: 0x7f0000000000, end: 0x7f0000001000, key: bpf.FileKey{Ino: 9, Dev: 0x103<<20 | 0x1f}, loose: true},
		{start: 0x7ffe00000000, end: 0x7ffe00002000, key: bpf.VDSO(), loose: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if want := []string{"/usr/bin/a program", "/tmp/gone (deleted)"}; !slices.Equal(paths, want) {
		t.Errorf("paths %q, want %q", paths, want)
	}

	p := newProcesses(root, func(uint16) {})
	sampled := region{start: 0x400000, end: 0x452000, offset: 0x1000, key: bpf.FileKey{Ino: 173521, Dev: 8<<20 | 2, Gen: 5}, id: 4}
	space := p.spaceOf(7, sampled)
	if m := space.find(0x400000); m == nil || *m != sampled || space.find(0xe03000) == nil {
		t.Errorf("a process from before the session has %+v", space)
	}
	// Another program has the number by now: nothing but the sample is known.
	other := newProcesses(root, func(uint16) {})
	foreign := region{start: 0x10000, end: 0x20000, key: file(3), id: 5}
	if space := other.spaceOf(7, foreign); len(space) != 1 || space[0] != foreign {
		t.Errorf("mappings of another process were taken: %+v", space)
	}
}
