package safeelf

import (
	"debug/elf"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// View returns the contents of a section like Data, but maps an uncompressed
// section of a file on disk instead of copying it, so that only the pages that
// are read cost memory. What it has to inflate lies outside of Go's heap. The
// bytes must not be written to and are valid until Close. A file that is
// truncated while it is mapped faults on access: readers set
// debug.SetPanicOnFault and recover.
func (f *File) View(section *Section) ([]byte, error) {
	if section.Type == elf.SHT_NOBITS {
		return nil, fmt.Errorf("read section %s: it has no contents in this file", section.Name)
	}
	if len(section.Name) > 7 && section.Name[:7] == ".zdebug" {
		return f.Data(section)
	}
	if section.Flags&elf.SHF_COMPRESSED != 0 {
		return f.inflate(section)
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

// inflate decompresses a section into memory of its own: a debug section of
// hundreds of megabytes in the heap would make the garbage collector let the
// heap grow by as much again.
func (f *File) inflate(section *Section) (data []byte, err error) {
	const small = 1 << 20
	if section.Size < small || section.Size > MaxSection || section.Size > section.FileSize*maxCompressionRatio {
		return f.Data(section)
	}
	data, err = unix.Mmap(-1, 0, int(section.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return f.Data(section)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed file: %v", r)
		}
		if err != nil {
			unix.Munmap(data)
			data, err = nil, fmt.Errorf("read section %s: %w", section.Name, err)
			return
		}
		f.mapMu.Lock()
		f.inflated = append(f.inflated, data)
		f.mapMu.Unlock()
	}()
	_, err = io.ReadFull(f.raw.Sections[section.index].Open(), data)
	return data, err
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
