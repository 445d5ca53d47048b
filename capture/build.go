package capture

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// code is an open ELF file with code of this machine.
type code struct {
	elf      *safeelf.File
	image    *image
	key      bpf.FileKey
	identity string // equal for copies whose offsets mean the same
	buildID  string
}

// The reasons why a file has no unwind table.
const (
	reasonUnreadable  = "unreadable"    // it could not be opened
	reasonNotELF      = "not_elf"       // it is no ELF file
	reasonMachine     = "other_machine" // code of another machine or word size
	reasonTooLarge    = "too_large"     // over the bounds below, or larger than all space there is
	reasonMalformed   = "malformed"
	reasonUnsupported = "unsupported"
)

// Bounds of what is parsed with privileges. The largest real files are
// browsers with 30 MB of .eh_frame in 300 MB, and debug builds of a few GB.
const (
	maxFileSize = 16 << 30
	maxFrames   = 512 << 20
)

// buildError is a failure with the reason it is counted under.
type buildError struct {
	reason string
	err    error
}

func (e *buildError) Error() string { return e.err.Error() }
func (e *buildError) Unwrap() error { return e.err }

func failureReason(err error) string {
	var typed *buildError
	if errors.As(err, &typed) {
		return typed.reason
	}
	return reasonUnreadable
}

// openCode opens the file with key and checks that its code can run here.
func openCode(procRoot string, key bpf.FileKey, at sighting) (c *code, name string, err error) {
	if key == bpf.VDSO() {
		data, err := readVDSO()
		if err != nil {
			return nil, "", err
		}
		c, err = newCode(memoryImage(data), key)
		return c, "[vdso]", err
	}
	file, name, err := openMapped(procRoot, key, at)
	if err != nil {
		return nil, name, err
	}
	image, err := fileImage(file)
	if err == nil && key.Mtime == 0 {
		key, err = contentKey(key, file)
	}
	if err != nil {
		file.Close()
		return nil, name, err
	}
	if c, err = newCode(image, key); err != nil {
		file.Close()
	}
	return c, name, err
}

// openPath opens the file at path, whatever it is.
func openPath(path string) (*code, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	image, err := fileImage(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	c, err := newCode(image, bpf.FileKey{})
	if err != nil {
		file.Close()
	}
	return c, err
}

func newCode(image *image, key bpf.FileKey) (*code, error) {
	if image.size > maxFileSize {
		return nil, &buildError{reasonTooLarge, fmt.Errorf("%d bytes are over the limit of %d", image.size, int64(maxFileSize))}
	}
	file, err := image.elf()
	switch {
	case errors.Is(err, safeelf.ErrNotELF):
		return nil, &buildError{reasonNotELF, err}
	case err != nil:
		return nil, &buildError{reasonMalformed, err}
	case file.Class != elf.ELFCLASS64 || file.Machine != hostMachine():
		return nil, &buildError{reasonMachine, fmt.Errorf("code is for %v, %v", file.Machine, file.Class)}
	}
	c := &code{elf: file, image: image, key: key, buildID: file.BuildID()}
	c.identity = fmt.Sprintf("%d:%d:%d:%d:%d", key.Dev, key.Ino, key.Gen, key.Mtime, image.size)
	if c.buildID != "" {
		// A build ID survives strip and objcopy, which may move code in the
		// file; and nothing keeps a file from carrying another's.
		var layout strings.Builder
		for _, prog := range file.Progs {
			if prog.Type == elf.PT_LOAD && prog.Flags&elf.PF_X != 0 {
				fmt.Fprintf(&layout, ":%x,%x,%x", prog.Off, prog.Vaddr, prog.Filesz)
			}
		}
		c.identity = c.buildID + layout.String()
	}
	return c, nil
}

// Close closes the file.
func (c *code) Close() error {
	return errors.Join(c.elf.Close(), c.image.Close())
}

// elf reads the headers of an image.
func (i *image) elf() (file *safeelf.File, err error) {
	err = guard(func() (err error) {
		if i.file != nil {
			// The file itself, so that its sections can be mapped.
			file, err = safeelf.New(i.file, i.size)
		} else {
			file, err = safeelf.New(i, i.size)
		}
		return err
	})
	return file, err
}

func hostMachine() elf.Machine {
	if runtime.GOARCH == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}

// guard runs read, which reads foreign bytes. Sections are mapped, so a file
// that shrinks meanwhile faults; that and any other panic is an error.
func guard(read func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed or changing file: %v", r)
		}
	}()
	return read()
}

func (t *tables) buildLoop(raise func()) {
	defer t.wg.Done()
	raise()
	for {
		o, ok := t.builds.take(t.quit)
		if !ok {
			return
		}
		t.build(o)
	}
}

