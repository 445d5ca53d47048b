package unwind

// DWARF expression operations that occur in call frame information. DWARF 5,
// section 7.7.1.
const (
	opDeref      = 0x06
	opConst1u    = 0x08
	opConst1s    = 0x09
	opAnd        = 0x1a
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opGe         = 0x2a
	opLit0       = 0x30
	opLit31      = 0x4f
	opBreg0      = 0x70
	opBreg31     = 0x8f
	opBregx      = 0x92
)

// pltPush is the offset in a 16-byte lazy PLT entry from which CFAPLT counts
// the pushed relocation index: `jmp *got` is 6 bytes, `push` is 5.
const pltPush = 11

// baseRegister reads "breg n": a register and an addend at pos.
func baseRegister(expr []byte, pos int) (reg uint64, addend int64, next int) {
	if pos >= len(expr) {
		return 0, 0, overrun
	}
	op := expr[pos]
	pos++
	switch {
	case op >= opBreg0 && op <= opBreg31:
		reg = uint64(op - opBreg0)
	case op == opBregx:
		reg, pos = uleb(expr, pos)
	default:
		return 0, 0, overrun
	}
	addend, next = sleb(expr, pos)
	return reg, addend, next
}

// literal reads an operation that pushes a constant.
func literal(expr []byte, pos int) (value int64, next int) {
	if pos >= len(expr) {
		return 0, overrun
	}
	op := expr[pos]
	switch {
	case op >= opLit0 && op <= opLit31:
		return int64(op - opLit0), pos + 1
	case op == opConst1u && pos+1 < len(expr):
		return int64(expr[pos+1]), pos + 2
	case op == opConst1s && pos+1 < len(expr):
		return int64(int8(expr[pos+1])), pos + 2
	}
	return 0, overrun
}

// addend reads what may follow a value to add a constant to it, nothing
// included, up to the end of the expression.
func addend(expr []byte, pos int) (value int64, ok bool) {
	if pos == len(expr) {
		return 0, true
	}
	if pos > len(expr) {
		return 0, false
	}
	if expr[pos] == opPlusUconst {
		unsigned, next := uleb(expr, pos+1)
		return int64(unsigned), next == len(expr) && unsigned < 1<<15
	}
	value, next := literal(expr, pos)
	return value, next == len(expr)-1 && expr[next] == opPlus
}

// cfaExpression recognizes the expressions that compilers, linkers and the
// C library use for the CFA. push is the PLT's threshold, 0 for other
// expressions. ok is false for an expression outside the known forms.
func (r *registers) cfaExpression(expr []byte) (rule Rule, push uint8, ok bool) {
	reg, off, pos := baseRegister(expr, 0)
	if pos > len(expr) || off != int64(int32(off)) {
		return Rule{}, 0, false
	}
	if pos < len(expr) && expr[pos] == opDeref {
		second, ok := addend(expr, pos+1)
		if !ok || second != int64(int16(second)) {
			return Rule{}, 0, false
		}
		switch {
		case reg == r.fp && second == 0:
			return Rule{CFA: CFADerefFP, CFAOff: int32(off)}, 0, true
		case reg == r.sp:
			return Rule{CFA: CFADerefSP, CFAOff: int32(off), Off2: int16(second)}, 0, true
		}
		return Rule{}, 0, false
	}
	if reg == amd64SP && r.sp == amd64SP && off == 8 {
		if push, ok := pltExpression(expr[pos:]); ok {
			return Rule{CFA: CFAPLT}, push, true
		}
	}
	if second, ok := addend(expr, pos); ok && off+second == int64(int32(off+second)) {
		rule := Rule{}
		r.setRegister(&rule, reg)
		rule.CFAOff = int32(off + second)
		return rule, 0, true
	}
	return Rule{}, 0, false
}

// pltExpression recognizes the rest of binutils' expression for lazy PLT
// entries, sp + 8 + (((pc & 15) >= push) << 3): elf_x86_64_eh_frame_lazy_plt
// in bfd/elf64-x86-64.c, where push varies with the form of the entries.
func pltExpression(expr []byte) (push uint8, ok bool) {
	reg, off, pos := baseRegister(expr, 0)
	if reg != amd64RA || off != 0 || pos+7 != len(expr) {
		return 0, false
	}
	rest := expr[pos:]
	if rest[0] != opLit0+15 || rest[1] != opAnd || rest[2] < opLit0+1 || rest[2] > opLit0+15 ||
		rest[3] != opGe || rest[4] != opLit0+3 || rest[5] != opShl || rest[6] != opPlus {
		return 0, false
	}
	return rest[2] - opLit0, true
}

// setRegister makes reg the register of the CFA and leaves the offset.
func (r *registers) setRegister(rule *Rule, reg uint64) {
	rule.Off2 = 0
	switch {
	case reg == r.sp:
		rule.CFA, rule.Reg = CFASP, 0
	case reg == r.fp:
		rule.CFA, rule.Reg = CFAFP, 0
	case reg < 32:
		rule.CFA, rule.Reg = CFAReg, uint8(reg)
	default:
		rule.CFA, rule.Reg = CFAReg, RegUnknown
	}
}
