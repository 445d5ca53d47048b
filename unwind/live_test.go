package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/gopclntab"
	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// process is a child that is stopped under ptrace.
type process struct {
	pid      int
	tid      int // the thread that hit the trap
	mem      *os.File
	mappings []mapping
	rules    *RuleSet
	tables   map[string]*Table
	symbols  map[string][]elf.Symbol
}

// mapping is a line of /proc/PID/maps.
type mapping struct {
	start, end, off uint64
	path            string
}

// stopAtTrap starts a program and lets it run until one of its threads
// executes a breakpoint instruction. Signals are passed on.
func stopAtTrap(t *testing.T, path string, args ...string) (*process, Regs) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("reads amd64 registers")
	}
	// All ptrace requests have to come from the thread that traces.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	cmd := exec.Command(path, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s under ptrace: %v", path, err)
	}
	pid := cmd.Process.Pid
	t.Cleanup(func() {
		syscall.Kill(pid, syscall.SIGKILL)
		// The leader can be reaped only after its traced threads.
		for {
			if _, err := syscall.Wait4(-pid, nil, syscall.WALL, nil); err != nil && err != syscall.EINTR {
				break
			}
		}
		cmd.Process.Release()
	})
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	const optionExitKill = 0x100000
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACECLONE|optionExitKill); err != nil {
		t.Fatal(err)
	}
	tid, signal := pid, 0
	for {
		if err := syscall.PtraceCont(tid, signal); err != nil {
			t.Fatal(err)
		}
		var err error
		if tid, err = syscall.Wait4(-pid, &status, syscall.WALL, nil); err != nil {
			t.Fatal(err)
		}
		signal = 0
		switch {
		case status.Exited() || status.Signaled():
			t.Fatalf("%s %v ended without reaching its breakpoint: status %#x", path, args, uint32(status))
		case status.StopSignal() == syscall.SIGTRAP && status.TrapCause() > 0:
			continue // a thread was created
		case status.StopSignal() == syscall.SIGTRAP:
			p := newProcess(t, pid, tid)
			return p, p.regs(t)
		case status.StopSignal() != syscall.SIGSTOP:
			signal = int(status.StopSignal())
		}
	}
}

func newProcess(t *testing.T, pid, tid int) *process {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	p := &process{
		pid: pid, tid: tid, mem: mem,
		rules: NewRuleSet(), tables: map[string]*Table{}, symbols: map[string][]elf.Symbol{},
	}
	p.remap(t)
	return p
}

// remap reads the mappings of the process.
func (p *process) remap(t *testing.T) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	p.mappings = nil
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.Contains(fields[1], "x") {
			continue
		}
		start, end, _ := strings.Cut(fields[0], "-")
		p.mappings = append(p.mappings, mapping{
			start: hex(t, start), end: hex(t, end), off: hex(t, fields[2]), path: fields[5],
		})
	}
	for _, m := range p.mappings {
		if p.tables[m.path] == nil {
			p.load(t, m)
		}
	}
}

