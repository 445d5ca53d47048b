package safeelf

import (
	"debug/elf"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// View returns the contents of a section like Data, but maps an uncompressed
// section of a file on disk instead of copying it, so that only the pages that
// are read cost memory. The bytes must not be written to and are valid until
// Close. A file that is truncated while it is mapped faults on access: readers
// set debug.SetPanicOnFault and recover.
func (f *File) View(section *Section) ([]byte, error) {
	if section.Type == elf.SHT_NOBITS {
		return nil, fmt.Errorf("read section %s: it has no contents in this file", section.Name)
	}
	compressed := section.Flags&elf.SHF_COMPRESSED != 0 ||
		len(section.Name) > 7 && section.Name[:7] == ".zdebug"
	if compressed {
		return f.Data(section)
	}
	if section.Offset > uint64(f.size) || section.FileSize > uint64(f.size)-section.Offset {
		return nil, fmt.Errorf("read section %s: it ends past the end of the file", section.Name)
	}
	if section.FileSize > MaxSection {
		return nil, fmt.Errorf("read section %s: %d bytes exceed the limit of %d", section.Name, section.FileSize, uint64(MaxSection))
	}
	image := f.image()
	if image == nil {
		return f.Data(section)
	}
	end := section.Offset + section.FileSize
	return image[section.Offset:end:end], nil
}

// image maps the whole file on first use; nil where that is impossible.
func (f *File) image() []byte {
	f.mapOnce.Do(func() {
		file, ok := f.reader.(*os.File)
		if !ok || f.size <= 0 || int64(int(f.size)) != f.size {
			return
		}
		// Pages past the end of the file would fault.
		if info, err := file.Stat(); err != nil || info.Size() < f.size {
			return
		}
		data, err := unix.Mmap(int(file.Fd()), 0, int(f.size), unix.PROT_READ, unix.MAP_PRIVATE)
		if err == nil {
			f.mapped = data
		}
	})
	return f.mapped
}
