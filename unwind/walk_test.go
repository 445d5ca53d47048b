package unwind

import (
	"slices"
	"testing"
)

// stack is the memory of a synthetic process.
type stack map[uint64]uint64

func (s stack) ReadU64(addr uint64) (uint64, bool) {
	value, ok := s[addr]
	return value, ok
}

// code gives the rule of each address.
type code map[uint64]Rule

func (c code) Rule(addr uint64) (Rule, bool) {
	rule, ok := c[addr]
	return rule, ok
}

const (
	leafPC = 0x1000
	callPC = 0x2000 // return address into the caller
	caller = callPC - 1
	sp0    = 0x7000_0000
)

// saved is the standard rule of an amd64 function whose CFA is computed by
// kind.
func saved(kind CFAKind, off int32) Rule {
	return Rule{CFA: kind, CFAOff: off, RA: RegAtCFA, RAOff: -8}
}

func TestWalkAppliesEachKindOfRule(t *testing.T) {
	stop := Rule{CFA: CFAStop}
	signalFrame := stack{sp0 + 40 + 8*15: 0x7100_0000, sp0 + 40 + 8*16: 0x3000, sp0 + 40 + 8*2: 0x7200_0000}
	for i := range uint64(17) {
		if _, ok := signalFrame[sp0+40+8*i]; !ok {
			signalFrame[sp0+40+8*i] = i
		}
	}
	signalFrame[0x7200_0000-8] = callPC
	signalFrameARM64 := stack{}
	for i := range uint64(33) {
		signalFrameARM64[sp0+312+8*i] = 0x100 + i
	}
	signalFrameARM64[sp0+312+8*30] = 0x12_0000_0000_2000 // x30, signed
	signalFrameARM64[sp0+312+8*31] = 0x7100_0000
	signalFrameARM64[sp0+312+8*32] = 0x3000
	for _, test := range []struct {
		name   string
		regs   Regs
		mem    stack
		code   code
		want   []uint64
		reason StopReason
	}{
		{"stack pointer", Regs{SP: sp0}, stack{sp0 + 8: callPC}, code{leafPC: saved(CFASP, 16), caller: stop}, []uint64{leafPC, caller}, StopComplete},
		{"frame pointer", Regs{SP: sp0, FP: sp0 + 32}, stack{sp0 + 40: callPC}, code{leafPC: saved(CFAFP, 16), caller: stop}, []uint64{leafPC, caller}, StopComplete},
		{"register of the leaf", Regs{SP: sp0, General: []uint64{10: sp0 + 64}}, stack{sp0 + 56: callPC},
			code{leafPC: {CFA: CFAReg, Reg: 10, RA: RegAtCFA, RAOff: -8}, caller: stop}, []uint64{leafPC, caller}, StopComplete},
		{"register of a caller", Regs{SP: sp0, General: []uint64{10: sp0 + 64}}, stack{sp0: callPC},
			code{leafPC: saved(CFASP, 8), caller: {CFA: CFAReg, Reg: 10, RA: RegAtCFA, RAOff: -8}}, []uint64{leafPC, caller}, StopUnsupportedCFA},
		{"rbx of a caller", Regs{SP: sp0, BX: sp0 + 64}, stack{sp0: callPC, sp0 + 56: 0x3000},
			code{leafPC: saved(CFASP, 8), caller: {CFA: CFAReg, Reg: amd64BX, RA: RegAtCFA, RAOff: -8}, 0x2fff: stop}, []uint64{leafPC, caller, 0x2fff}, StopComplete},
		{"restored rbx", Regs{SP: sp0, BX: 1}, stack{sp0: sp0 + 64, sp0 + 8: callPC, sp0 + 56: 0x3000},
			code{leafPC: {CFA: CFASP, CFAOff: 16, BXOff: -16, RA: RegAtCFA, RAOff: -8}, caller: {CFA: CFAReg, Reg: amd64BX, RA: RegAtCFA, RAOff: -8}, 0x2fff: stop},
			[]uint64{leafPC, caller, 0x2fff}, StopComplete},
		{"return address in a register", Regs{SP: sp0, General: []uint64{5: callPC}}, nil, code{leafPC: {CFA: CFASP, RA: RegInReg, RAOff: 5}, caller: stop}, []uint64{leafPC, caller}, StopComplete},
		{"from a caller on", Regs{PC: callPC, SP: sp0, General: make([]uint64, 16), Caller: true}, stack{sp0: 0x3000},
			code{caller: saved(CFASP, 8), 0x2fff: {CFA: CFAReg, Reg: 10, RA: RegAtCFA}}, []uint64{caller, 0x2fff}, StopUnsupportedCFA},
		{"inexpressible", Regs{SP: sp0, General: make([]uint64, 16)}, nil, code{leafPC: unsupported()}, []uint64{leafPC}, StopUnsupportedCFA},
		{"frame slot", Regs{SP: sp0, FP: sp0 + 32}, stack{sp0 + 24: sp0 + 64, sp0 + 56: callPC}, code{leafPC: saved(CFADerefFP, -8), caller: stop}, []uint64{leafPC, caller}, StopComplete},
		{"stack slot", Regs{SP: sp0}, stack{sp0 + 24: sp0 + 64, sp0 + 64: callPC},
			code{leafPC: {CFA: CFADerefSP, CFAOff: 24, Off2: 8, RA: RegAtCFA, RAOff: -8}, caller: stop}, []uint64{leafPC, caller}, StopComplete},
		{"PLT before the push", Regs{PC: 0x100a, SP: sp0}, stack{sp0: callPC}, code{0x100a: saved(CFAPLT, 0), caller: stop}, []uint64{0x100a, caller}, StopComplete},
		{"PLT after the push", Regs{PC: 0x100b, SP: sp0}, stack{sp0 + 8: callPC}, code{0x100b: saved(CFAPLT, 0), caller: stop}, []uint64{0x100b, caller}, StopComplete},
		{"frame pointer saved at itself", Regs{SP: sp0, FP: sp0 + 32}, stack{sp0 + 24: sp0 + 64, sp0 + 56: callPC, sp0 + 32: sp0 + 128, sp0 + 136: 0x3000},
			code{leafPC: {CFA: CFADerefFP, CFAOff: -8, FP: RegAtFP, RA: RegAtCFA, RAOff: -8}, caller: saved(CFAFP, 16), 0x2fff: stop}, []uint64{leafPC, caller, 0x2fff}, StopComplete},
		{"signal", Regs{SP: sp0}, signalFrame,
			code{leafPC: {CFA: CFASignal}, 0x3000: {CFA: CFAReg, Reg: 10, RA: RegAtCFA, RAOff: -8}, caller: stop}, []uint64{leafPC, 0x3000, caller}, StopComplete},
		{"arm64 signal", Regs{Arch: ARM64, SP: sp0}, signalFrameARM64,
			code{leafPC: {CFA: CFASignal}, 0x3000: {CFA: CFASP, RA: RegInLR}, caller: stop}, []uint64{leafPC, 0x3000, caller}, StopComplete},
		{"arm64 leaf and signed address", Regs{Arch: ARM64, SP: sp0, LR: callPC | 0x2a<<48}, stack{sp0 + 8: 0x3000 | 0x55<<49},
			code{leafPC: {CFA: CFASP, RA: RegInLR}, caller: {CFA: CFASP, CFAOff: 16, RA: RegAtCFA, RAOff: -8}, 0x2fff: stop}, []uint64{leafPC, caller, 0x2fff}, StopComplete},
		{"arm64 caller without saved address", Regs{Arch: ARM64, SP: sp0, LR: callPC}, nil,
			code{leafPC: {CFA: CFASP, RA: RegInLR}, caller: {CFA: CFASP, RA: RegInLR}}, []uint64{leafPC, caller}, StopNoProgress},
		{"chain", Regs{SP: sp0, FP: sp0 + 32}, stack{sp0 + 32: 0, sp0 + 40: callPC}, code{leafPC: {CFA: CFAChain}, caller: {CFA: CFAChain}}, []uint64{leafPC, caller}, StopComplete},
		{"chain below sp", Regs{SP: sp0, FP: sp0 - 8}, nil, code{leafPC: {CFA: CFAChain}}, []uint64{leafPC}, StopBadChain},
		{"chain too far", Regs{SP: sp0, FP: sp0 + chainReach}, nil, code{leafPC: {CFA: CFAChain}}, []uint64{leafPC}, StopBadChain},
		{"chain misaligned", Regs{SP: sp0, FP: sp0 + 4}, nil, code{leafPC: {CFA: CFAChain}}, []uint64{leafPC}, StopBadChain},
		{"Go's stack switch", Regs{SP: sp0, FP: 0x6000_0000}, stack{0x6000_0000: 0, 0x6000_0008: callPC, 0x6000_0010: 0x3000},
			code{leafPC: goSwitchRule(16), caller: saved(CFASP, 8), 0x2fff: stop}, []uint64{leafPC, caller, 0x2fff}, StopComplete},
		{"Go's stack switch on arm64", Regs{Arch: ARM64, SP: sp0, FP: 0x6000_0000}, stack{0x6000_0000: 0, 0x6000_0008: callPC, 0x6000_0018: 0x3000},
			code{leafPC: goSwitchRule(24), caller: saved(CFASP, 8), 0x2fff: stop}, []uint64{leafPC, caller, 0x2fff}, StopComplete},
		{"outermost return address", Regs{SP: sp0}, nil, code{leafPC: {CFA: CFASP, CFAOff: 8, RA: RegUndefined}}, []uint64{leafPC}, StopComplete},
		{"zero return address", Regs{SP: sp0}, stack{sp0: 0}, code{leafPC: saved(CFASP, 8)}, []uint64{leafPC}, StopComplete},
		{"kernel return address", Regs{SP: sp0}, stack{sp0: 1<<63 | 1}, code{leafPC: saved(CFASP, 8)}, []uint64{leafPC}, StopBadPC},
		{"no mapping", Regs{SP: sp0}, stack{sp0: callPC}, code{leafPC: saved(CFASP, 8)}, []uint64{leafPC, caller}, StopNoMapping},
		{"no rule", Regs{SP: sp0}, nil, code{leafPC: {}}, []uint64{leafPC}, StopNoRule},
		{"unreadable stack", Regs{SP: sp0}, nil, code{leafPC: saved(CFASP, 8)}, []uint64{leafPC}, StopReadFailed},
		{"no progress", Regs{SP: sp0, FP: sp0 - 64}, stack{sp0 - 56: callPC}, code{leafPC: saved(CFAFP, 16)}, []uint64{leafPC}, StopNoProgress},
	} {
		t.Run(test.name, func(t *testing.T) {
			regs := test.regs
			if regs.Arch == 0 {
				regs.Arch = AMD64
			}
			if regs.PC == 0 {
				regs.PC = leafPC
			}
			frames, reason := Walk(nil, regs, test.mem, test.code)
			var got []uint64
			for _, frame := range frames {
				got = append(got, frame.Addr)
			}
			if reason != test.reason || !slices.Equal(got, test.want) {
				t.Errorf("%v after %#x, want %v after %#x", reason, got, test.reason, test.want)
			}
		})
	}
}

