package gopclntab

import (
	"bytes"
	"debug/elf"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// place is where a table may be: its header's offset in the file and vaddr,
// and the bytes from there to the end of what can hold it.
type place struct {
	off, vaddr, size uint64
}

const (
	// scanChunk bounds the copies of a file that cannot be mapped.
	scanChunk = 1 << 20
	maxPlaces = 16
)

// locate returns where the table may be, the likeliest first.
func locate(file *safeelf.File) ([]place, error) {
	// The second name is that of position-independent programs before Go 1.26.
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		section := file.Section(name)
		if section == nil || section.Flags&elf.SHF_COMPRESSED != 0 {
			continue
		}
		if section.FileSize < headerSize || section.FileSize > safeelf.MaxSection {
			continue
		}
		return []place{{section.Offset, section.Addr, section.FileSize}}, nil
	}
	// A system linker merges .data.rel.ro.gopclntab into .data.rel.ro, and
	// sstrip removes all section headers.
	if len(file.Sections) > 0 && file.Section(".go.buildinfo") == nil && file.Section(".note.go.buildid") == nil {
		return nil, ErrNotFound
	}
	var found []place
	for _, prog := range file.Progs {
		if prog.Type != elf.PT_LOAD || prog.Flags&elf.PF_X != 0 {
			continue
		}
		found = scanSegment(file, prog, found)
	}
	if len(found) == 0 {
		return nil, ErrNotFound
	}
	return found, nil
}

// scanSegment appends the places in prog that begin like a table.
func scanSegment(file *safeelf.File, prog elf.ProgHeader, found []place) []place {
	size := min(prog.Filesz, uint64(file.Size()))
	// The bytes after the first of the magic number are the same in all versions.
	pattern := make([]byte, 4)
	file.ByteOrder.PutUint32(pattern, uint32(magic118))
	pattern = append(pattern[1:], 0, 0)
	for base := uint64(0); base+headerSize <= size && len(found) < maxPlaces; base += scanChunk {
		// Chunks overlap by a header, so that none is cut in two.
		chunk, err := view(file, prog.Off+base, min(scanChunk+headerSize, size-base))
		if err != nil {
			return found
		}
		for from := 0; len(found) < maxPlaces; {
			i := bytes.Index(chunk[from:], pattern)
			if i < 0 {
				break
			}
			at := from + i - 1
			from += i + 1
			if at < 0 || at >= scanChunk || at%pointerSize != 0 || at+headerSize > len(chunk) {
				continue
			}
			if _, err := checkHeader(file, chunk[at:]); err != nil {
				continue
			}
			off := base + uint64(at)
			found = append(found, place{prog.Off + off, prog.Vaddr + off, min(size-off, safeelf.MaxSection)})
		}
	}
	return found
}

// symbol returns the value of the first symbol with one of names, or 0.
func (t *Table) symbol(names ...string) (value uint64) {
	defer func() {
		if recover() != nil {
			value = 0 // debug/elf is not hardened against malformed symbol tables
		}
	}()
	if section := t.file.Section(".symtab"); section == nil || section.FileSize > uint64(t.file.Size()) {
		return 0
	}
	symbols, err := t.file.Raw().Symbols()
	if err != nil {
		return 0
	}
	for i := range symbols {
		for _, name := range names {
			if symbols[i].Name == name {
				return symbols[i].Value
			}
		}
	}
	return 0
}
