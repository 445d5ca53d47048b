package symbol

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/tollgate-dev/tollgate/internal/gopclntab"
	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/symbol/internal/dwarf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// Line is one function active at an address. An address in inlined code has
// several.
type Line struct {
	Function  string // readable name, see Demangle
	System    string // linkage name; overloads differ in it
	File      string // path as the compiler saw it; "" when unknown
	Line      int    // where execution is in Function; 0 when unknown
	Column    int    // 0 when unknown
	StartLine int    // where Function is declared; 0 when unknown
}

// Options say where to look for symbols. The zero value is useful.
type Options struct {
	// Name is the base name for synthetic symbols, as liblzma.so.5; the base
	// name of Path when empty.
	Name string
	// Path is where the file lies: debug files that .gnu_debuglink names are
	// looked for beside it. Open sets it.
	Path string
	// DebugDirs hold separate debug files, by build ID below .build-id or by
	// path; nil means /usr/lib/debug.
	DebugDirs []string
	// Memory bounds the bytes of debug information kept for lookups to come;
	// 0 means 64 MiB. Sections that are mapped do not count.
	Memory int
}

// Binary is an executable or shared library whose addresses can be looked up.
// It is safe for concurrent use.
type Binary struct {
	mu      sync.Mutex
	file    *safeelf.File
	options Options
	owned   []*safeelf.File // closed by Close

	debug    *safeelf.File // has .debug_info, or nil
	separate *safeelf.File // debug file apart from file, or nil
	kind     string

	dwarf     *dwarf.Data
	golang    *gopclntab.Table
	symbols   *symbolTable
	stubs     *stubTable
	functions []unwind.Range
	loaded    sources
	demangler demangler
	frames    []dwarf.Frame
	buildID   string
}

// sources marks the kinds of information that have been read, successfully or
// not.
type sources struct{ dwarf, golang, symbols, stubs, functions bool }

// Kinds of information, as Source names them.
const (
	sourceDWARF  = "dwarf"
	sourceGo     = "go"
	sourceSymtab = "symtab"
	sourceDynsym = "dynsym"
	sourceFDE    = "fde"
	sourceNone   = ""
)

// Open opens the ELF file at path. The caller must Close the Binary.
func Open(path string, options Options) (*Binary, error) {
	file, err := safeelf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open symbols of %s: %w", path, err)
	}
	if options.Path == "" {
		options.Path = path
	}
	b, err := New(file, options)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("open symbols of %s: %w", path, err)
	}
	b.owned = append(b.owned, file)
	return b, nil
}

// New looks up addresses in a file that is open already and must stay so until
// Close.
func New(file *safeelf.File, options Options) (b *Binary, err error) {
	b = &Binary{file: file, options: options}
	if b.options.Name == "" && b.options.Path != "" {
		b.options.Name = filepath.Base(b.options.Path)
	}
	if b.options.Name == "" {
		b.options.Name = "unknown"
	}
	if b.options.DebugDirs == nil {
		b.options.DebugDirs = []string{"/usr/lib/debug"}
	}
	ok := b.guarded(func() {
		b.buildID = file.BuildID()
		b.findDebugFiles()
		b.kind = b.bestSource()
	})
	if !ok {
		b.Close()
		return nil, errors.New("malformed file")
	}
	return b, nil
}

// Close releases the files that the Binary opened itself.
func (b *Binary) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, file := range b.owned {
		errs = append(errs, file.Close())
	}
	b.owned = nil
	b.file, b.debug, b.separate = nil, nil, nil
	b.dwarf, b.golang, b.symbols, b.stubs, b.functions = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// BuildID returns the GNU build ID in hexadecimal, or "".
func (b *Binary) BuildID() string { return b.buildID }

// Source names the best kind of information there is: dwarf, go (the line
// tables that Go binaries keep when stripped), symtab, dynsym, fde (function
// boundaries from unwind information), or "" for none.
func (b *Binary) Source() string { return b.kind }

// Vaddr converts a file offset to an ELF address; ok is false where no segment
// covers it.
func (b *Binary) Vaddr(off uint64) (vaddr uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		return 0, false
	}
	return b.file.Vaddr(off)
}

// Lines returns the functions active at an ELF address, the innermost first:
// inlined functions are Lines of their own, and the line of each other frame is
// where the inner one was called from. It is nil when nothing is known of the
// address. Many addresses are looked up fastest in ascending order: what was
// read of large debug information may be forgotten in between.
func (b *Binary) Lines(vaddr uint64) []Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		return nil
	}
	var lines []Line
	// The sources from the best to the least. One that the file breaks is
	// passed over like one that has nothing.
	for _, source := range [...]func(uint64) []Line{
		b.goLines, b.dwarfLines, b.stubLines, b.symbolLines, b.functionLines,
	} {
		b.guarded(func() { lines = source(vaddr) })
		if len(lines) > 0 {
			return lines
		}
	}
	return nil
}

// guarded runs f and reports whether it came to its end. Parsers check what
// they read, but a file may be truncated while it is mapped, and the standard
// library's ELF reader is not hardened.
func (b *Binary) guarded(f func()) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	f()
	return true
}

// bestSource finds the best kind of information without reading it.
func (b *Binary) bestSource() string {
	switch {
	case hasGoTable(b.file):
		return sourceGo
	case b.debug != nil:
		return sourceDWARF
	case b.symtabFile() != nil || b.file.Section(".gnu_debugdata") != nil:
		return sourceSymtab
	case b.file.Section(".dynsym") != nil:
		return sourceDynsym
	case hasFunctionBounds(b.file):
		return sourceFDE
	}
	return sourceNone
}

// name fills in both names of a line from a linkage name.
func (b *Binary) name(line *Line, system string) {
	line.System = system
	line.Function = b.demangler.name(system)
}
