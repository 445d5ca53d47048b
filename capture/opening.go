package capture

import (
	"fmt"

	"github.com/tollgate-dev/tollgate/bpf"
)

func (t *tables) openLoop(raise func()) {
	defer t.wg.Done()
	raise()
	for {
		f, ok := t.opens.take(t.quit)
		if !ok {
			return
		}
		t.open(f)
	}
}

// open opens f and joins it to the object it is a copy of.
func (t *tables) open(f *mappedFile) {
	t.mu.Lock()
	key, at := f.key, f.at
	t.mu.Unlock()
	code, name, err := openCode(t.procRoot, key, at)
	t.mu.Lock()
	defer t.mu.Unlock()
	f.opening = false
	f.attempts++
	t.opening--
	defer t.advance()
	if name != "" {
		f.name = name
	}
	if err != nil {
		// A process may be gone, or may hide its files: another one may not.
		// A file that is no ELF file stays that way.
		if reason := failureReason(err); reason != reasonUnreadable || f.attempts >= maxAttempts {
			f.attempts = maxAttempts
			t.failures[reason]++
			t.chain(f)
		}
		return
	}
	if f.key.Mtime == 0 && f.key != bpf.VDSO() {
		f.key = code.key
		if t.byKey[f.key] == nil {
			t.byKey[f.key] = f
		}
	}
	o := t.objects[code.identity]
	if o == nil {
		o = &object{identity: code.identity, buildID: code.buildID, path: f.name}
		t.objects[o.identity] = o
	}
	if o.code == nil {
		o.code = code
		t.boundOpen(o)
	} else {
		code.Close()
	}
	f.object = o
	o.files = append(o.files, f)
	switch o.state {
	case tableLoaded, tableChained:
		t.bind(f, o.ref)
	default:
		t.requestBuild(o, f.target)
	}
}

// chain binds a file without a table. The caller holds mu.
func (t *tables) chain(f *mappedFile) {
	if f.key.Mtime != 0 {
		t.bind(f, bpf.TableRef{})
	}
}

// bind tells the kernel a file's number and table. The caller holds mu.
func (t *tables) bind(f *mappedFile, ref bpf.TableRef) {
	if t.byKey[f.key] != f {
		return // its twin has the binding
	}
	if err := t.kernel.Bind(f.key, f.id, ref); err != nil {
		t.failures["bind_failed"]++
	}
}

// boundOpen closes the files used longest ago while too many are open. The
// caller holds mu.
func (t *tables) boundOpen(keep *object) {
	for {
		var oldest *object
		open := 0
		for _, o := range t.objects {
			if o.code == nil || o.code.image.file == nil {
				continue
			}
			open++
			if o != keep && o.state != tableQueued && !o.symbols.busy && (oldest == nil || o.lastUse() < oldest.lastUse()) {
				oldest = o
			}
		}
		if open <= t.maxOpen || oldest == nil {
			return
		}
		oldest.close()
	}
}

// prepare builds the tables of what the processes map before anything is
// sampled: the client, whose code runs in the child until it calls execve, and
// the shell around it, which brings the C library.
func (t *tables) prepare(pids []uint32) {
	seen := map[string]bool{}
	for _, pid := range pids {
		for _, path := range codePaths(t.procRoot, pid) {
			if seen[path] || len(seen) >= maxPrepared {
				continue
			}
			seen[path] = true
			if code, err := openPath(fmt.Sprintf("%s/%d/root%s", t.procRoot, pid, path)); err == nil {
				t.adopt(code, path)
			}
		}
	}
}

const maxPrepared = 32

// adopt makes code an object of its own, unless it is known.
func (t *tables) adopt(c *code, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Without a build ID it would not be recognized when it is mapped.
	if c.buildID == "" || t.objects[c.identity] != nil {
		c.Close()
		return
	}
	o := &object{identity: c.identity, buildID: c.buildID, path: path, code: c}
	t.objects[o.identity] = o
	t.requestBuild(o, true)
}
