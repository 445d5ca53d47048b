package unwind

import "encoding/binary"

// Call frame instructions. DWARF 5, section 7.24; the GNU and vendor ones are
// in the LSB core, "DWARF Extensions", and the AArch64 DWARF document.
const (
	cfaAdvanceLoc1           = 0x02
	cfaAdvanceLoc2           = 0x03
	cfaAdvanceLoc4           = 0x04
	cfaNop                   = 0x00
	cfaSetLoc                = 0x01
	cfaOffsetExtended        = 0x05
	cfaRestoreExtended       = 0x06
	cfaUndefined             = 0x07
	cfaSameValue             = 0x08
	cfaRegister              = 0x09
	cfaRememberState         = 0x0a
	cfaRestoreState          = 0x0b
	cfaDefCFA                = 0x0c
	cfaDefCFARegister        = 0x0d
	cfaDefCFAOffset          = 0x0e
	cfaDefCFAExpression      = 0x0f
	cfaExpression            = 0x10
	cfaOffsetExtendedSf      = 0x11
	cfaDefCFASf              = 0x12
	cfaDefCFAOffsetSf        = 0x13
	cfaValOffset             = 0x14
	cfaValOffsetSf           = 0x15
	cfaValExpression         = 0x16
	cfaMIPSAdvanceLoc8       = 0x1d
	cfaNegateRAStateWithPC   = 0x2c
	cfaNegateRAState         = 0x2d // also DW_CFA_GNU_window_save
	cfaGNUArgsSize           = 0x2e
	cfaGNUNegativeOffsetExtd = 0x2f

	// The high two bits of an opcode byte may hold one of these, with the
	// operand in the low six.
	cfaAdvanceLoc = 0x40
	cfaOffset     = 0x80
	cfaRestore    = 0xc0
)

// regLost is a RegKind that never leaves the compiler: the register is saved
// where a Rule cannot say.
const regLost RegKind = 0x80

// maxRemembered bounds the stack of DW_CFA_remember_state. Compilers use one
// level per early return, in practice one.
const maxRemembered = 16

// machine executes call frame programs. Its state is a Rule whose CFA kind
// is resolved at each instruction, so a row needs no translation.
type machine struct {
	registers
	cie     *cie
	bases   *bases
	section []byte

	state      Rule
	remembered [maxRemembered]packedRule
	depth      int
}

// initialRule is the state before a CIE's instructions.
func (r *registers) initialRule() Rule {
	if r.ra == arm64LR {
		return Rule{RA: RegInLR}
	}
	return Rule{RA: regLost}
}

// initial runs the instructions of a CIE and returns the state they leave.
func (m *machine) initial(program []byte) Rule {
	m.state, m.depth = m.cie.initial, 0
	for pos := 0; pos < len(program); {
		if op := program[pos]; op&0xc0 == cfaAdvanceLoc {
			pos++
			continue
		}
		pos = m.step(program, pos)
	}
	return m.state
}

