// Package safeelf is the boundary between Tollgate and ELF files it did not
// build: every size is checked before memory is taken for it, and a malformed
// file is an error, never a panic.
package safeelf

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// MaxSection bounds the bytes that Data returns for one section, and so what
// a hostile header can make the reader allocate.
const MaxSection = 2 << 30

// maxCompressionRatio bounds what a compressed section may claim to inflate
// to. Debug sections of real files stay below 20.
const maxCompressionRatio = 1100

// ErrNotELF reports a file that does not start with an ELF header.
var ErrNotELF = errors.New("not an ELF file")

// File is an open ELF file whose headers have been validated. It is safe for
// concurrent use.
type File struct {
	Machine   elf.Machine
	Type      elf.Type
	Class     elf.Class
	ByteOrder binary.ByteOrder
	Entry     uint64 // vaddr
	Progs     []elf.ProgHeader
	Sections  []Section

	reader io.ReaderAt
	size   int64
	closer io.Closer
	raw    *elf.File

	mapOnce sync.Once
	mapped  []byte // the whole file; nil until View needs it

	mapMu    sync.Mutex
	inflated [][]byte // sections that View decompressed
}

// Section is one section header. Offset and FileSize are the bytes in the
// file; Size is the size after decompression.
type Section struct {
	elf.SectionHeader
	index int
}

// Open opens the ELF file at path. The caller must Close it.
func Open(path string) (*File, error) {
	// Opening a FIFO in the place of a binary must not block.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	elfFile, err := New(file, info.Size())
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	elfFile.closer = file
	return elfFile, nil
}

// New reads the headers of the ELF image of size bytes behind reader.
func New(reader io.ReaderAt, size int64) (file *File, err error) {
	// debug/elf promises errors for malformed files but is documented as not
	// hardened; a panic of its must not take the collector down.
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, fmt.Errorf("read ELF headers: malformed file: %v", r)
		}
	}()
	var magic [4]byte
	if _, err := reader.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return nil, ErrNotELF
	}
	raw, err := elf.NewFile(io.NewSectionReader(reader, 0, size))
	if err != nil {
		return nil, fmt.Errorf("read ELF headers: %w", err)
	}
	file = &File{
		Machine: raw.Machine, Type: raw.Type, Class: raw.Class, ByteOrder: raw.ByteOrder,
		Entry: raw.Entry, reader: reader, size: size, raw: raw,
	}
	for _, prog := range raw.Progs {
		file.Progs = append(file.Progs, prog.ProgHeader)
	}
	for i, section := range raw.Sections {
		file.Sections = append(file.Sections, Section{SectionHeader: section.SectionHeader, index: i})
	}
	return file, nil
}

// Close releases what View mapped, and the file when Open opened it.
func (f *File) Close() error {
	f.mapOnce.Do(func() {})
	f.mapMu.Lock()
	inflated := f.inflated
	f.inflated = nil
	f.mapMu.Unlock()
	for _, data := range inflated {
		if err := unix.Munmap(data); err != nil {
			return fmt.Errorf("unmap section: %w", err)
		}
	}
	if f.mapped != nil {
		mapped := f.mapped
		f.mapped = nil
		if err := unix.Munmap(mapped); err != nil {
			return fmt.Errorf("unmap file: %w", err)
		}
	}
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Size returns the length of the file in bytes.
func (f *File) Size() int64 { return f.size }

// Section returns the first section called name that has contents in the
// file, or nil.
func (f *File) Section(name string) *Section {
	for i := range f.Sections {
		if f.Sections[i].Name == name && f.Sections[i].Type != elf.SHT_NOBITS {
			return &f.Sections[i]
		}
	}
	return nil
}

// Data returns the contents of a section, decompressed when it is compressed
// (SHF_COMPRESSED, or GNU's older .zdebug form).
func (f *File) Data(section *Section) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			data, err = nil, fmt.Errorf("read section %s: malformed file: %v", section.Name, r)
		}
	}()
	if section.Type == elf.SHT_NOBITS {
		return nil, fmt.Errorf("read section %s: it has no contents in this file", section.Name)
	}
	if section.Offset > uint64(f.size) || section.FileSize > uint64(f.size)-section.Offset {
		return nil, fmt.Errorf("read section %s: it ends past the end of the file", section.Name)
	}
	if section.Size > MaxSection || section.FileSize > MaxSection {
		return nil, fmt.Errorf("read section %s: %d bytes exceed the limit of %d", section.Name, section.Size, uint64(MaxSection))
	}
	if section.Flags&elf.SHF_COMPRESSED != 0 {
		if section.Size > section.FileSize*maxCompressionRatio {
			return nil, fmt.Errorf("read section %s: implausible compression of %d to %d bytes", section.Name, section.Size, section.FileSize)
		}
		data, err = f.raw.Sections[section.index].Data()
	} else {
		data, err = f.Bytes(int64(section.Offset), int64(section.FileSize))
	}
	if err != nil {
		return nil, fmt.Errorf("read section %s: %w", section.Name, err)
	}
	if len(section.Name) > 7 && section.Name[:7] == ".zdebug" {
		if data, err = inflateGNU(data); err != nil {
			return nil, fmt.Errorf("read section %s: %w", section.Name, err)
		}
	}
	return data, nil
}

