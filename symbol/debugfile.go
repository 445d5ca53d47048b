package symbol

import (
	"bytes"
	"debug/elf"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// findDebugFiles decides which file DWARF is read from: the binary itself, or
// a separate file found by build ID or .gnu_debuglink.
func (b *Binary) findDebugFiles() {
	if hasDWARF(b.file) {
		b.debug = b.file
		return
	}
	b.separate = b.openByBuildID(b.buildID)
	if b.separate == nil {
		b.separate = b.openByLink()
	}
	if b.separate == nil {
		return
	}
	b.owned = append(b.owned, b.separate)
	if hasDWARF(b.separate) {
		b.debug = b.separate
	}
}

// maxInflated bounds the memory that compressed debug sections may take, all
// together. Larger ones are not used: objcopy --decompress-debug-sections makes
// a file that is mapped instead.
const maxInflated = 1 << 30

// hasDWARF reports whether a file has debug information that can be used.
func hasDWARF(file *safeelf.File) bool {
	found, inflated := false, uint64(0)
	for i := range file.Sections {
		s := &file.Sections[i]
		if s.Type == elf.SHT_NOBITS || !strings.HasPrefix(s.Name, ".debug_") && !strings.HasPrefix(s.Name, ".zdebug_") {
			continue
		}
		if s.Name == ".debug_info" || s.Name == ".zdebug_info" {
			found = true
		}
		if s.Flags&elf.SHF_COMPRESSED != 0 && s.Name != ".debug_loclists" && s.Name != ".debug_loc" {
			inflated += s.Size
		}
	}
	return found && inflated <= maxInflated
}

// openByBuildID opens .build-id/ab/cdef.debug below the debug directories.
func (b *Binary) openByBuildID(id string) *safeelf.File {
	if len(id) < 4 {
		return nil
	}
	for _, dir := range b.options.DebugDirs {
		file := openMatching(filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug"), id)
		if file != nil {
			return file
		}
	}
	return nil
}

// openMatching opens a file that has a build ID.
func openMatching(path, id string) *safeelf.File {
	file, err := safeelf.Open(path)
	if err != nil {
		return nil
	}
	if file.BuildID() != id {
		file.Close()
		return nil
	}
	return file
}

// openByLink opens the file that .gnu_debuglink names, in the places GDB's
// manual lists ("Separate Debug Files").
func (b *Binary) openByLink() *safeelf.File {
	name, crc, ok := b.file.DebugLink()
	if !ok || b.options.Path == "" {
		return nil
	}
	// Only a name: a binary must not make a privileged reader open any path.
	if name = filepath.Base(name); name == "." || name == "/" {
		return nil
	}
	path, err := filepath.Abs(b.options.Path)
	if err != nil {
		return nil
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	dir := filepath.Dir(path)
	candidates := []string{filepath.Join(dir, name), filepath.Join(dir, ".debug", name)}
	for _, debugDir := range b.options.DebugDirs {
		candidates = append(candidates, filepath.Join(debugDir, dir, name))
	}
	for _, candidate := range candidates {
		if file := b.openLinked(candidate, crc); file != nil {
			return file
		}
	}
	return nil
}

// openLinked opens a file that belongs to the binary: by its build ID when both
// have one, else by the CRC that the link holds.
func (b *Binary) openLinked(path string, crc uint32) *safeelf.File {
	file, err := safeelf.Open(path)
	if err != nil {
		return nil
	}
	if id := file.BuildID(); id != "" && b.buildID != "" {
		if id == b.buildID {
			return file
		}
	} else if sum, err := checksum(path); err == nil && sum == crc {
		return file
	}
	file.Close()
	return nil
}

// checksum returns the CRC-32 (IEEE) of a file.
func checksum(path string) (uint32, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, file); err != nil {
		return 0, err
	}
	return sum.Sum32(), nil
}

// openSupplementary opens the file dwz moved shared debug information to, when
// it is below a debug directory or beside the debug file.
func (b *Binary) openSupplementary(debug *safeelf.File) *safeelf.File {
	path, id, ok := debug.AltLink()
	if !ok {
		return nil
	}
	var candidates []string
	if filepath.IsAbs(path) {
		for _, dir := range b.options.DebugDirs {
			if rest, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rest) {
				candidates = append(candidates, path)
			}
		}
	} else {
		for _, dir := range b.options.DebugDirs {
			if len(b.buildID) > 2 {
				candidates = append(candidates, filepath.Join(dir, ".build-id", b.buildID[:2], path))
			}
		}
	}
	if b.options.Path != "" {
		candidates = append(candidates, filepath.Join(filepath.Dir(b.options.Path), filepath.Base(path)))
	}
	for _, candidate := range candidates {
		if file := openMatching(candidate, id); file != nil {
			b.owned = append(b.owned, file)
			return file
		}
	}
	if file := b.openByBuildID(id); file != nil {
		b.owned = append(b.owned, file)
		return file
	}
	return nil
}

// maxMiniDebugInfo bounds what .gnu_debugdata may inflate to.
const maxMiniDebugInfo = 128 << 20

// openMiniDebugInfo opens the ELF file with a symbol table that distributions
// of the Red Hat family put, compressed, into .gnu_debugdata.
func openMiniDebugInfo(file *safeelf.File) *safeelf.File {
	section := file.Section(".gnu_debugdata")
	if section == nil {
		return nil
	}
	data, err := file.View(section)
	if err != nil || !plausibleXZ(data) {
		return nil
	}
	stream, err := xz.ReaderConfig{SingleStream: true}.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	image, err := io.ReadAll(io.LimitReader(stream, maxMiniDebugInfo))
	if err != nil {
		return nil
	}
	mini, err := safeelf.New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		return nil
	}
	return mini
}

// plausibleXZ checks that a stream starts with a block whose dictionary is of
// moderate size: the decoder allocates what the header asks for.
func plausibleXZ(data []byte) bool {
	const streamHeader, maxDictionary = 12, 64 << 20
	if len(data) < streamHeader+12 || !strings.HasPrefix(string(data[:6]), "\xfd7zXZ\x00") {
		return false
	}
	block := data[streamHeader:]
	size := (int(block[0]) + 1) * 4 // 0 would be the index: an empty stream
	if block[0] == 0 || size > len(block) {
		return false
	}
	fields := block[2:size]
	for sizes := block[1] >> 6; sizes > 0; sizes >>= 1 { // compressed, uncompressed size
		if sizes&1 == 0 {
			continue
		}
		n := 0
		for n < len(fields) && fields[n] >= 0x80 {
			n++
		}
		if n+1 > len(fields) {
			return false
		}
		fields = fields[n+1:]
	}
	const lzma2 = 0x21
	if block[1]&3 != 0 || len(fields) < 3 || fields[0] != lzma2 || fields[1] != 1 {
		return false
	}
	bits := uint(fields[2])
	return bits < 40 && uint64(2|bits&1)<<(bits/2+11) <= maxDictionary
}