// load builds the table of a mapped file, or of the vDSO from memory.
func (p *process) load(t *testing.T, m mapping) {
	t.Helper()
	var f *safeelf.File
	var err error
	switch {
	case m.path == "[vdso]":
		image := make([]byte, m.end-m.start)
		if _, err := p.mem.ReadAt(image, int64(m.start)); err != nil {
			t.Fatal(err)
		}
		f, err = safeelf.New(bytes.NewReader(image), int64(len(image)))
	case strings.HasPrefix(m.path, "["):
		return
	default:
		f, err = safeelf.Open(m.path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if p.tables[m.path], err = NewTable(f, p.rules); err != nil {
		t.Fatal(err)
	}
	symbols, _ := f.Raw().Symbols()
	for i := range symbols {
		if off, ok := f.Offset(symbols[i].Value); ok && elf.ST_TYPE(symbols[i].Info) != elf.STT_SECTION {
			symbols[i].Value = off
			p.symbols[m.path] = append(p.symbols[m.path], symbols[i])
		}
	}
	// Stripped Go programs still name their functions.
	if table, err := gopclntab.New(f); err == nil {
		for function := range table.Funcs() {
			if off, ok := f.Offset(function.Entry); ok {
				p.symbols[m.path] = append(p.symbols[m.path], elf.Symbol{
					Name: function.Name(), Value: off, Size: function.End - function.Entry,
				})
			}
		}
	}
	slices.SortStableFunc(p.symbols[m.path], func(a, b elf.Symbol) int { return int(int64(a.Value - b.Value)) })
}

// ReadU64 implements Memory.
func (p *process) ReadU64(addr uint64) (uint64, bool) {
	var word [8]byte
	if _, err := p.mem.ReadAt(word[:], int64(addr)); err != nil {
		return 0, false
	}
	return binary.LittleEndian.Uint64(word[:]), true
}

func (p *process) mapping(addr uint64) (mapping, bool) {
	for _, m := range p.mappings {
		if addr >= m.start && addr < m.end {
			return m, true
		}
	}
	return mapping{}, false
}

// Rule implements TableSource.
func (p *process) Rule(addr uint64) (Rule, bool) {
	m, ok := p.mapping(addr)
	if !ok {
		return Rule{}, false
	}
	table := p.tables[m.path]
	if table == nil {
		return Rule{CFA: CFAChain}, true
	}
	return table.Lookup(p.rules, addr-m.start+m.off), true
}

// name returns the symbol at addr, or the base name of its file.
func (p *process) name(addr uint64) string {
	m, ok := p.mapping(addr)
	if !ok {
		return fmt.Sprintf("%#x", addr)
	}
	off := addr - m.start + m.off
	symbols := p.symbols[m.path]
	i, found := slices.BinarySearchFunc(symbols, off, func(s elf.Symbol, off uint64) int {
		return int(int64(s.Value - off))
	})
	if !found {
		i--
	}
	for ; i >= 0 && i > len(symbols)-1<<20; i-- {
		if s := symbols[i]; s.Name != "" && (off < s.Value+s.Size || s.Size == 0 && off-s.Value < 64) {
			return s.Name
		}
		if off-symbols[i].Value > 1<<20 {
			break
		}
	}
	return filepath.Base(m.path)
}

// names returns the functions of a stack, leaf first. Equal neighbours are
// written once, with a count.
func (p *process) names(frames []Frame) []string {
	var names []string
	count := 0
	for i, frame := range frames {
		name := p.name(frame.Addr)
		count++
		if i+1 < len(frames) && p.name(frames[i+1].Addr) == name {
			continue
		}
		if count > 1 {
			name += "*" + strconv.Itoa(count)
		}
		names = append(names, name)
		count = 0
	}
	return names
}

// containsInOrder reports whether want occurs in names in that order, with
// anything between.
func containsInOrder(names, want []string) bool {
	for _, name := range names {
		if len(want) > 0 && name == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

func TestWalkReachesTheStartOfCPrograms(t *testing.T) {
	builds := []struct {
		name  string
		flags []string
	}{
		{"PIE", []string{"-O2", "-fomit-frame-pointer"}},
		{"static", []string{"-O2", "-fomit-frame-pointer", "-static"}},
		{"static PIE", []string{"-O2", "-fomit-frame-pointer", "-static-pie"}},
		{"no optimization", []string{"-O0"}},
		{"debug_frame only", []string{"-O2", "-g", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"}},
	}
	paths := []struct {
		args []string
		want []string // in this order
	}{
		{[]string{"recurse", "40"}, []string{"bottom", "recurse*41", "main", "_start"}},
		{[]string{"recurse", "900"}, []string{"bottom", "recurse*901", "main", "_start"}},
		{[]string{"callback"}, []string{"bottom", "compare", "callback", "main", "_start"}},
		{[]string{"signal"}, []string{"bottom", "handler", "raise_signal", "signalled", "main", "_start"}},
		{[]string{"dynamic"}, []string{"bottom", "recurse*4", "dynamic", "main", "_start"}},
		{[]string{"realigned"}, []string{"bottom", "recurse*4", "realigned", "main", "_start"}},
		{[]string{"thread"}, []string{"bottom", "recurse*6", "thread"}},
	}
	for _, build := range builds {
		t.Run(build.name, func(t *testing.T) {
			program := buildC(t, "calls.c", append(build.flags, "-pthread")...)
			for _, path := range paths {
				t.Run(strings.Join(path.args, " "), func(t *testing.T) {
					p, regs := stopAtTrap(t, program, path.args...)
					frames, reason := Walk(nil, regs, p, p)
					names := p.names(frames)
					if reason != StopComplete {
						t.Errorf("stopped: %v", reason)
					}
					if !containsInOrder(names, path.want) {
						t.Errorf("stack %q\nlacks %q", names, path.want)
					}
				})
			}
		})
	}
}
