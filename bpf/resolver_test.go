package bpf

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"syscall"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// resolver gives the sampler a table for each file that it misses, as the
// collector does, and names frames by symbol tables.
type resolver struct {
	t     testing.TB
	s     *Sampler
	rules *unwind.RuleSet
	sent  int
	ids   map[FileKey]uint16
	files []*boundFile // by id-1
	refs  []TableRef
}

// boundFile is a file with a table.
type boundFile struct {
	path    string
	elf     *safeelf.File
	table   *unwind.Table
	symbols []elf.Symbol // functions by vaddr
}

func newResolver(t testing.TB, s *Sampler) *resolver {
	return &resolver{t: t, s: s, rules: unwind.NewRuleSet(), ids: make(map[FileKey]uint16)}
}

// bind loads the table of the file that pid maps at m.
func (r *resolver) bind(pid uint32, m Mapping) {
	r.t.Helper()
	if r.ids[m.Key] != 0 {
		return
	}
	file, err := openMapping(pid, m)
	if err != nil {
		return // gone in the meantime
	}
	id := uint16(len(r.files) + 1)
	if err := r.s.Bind(m.Key, id, r.load(file)); err != nil {
		r.t.Fatal(err)
	}
	r.ids[m.Key] = id
	r.files = append(r.files, file)
}

// load loads the table of file.
func (r *resolver) load(file *boundFile) TableRef {
	r.t.Helper()
	table, err := unwind.NewTable(file.elf, r.rules)
	if err != nil {
		r.t.Fatalf("table of %s: %v", file.path, err)
	}
	file.table = table
	var rules []Rule
	for _, u := range r.rules.Rules(r.sent) {
		rules = append(rules, Rule{
			CFA: uint8(u.CFA), Reg: u.Reg, FP: uint8(u.FP), RA: uint8(u.RA),
			CFAOff: u.CFAOff, FPOff: u.FPOff, RAOff: u.RAOff, BXOff: u.BXOff, Off2: u.Off2,
		})
	}
	if err := r.s.AppendRules(r.sent, rules); err != nil {
		r.t.Fatal(err)
	}
	r.sent += len(rules)
	pages := make([]Page, len(table.Pages))
	for i, page := range table.Pages {
		pages[i] = Page(page)
	}
	ref, err := r.s.LoadTable(table.Rows, pages)
	if err != nil {
		r.t.Fatalf("load table of %s: %v", file.path, err)
	}
	r.refs = append(r.refs, ref)
	return ref
}

// openMapping opens the file that pid maps at m: the vDSO from memory.
func openMapping(pid uint32, m Mapping) (*boundFile, error) {
	path := fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
	var file *safeelf.File
	var name string
	if m.Key == VDSO() {
		image := make([]byte, m.End-m.Start)
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return nil, err
		}
		defer mem.Close()
		if _, err := mem.ReadAt(image, int64(m.Start)); err != nil {
			return nil, err
		}
		name = "[vdso]"
		file, err = safeelf.New(bytes.NewReader(image), int64(len(image)))
		if err != nil {
			return nil, err
		}
	} else {
		// Another file may take the place at any time: only the open one counts.
		opened, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		info, err := opened.Stat()
		if err != nil {
			return nil, err
		}
		if inode := info.Sys().(*syscall.Stat_t).Ino; inode != m.Key.Ino {
			return nil, errors.Join(fmt.Errorf("%s is inode %d, want %d", path, inode, m.Key.Ino), opened.Close())
		}
		if name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", opened.Fd())); err != nil {
			return nil, err
		}
		if file, err = safeelf.New(opened, info.Size()); err != nil {
			return nil, err
		}
	}
	bound := &boundFile{path: name, elf: file}
	symbols, _ := file.Raw().Symbols()
	dynamic, _ := file.Raw().DynamicSymbols()
	for _, symbol := range append(symbols, dynamic...) {
		if elf.ST_TYPE(symbol.Info) == elf.STT_FUNC && symbol.Value != 0 || symbol.Name == "_start" {
			bound.symbols = append(bound.symbols, symbol)
		}
	}
	sort.SliceStable(bound.symbols, func(i, j int) bool { return bound.symbols[i].Value < bound.symbols[j].Value })
	return bound, nil
}

// name names a frame: the function, else the file and offset, else the address.
func (r *resolver) name(frame Frame) string {
	id, offset := frame.File()
	if id == 0 {
		return fmt.Sprintf("%#x", offset)
	}
	file := r.files[id-1]
	vaddr, ok := file.elf.Vaddr(offset)
	i := sort.Search(len(file.symbols), func(i int) bool { return file.symbols[i].Value > vaddr })
	if ok && i > 0 {
		if symbol := file.symbols[i-1]; vaddr < symbol.Value+max(symbol.Size, 64) {
			return symbol.Name
		}
	}
	return fmt.Sprintf("%s+%#x", file.path[strings.LastIndexByte(file.path, '/')+1:], offset)
}

func (r *resolver) names(frames []Frame) string {
	names := make([]string, len(frames))
	for i, frame := range frames {
		names[i] = r.name(frame)
	}
	return strings.Join(names, " ")
}
