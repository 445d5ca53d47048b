package bpf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/unwind"
)

// stopped is a process that ptrace has stopped, for unwind.Walk.
type stopped struct {
	r    *resolver
	mem  *os.File
	maps []Mapping
}

func (p *stopped) ReadU64(addr uint64) (uint64, bool) {
	var word [8]byte
	if _, err := p.mem.ReadAt(word[:], int64(addr)); err != nil {
		return 0, false
	}
	return binary.NativeEndian.Uint64(word[:]), true
}

// frame turns a process address into the Frame of a sample.
func (p *stopped) frame(addr uint64) Frame {
	for _, m := range p.maps {
		if m.Start <= addr && addr < m.End && m.Key.Ino != 0 {
			return Frame(uint64(p.id(m))<<48 | (addr - m.Start + m.Offset))
		}
	}
	return Frame(addr)
}

// id finds the file by its inode: /proc does not show the whole key.
func (p *stopped) id(m Mapping) uint16 {
	for key, id := range p.r.ids {
		if key.Ino == m.Key.Ino {
			return id
		}
	}
	return 0
}

func (p *stopped) Rule(addr uint64) (unwind.Rule, bool) {
	id, offset := p.frame(addr).File()
	if id != 0 {
		return p.r.files[id-1].table.Lookup(p.r.rules, offset), true
	}
	for _, m := range p.maps {
		if m.Start <= addr && addr < m.End {
			return unwind.Rule{CFA: unwind.CFAChain}, true // generated code
		}
	}
	return unwind.Rule{}, false
}

// readMaps reads the executable mappings of a process.
func readMaps(pid int) ([]Mapping, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var maps []Mapping
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m Mapping
		var prot, dev, path string
		fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d %s", &m.Start, &m.End, &prot, &m.Offset, &dev, &m.Key.Ino, &path)
		if !strings.Contains(prot, "x") {
			continue
		}
		if path == "[vdso]" {
			m.Key, m.Offset = VDSO(), 0
		}
		maps = append(maps, m)
	}
	return maps, nil
}

// walkStopped stops the process and unwinds its main thread with unwind.Walk.
func walkStopped(t *testing.T, r *resolver, pid int) ([]Frame, unwind.StopReason) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(pid); err != nil {
		t.Fatalf("ptrace: %v", err)
	}
	defer unix.PtraceDetach(pid)
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			t.Fatalf("wait for process %d: %v", pid, err)
		}
	}
	regs, err := registersOf(pid)
	if err != nil {
		t.Fatalf("registers of process %d: %v", pid, err)
	}
	maps, err := readMaps(pid)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	p := &stopped{r: r, mem: mem, maps: maps}
	frames, reason := unwind.Walk(nil, regs, p, p)
	var want []Frame
	for _, frame := range frames {
		want = append(want, p.frame(frame.Addr))
	}
	return want, reason
}

// The same stack through the kernel's unwinder and through unwind.Walk. The
// programs spin in one loop, so only the leaf's address differs.
func TestSamplesAgreeWithWalk(t *testing.T) {
	s := load(t, Options{Frequency: 999})
	r := newResolver(t, s)
	program := build(t, "stacks.c")
	static := build(t, "stacks.c", "-static")
	framed := build(t, "stacks.c", "-fno-omit-frame-pointer")
	for _, args := range [][]string{
		{program, "recurse", "150"},
		{program, "recurse", "1017"},
		{program, "recurse", "1018"},
		{program, "recurse", "3000"},
		{program, "dynamic", "60"},
		{program, "aligned", "60"},
		{program, "signal"},
		{program, "qsort"},
		{program, "generated"},
		{static, "recurse", "20"},
		{static, "signal"},
		{framed, "recurse", "20"},
		{framed, "aligned", "20"},
	} {
		t.Run(strings.Join(args[1:], " "), func(t *testing.T) {
			r.t = t
			command, run := start(t, s, args...)
			agreeWithWalk(t, s, r, command, run)
		})
	}
}

func agreeWithWalk(t *testing.T, s *Sampler, r *resolver, command *exec.Cmd, run uint32) {
	var got []Frame
	var reason unwind.StopReason
	sampleUntil(t, s, r, run, func(sample *Sample) bool {
		got = append(got[:0], sample.UserFrames...)
		reason = unwind.StopReason(sample.Reason)
		return !sample.Kernel && strings.HasPrefix(r.names(got), "spin_here ") && reason != unwind.StopTablePending
	})
	want, wantReason := walkStopped(t, r, command.Process.Pid)
	if r.name(want[0]) != "spin_here" {
		t.Fatalf("stopped in %s, not in spin_here", r.name(want[0]))
	}
	if reason != wantReason || len(got) != len(want) {
		t.Fatalf("sample stops with %s after %d frames, Walk with %s after %d\n got %s\nwant %s",
			reason, len(got), wantReason, len(want), r.names(got), r.names(want))
	}
	for i := range got {
		if i > 0 && got[i] != want[i] {
			t.Fatalf("frame %d is %#x (%s), want %#x (%s)", i, got[i], r.name(got[i]), want[i], r.name(want[i]))
		}
	}
}