// step executes the instruction at pos, which is not one of those that
// advance the location, and returns the position after it. An instruction
// that is unknown or malformed returns overrun.
func (m *machine) step(program []byte, pos int) int {
	op := program[pos]
	pos++
	var reg, value uint64
	var signed int64
	switch op & 0xc0 {
	case cfaOffset:
		value, pos = uleb(program, pos)
		m.saved(uint64(op&0x3f), m.factored(value))
		return pos
	case cfaRestore:
		m.restore(uint64(op & 0x3f))
		return pos
	}
	switch op {
	case cfaNop, cfaNegateRAState, cfaNegateRAStateWithPC:
		// Signed return addresses are stripped by mask in every frame.
	case cfaDefCFAOffset:
		value, pos = uleb(program, pos)
		m.setOffset(int64(min(value, 1<<40)))
	case cfaDefCFA:
		reg, pos = uleb(program, pos)
		value, pos = uleb(program, pos)
		m.setRegister(&m.state, reg)
		m.setOffset(int64(min(value, 1<<40)))
	case cfaDefCFARegister:
		reg, pos = uleb(program, pos)
		m.setRegister(&m.state, reg)
	case cfaRememberState:
		if m.depth == maxRemembered {
			return overrun
		}
		m.remembered[m.depth] = m.state.pack()
		m.depth++
	case cfaRestoreState:
		if m.depth == 0 {
			return overrun
		}
		m.depth--
		m.state = m.remembered[m.depth].unpack()
	case cfaOffsetExtended:
		reg, pos = uleb(program, pos)
		value, pos = uleb(program, pos)
		m.saved(reg, m.factored(value))
	case cfaGNUNegativeOffsetExtd:
		reg, pos = uleb(program, pos)
		value, pos = uleb(program, pos)
		m.saved(reg, -m.factored(value))
	case cfaOffsetExtendedSf:
		reg, pos = uleb(program, pos)
		signed, pos = sleb(program, pos)
		m.saved(reg, m.factoredSigned(signed))
	case cfaRestoreExtended:
		reg, pos = uleb(program, pos)
		m.restore(reg)
	case cfaUndefined:
		reg, pos = uleb(program, pos)
		m.undefined(reg)
	case cfaSameValue:
		reg, pos = uleb(program, pos)
		m.same(reg)
	case cfaRegister:
		reg, pos = uleb(program, pos)
		value, pos = uleb(program, pos)
		m.moved(reg, value)
	case cfaDefCFASf:
		reg, pos = uleb(program, pos)
		signed, pos = sleb(program, pos)
		m.setRegister(&m.state, reg)
		m.setOffset(m.factoredSigned(signed))
	case cfaDefCFAOffsetSf:
		signed, pos = sleb(program, pos)
		m.setOffset(m.factoredSigned(signed))
	case cfaDefCFAExpression:
		var expr []byte
		expr, pos = block(program, pos)
		m.defineByExpression(expr)
	case cfaExpression:
		reg, pos = uleb(program, pos)
		var expr []byte
		expr, pos = block(program, pos)
		m.savedByExpression(reg, expr)
	case cfaValOffset, cfaValOffsetSf:
		reg, pos = uleb(program, pos)
		_, pos = uleb(program, pos)
		m.lose(reg)
	case cfaValExpression:
		reg, pos = uleb(program, pos)
		_, pos = block(program, pos)
		m.lose(reg)
	case cfaGNUArgsSize:
		_, pos = uleb(program, pos)
	default:
		return overrun
	}
	return pos
}

// block reads a length and that many bytes.
func block(program []byte, pos int) (data []byte, next int) {
	length, pos := uleb(program, pos)
	if pos > len(program) || length > uint64(len(program)-pos) {
		return nil, overrun
	}
	return program[pos : pos+int(length)], pos + int(length)
}

func (m *machine) factored(value uint64) int64 {
	return int64(min(value, 1<<40)) * m.cie.dataAlign
}

func (m *machine) factoredSigned(value int64) int64 {
	return max(min(value, 1<<40), -1<<40) * m.cie.dataAlign
}

// setOffset sets the offset of the CFA from its register.
func (m *machine) setOffset(off int64) {
	if off != int64(int32(off)) {
		m.state.CFA, m.state.Reg = CFAReg, RegUnknown
		return
	}
	m.state.CFAOff = int32(off)
}

func (m *machine) defineByExpression(expr []byte) {
	rule, push, ok := m.cfaExpression(expr)
	if !ok {
		rule = unsupported()
	}
	if rule.CFA == CFAPLT {
		rule.Reg = push // taken out again by the emitter
	}
	m.state.CFA, m.state.Reg, m.state.CFAOff, m.state.Off2 = rule.CFA, rule.Reg, rule.CFAOff, rule.Off2
}

// saved notes that reg is saved at the CFA plus off.
func (m *machine) saved(reg uint64, off int64) {
	if off != int64(int16(off)) {
		m.lose(reg)
		return
	}
	switch reg {
	case m.ra:
		m.state.RA, m.state.RAOff = RegAtCFA, int16(off)
	case m.fp:
		m.state.FP, m.state.FPOff = RegAtCFA, int16(off)
	case m.bx:
		m.state.BXOff = int16(off)
	}
}

