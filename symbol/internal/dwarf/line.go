package dwarf

import (
	"cmp"
	"slices"
	"sort"
)

// row is one row of the line number matrix: what applies from addr on.
type row struct {
	addr   uint64
	file   uint32
	line   uint32
	column uint32
}

// checkpoint is the state of the line number program after it emitted a row.
// Lookups run the program again from the checkpoint before the address: a
// table takes a fiftieth of the memory of its rows.
type checkpoint struct {
	row
	pos     uint32 // of the next opcode, from the start of the program
	opIndex uint8
}

// checkpointEvery is the number of rows between checkpoints.
const checkpointEvery = 64

// sequence is a run of rows with rising addresses (DWARF 5, 6.2.5).
type sequence struct {
	addrRange
	first, last int32 // checkpoints [first, last)
}

// lineTable is the line number program of one or more units.
type lineTable struct {
	header      lineHeader
	program     []byte
	checkpoints []checkpoint
	sequences   []sequence // sorted by low
	high        []uint64   // greatest end of sequences[:i+1]
	paths       []string   // by file index; filled by Data.path
	cost        int        // bytes held
}

// linesOf returns the line table of a unit, or nil.
func (d *Data) linesOf(u *unit) *lineTable {
	if u.lines != nil || !u.hasLines {
		return u.lines
	}
	if t, ok := d.lineTables[u.stmtList]; ok {
		u.lines = t
		return t
	}
	t := d.parseLines(u)
	if d.lineTables == nil {
		d.lineTables = make(map[uint64]*lineTable)
	}
	if t == nil {
		u.hasLines = false
		return nil
	}
	d.lineTables[u.stmtList] = t
	t.cost = 256 + 32*len(t.checkpoints) + 32*len(t.sequences) + 24*len(t.header.files)
	d.heavy += t.cost
	u.lines = t
	return t
}

// parseLines reads the header and runs the program once.
func (d *Data) parseLines(u *unit) *lineTable {
	if u.stmtList > uint64(len(d.sections.Line)) {
		return nil
	}
	c := cursor{data: d.sections.Line, pos: int(u.stmtList)}
	t := &lineTable{}
	if !d.parseLineHeader(&c, u, &t.header) {
		return nil
	}
	t.program = c.data[c.pos:]
	if len(t.program) > 1<<31 {
		return nil
	}
	m := lineMachine{header: &t.header, program: t.program}
	m.reset()
	var open sequence
	started, count := false, 0
	for m.step() {
		if m.ended {
			open.high = m.row.addr
			open.last = int32(len(t.checkpoints))
			if started && open.low < open.high && open.low >= d.code.low && open.low < d.code.high {
				t.sequences = append(t.sequences, open)
			} else if started {
				t.checkpoints = t.checkpoints[:open.first]
			}
			started = false
			m.reset()
			continue
		}
		if !started {
			started, count = true, 0
			open = sequence{first: int32(len(t.checkpoints))}
			open.low = m.row.addr
		}
		if count%checkpointEvery == 0 {
			t.checkpoints = append(t.checkpoints, checkpoint{m.row, uint32(m.pos), m.opIndex})
		}
		count++
	}
	slices.SortStableFunc(t.sequences, func(a, b sequence) int { return cmp.Compare(a.low, b.low) })
	t.high = make([]uint64, len(t.sequences))
	var high uint64
	for i, s := range t.sequences {
		high = max(high, s.high)
		t.high[i] = high
	}
	return t
}

// find returns the row that covers pc: the last one at or before it within its
// sequence.
func (t *lineTable) find(pc uint64) (found row, ok bool) {
	i := sort.Search(len(t.sequences), func(i int) bool { return t.sequences[i].low > pc })
	for steps := 0; i > 0 && t.high[i-1] > pc && steps < maxOverlap; steps++ {
		i--
		if t.sequences[i].high > pc {
			return t.findIn(t.sequences[i], pc)
		}
	}
	return row{}, false
}

func (t *lineTable) findIn(s sequence, pc uint64) (found row, ok bool) {
	points := t.checkpoints[s.first:s.last]
	i := sort.Search(len(points), func(i int) bool { return points[i].addr > pc })
	if i == 0 {
		return row{}, false
	}
	start := points[i-1]
	m := lineMachine{header: &t.header, program: t.program, row: start.row, pos: int(start.pos), opIndex: start.opIndex}
	found = start.row
	for range checkpointEvery {
		if !m.step() || m.ended || m.row.addr > pc {
			break
		}
		found = m.row
	}
	return found, true
}

// lineMachine is the state machine of line number programs (DWARF 5, 6.2.2).
type lineMachine struct {
	header  *lineHeader
	program []byte
	row     row
	pos     int
	opIndex uint8
	ended   bool // the row just emitted ends its sequence
}

func (m *lineMachine) reset() {
	m.row = row{file: 1, line: 1}
	m.opIndex = 0
	m.ended = false
}

// step runs the program until it emits a row; false at its end.
func (m *lineMachine) step() bool {
	h := m.header
	for m.pos < len(m.program) {
		op := m.program[m.pos]
		m.pos++
		if op >= h.opcodeBase {
			adjusted := op - h.opcodeBase
			m.advance(uint64(adjusted / h.lineRange))
			m.row.line += uint32(int32(h.lineBase) + int32(adjusted%h.lineRange))
			return true
		}
		c := cursor{data: m.program, pos: m.pos}
		emitted := false
		switch op {
		case 0:
			emitted = m.extended(&c)
		case lnsCopy:
			emitted = true
		case lnsAdvancePC:
			m.advance(c.uleb())
		case lnsAdvanceLine:
			m.row.line += uint32(c.sleb())
		case lnsSetFile:
			m.row.file = uint32(c.uleb())
		case lnsSetColumn:
			m.row.column = uint32(c.uleb())
		case lnsConstAddPC:
			m.advance(uint64((255 - h.opcodeBase) / h.lineRange))
		case lnsFixedAdvancePC:
			m.row.addr += uint64(c.u16())
			m.opIndex = 0
		default:
			// The others change nothing the reader reports; what is unknown
			// has its number of operands in the header.
			for range h.operands[op] {
				c.uleb()
			}
		}
		m.pos = c.pos
		if c.failed {
			return false
		}
		if emitted {
			return true
		}
	}
	return false
}

// extended runs an extended opcode and reports whether it emitted a row.
func (m *lineMachine) extended(c *cursor) bool {
	length := c.uleb()
	start := c.pos
	if length == 0 || length > uint64(len(c.data)-start) {
		c.fail()
		return false
	}
	end := start + int(length)
	switch c.u8() {
	case lneEndSequence:
		m.ended = true
	case lneSetAddress:
		m.row.addr = c.uint(uint8(min(length-1, 255)))
		m.opIndex = 0
	}
	c.pos = end
	return m.ended
}

// advance moves the address by a number of operations.
func (m *lineMachine) advance(operations uint64) {
	h := m.header
	if h.maxOps <= 1 {
		m.row.addr += operations * uint64(h.minInstruction)
		return
	}
	total := uint64(m.opIndex) + operations
	m.row.addr += uint64(h.minInstruction) * (total / uint64(h.maxOps))
	m.opIndex = uint8(total % uint64(h.maxOps))
}
