// Package dwarf answers one question about DWARF 2 to 5 debug information,
// quickly: which functions, inlined ones included, and which source lines an
// address belongs to. It reads units when an address in them is looked up, and
// keeps little of them. Nothing it is given makes it panic or loop.
package dwarf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Sections are the contents of the debug sections; absent ones are nil. They
// are not copied and must stay valid while the Data is in use.
type Sections struct {
	Info, Abbrev, Str, LineStr, StrOffsets, Addr, Ranges, Rnglists, Line []byte
}

// Options bound a Data.
type Options struct {
	// CodeLow and CodeHigh are the ELF addresses that hold code. Functions
	// outside were discarded by the linker, which leaves their addresses at 0
	// or another impossible place. CodeHigh 0 means no bound.
	CodeLow, CodeHigh uint64
	// Supplementary is the file that DW_FORM_GNU_ref_alt and DW_FORM_ref_sup
	// refer to (written by dwz); may be nil.
	Supplementary *Data
	// Memory bounds the bytes kept for lookups to come; 0 means 64 MiB.
	Memory int
}

// defaultMemory is what a few thousand units of C++ in use need.
const defaultMemory = 64 << 20

// Data is the debug information of one file. It is not safe for concurrent
// use.
type Data struct {
	sections Sections
	code     addrRange
	sup      *Data
	memory   int

	units     []unit       // by offset
	indexed   bool         // owners is filled
	owners    []rangeOwner // by low
	ownerHigh []uint64     // greatest end of owners[:i+1]
	rangeless []int32      // units that do not tell their addresses

	abbrevTables map[abbrevKey]*abbrevTable
	lineTables   map[uint64]*lineTable
	entities     map[dieRef]*Entity
	strings      map[uint64]string
	light        int    // bytes held by entities, strings and bodies of functions
	heavy        int    // bytes held by the indexes, lines and abbreviations of units
	clock        uint64 // counts lookups

	scratch    []addrRange
	nodeRanges []nodeRange
	nodeStack  []int32
	chain      []inlined
}

// ErrNoInfo reports that there is no debug information.
var ErrNoInfo = errors.New("no DWARF debug information")

// New reads the headers of the units.
func New(sections Sections, options Options) (*Data, error) {
	if len(sections.Info) == 0 || len(sections.Abbrev) == 0 {
		return nil, ErrNoInfo
	}
	if len(sections.Info) > math.MaxInt32 {
		return nil, fmt.Errorf("%d bytes of .debug_info exceed the limit of 2 GiB", len(sections.Info))
	}
	d := &Data{sections: sections, sup: options.Supplementary, memory: options.Memory}
	d.code = addrRange{options.CodeLow, options.CodeHigh}
	if d.code.high == 0 {
		d.code.high = math.MaxUint64
	}
	if d.memory <= 0 {
		d.memory = defaultMemory
	}
	if d.sup != nil && d.sup.sup != nil {
		return nil, errors.New("supplementary debug information has a supplement itself")
	}
	if err := d.parseUnits(); err != nil {
		return nil, err
	}
	return d, nil
}

// Frame is one function active at an address.
type Frame struct {
	Function *Entity // nil when only the line is known
	File     string  // path as the compiler saw it; "" when unknown
	Line     int     // 0 when the code belongs to no line
	Column   int     // 0 when unknown
}

// Lookup appends the functions active at pc, the innermost first, and returns
// dst unchanged when nothing is known.
func (d *Data) Lookup(dst []Frame, pc uint64) []Frame {
	d.clock++
	if !d.indexed {
		d.indexUnits()
		d.indexed = true
	}
	if d.light > d.memory/4 {
		d.evictLight()
	}
	if d.heavy > d.memory/4*3 {
		d.evictHeavy()
	}
	n := len(dst)
	find := func(u *unit) bool {
		u.used = d.clock
		f := d.functionAt(u, pc)
		if f == nil {
			return false
		}
		dst = d.appendFrames(dst, u, f, pc)
		return true
	}
	if d.unitsOf(pc, find) {
		return dst
	}
	if len(d.rangeless) > 0 {
		d.indexRangeless()
		if d.unitsOf(pc, find) {
			return dst
		}
	}
	// Assembler sources may have lines but no functions.
	d.unitsOf(pc, func(u *unit) bool {
		if lines := d.linesOf(u); lines != nil {
			if row, ok := lines.find(pc); ok && row.line != 0 {
				dst = append(dst, Frame{File: d.path(u, lines, row.file), Line: int(row.line), Column: int(row.column)})
			}
		}
		return len(dst) > n
	})
	return dst
}