// inflateGNU decompresses a .zdebug section: "ZLIB", the size as a big-endian
// 64-bit number, and a zlib stream (binutils, bfd/compress.c).
func inflateGNU(data []byte) ([]byte, error) {
	if len(data) < 12 || string(data[:4]) != "ZLIB" {
		return data, nil
	}
	size := binary.BigEndian.Uint64(data[4:12])
	if size > MaxSection || size > uint64(len(data))*maxCompressionRatio {
		return nil, fmt.Errorf("implausible uncompressed size %d", size)
	}
	stream, err := zlib.NewReader(bytes.NewReader(data[12:]))
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	out := make([]byte, size)
	if _, err := io.ReadFull(stream, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Bytes returns length bytes of the file from off, or an error when the file
// is shorter.
func (f *File) Bytes(off, length int64) ([]byte, error) {
	if off < 0 || length < 0 || off > f.size || length > f.size-off {
		return nil, fmt.Errorf("read %d bytes at %d: %w", length, off, io.ErrUnexpectedEOF)
	}
	if length > MaxSection {
		return nil, fmt.Errorf("read %d bytes at %d: over the limit of %d", length, off, int64(MaxSection))
	}
	data := make([]byte, length)
	if _, err := f.reader.ReadAt(data, off); err != nil && !(err == io.EOF && length == 0) {
		return nil, err
	}
	return data, nil
}

// Vaddr converts a file offset to the ELF address it is loaded at; ok is
// false where no PT_LOAD segment covers it. An executable segment wins where
// two segments share a page of the file.
func (f *File) Vaddr(off uint64) (vaddr uint64, ok bool) {
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_LOAD && off >= prog.Off && off-prog.Off < prog.Filesz {
			vaddr, ok = off-prog.Off+prog.Vaddr, true
			if prog.Flags&elf.PF_X != 0 {
				return vaddr, true
			}
		}
	}
	return vaddr, ok
}

// Offset converts an ELF address to a file offset; ok is false where no
// PT_LOAD segment holds its bytes.
func (f *File) Offset(vaddr uint64) (off uint64, ok bool) {
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_LOAD && vaddr >= prog.Vaddr && vaddr-prog.Vaddr < prog.Filesz {
			return vaddr - prog.Vaddr + prog.Off, true
		}
	}
	return 0, false
}

// BuildID returns the GNU build ID in hexadecimal, or "" where the file has
// none. It is found through the PT_NOTE segments, which survive stripping.
func (f *File) BuildID() string {
	for _, prog := range f.Progs {
		if prog.Type != elf.PT_NOTE {
			continue
		}
		if id := f.buildIDNote(prog.Off, prog.Filesz); id != "" {
			return id
		}
	}
	// Relocatable and separate debug files may keep only the section.
	for _, section := range f.Sections {
		if section.Type == elf.SHT_NOTE {
			if id := f.buildIDNote(section.Offset, section.FileSize); id != "" {
				return id
			}
		}
	}
	return ""
}

// buildIDNote looks for NT_GNU_BUILD_ID in the notes at off.
func (f *File) buildIDNote(off, size uint64) string {
	const maxNotes, maxID = 1 << 16, 64
	if size > maxNotes || off > uint64(f.size) {
		return ""
	}
	data, err := f.Bytes(int64(off), int64(size))
	if err != nil {
		return ""
	}
	for len(data) >= 12 {
		nameSize := f.ByteOrder.Uint32(data)
		descSize := f.ByteOrder.Uint32(data[4:])
		kind := f.ByteOrder.Uint32(data[8:])
		data = data[12:]
		name, rest, ok := cutAligned(data, nameSize)
		if !ok {
			return ""
		}
		desc, rest, ok := cutAligned(rest, descSize)
		if !ok {
			return ""
		}
		const noteGNUBuildID = 3
		if kind == noteGNUBuildID && string(name) == "GNU\x00" && len(desc) > 0 && len(desc) <= maxID {
			return hex.EncodeToString(desc)
		}
		data = rest
	}
	return ""
}

// cutAligned splits size bytes off data and skips the padding to 4 bytes.
func cutAligned(data []byte, size uint32) (field, rest []byte, ok bool) {
	if uint64(size) > uint64(len(data)) {
		return nil, nil, false
	}
	aligned := (uint64(size) + 3) &^ 3
	if aligned > uint64(len(data)) {
		aligned = uint64(len(data))
	}
	return data[:size], data[aligned:], true
}

// DebugLink returns the name and CRC-32 of the separate debug file that
// .gnu_debuglink names; ok is false where there is none.
func (f *File) DebugLink() (name string, crc uint32, ok bool) {
	section := f.Section(".gnu_debuglink")
	if section == nil || section.FileSize > 4096 {
		return "", 0, false
	}
	data, err := f.Data(section)
	if err != nil {
		return "", 0, false
	}
	end := bytes.IndexByte(data, 0)
	crcAt := (end + 4) &^ 3
	if end <= 0 || crcAt+4 > len(data) {
		return "", 0, false
	}
	return string(data[:end]), f.ByteOrder.Uint32(data[crcAt:]), true
}

// AltLink returns the path and the build ID in hexadecimal of the
// supplementary debug file that .gnu_debugaltlink names (DWARF deduplicated by
// dwz); ok is false where there is none.
func (f *File) AltLink() (path, buildID string, ok bool) {
	section := f.Section(".gnu_debugaltlink")
	if section == nil || section.FileSize > 4096 {
		return "", "", false
	}
	data, err := f.Data(section)
	if err != nil {
		return "", "", false
	}
	end := bytes.IndexByte(data, 0)
	if end <= 0 || end+1 == len(data) {
		return "", "", false
	}
	return string(data[:end]), hex.EncodeToString(data[end+1:]), true
}

// Raw gives the underlying debug/elf file to parsers of that package's
// formats (symbol tables, DWARF). Callers must recover from its panics.
func (f *File) Raw() *elf.File { return f.raw }