// endless is a stack on which every word is the same return address.
type endless struct{}

func (endless) ReadU64(addr uint64) (uint64, bool) { return callPC, true }

func TestWalkIsBounded(t *testing.T) {
	frames, reason := Walk(nil, Regs{Arch: AMD64, PC: leafPC, SP: sp0}, endless{}, code{leafPC: saved(CFASP, 8), caller: saved(CFASP, 8)})
	if reason != StopTooManyFrames || len(frames) != MaxFrames {
		t.Errorf("%v after %d frames", reason, len(frames))
	}
	// A chain has to climb too.
	loop := stack{sp0 + 16: sp0 + 16, sp0 + 24: callPC}
	frames, reason = Walk(nil, Regs{Arch: AMD64, PC: leafPC, SP: sp0, FP: sp0 + 16}, loop, code{leafPC: {CFA: CFAChain}, caller: {CFA: CFAChain}})
	if reason != StopBadChain || len(frames) != 2 {
		t.Errorf("%v after %d frames of a chain that points to itself", reason, len(frames))
	}
}

func TestStopReasonsHaveNamesAndSentences(t *testing.T) {
	seen := map[string]bool{}
	for reason := StopComplete; reason <= StopInternal; reason++ {
		for _, text := range []string{reason.String(), reason.Sentence()} {
			if text == "" || seen[text] {
				t.Errorf("reason %d: %q is empty or used twice", reason, text)
			}
			seen[text] = true
		}
	}
	// The numbers are shared with the kernel's unwinder and with recordings.
	if StopReadFailed != 5 || StopBadChain != 8 || StopInternal != 15 || CFAChain != 9 || CFAGoSwitch != 10 || RegInLR != 4 {
		t.Error("a number that is shared with the kernel's unwinder has changed")
	}
}

func BenchmarkWalk(b *testing.B) {
	frames := make([]Frame, 0, MaxFrames)
	tables := code{leafPC: saved(CFASP, 8), caller: saved(CFASP, 8)}
	for b.Loop() {
		frames, _ = Walk(frames[:0], Regs{Arch: AMD64, PC: leafPC, SP: sp0}, endless{}, tables)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/MaxFrames, "ns/frame")
}
