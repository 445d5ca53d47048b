package capture

import (
	"cmp"
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/symbol"
)

// symbols are the lines of an object's code that samples have hit. They are
// kept across runs: the same code is hit again.
type symbols struct {
	binary *symbol.Binary
	view   *safeelf.File // of the file, for binary alone
	failed bool          // there is nothing to ask
	busy   bool          // being asked without the lock of tables
	start  uint64
	limit  uint64 // vaddrs of executable segments
	offset uint64 // file offset of start
	lines  map[uint64]resolved
}

// resolved is what is known of one file offset.
type resolved struct {
	vaddr uint64
	lines []symbol.Line // innermost first; nil when nothing is known
}

func (s *symbols) close() {
	if s.binary != nil {
		s.binary.Close()
		s.view.Close()
		s.binary, s.view = nil, nil
	}
}

// maxLines bounds the cached lines of one object.
const maxLines = 1 << 20

// resolve finds the lines of all file offsets in wanted, by object, until stop
// returns true. Objects are independent of each other and worked on in
// parallel.
func (t *tables) resolve(wanted map[*object][]uint64, debugDirs []string, stop func() bool) {
	type task struct {
		object  *object
		code    *code
		offsets []uint64
		target  bool
	}
	var tasks []task
	t.mu.Lock()
	for o, offsets := range wanted {
		if len(o.symbols.lines)+len(offsets) > maxLines {
			clear(o.symbols.lines)
		}
		missing := slices.DeleteFunc(slices.Clone(offsets), func(off uint64) bool {
			_, known := o.symbols.lines[off]
			return known
		})
		if len(missing) == 0 {
			continue
		}
		slices.Sort(missing) // neighbours share what is parsed of the debug information
		o.symbols.busy = true
		tasks = append(tasks, task{o, t.reopen(o), slices.Compact(missing), o.target()})
	}
	t.mu.Unlock()
	// The largest first: it is the one to wait for.
	slices.SortFunc(tasks, func(a, b task) int {
		return cmp.Or(cmp.Compare(len(b.offsets), len(a.offsets)), cmp.Compare(a.object.identity, b.object.identity))
	})

	var mu sync.Mutex
	next, done := 0, 0
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(tasks)) {
		wg.Go(func() {
			for {
				mu.Lock()
				if next == len(tasks) || stop() {
					mu.Unlock()
					return
				}
				task := tasks[next]
				next++
				if t.progress != nil {
					t.progress(Progress{Stage: StageSymbols, Object: task.object.path, Done: done, Total: len(tasks)})
				}
				mu.Unlock()
				task.object.symbols.resolve(task.object.path, task.code, task.offsets, debugDirs, stop)
				if !task.target {
					// The lines stay. What the target runs will be asked for
					// more of them in the next run; the rest of the machine is
					// too much to keep.
					task.object.symbols.close()
				}
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, task := range tasks {
		task.object.symbols.busy = false
	}
	t.boundSymbols()
}

// forgetOutside drops the lines of objects that no target needs: on a busy
// machine they are most of what there is, and other processes run next time.
func (t *tables) forgetOutside() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.objects {
		if !o.symbols.busy && !o.target() {
			o.symbols.lines = nil
		}
	}
}

// Bounds of what is kept to name further addresses of an object: bytes of
// each, and the number of objects.
const (
	symbolBytes = 16 << 20
	maxSymbols  = 32
)

// boundSymbols closes the symbols used longest ago; their lines stay cached.
// The caller holds mu.
func (t *tables) boundSymbols() {
	var open []*object
	for _, o := range t.objects {
		if o.symbols.binary != nil {
			open = append(open, o)
		}
	}
	if len(open) <= maxSymbols {
		return
	}
	slices.SortFunc(open, func(a, b *object) int { return cmp.Compare(a.lastUse(), b.lastUse()) })
	for _, o := range open[:len(open)-maxSymbols] {
		o.symbols.close()
		// What the symbols mapped goes with the view of the file.
		if file, err := o.code.image.elf(); err == nil {
			o.code.elf.Close()
			o.code.elf = file
		}
	}
}

// resolve finds the lines of the offsets, sorted, until stop returns true. The
// caller has set busy.
func (s *symbols) resolve(path string, c *code, offsets []uint64, debugDirs []string, stop func() bool) {
	if s.lines == nil {
		s.lines = make(map[uint64]resolved, len(offsets))
	}
	if c == nil {
		for _, off := range offsets {
			s.lines[off] = resolved{vaddr: off}
		}
		return
	}
	if s.limit == 0 {
		s.start, s.limit, s.offset = c.span()
	}
	if s.binary == nil && !s.failed {
		err := guard(func() (err error) {
			if s.view, err = c.image.elf(); err != nil {
				return err
			}
			s.binary, err = symbol.New(s.view, symbol.Options{Name: filepath.Base(path), Path: path, DebugDirs: debugDirs, Memory: symbolBytes})
			return err
		})
		if s.failed = err != nil; s.failed && s.view != nil {
			s.view.Close()
		}
	}
	for _, off := range offsets {
		if stop() {
			return
		}
		r := resolved{vaddr: off}
		if vaddr, ok := c.elf.Vaddr(off); ok {
			r.vaddr = vaddr
			if s.binary != nil {
				r.lines = s.binary.Lines(vaddr)
			}
		}
		s.lines[off] = r
	}
}

// span returns the addresses of the executable segments, and the file offset
// of the first.
func (c *code) span() (start, limit, offset uint64) {
	for _, prog := range c.elf.Progs {
		if prog.Type != elf.PT_LOAD || prog.Flags&elf.PF_X == 0 {
			continue
		}
		if limit == 0 || prog.Vaddr < start {
			start, offset = prog.Vaddr, prog.Off
		}
		limit = max(limit, prog.Vaddr+prog.Memsz)
	}
	return start, limit, offset
}

// kernelSymbols are the kernel's symbols, read once when first needed.
type kernelSymbols struct {
	path  string
	once  sync.Once
	table *symbol.Kernel // nil where they are hidden
}

// lookup returns the name and module of a kernel address; the module is ""
// for the kernel proper.
func (k *kernelSymbols) lookup(addr uint64) (name, module string, ok bool) {
	k.load()
	if k.table == nil {
		return "", "", false
	}
	return k.table.Lookup(addr)
}

func (k *kernelSymbols) load() {
	k.once.Do(func() {
		file, err := os.Open(k.path)
		if err != nil {
			return
		}
		defer file.Close()
		if table, err := symbol.ParseKallsyms(file); err == nil {
			k.table = table
		}
	})
}

// cgroupPath returns the path of the cgroup whose ID, the inode of its
// directory, is id, relative to the root of the hierarchy; "" where it is
// gone or not found within bounds.
func cgroupPath(root string, id uint64) string {
	const maxVisited = 20000
	visited := 0
	found := ""
	// The error is that of the callback, which returns none.
	_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return filepath.SkipDir
		}
		if !entry.IsDir() {
			return nil
		}
		if visited++; visited > maxVisited {
			return filepath.SkipAll
		}
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) == nil && stat.Ino == id {
			found = "/" + strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
			return filepath.SkipAll
		}
		return nil
	})
	return found
}
