package capture

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// tableKernel is what the table manager needs of a bpf.Sampler.
type tableKernel interface {
	AppendRules(from int, rules []bpf.Rule) error
	LoadTable(rows []uint32, pages []bpf.Page) (bpf.TableRef, error)
	UnloadTable(ref bpf.TableRef)
	Bind(key bpf.FileKey, id uint16, ref bpf.TableRef) error
	Unbind(key bpf.FileKey) error
	View(ref bpf.TableRef) (*bpf.TableView, error)
}

// tables names the files that processes map, builds the unwind table of each
// once, and keeps the tables of the files in use in the kernel.
//
// A file gets its number as soon as it is seen, so that frames can be stored
// under it; opening and building follow on two goroutines of their own, since
// neither a slow file system nor a big file may stall the draining of records.
// It is safe for concurrent use.
type tables struct {
	kernel   tableKernel
	procRoot string
	progress func(Progress)
	rules    *unwind.RuleSet
	maxIdle  int // tables kept though no process maps their file
	maxOpen  int // files kept open

	// What targets wait for goes before what others do.
	opens  queue[*mappedFile]
	builds queue[*object]
	quit   chan struct{}
	wg     sync.WaitGroup

	mu        sync.Mutex
	settled   *sync.Cond // opening reached 0, or version changed
	version   uint64     // advances whenever a file was opened or a table built
	opening   int
	sent      int                         // rules the kernel has
	files     []*mappedFile               // by number; files[0] is nil
	byKey     map[bpf.FileKey]*mappedFile // by complete key
	latest    map[bpf.FileKey]*mappedFile // by key without Mtime
	inodes    map[bpf.FileKey]*mappedFile // by Dev and Ino alone
	sightings map[bpf.FileKey]sighting    // by key without Mtime, of files nobody needed yet
	objects   map[string]*object
	clock     uint64 // advances with every touch; orders lastUse
	failures  map[string]uint64

	generated   map[uint16]*generated // by number
	generations int                   // numbers given to generated code
	found       time.Time             // when perf maps were looked for last
	finding     bool                  // or are being looked for
	perfMaps    sync.Mutex            // one looks for them at a time

	// What a batch of walks shares.
	views   map[*object]*bpf.TableView
	changed map[*mappedFile]bool
	walked  []unwind.Frame
}

// mappedFile is one file (inode and contents) that some process maps.
type mappedFile struct {
	id       uint16
	key      bpf.FileKey // Mtime is 0 until the file was opened or missed
	name     string
	at       sighting
	object   *object // nil until opened
	opening  bool
	target   bool // a target needs it
	attempts int
	refs     int // processes that map it
	lastUse  uint64
}

// object is the contents of one or more files: copies of one build share it.
type object struct {
	identity string
	buildID  string
	path     string // of the file that was opened first, as its process sees it
	code     *code  // nil while closed
	files    []*mappedFile
	state    tableState
	ref      bpf.TableRef
	symbols  symbols
}

type tableState uint8

const (
	tableNone    tableState = iota // not built, or evicted
	tableQueued                    // a build is under way
	tableLoaded                    // in the kernel
	tableChained                   // cannot be built: frame pointers only
)

const (
	maxFiles     = 1<<16 - 1
	maxSightings = 1 << 14
	maxAttempts  = 4 // at opening a file
)

// newTables returns an empty manager; raise is called by the goroutines that
// work against time.
func newTables(kernel tableKernel, procRoot string, raise func(), progress func(Progress)) *tables {
	t := &tables{
		kernel: kernel, procRoot: procRoot, progress: progress,
		rules: unwind.NewRuleSet(), maxIdle: 512, maxOpen: 512,
		opens: newQueue[*mappedFile](), builds: newQueue[*object](), quit: make(chan struct{}),
		files:  []*mappedFile{nil},
		byKey:  map[bpf.FileKey]*mappedFile{},
		latest: map[bpf.FileKey]*mappedFile{}, inodes: map[bpf.FileKey]*mappedFile{}, sightings: map[bpf.FileKey]sighting{},
		objects: map[string]*object{}, failures: map[string]uint64{},
		generated: map[uint16]*generated{},
		views:     map[*object]*bpf.TableView{}, changed: map[*mappedFile]bool{},
	}
	t.settled = sync.NewCond(&t.mu)
	t.wg.Add(2)
	go t.openLoop(raise)
	go t.buildLoop(raise)
	return t
}

// close ends the goroutines and closes the files.
func (t *tables) close() {
	close(t.quit)
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.objects {
		o.close()
	}
	for _, g := range t.generated {
		g.close()
	}
}

// withoutMtime is the part of a key that mapping records carry.
func withoutMtime(key bpf.FileKey) bpf.FileKey {
	key.Mtime = 0
	return key
}