// savedByExpression notes that reg is saved at the address that expr gives.
// GCC describes frames it has realigned that way: `breg6 n`.
func (m *machine) savedByExpression(reg uint64, expr []byte) {
	base, off, pos := baseRegister(expr, 0)
	known := pos == len(expr)
	switch {
	case known && base == m.sp && m.state.CFA == CFASP:
		m.saved(reg, off-int64(m.state.CFAOff))
	case known && base == m.fp && reg == m.fp && off == int64(int16(off)):
		m.state.FP, m.state.FPOff = RegAtFP, int16(off)
	case known && base == m.fp && m.state.CFA == CFAFP:
		m.saved(reg, off-int64(m.state.CFAOff))
	default:
		m.lose(reg)
	}
}

// lose notes that reg is saved where no Rule can say. Without RA the frame is
// unsupported; a lost FP or RBX is taken as unchanged, since few frames
// further out depend on it.
func (m *machine) lose(reg uint64) {
	switch reg {
	case m.ra:
		m.state.RA, m.state.RAOff = regLost, 0
	case m.fp:
		m.state.FP, m.state.FPOff = RegSame, 0
	case m.bx:
		m.state.BXOff = 0
	}
}

func (m *machine) undefined(reg uint64) {
	if reg == m.ra {
		m.state.RA, m.state.RAOff = RegUndefined, 0
		return
	}
	m.lose(reg)
}

func (m *machine) same(reg uint64) {
	if reg == m.ra && m.ra == arm64LR {
		m.state.RA, m.state.RAOff = RegInLR, 0
		return
	}
	m.lose(reg)
}

// moved notes that the caller's reg is in another register.
func (m *machine) moved(reg, to uint64) {
	if reg == to {
		m.same(reg)
		return
	}
	if reg == m.ra && to < 32 {
		m.state.RA, m.state.RAOff = RegInReg, int16(to)
		return
	}
	m.lose(reg)
}

// restore gives reg the rule it had after the CIE's instructions.
func (m *machine) restore(reg uint64) {
	initial := &m.cie.initial
	switch reg {
	case m.ra:
		m.state.RA, m.state.RAOff = initial.RA, initial.RAOff
	case m.fp:
		m.state.FP, m.state.FPOff = initial.FP, initial.FPOff
	case m.bx:
		m.state.BXOff = initial.BXOff
	}
}

// advance reads an instruction that moves the location; ok is false for any
// other instruction. location is the current one, next the one after it, both
// from start; offset is the position of the program in the section.
func (m *machine) advance(program []byte, pos, offset int, start, location uint64) (next uint64, after int, ok bool) {
	var delta uint64
	rest := program[pos+1:]
	switch program[pos] {
	case cfaAdvanceLoc1:
		if len(rest) < 1 {
			return 0, overrun, true
		}
		delta, after = uint64(rest[0]), pos+2
	case cfaAdvanceLoc2:
		if len(rest) < 2 {
			return 0, overrun, true
		}
		delta, after = uint64(binary.LittleEndian.Uint16(rest)), pos+3
	case cfaAdvanceLoc4:
		if len(rest) < 4 {
			return 0, overrun, true
		}
		delta, after = uint64(binary.LittleEndian.Uint32(rest)), pos+5
	case cfaMIPSAdvanceLoc8:
		if len(rest) < 8 {
			return 0, overrun, true
		}
		delta, after = min(binary.LittleEndian.Uint64(rest), maxCode), pos+9
	case cfaSetLoc:
		// The pointer may be relative to its own address, so it is read in
		// place.
		end := offset + len(program)
		value, at, valid := m.bases.pointer(m.section[:end], offset+pos+1, m.cie.encoding)
		if !valid || value-start < location || value-start > maxCode {
			return 0, overrun, true
		}
		return value - start, at - offset, true
	default:
		return 0, pos, false
	}
	return location + delta*m.cie.codeAlign, after, true
}
