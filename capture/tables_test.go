package capture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/bpf"
)

// fakeKernel holds tables as the kernel does, in a bounded space.
type fakeKernel struct {
	mu     sync.Mutex
	space  int // rows
	used   int
	nextID int
	rows   map[bpf.TableRef]int
	views  map[bpf.TableRef]*bpf.TableView
	refs   []bpf.TableRef // in order of loading
	bound  map[bpf.FileKey]binding
	rules  int
	events []string
	change *sync.Cond
}

type binding struct {
	id  uint16
	ref bpf.TableRef
}

func newFakeKernel(space int) *fakeKernel {
	k := &fakeKernel{space: space, rows: map[bpf.TableRef]int{}, views: map[bpf.TableRef]*bpf.TableView{}, bound: map[bpf.FileKey]binding{}}
	k.change = sync.NewCond(&k.mu)
	return k
}

func (k *fakeKernel) AppendRules(from int, rules []bpf.Rule) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if from != k.rules {
		return fmt.Errorf("rules from %d, have %d", from, k.rules)
	}
	k.rules += len(rules)
	return nil
}

func (k *fakeKernel) LoadTable(rows []uint32, pages []bpf.Page) (bpf.TableRef, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used+len(rows) > k.space {
		return bpf.TableRef{}, fmt.Errorf("load table: %w", bpf.ErrNoSpace)
	}
	for _, row := range rows {
		if int(row>>16) >= k.rules {
			return bpf.TableRef{}, fmt.Errorf("row names rule %d of %d", row>>16, k.rules)
		}
	}
	k.nextID++
	ref := testRef(k.nextID)
	k.used += len(rows)
	k.rows[ref] = len(rows)
	k.views[ref] = bpf.NewTableView(slices.Clone(rows), slices.Clone(pages))
	k.refs = append(k.refs, ref)
	return ref, nil
}

func (k *fakeKernel) View(ref bpf.TableRef) (*bpf.TableView, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, loaded := k.rows[ref]; !loaded {
		return nil, fmt.Errorf("view of table %v, which is not loaded", ref)
	}
	view := *k.views[ref] // Close empties it
	return &view, nil
}

func (k *fakeKernel) UnloadTable(ref bpf.TableRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, b := range k.bound {
		if b.ref == ref {
			k.events = append(k.events, fmt.Sprintf("table of bound file %v unloaded", key))
		}
	}
	k.used -= k.rows[ref]
	delete(k.rows, ref)
}

func (k *fakeKernel) Bind(key bpf.FileKey, id uint16, ref bpf.TableRef) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key.Mtime == 0 && key != bpf.VDSO() {
		k.events = append(k.events, fmt.Sprintf("incomplete key %v bound", key))
	}
	k.bound[key] = binding{id, ref}
	k.change.Broadcast()
	return nil
}

func (k *fakeKernel) Unbind(key bpf.FileKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.bound, key)
	k.change.Broadcast()
	return nil
}

// waitBound waits until key is bound.
func (k *fakeKernel) waitBound(t *testing.T, key bpf.FileKey) binding {
	t.Helper()
	timer := time.AfterFunc(10*time.Second, k.change.Broadcast)
	defer timer.Stop()
	deadline := time.Now().Add(10 * time.Second)
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		if b, ok := k.bound[key]; ok {
			return b
		}
		if time.Now().After(deadline) {
			t.Fatalf("file %v was not bound", key)
		}
		k.change.Wait()
	}
}

func (k *fakeKernel) tables() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.rows)
}

func newTestTables(t *testing.T, space int) (*tables, *fakeKernel) {
	t.Helper()
	kernel := newFakeKernel(space)
	tables := newTables(kernel, "/proc", func() {}, nil)
	t.Cleanup(func() {
		tables.close()
		if len(kernel.events) > 0 {
			t.Errorf("against the kernel's rules: %v", kernel.events)
		}
	})
	return tables, kernel
}

// testRef returns the n-th reference to a table. Only package bpf can make
// references; any bits that differ will do here.
func testRef(n int) (ref bpf.TableRef) {
	*(*uint32)(unsafe.Pointer(&ref)) = uint32(n)
	return ref
}

// keyOf returns the key that the kernel has for a file on a plain file system.
func keyOf(t *testing.T, path string) bpf.FileKey {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return bpf.FileKey{
		Ino: stat.Ino, Dev: unix.Major(stat.Dev)<<20 | unix.Minor(stat.Dev), Gen: 1, Mtime: uint64(stat.Mtim.Nano()),
	}
}

func mapping(key bpf.FileKey) *bpf.Mapping {
	return &bpf.Mapping{Start: 0x1000, End: 0x2000, Key: key}
}

