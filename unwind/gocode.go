package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/gopclntab"
	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// goCode compiles the functions of a Go program from the stack depths in its
// pclntab. Go's .debug_frame holds no more than that: it says neither where
// the frame pointer is saved nor where the runtime changes stacks.
type goCode struct {
	*compiler
	arch     Arch
	entry    uint64 // vaddr where the process starts
	segments []segment
	text     [][]byte // contents of segments
}

// goFunctions compiles all functions of the pclntab of f, if it has one, and
// returns how many.
func (c *compiler) goFunctions(f *safeelf.File, arch Arch, segments []segment) (int, error) {
	table, err := gopclntab.New(f)
	if errors.Is(err, gopclntab.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	g := goCode{compiler: c, arch: arch, entry: f.Entry, segments: segments}
	for _, s := range segments {
		text, err := f.View(&safeelf.Section{SectionHeader: elf.SectionHeader{
			Name: "of code", Type: elf.SHT_PROGBITS, Offset: s.off, Size: s.size, FileSize: s.size,
		}})
		if err != nil {
			return 0, err
		}
		g.text = append(g.text, text)
	}
	count := 0
	for function := range table.Funcs() {
		if function.End > function.Entry && function.End-function.Entry <= maxCode && inSegments(segments, function.Entry) {
			g.function(function)
			count++
		}
	}
	return count, nil
}

// goFrame is how a function of the Go runtime has to be treated.
type goFrame uint8

const (
	goPlain  goFrame = iota // by stack depth
	goSwitch                // changes stacks in its body, and keeps its frame pointer
	goStop                  // outermost frame of its stack
	goSignal                // returns from a signal handler
)

// classify tells how the frame of a function has to be treated. What the
// frame pointer holds where stacks change is taken from runtime/asm_amd64.s
// and asm_arm64.s.
func (g *goCode) classify(function gopclntab.Func) goFrame {
	if function.Entry == g.entry {
		return goStop
	}
	if function.Flags == 0 {
		return goPlain
	}
	name := strings.TrimSuffix(function.Name(), ".abi0")
	switch name {
	case "runtime.mcall", "runtime.morestack", "runtime.morestack_noctxt",
		"runtime.rt0_go", "_rt0_amd64", "_rt0_arm64", "_rt0_amd64_lib_go", "_rt0_arm64_lib_go":
		// mcall and morestack clear the frame pointer: the goroutine they
		// left may by now run elsewhere.
		return goStop
	case "runtime.sigtramp", "runtime.cgoSigtramp":
		// The top frame for Go, but what the signal interrupted is known.
		return goPlain
	case "gogo":
		// It has no frame of its own, and sp may be that of either stack.
		return goSwitch
	}
	switch {
	case strings.HasPrefix(name, "runtime.sigreturn"):
		return goSignal
	case function.Flags&gopclntab.FlagTopFrame != 0:
		return goStop
	case function.Flags&gopclntab.FlagSPWrite != 0 && g.arch == AMD64 && g.pushesFP(function):
		return goSwitch
	case function.Flags&gopclntab.FlagSPWrite != 0 && g.arch == ARM64 && g.storesLR(function):
		return goSwitch
	}
	return goPlain
}

// function compiles one function.
func (g *goCode) function(function gopclntab.Func) {
	first := len(g.rows)
	kind := g.classify(function)
	s := span{start: function.Entry, end: function.End, rank: rankGo}
	switch {
	case kind == goStop:
		g.emit(first, 0, g.index(Rule{CFA: CFAStop}))
	case kind == goSignal:
		// See fde for why the row starts a byte early.
		s.start--
		s.rank = rankSpecial
		g.emit(first, 0, g.index(Rule{CFA: CFASignal}))
	case g.arch == AMD64:
		g.amd64(first, function, kind)
	default:
		g.arm64(first, function, kind)
	}
	if len(g.rows) == first {
		// A C function that the Go linker has placed here, without its call
		// frame information. Unless it uses the frame pointer, that is still
		// the one of asmcgocall, which called it from the other stack.
		s.rank = rankHost
		g.emit(first, 0, g.index(goSwitchRule(16)))
	}
	g.add(s, first)
}

// amd64 emits the rows of a function. Its frame is, from the top: return
// address, caller's frame pointer, locals; frames of size 0 that call nothing
// save no frame pointer (cmd/internal/obj/x86/obj6.go, preprocess).
func (g *goCode) amd64(first int, function gopclntab.Func, kind goFrame) {
	saved := g.pushesFP(function)
	switchFrom := uint64(0)
	for value := range function.Values(gopclntab.SPDelta) {
		depth := int64(value.Value)
		if depth < 0 || depth > 1<<30 {
			g.emit(first, value.Start-function.Entry, g.index(unsupported()))
			continue
		}
		rule := Rule{CFA: CFASP, CFAOff: int32(depth + 8), RA: RegAtCFA, RAOff: -8}
		if depth >= 8 && saved {
			rule.FP, rule.FPOff = RegAtCFA, -16
			if switchFrom == 0 {
				// `mov rsp, rbp` follows the push.
				switchFrom = value.Start + 3
			}
		}
		switch {
		case kind != goSwitch:
			g.emit(first, value.Start-function.Entry, g.index(rule))
		case !saved:
			g.emit(first, value.Start-function.Entry, g.index(goSwitchRule(16)))
		case depth == 0:
			g.emit(first, value.Start-function.Entry, g.index(rule))
		default:
			if value.Start < switchFrom {
				g.emit(first, value.Start-function.Entry, g.index(rule))
			}
			if at := max(value.Start, switchFrom); at < value.End {
				g.emit(first, at-function.Entry, g.index(goSwitchRule(16)))
			}
		}
	}
}

// goSwitchRule follows the frame pointer to another stack. size is the
// distance from the frame pointer to the caller's stack pointer.
func goSwitchRule(size int64) Rule {
	return Rule{CFA: CFAGoSwitch, CFAOff: int32(size)}
}

// pushesFP reports whether an amd64 function saves the frame pointer right
// below the return address. Assembly may move sp without doing so.
func (g *goCode) pushesFP(function gopclntab.Func) bool {
	for value := range function.Values(gopclntab.SPDelta) {
		if value.Value == 0 {
			continue
		}
		code := g.code(value.Start-1, 9)
		if len(code) < 9 {
			return false
		}
		const pushBP = 0x55
		if value.Value == 8 && code[0] == pushBP {
			return true
		}
		// Before Go 1.21: `sub sp, n`, then `mov [sp+n-8], bp`.
		return bytes.HasPrefix(code[1:], []byte{0x48, 0x89, 0x6c, 0x24, byte(value.Value - 8)}) && value.Value < 0x88 ||
			bytes.HasPrefix(code[1:], binary.LittleEndian.AppendUint32([]byte{0x48, 0x89, 0xac, 0x24}, uint32(value.Value-8)))
	}
	return false
}

// arm64 emits the rows of a function. Its frame is, from the bottom: return
// address at sp, locals; the caller's frame pointer lies in the word below
// sp, and x29 points to it (cmd/internal/obj/arm64/obj7.go, preprocess).
func (g *goCode) arm64(first int, function gopclntab.Func, kind goFrame) {
	frame := g.storesLR(function)
	crosscall := function.Flags&gopclntab.FlagAsm != 0 && function.Name() == "crosscall2"
	prologue := true
	for value := range function.Values(gopclntab.SPDelta) {
		at, depth := value.Start-function.Entry, int64(value.Value)
		rule := Rule{CFA: CFASP, CFAOff: int32(depth), RA: RegInLR}
		switch {
		case kind == goSwitch && !frame:
			g.emit(first, at, g.index(goSwitchRule(16)))
			continue
		case depth < 0 || depth >= 1<<15-8:
			// The offset of the return address from the CFA has 16 bits.
			g.emit(first, at, g.index(unsupported()))
			continue
		case depth > 0 && crosscall:
			// runtime/cgo/asm_arm64.s keeps x29 and x30 at the top.
			rule.RA, rule.RAOff, rule.FP, rule.FPOff = RegAtCFA, -8, RegAtCFA, -16
		case depth > 0 && frame:
			rule.RA, rule.RAOff = RegAtCFA, int16(-depth)
			// The frame pointer is stored by the instruction after the one
			// that moves sp, and changed by the one after that.
			const stored, changed = 4, 8
			if prologue {
				g.emit(first, at, g.index(rule))
				at += stored
			}
			rule.FP, rule.FPOff = RegAtCFA, int16(-depth-8)
			if kind == goSwitch {
				if prologue {
					at += changed - stored
				}
				rule = goSwitchRule(depth + 8)
			}
			prologue = false
			if function.Entry+at >= value.End {
				continue
			}
		}
		g.emit(first, at, g.index(rule))
	}
}

// storesLR reports whether an arm64 function has the standard frame. Assembly
// may move sp without storing the return address there.
func (g *goCode) storesLR(function gopclntab.Func) bool {
	for value := range function.Values(gopclntab.SPDelta) {
		if value.Value == 0 {
			continue
		}
		code := g.code(value.Start-4, 4)
		if len(code) < 4 {
			return false
		}
		instruction := binary.LittleEndian.Uint32(code)
		const (
			storeMask, storeLR = 0xffe00fff, 0xf8000ffe // str x30, [sp, #n]!
			moveSP             = 0x9100029f             // mov sp, x20: large frames
		)
		return instruction&storeMask == storeLR || instruction == moveSP
	}
	return false
}

// code returns n bytes of code at vaddr, fewer at the end of a segment.
func (g *goCode) code(vaddr uint64, n int) []byte {
	for i, s := range g.segments {
		if vaddr >= s.vaddr && vaddr-s.vaddr < s.size {
			code := g.text[i][vaddr-s.vaddr:]
			return code[:min(n, len(code))]
		}
	}
	return nil
}