// mapped records a mapping of process pid and returns the file's number, 0
// where nobody needs the file yet. The files of targets are prepared at once,
// before the first sample hits them.
func (t *tables) mapped(m *bpf.Mmap, target bool) uint16 {
	key := withoutMtime(m.Mapping.Key)
	if key.Ino == 0 || key == bpf.VDSO() {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := sighting{pid: m.PID, start: m.Mapping.Start, end: m.Mapping.End, path: m.Path}
	f := t.latest[key]
	if f == nil {
		if !target {
			if len(t.sightings) >= maxSightings {
				clear(t.sightings) // misses still find their files through the process
			}
			t.sightings[key] = at
			return 0
		}
		if f = t.add(key, at); f == nil {
			return 0
		}
	}
	if f.object == nil {
		f.at = at
	}
	f.target = f.target || target
	t.request(f)
	return f.id
}

// seen records where the file of a mapping that /proc told of can be opened.
func (t *tables) seen(m region, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inodes[m.key] != nil {
		return
	}
	if len(t.sightings) >= maxSightings {
		clear(t.sightings)
	}
	t.sightings[m.key] = sighting{path: path}
}

// missed records a sample in a file that the kernel has no table for, and
// returns the file's number, 0 when there are no numbers left.
func (t *tables) missed(pid uint32, m *bpf.Mapping, target bool) uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	prefix := withoutMtime(m.Key)
	at := sighting{pid: pid, start: m.Start, end: m.End, path: t.sightings[prefix].path}
	f := t.byKey[m.Key]
	if f == nil {
		if known := t.latest[prefix]; known != nil && known.key.Mtime == 0 {
			f = known
			f.key = m.Key
			t.byKey[m.Key] = f
		} else if f = t.add(m.Key, at); f == nil {
			return 0
		}
	}
	if f.object == nil {
		if at.path == "" {
			at.path = f.at.path
		}
		f.at = at
	}
	f.target = f.target || target
	t.request(f)
	return f.id
}

// add gives a file its number. The caller holds mu.
func (t *tables) add(key bpf.FileKey, at sighting) *mappedFile {
	if len(t.files) > maxFiles {
		t.failures["numbers_exhausted"]++
		return nil
	}
	f := &mappedFile{id: uint16(len(t.files)), key: key, at: at, name: at.path, lastUse: t.clock}
	t.files = append(t.files, f)
	prefix := withoutMtime(key)
	t.latest[prefix] = f
	t.inodes[bpf.FileKey{Ino: key.Ino, Dev: key.Dev}] = f
	delete(t.sightings, prefix)
	if key.Mtime != 0 || key == bpf.VDSO() {
		t.byKey[key] = f
	}
	return f
}

// request starts what is missing to have f's table in the kernel. The caller
// holds mu.
func (t *tables) request(f *mappedFile) {
	switch {
	case f.object != nil:
		t.requestBuild(f.object, f.target)
	case !f.opening && f.attempts < maxAttempts:
		if t.opens.put(f, f.target) { // else the next miss asks again
			f.opening = true
			t.opening++
		}
	}
}

func (t *tables) requestBuild(o *object, target bool) {
	if o.state == tableNone && t.builds.put(o, target) {
		o.state = tableQueued
	}
}

// settle waits until every file seen so far was opened, at most for patience.
func (t *tables) settle(patience time.Duration) {
	deadline := time.Now().Add(patience)
	wake := time.AfterFunc(patience, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.settled.Broadcast()
	})
	defer wake.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.opening > 0 && time.Now().Before(deadline) {
		t.settled.Wait()
	}
}

// retain and release count the processes that map a file.
func (t *tables) retain(id uint16) { t.reference(id, 1) }

func (t *tables) release(id uint16) { t.reference(id, -1) }

func (t *tables) reference(id uint16, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.file(id); f != nil {
		f.refs += n
		if f.refs == 0 && n < 0 {
			f.lastUse = t.clock
			t.boundIdle()
		}
	}
}

// touch records that samples hit the files.
func (t *tables) touch(ids map[uint16]struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	for id := range ids {
		if f := t.file(id); f != nil {
			f.lastUse = t.clock
		}
	}
}

// file returns file id, or nil. The caller holds mu.
func (t *tables) file(id uint16) *mappedFile {
	if int(id) >= len(t.files) {
		return nil
	}
	return t.files[id]
}

// unreadable returns how many files have no table, by reason, since start.
func (t *tables) unreadable() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]uint64, len(t.failures))
	for reason, n := range t.failures {
		out[reason] = n
	}
	return out
}

func (o *object) refs() (n int) {
	for _, f := range o.files {
		n += f.refs
	}
	return n
}

func (o *object) lastUse() (last uint64) {
	for _, f := range o.files {
		last = max(last, f.lastUse)
	}
	return last
}

// target tells whether a target needs the object.
func (o *object) target() bool {
	return slices.ContainsFunc(o.files, func(f *mappedFile) bool { return f.target })
}

func (o *object) close() {
	if o.code != nil {
		o.symbols.close()
		o.code.Close()
		o.code = nil
	}
}

// String names a file in errors.
func (f *mappedFile) String() string {
	if f.name != "" {
		return f.name
	}
	return fmt.Sprintf("inode %d of device %d:%d", f.key.Ino, f.key.Dev>>20, f.key.Dev&(1<<20-1))
}