func mmapOf(path string, key bpf.FileKey) *bpf.Mmap {
	key.Mtime = 0
	return &bpf.Mmap{PID: uint32(os.Getpid()), Mapping: *mapping(key), Path: path}
}

// program returns a copy of /bin/true, with extra bytes at its end.
func program(t *testing.T, name, extra string) string {
	t.Helper()
	data, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skipf("needs the program /bin/true: %v", err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, append(data, extra...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMissIsNumberedAtOnceAndBoundAfterTheBuild(t *testing.T) {
	tables, kernel := newTestTables(t, 1<<20)
	path := program(t, "true", "")
	key := keyOf(t, path)
	tables.mapped(mmapOf(path, key), false)
	id := tables.missed(uint32(os.Getpid()), mapping(key), false)
	if id == 0 {
		t.Fatal("the file got no number")
	}
	if again := tables.missed(uint32(os.Getpid()), mapping(key), false); again != id {
		t.Errorf("second miss has number %d, want %d", again, id)
	}
	b := kernel.waitBound(t, key)
	if b.id != id || b.ref == (bpf.TableRef{}) {
		t.Errorf("bound as %+v, want number %d with a table", b, id)
	}
}

func TestMappingOfATargetIsPreparedBeforeAnySample(t *testing.T) {
	tables, kernel := newTestTables(t, 1<<20)
	path := program(t, "true", "")
	key := keyOf(t, path)
	if id := tables.mapped(mmapOf(path, key), false); id != 0 {
		t.Errorf("file outside the target got number %d before a sample", id)
	}
	id := tables.mapped(mmapOf(path, key), true)
	if b := kernel.waitBound(t, key); b.id != id || id == 0 {
		t.Errorf("bound as %+v, want number %d", b, id)
	}
	if missed := tables.missed(1, mapping(key), false); missed != id {
		t.Errorf("miss has number %d, want %d", missed, id)
	}
}

func TestCopiesOfOneBuildShareATable(t *testing.T) {
	tables, kernel := newTestTables(t, 1<<20)
	var refs []bpf.TableRef
	var ids []uint16
	for _, extra := range []string{"", "x", "yy"} {
		path := program(t, "true", extra)
		key := keyOf(t, path)
		ids = append(ids, tables.mapped(mmapOf(path, key), true))
		refs = append(refs, kernel.waitBound(t, key).ref)
	}
	if tables.file(ids[0]).object.buildID == "" {
		t.Skip("needs a /bin/true with a build ID")
	}
	if kernel.tables() != 1 || refs[0] != refs[1] || refs[0] != refs[2] {
		t.Errorf("%d tables %v for three copies, want one", kernel.tables(), refs)
	}
	if ids[0] == ids[1] {
		t.Errorf("two files have one number %v", ids)
	}
}

// withoutBuildID spoils the build ID note, so that copies are unrelated.
func withoutBuildID(t *testing.T, name string) string {
	path := program(t, name, "")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte("\x03\x00\x00\x00GNU\x00"), []byte("\x03\x00\x00\x00XXX\x00"), 1)
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTableOfAnUnmappedFileIsEvictedFirst(t *testing.T) {
	probe, probeKernel := newTestTables(t, 1<<20)
	first := withoutBuildID(t, "a")
	probe.mapped(mmapOf(first, keyOf(t, first)), true)
	probeKernel.waitBound(t, keyOf(t, first))
	rows := probeKernel.used

	tables, kernel := newTestTables(t, 2*rows) // room for two
	var keys []bpf.FileKey
	var ids []uint16
	load := func(name string) {
		path := withoutBuildID(t, name)
		key := keyOf(t, path)
		id := tables.mapped(mmapOf(path, key), true)
		tables.retain(id)
		tables.touch(map[uint16]struct{}{id: {}})
		kernel.waitBound(t, key)
		keys, ids = append(keys, key), append(ids, id)
	}
	load("a")
	load("b")
	tables.release(ids[1]) // b is younger, but nobody maps it
	load("c")
	if _, bound := kernel.bound[keys[1]]; bound || kernel.tables() != 2 {
		t.Fatalf("%d tables, b still bound: %v; want a and c", kernel.tables(), bound)
	}
	load("d") // a and c are mapped: the one hit longest ago goes
	if _, bound := kernel.bound[keys[0]]; bound {
		t.Error("a is still bound, though it was hit longest ago")
	}
	if id := tables.missed(1, mapping(keys[0]), false); id != ids[0] {
		t.Errorf("a has number %d after its eviction, want %d", id, ids[0])
	}
	if b := kernel.waitBound(t, keys[0]); b.ref == (bpf.TableRef{}) {
		t.Error("a was not loaded again")
	}
}

func TestIdleTablesAreBounded(t *testing.T) {
	tables, kernel := newTestTables(t, 1<<20)
	tables.maxIdle = 2
	for i := range 5 {
		path := withoutBuildID(t, fmt.Sprint(i))
		key := keyOf(t, path)
		id := tables.mapped(mmapOf(path, key), true)
		tables.retain(id)
		kernel.waitBound(t, key)
		tables.release(id)
	}
	if n := kernel.tables(); n != 2 {
		t.Errorf("%d tables of files that nobody maps, want 2", n)
	}
}

func TestFilesWithoutTableAreFollowedByFramePointerAndCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		change func([]byte) []byte
		reason string
	}{
		"no ELF file":         {func([]byte) []byte { return []byte("#!/bin/sh\n") }, reasonNotELF},
		"empty":               {func([]byte) []byte { return nil }, reasonNotELF},
		"cut off":             {func(d []byte) []byte { return d[:80] }, reasonMalformed},
		"32-bit":              {func(d []byte) []byte { d[18], d[19] = 3, 0; return d }, reasonMachine}, // EM_386
		"table over all room": {func(d []byte) []byte { return d }, reasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			tables, kernel := newTestTables(t, 1)
			path := program(t, "file", "")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, tt.change(data), 0o755); err != nil {
				t.Fatal(err)
			}
			key := keyOf(t, path)
			tables.mapped(mmapOf(path, key), false)
			tables.missed(uint32(os.Getpid()), mapping(key), false)
			if b := kernel.waitBound(t, key); b.ref != (bpf.TableRef{}) {
				t.Errorf("bound with table %v", b.ref)
			}
			if got := tables.unreadable(); got[tt.reason] != 1 || len(got) != 1 {
				t.Errorf("counted %v, want one %s", got, tt.reason)
			}
		})
	}
}

