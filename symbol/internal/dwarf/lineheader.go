package dwarf

import (
	"path"
)

// lineHeader is the header of a line number program.
type lineHeader struct {
	version        uint8
	minInstruction uint8
	maxOps         uint8
	lineBase       int8
	lineRange      uint8
	opcodeBase     uint8
	operands       [256]uint8 // of standard opcodes
	directories    []value    // from index 0 in DWARF 5, else from 1
	files          []lineFile // from index 0 in DWARF 5, else from 1
}

// lineFile is one entry of the file table, read when its path is asked for.
type lineFile struct {
	name      value
	directory uint32
}

// formLineString is DW_FORM_string in the line number section.
const formLineString = 0xfffe

// parseLineHeader reads the header at the cursor and leaves the cursor over
// the program alone.
func (d *Data) parseLineHeader(c *cursor, u *unit, h *lineHeader) bool {
	length, is64 := c.unitLength()
	if c.failed || length > uint64(len(c.data)-c.pos) {
		return false
	}
	c.data = c.data[:c.pos+int(length)]
	version := c.u16()
	if version < 2 || version > 5 {
		return false
	}
	h.version = uint8(version)
	enc := encoding{version: h.version, addrSize: u.enc.addrSize, is64: is64}
	if version >= 5 {
		enc.addrSize = c.u8()
		c.u8() // segment selector size
	}
	headerLength := c.offset(is64)
	if c.failed || headerLength > uint64(len(c.data)-c.pos) {
		return false
	}
	program := c.pos + int(headerLength)
	h.minInstruction = c.u8()
	h.maxOps = 1
	if version >= 4 {
		h.maxOps = c.u8()
	}
	c.u8() // default_is_stmt
	h.lineBase = int8(c.u8())
	h.lineRange = c.u8()
	h.opcodeBase = c.u8()
	if c.failed || h.lineRange == 0 || h.opcodeBase == 0 {
		return false
	}
	for op := 1; op < int(h.opcodeBase); op++ {
		h.operands[op] = c.u8()
	}
	if program < c.pos {
		return false
	}
	tables := cursor{data: c.data[:program], pos: c.pos}
	if version >= 5 {
		h.directories = directoriesOf(tables.entries(enc))
		h.files = tables.entries(enc)
	} else {
		h.parseOldTables(&tables)
	}
	c.pos = program
	return !c.failed
}

func directoriesOf(entries []lineFile) []value {
	directories := make([]value, len(entries))
	for i, e := range entries {
		directories[i] = e.name
	}
	return directories
}

// parseOldTables reads the tables of DWARF 2 to 4. The working directory takes
// index 0 of the directories, and no file does.
func (h *lineHeader) parseOldTables(c *cursor) {
	h.directories = []value{{}}
	for !c.failed && len(h.directories) < maxFilesPerLineHeader {
		at := c.pos
		if c.skipString(); c.pos <= at+1 {
			break
		}
		h.directories = append(h.directories, value{form: formLineString, u: uint64(at)})
	}
	h.files = []lineFile{{}}
	for !c.failed && len(h.files) < maxFilesPerLineHeader {
		at := c.pos
		if c.skipString(); c.pos <= at+1 {
			break
		}
		directory := c.uleb()
		c.uleb() // time of modification
		c.uleb() // length
		h.files = append(h.files, lineFile{value{form: formLineString, u: uint64(at)}, uint32(directory)})
	}
}

// entries reads a directory or file table of DWARF 5 (6.2.4).
func (c *cursor) entries(enc encoding) []lineFile {
	type field struct {
		content uint64
		form    uint16
	}
	var format []field
	for range c.u8() {
		content, form := c.uleb(), c.uleb()
		if form > 0xffff || form == formImplicitConst {
			c.fail()
		}
		format = append(format, field{content, uint16(form)})
	}
	count := c.uleb()
	// Every entry takes a byte at least, unless nothing describes them.
	if c.failed || len(format) == 0 || count > uint64(len(c.data)-c.pos) || count > maxFilesPerLineHeader {
		return nil
	}
	entries := make([]lineFile, 0, count)
	for range count {
		var e lineFile
		for _, f := range format {
			v := c.value(attribute{form: f.form}, enc)
			switch f.content {
			case lnctPath:
				if v.form == formString {
					v.form = formLineString
				}
				e.name = v
			case lnctDirectoryIndex:
				e.directory = uint32(v.u)
			}
		}
		if c.failed {
			break
		}
		entries = append(entries, e)
	}
	return entries
}

// path returns the path of a file of the unit's line table.
func (d *Data) path(u *unit, t *lineTable, file uint32) string {
	if file >= uint32(len(t.header.files)) {
		return ""
	}
	if t.paths == nil {
		t.paths = make([]string, len(t.header.files))
	}
	if t.paths[file] == "" {
		t.paths[file] = d.filePath(u, &t.header, t.header.files[file])
		d.heavy += len(t.paths[file])
	}
	return t.paths[file]
}

// filePath joins the file's name with its directory and the unit's working
// directory as far as they are relative.
func (d *Data) filePath(u *unit, h *lineHeader, f lineFile) string {
	name := string(d.text(u, f.name))
	if name == "" || len(name) > maxPathLength {
		return ""
	}
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	if name == "<built-in>" || name == "<artificial>" {
		return name
	}
	directory := ""
	if f.directory < uint32(len(h.directories)) {
		directory = string(d.text(u, h.directories[f.directory]))
	}
	// In DWARF 5 entry 0 is the working directory itself.
	if !path.IsAbs(directory) && (h.version < 5 || f.directory != 0) {
		directory = path.Join(string(d.text(u, u.compDir)), directory)
	}
	if len(directory) > maxPathLength {
		return name
	}
	return path.Join(directory, name)
}
