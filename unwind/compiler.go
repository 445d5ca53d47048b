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
	order []uint64 // spans by address: see sortSpans
	swap  []uint64
	cache [2048]cachedRule
	full  bool // the RuleSet had no room for a rule
	plts  int  // entries of PLTs expanded by plt
}

// cachedRule is a slot of the direct-mapped cache from state to rule index.
// Index 0 is the zero Rule, so an unused slot needs no mark.
type cachedRule struct {
	state packedRule
	index uint16
}

// packedRule is a Rule in two words, as it lies in memory: the interpreter
// keeps its state in registers that way.
type packedRule struct {
	// lo: CFA, Reg, FP, RA of 8 bits each, CFAOff of 32.
	// hi: FPOff, RAOff, BXOff, Off2 of 16 bits each.
	lo, hi uint64
}

func (r Rule) pack() packedRule {
	return packedRule{
		lo: uint64(r.CFA) | uint64(r.Reg)<<8 | uint64(r.FP)<<16 | uint64(r.RA)<<24 | uint64(uint32(r.CFAOff))<<32,
		hi: uint64(uint16(r.FPOff)) | uint64(uint16(r.RAOff))<<16 | uint64(uint16(r.BXOff))<<32 | uint64(uint16(r.Off2))<<48,
	}
}

func (p packedRule) unpack() Rule {
	return Rule{
		CFA: CFAKind(p.lo), Reg: uint8(p.lo >> 8), FP: RegKind(p.lo >> 16), RA: RegKind(p.lo >> 24), CFAOff: int32(p.lo >> 32),
		FPOff: int16(p.hi), RAOff: int16(p.hi >> 16), BXOff: int16(p.hi >> 32), Off2: int16(p.hi >> 48),
	}
}

// slot returns the number of the cache's slot for p. Fibonacci hashing: the
// high bits of the product depend on all bits.
func (p packedRule) slot() uint64 {
	return (p.lo*0x9e3779b97f4a7c15 ^ p.hi) * 0x9e3779b97f4a7c15 >> 53
}

// index interns the rule that state stands for.
func (c *compiler) index(state Rule) uint16 { return c.packedIndex(state.pack()) }

func (c *compiler) packedIndex(p packedRule) uint16 {
	slot := &c.cache[p.slot()]
	if slot.state == p {
		return slot.index
	}
	index, ok := c.rules.Index(normalize(p.unpack()))
	if !ok {
		c.full = true
		return 0
	}
	*slot = cachedRule{state: p, index: index}
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
	case state.RA == RegInReg && state.CFA != CFASP:
		// longjmp in the middle of its work: the caller's SP is not the CFA.
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

// fde compiles one FDE. This is the hot loop of table building: the state is
// held in two words, the instructions that make up nearly all programs are
// handled here, and machine.step does the others.
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
	m.cie, m.depth = f.cie, 0
	program, offset := f.program, f.offset
	state := f.cie.packed
	fp, ra, bx := m.fp, m.ra, m.bx
	align, data, size := f.cie.codeAlign, f.cie.dataAlign, f.size
	location := uint64(0)
	for pos := 0; pos < len(program); {
		op := program[pos]
		next := location
		switch {
		case op&0xc0 == cfaAdvanceLoc:
			next += uint64(op&0x3f) * align
			pos++
		case op == cfaNop:
			pos++
			continue
		case op == cfaDefCFAOffset && pos+1 < len(program) && program[pos+1] < 0x80:
			state.lo = state.lo&0xffffffff | uint64(program[pos+1])<<32
			pos += 2
			continue
		case op&0xc0 == cfaOffset && pos+1 < len(program) && program[pos+1] < 0x80:
			reg, off := uint64(op&0x3f), int64(program[pos+1])*data
			pos += 2
			if off != int64(int16(off)) {
				m.state = state.unpack()
				m.lose(reg)
				state = m.state.pack()
				continue
			}
			switch reg {
			case fp:
				state.lo = state.lo&^(0xff<<16) | uint64(RegAtCFA)<<16
				state.hi = state.hi&^0xffff | uint64(uint16(off))
			case bx:
				state.hi = state.hi&^(0xffff<<32) | uint64(uint16(off))<<32
			case ra:
				state.lo = state.lo&^(0xff<<24) | uint64(RegAtCFA)<<24
				state.hi = state.hi&^(0xffff<<16) | uint64(uint16(off))<<16
			}
			continue
		case op == cfaAdvanceLoc1 && pos+1 < len(program):
			next += uint64(program[pos+1]) * align
			pos += 2
		case op == cfaRememberState && m.depth < maxRemembered:
			m.remembered[m.depth] = state
			m.depth++
			pos++
			continue
		case op == cfaRestoreState && m.depth > 0:
			m.depth--
			state = m.remembered[m.depth]
			pos++
			continue
		case op <= cfaAdvanceLoc4 || op == cfaMIPSAdvanceLoc8:
			next, pos, _ = m.advance(program, pos, offset, start, location)
		default:
			m.state = state.unpack()
			pos = m.step(program, pos)
			state = m.state.pack()
			if pos > len(program) {
				// What follows cannot be trusted, what came before can.
				state = packedRule{}
			}
			continue
		}
		if pos > len(program) || next >= size {
			break
		}
		if next == location {
			continue
		}
		slot := &c.cache[state.slot()]
		if slot.state != state || CFAKind(state.lo) == CFAPLT {
			c.row(first, location, next, state)
		} else if n := len(c.rows); n == first || uint16(c.rows[n-1]) != slot.index {
			c.rows = append(c.rows, location<<16|uint64(slot.index))
		}
		location = next
	}
	c.row(first, location, size, state)
	c.add(span{start: start, end: end, rank: rank}, first)
}

// row emits the rows for [location, next), where state holds.
func (c *compiler) row(first int, location, next uint64, state packedRule) {
	if CFAKind(state.lo) == CFAPLT && uint8(state.lo>>8) != pltPush {
		c.plt(first, location, next, state.unpack())
		return
	}
	c.emit(first, location, c.packedIndex(state))
}

// plt expands a lazy PLT whose entries push elsewhere than CFAPLT assumes
// into two rows an entry. The entries of a file are limited, since a few bytes
// of a hostile one could claim any number.
func (c *compiler) plt(first int, location, next uint64, state Rule) {
	const entry, maxEntries = 16, 1 << 14
	if location%entry != 0 || next-location > entry*maxEntries || c.plts > maxEntries {
		c.emit(first, location, c.index(unsupported()))
		return
	}
	c.plts += int((next - location) / entry)
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