func TestFileThatCannotBeOpenedIsTriedAgainBoundedly(t *testing.T) {
	tables, kernel := newTestTables(t, 1<<20)
	path := program(t, "true", "")
	key := keyOf(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range maxAttempts {
		if b, bound := kernel.bound[key]; bound {
			t.Fatalf("given up early: %v", b)
		}
		tables.missed(1<<22, mapping(key), false)
		tables.settle(10 * time.Second)
	}
	if b := kernel.waitBound(t, key); b.ref != (bpf.TableRef{}) {
		t.Errorf("bound with table %v", b.ref)
	}
	if got := tables.unreadable(); got[reasonUnreadable] != 1 {
		t.Errorf("counted %v, want one %s", got, reasonUnreadable)
	}
}

func TestOnlyTheMappedFileIsOpened(t *testing.T) {
	path := program(t, "true", "")
	key := keyOf(t, path)
	at := sighting{pid: uint32(os.Getpid()), path: path}
	file, name, err := openMapped("/proc", key, at)
	if err != nil || name != path {
		t.Fatalf("open %s: %q, %v", path, name, err)
	}
	file.Close()

	other := program(t, "other", "")
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if file, _, err := openMapped("/proc", key, at); err == nil {
		t.Errorf("opened %s, which is another file by now", file.Name())
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openRegular(fifo); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("open FIFO: %v", err)
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	tables, kernel := newTestTables(t, 1<<20)
	tables.maxOpen = 2
	var ids []uint16
	for i := range 5 {
		path := withoutBuildID(t, fmt.Sprint(i))
		key := keyOf(t, path)
		ids = append(ids, tables.mapped(mmapOf(path, key), true))
		kernel.waitBound(t, key)
		tables.touch(map[uint16]struct{}{ids[i]: {}})
	}
	tables.mu.Lock()
	defer tables.mu.Unlock()
	var open []bool
	for _, id := range ids {
		open = append(open, tables.file(id).object.code != nil)
	}
	if want := []bool{false, false, false, true, true}; !slices.Equal(open, want) {
		t.Errorf("open files %v, want %v", open, want)
	}
	if c := tables.reopen(tables.file(ids[0]).object); c == nil {
		t.Error("a closed file was not opened again")
	}
}

func TestVDSOIsReadFromMemory(t *testing.T) {
	tables, kernel := newTestTables(t, 1<<20)
	id := tables.missed(1, mapping(bpf.VDSO()), false)
	if b := kernel.waitBound(t, bpf.VDSO()); b.id != id || b.ref == (bpf.TableRef{}) {
		t.Errorf("bound as %+v, want number %d with a table", b, id)
	}
}
