package unwind

import (
	"fmt"
	"strings"
)

// CFAKind tells how the canonical frame address of a row is computed. The
// numbers are shared with the kernel's unwinder.
type CFAKind uint8

const (
	// CFANone has no rule: the walk stops with StopNoRule.
	CFANone CFAKind = iota
	// CFASP is cfa = sp + CFAOff.
	CFASP
	// CFAFP is cfa = fp + CFAOff.
	CFAFP
	// CFAReg is cfa = Reg + CFAOff. RBX is known in every frame, the other
	// registers only in the leaf and right after a signal frame.
	CFAReg
	// CFADerefFP is cfa = *(fp + CFAOff).
	CFADerefFP
	// CFADerefSP is cfa = *(sp + CFAOff) + Off2.
	CFADerefSP
	// CFAPLT is cfa = sp + 8 + (pc&15 >= 11 ? 8 : 0), the rule of a lazy
	// procedure linkage table: the second instruction of an entry is a push.
	CFAPLT
	// CFASignal restores all registers from the rt_sigframe at sp.
	CFASignal
	// CFAStop marks the outermost frame: the stack is complete.
	CFAStop
	// CFAChain follows the frame pointer where there is no call frame
	// information: (sp, fp, pc) = (fp+16, *fp, *(fp+8)). The frame pointer
	// must be plausible: 8-aligned and at most chainReach above sp.
	CFAChain
	// CFAGoSwitch is CFAChain where Go has changed to another stack, so fp
	// need not lie above sp: (sp, fp, pc) = (fp+CFAOff, *fp, *(fp+8)). CFAOff
	// is 16 on amd64; on arm64 it depends on the frame.
	CFAGoSwitch
)

// RegKind tells where a register of the caller is found.
type RegKind uint8

const (
	// RegSame: the register is unchanged.
	RegSame RegKind = iota
	// RegAtCFA: saved at cfa + offset.
	RegAtCFA
	// RegAtFP: saved at fp + offset; used for FP only.
	RegAtFP
	// RegUndefined: not recoverable. For RA it marks the outermost frame.
	RegUndefined
	// RegInLR: the return address is still in the link register (arm64).
	RegInLR
	// RegInReg: the return address is in the register with the DWARF number
	// RAOff, as in glibc's vfork, whose child must not find it on the stack.
	// It is known in the leaf and right after a signal frame.
	RegInReg
)

// RegUnknown in Rule.Reg with CFAReg names no register: the call frame
// information needs something that no Rule can express, and the walk stops
// with StopUnsupportedCFA.
const RegUnknown = 0xff

// Rule tells how to get from a frame to its caller. It has the layout of
// struct unwind_rule in bpf: 16 bytes, little endian. The zero Rule is "no
// rule".
type Rule struct {
	CFA    CFAKind
	Reg    uint8   // DWARF number of the register when CFA is CFAReg
	FP     RegKind // how the caller's FP is recovered
	RA     RegKind // how the return address is recovered
	CFAOff int32   // bytes
	FPOff  int16   // bytes from the CFA (RegAtCFA) or from FP (RegAtFP)
	RAOff  int16   // bytes from the CFA, or a register's number (RegInReg)
	BXOff  int16   // amd64: RBX is saved at CFA+BXOff; 0 means unchanged
	Off2   int16   // bytes, second addend of CFADerefSP
}

// unsupported is the rule of code whose frames no Rule can express.
func unsupported() Rule { return Rule{CFA: CFAReg, Reg: RegUnknown} }

// String writes the rule as equations, such as
// "cfa=sp+16 fp=*(cfa-16) ra=*(cfa-8)".
func (r Rule) String() string {
	var b strings.Builder
	switch r.CFA {
	case CFANone:
		return "none"
	case CFASignal:
		return "signal"
	case CFAStop:
		return "stop"
	case CFAChain:
		return "chain"
	case CFAGoSwitch:
		return fmt.Sprintf("goswitch%+d", r.CFAOff)
	case CFASP:
		fmt.Fprintf(&b, "cfa=sp%+d", r.CFAOff)
	case CFAFP:
		fmt.Fprintf(&b, "cfa=fp%+d", r.CFAOff)
	case CFAReg:
		if r.Reg == RegUnknown {
			return "unsupported"
		}
		fmt.Fprintf(&b, "cfa=r%d%+d", r.Reg, r.CFAOff)
	case CFADerefFP:
		fmt.Fprintf(&b, "cfa=*(fp%+d)", r.CFAOff)
	case CFADerefSP:
		fmt.Fprintf(&b, "cfa=*(sp%+d)%+d", r.CFAOff, r.Off2)
	case CFAPLT:
		b.WriteString("cfa=plt")
	default:
		fmt.Fprintf(&b, "cfa=kind%d", r.CFA)
	}
	switch r.FP {
	case RegAtCFA:
		fmt.Fprintf(&b, " fp=*(cfa%+d)", r.FPOff)
	case RegAtFP:
		fmt.Fprintf(&b, " fp=*(fp%+d)", r.FPOff)
	}
	if r.BXOff != 0 {
		fmt.Fprintf(&b, " bx=*(cfa%+d)", r.BXOff)
	}
	switch r.RA {
	case RegAtCFA:
		fmt.Fprintf(&b, " ra=*(cfa%+d)", r.RAOff)
	case RegInLR:
		b.WriteString(" ra=lr")
	case RegInReg:
		fmt.Fprintf(&b, " ra=r%d", r.RAOff)
	case RegUndefined:
		b.WriteString(" ra=undefined")
	}
	return b.String()
}