// appendFrames adds the functions inlined at pc and the function itself. The
// line table places the innermost; each other frame is where the next inner one
// was called from.
func (d *Data) appendFrames(dst []Frame, u *unit, f *function, pc uint64) []Frame {
	chain := d.inlinedAt(u, f, pc)
	var at Frame
	lines := d.linesOf(u)
	if lines != nil {
		if row, ok := lines.find(pc); ok {
			at = Frame{File: d.path(u, lines, row.file), Line: int(row.line), Column: int(row.column)}
		}
	}
	for i := len(chain) - 1; i >= 0; i-- {
		node := &chain[i]
		if node.origin != noDIE {
			at.Function = d.entity(node.origin)
		} else {
			at.Function = &Entity{}
		}
		dst = append(dst, at)
		at = Frame{Line: int(node.callLine), Column: int(node.callCol)}
		if lines != nil {
			at.File = d.path(u, lines, node.callFile)
		}
	}
	at.Function = d.entity(dieRef(f.die))
	return append(dst, at)
}

// parseAfter is the number of lookups in a function that warrant parsing all of
// its body.
const parseAfter = 16

// inlinedAt returns the inlined subroutines around pc, the outermost first. The
// result is valid until the next call.
func (d *Data) inlinedAt(u *unit, f *function, pc uint64) []inlined {
	d.chain = d.chain[:0]
	if f.body == nil && f.hits < parseAfter {
		f.hits++
		d.chain = d.walkBody(d.chain, u, f, pc)
		return d.chain
	}
	if f.body == nil {
		f.body = d.parseBody(u, f)
		d.light += 96 + 20*len(f.body.nodes) + 8*len(f.body.segments)
	}
	for n := f.body.at(pc); n >= 0; n = f.body.nodes[n].parent {
		d.chain = append(d.chain, f.body.nodes[n])
	}
	slices.Reverse(d.chain)
	return d.chain
}

// evictLight forgets what is quickly read again.
func (d *Data) evictLight() {
	d.entities, d.strings = nil, nil
	for i := range d.units {
		if index := d.units[i].functions; index != nil {
			for j := range index.functions {
				index.functions[j].body, index.functions[j].hits = nil, 0
			}
		}
	}
	d.light = 0
}

// evictHeavy forgets the units that were not looked up lately, down to half of
// the memory allowed.
func (d *Data) evictHeavy() {
	var held []*unit
	for i := range d.units {
		if u := &d.units[i]; u.functions != nil || u.lines != nil || u.table != nil {
			held = append(held, u)
		}
	}
	slices.SortFunc(held, func(a, b *unit) int { return cmp.Compare(b.used, a.used) })
	d.abbrevTables = make(map[abbrevKey]*abbrevTable)
	d.lineTables = make(map[uint64]*lineTable)
	d.heavy = 0
	for _, u := range held {
		if d.heavy > d.memory/2 {
			u.functions, u.lines, u.table, u.scopes, u.cost = nil, nil, nil, nil, 0
			continue
		}
		d.heavy += u.cost
		if u.lines != nil && d.lineTables[u.stmtList] == nil {
			d.lineTables[u.stmtList] = u.lines
			d.heavy += u.lines.cost
		}
		if key := (abbrevKey{u.abbrevOff, u.enc}); u.table != nil && d.abbrevTables[key] == nil {
			d.abbrevTables[key] = u.table
			d.heavy += u.table.cost
		}
	}
}
