package unwind

// maxCode bounds the bytes of code of one FDE.
const maxCode = 1 << 40

// span is the code of one function with its rows. Where spans overlap the
// lower rank wins.
type span struct {
	start, end  uint64 // vaddr
	first, rows uint32 // into compiler.rows
	rank        rank
}

// rank orders the sources of rows by how far they are trusted.
type rank uint8

const (
	rankSpecial    rank = iota // functions whose frames are known by name
	rankGo                     // pclntab
	rankEHFrame                // .eh_frame
	rankDebugFrame             // .debug_frame
	rankHost                   // C code linked by Go, which keeps no rows of it
)

// compiler turns functions into spans of rows. A row here is the offset from
// the start of its span shifted left by 16, and the index of its rule.
type compiler struct {
	rules *RuleSet
	rows  []uint64
	spans []span
	cache [2048]cachedRule
	full  bool // the RuleSet had no room for a rule
}

// cachedRule is a slot of the direct-mapped cache from state to rule index.
type cachedRule struct {
	state Rule
	index uint16
	valid bool
}

// index interns the rule that state stands for.
func (c *compiler) index(state Rule) uint16 {
	lo := uint64(state.CFA) | uint64(state.Reg)<<8 | uint64(state.FP)<<16 | uint64(state.RA)<<24 | uint64(uint32(state.CFAOff))<<32
	hi := uint64(uint16(state.FPOff)) | uint64(uint16(state.RAOff))<<16 | uint64(uint16(state.BXOff))<<32 | uint64(uint16(state.Off2))<<48
	// Fibonacci hashing: the high bits of the product depend on all bits.
	hash := (lo*0x9e3779b97f4a7c15 ^ hi) * 0x9e3779b97f4a7c15
	slot := &c.cache[hash>>53]
	if slot.state == state && slot.valid {
		return slot.index
	}
	index, ok := c.rules.Index(normalize(state))
	if !ok {
		c.full = true
		return 0
	}
	*slot = cachedRule{state: state, index: index, valid: true}
	return index
}

// normalize turns a state of the machine into the Rule that is published, so
// that states which unwind alike share a rule.
func normalize(state Rule) Rule {
	switch {
	case state.CFA == CFAGoSwitch || state.CFA == CFASignal || state.CFA == CFAStop || state.CFA == CFAChain:
		return state
	case state.RA == RegUndefined:
		return Rule{CFA: CFAStop}
	case state.CFA == CFANone:
		return Rule{}
	case state.RA == regLost || state.CFA == CFAReg && state.Reg == RegUnknown:
		return unsupported()
	case state.CFA == CFAPLT:
		state.Reg, state.CFAOff, state.Off2 = 0, 0, 0
	}
	return state
}

// emit appends a row unless it repeats the one before it in the same span.
func (c *compiler) emit(first int, location uint64, index uint16) {
	n := len(c.rows)
	if n > first {
		last := c.rows[n-1]
		if uint16(last) == index {
			return
		}
		if last>>16 == location {
			c.rows = c.rows[:n-1]
			c.emit(first, location, index)
			return
		}
	}
	c.rows = append(c.rows, location<<16|uint64(index))
}

// section compiles all FDEs of a section and returns how many it compiled and
// how many entries it had to skip.
func (c *compiler) section(section frameSection, arch Arch, rank rank, segments []segment) (fdes, skipped int) {
	reader := newFrameReader(section, arch)
	m := &machine{registers: arch.registers(), bases: &reader.section.bases, section: section.data}
	for {
		f, ok := reader.next()
		if !ok {
			return fdes, reader.skipped
		}
		if f.size == 0 || f.size > maxCode || f.start+f.size < f.start || !inSegments(segments, f.start) {
			continue
		}
		fdes++
		c.fde(m, &f, rank)
	}
}

// fde compiles one FDE.
func (c *compiler) fde(m *machine, f *fde, rank rank) {
	first := len(c.rows)
	start, end := f.start, f.start+f.size
	if f.cie.signal {
		// The handler returns to the first instruction of the restorer, and
		// that return address is looked up one byte before itself.
		if start > 0 {
			start--
		}
		c.emit(first, 0, c.index(Rule{CFA: CFASignal}))
		c.add(span{start: start, end: end, rank: rank}, first)
		return
	}
	m.cie = f.cie
	m.state, m.depth = f.cie.initial, 0
	program, offset := f.program, f.offset
	location := uint64(0)
	for pos := 0; pos < len(program); {
		op := program[pos]
		next := location
		switch {
		case op&0xc0 == cfaAdvanceLoc:
			next += uint64(op&0x3f) * m.cie.codeAlign
			pos++
		case op <= cfaAdvanceLoc4 && op != cfaNop || op == cfaMIPSAdvanceLoc8:
			next, pos, _ = m.advance(program, pos, offset, start, location)
		default:
			if pos = m.step(program, pos, offset); pos > len(program) {
				// What follows cannot be trusted, what came before can.
				m.state = Rule{}
			}
			continue
		}
		if pos > len(program) || next >= f.size {
			break
		}
		if next != location {
			c.row(first, location, next, m.state)
			location = next
		}
	}
	c.row(first, location, f.size, m.state)
	c.add(span{start: start, end: end, rank: rank}, first)
}

// row emits the rows for [location, next), where state holds.
func (c *compiler) row(first int, location, next uint64, state Rule) {
	if state.CFA == CFAPLT && state.Reg != pltPush {
		c.plt(first, location, next, state)
		return
	}
	c.emit(first, location, c.index(state))
}

// plt expands a lazy PLT whose entries push elsewhere than CFAPLT assumes
// into two rows an entry.
func (c *compiler) plt(first int, location, next uint64, state Rule) {
	const entry, maxEntries = 16, 1 << 14
	if location%entry != 0 || next-location > entry*maxEntries {
		c.emit(first, location, c.index(unsupported()))
		return
	}
	push := uint64(state.Reg)
	state.CFA, state.Reg, state.CFAOff = CFASP, 0, 8
	before := c.index(state)
	state.CFAOff = 16
	pushed := c.index(state)
	for ; location < next; location += entry {
		c.emit(first, location, before)
		if location+push < next {
			c.emit(first, location+push, pushed)
		}
	}
}

// add records the rows from first on as those of s.
func (c *compiler) add(s span, first int) {
	s.first, s.rows = uint32(first), uint32(len(c.rows)-first)
	c.spans = append(c.spans, s)
}