// build compiles the table of an object and loads it.
func (t *tables) build(o *object) {
	t.mu.Lock()
	c := t.reopen(o)
	path := o.path
	t.mu.Unlock()
	if t.progress != nil {
		t.progress(Progress{Stage: StageTables, Object: path})
	}
	var table *unwind.Table
	err := error(&buildError{reasonUnreadable, os.ErrClosed})
	if c != nil {
		table, err = compile(c, t.rules)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		err = t.install(o, table)
	}
	if err != nil {
		t.failures[failureReason(err)]++
		o.state, o.ref = tableChained, bpf.TableRef{}
	}
	for _, f := range o.files {
		t.bind(f, o.ref)
	}
	t.boundIdle()
	t.advance()
}

// advance wakes those who wait for files or tables. The caller holds mu.
func (t *tables) advance() {
	t.version++
	t.settled.Broadcast()
}

// reopen returns the code of o, opened again where it was closed meanwhile;
// nil where that fails. The caller holds mu.
func (t *tables) reopen(o *object) *code {
	if o.code != nil {
		return o.code
	}
	for _, f := range o.files {
		c, _, err := openCode(t.procRoot, f.key, f.at)
		if err != nil {
			continue
		}
		if c.identity == o.identity {
			o.code = c
			t.boundOpen(o)
			return c
		}
		c.Close()
	}
	return nil
}

func compile(c *code, rules *unwind.RuleSet) (table *unwind.Table, err error) {
	// A view of its own, so that what it maps is unmapped when it is done.
	file, err := c.image.elf()
	if err != nil {
		return nil, &buildError{reasonMalformed, err}
	}
	defer file.Close()
	for _, name := range []string{".eh_frame", ".debug_frame", ".gopclntab"} {
		if section := file.Section(name); section != nil && section.Size > maxFrames {
			return nil, &buildError{reasonTooLarge, fmt.Errorf("%s has %d bytes, over the limit of %d", name, section.Size, maxFrames)}
		}
	}
	err = guard(func() (err error) {
		table, err = unwind.NewTable(file, rules)
		return err
	})
	if err != nil {
		return nil, &buildError{reasonMalformed, err}
	}
	return table, nil
}

// install loads a table, making room where there is none. The caller holds mu.
func (t *tables) install(o *object, table *unwind.Table) error {
	if err := t.sendRules(); err != nil {
		return err
	}
	pages := make([]bpf.Page, len(table.Pages))
	for i, page := range table.Pages {
		pages[i] = bpf.Page(page)
	}
	for {
		ref, err := t.kernel.LoadTable(table.Rows, pages)
		switch {
		case err == nil:
			o.state, o.ref = tableLoaded, ref
			return nil
		case !errors.Is(err, bpf.ErrNoSpace):
			return &buildError{reasonUnsupported, err}
		case !t.evict():
			return &buildError{reasonTooLarge, err}
		}
	}
}

// sendRules sends the rules the kernel does not have. The caller holds mu.
func (t *tables) sendRules() error {
	fresh := t.rules.Rules(t.sent)
	if len(fresh) == 0 {
		return nil
	}
	rules := make([]bpf.Rule, len(fresh))
	for i, r := range fresh {
		rules[i] = bpf.Rule{
			CFA: uint8(r.CFA), Reg: r.Reg, FP: uint8(r.FP), RA: uint8(r.RA),
			CFAOff: r.CFAOff, FPOff: r.FPOff, RAOff: r.RAOff, BXOff: r.BXOff, Off2: r.Off2,
		}
	}
	if err := t.kernel.AppendRules(t.sent, rules); err != nil {
		return fmt.Errorf("send unwind rules: %w", err)
	}
	t.sent += len(fresh)
	return nil
}

// evict unloads one table: of a file that no process maps if there is one,
// and then the one hit longest ago. It returns false when none is loaded. The
// caller holds mu.
func (t *tables) evict() bool {
	var victim *object
	better := func(a, b *object) bool {
		if idleA, idleB := a.refs() == 0, b.refs() == 0; idleA != idleB {
			return idleA
		}
		return a.lastUse() < b.lastUse()
	}
	for _, o := range t.objects {
		if o.state == tableLoaded && (victim == nil || better(o, victim)) {
			victim = o
		}
	}
	if victim == nil {
		return false
	}
	t.unload(victim)
	return true
}

// unload takes a table out of the kernel; a sample in the file is a miss
// again. The caller holds mu.
func (t *tables) unload(o *object) {
	for _, f := range o.files {
		if t.byKey[f.key] == f {
			if err := t.kernel.Unbind(f.key); err != nil {
				t.failures["unbind_failed"]++
			}
		}
	}
	t.kernel.UnloadTable(o.ref)
	o.ref, o.state = bpf.TableRef{}, tableNone
}

// boundIdle unloads tables of files that no process maps while there are more
// than maxIdle of them. The caller holds mu.
func (t *tables) boundIdle() {
	if len(t.objects) <= t.maxIdle {
		return
	}
	var idle []*object
	for _, o := range t.objects {
		if o.state == tableLoaded && o.refs() == 0 {
			idle = append(idle, o)
		}
	}
	if len(idle) <= t.maxIdle {
		return
	}
	slices.SortFunc(idle, func(a, b *object) int {
		return cmp.Compare(a.lastUse(), b.lastUse())
	})
	for _, o := range idle[:len(idle)-t.maxIdle] {
		t.unload(o)
	}
}
