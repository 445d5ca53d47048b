package unwind

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

// sectionAt is the vaddr of handwritten sections, codeAt that of their code.
const (
	sectionAt = 0x2000
	codeAt    = 0x1000
	codeSize  = 0x100
)

// cfi builds call frame sections by hand.
type cfi struct {
	data []byte
	eh   bool
	wide bool
}

// put appends an entry whose contents after the id are body, and returns its
// offset. at rewrites the body for the position it lies at.
func (c *cfi) put(id func(idAt int) uint64, body func(at int) []byte) int {
	start := len(c.data)
	if c.wide {
		c.data = binary.LittleEndian.AppendUint32(c.data, math.MaxUint32)
		c.data = binary.LittleEndian.AppendUint64(c.data, 0)
	} else {
		c.data = binary.LittleEndian.AppendUint32(c.data, 0)
	}
	idAt := len(c.data)
	if c.wide && !c.eh {
		c.data = binary.LittleEndian.AppendUint64(c.data, id(idAt))
	} else {
		c.data = binary.LittleEndian.AppendUint32(c.data, uint32(id(idAt)))
	}
	c.data = append(c.data, body(len(c.data))...)
	for len(c.data)%8 != 4 {
		c.data = append(c.data, cfaNop)
	}
	if c.wide {
		binary.LittleEndian.PutUint64(c.data[start+4:], uint64(len(c.data)-idAt))
	} else {
		binary.LittleEndian.PutUint32(c.data[start:], uint32(len(c.data)-idAt))
	}
	return start
}

func (c *cfi) cie(version byte, augmentation string, rest ...byte) int {
	return c.put(func(int) uint64 {
		if c.eh {
			return 0
		}
		return math.MaxUint64
	}, func(int) []byte {
		body := append([]byte{version}, augmentation...)
		body = append(body, 0)
		return append(body, rest...)
	})
}

func (c *cfi) fde(cie int, body func(at int) []byte) {
	c.put(func(idAt int) uint64 {
		if c.eh {
			return uint64(idAt - cie)
		}
		return uint64(cie)
	}, body)
}

// compile returns the rules of the section by offset in the code, as
// "offset: rule" lines.
func compile(t *testing.T, arch Arch, section frameSection) (lines []string, skipped int) {
	t.Helper()
	rules := NewRuleSet()
	c := rules.compiler()
	_, skipped = c.section(section, arch, rankEHFrame, []segment{{off: 0, vaddr: 0, size: 1 << 20}})
	for _, s := range c.spans {
		for _, row := range c.rows[s.first : s.first+s.rows] {
			at := int64(s.start) - codeAt + int64(row>>16)
			lines = append(lines, string(appendInt(nil, at))+": "+rules.At(uint16(row)).String())
		}
	}
	return lines, skipped
}

func appendInt(dst []byte, v int64) []byte {
	if v < 0 {
		dst, v = append(dst, '-'), -v
	}
	if v >= 10 {
		dst = appendInt(dst, v/10)
	}
	return append(dst, byte('0'+v%10))
}

// Pieces of handwritten entries.
var (
	amd64Factors = []byte{1, 0x78, amd64RA} // code 1, data -8, RA in r16
	amd64Initial = []byte{cfaDefCFA, amd64SP, 8, cfaOffset | amd64RA, 1}
	arm64Factors = []byte{4, 0x78, arm64LR}
	arm64Initial = []byte{cfaDefCFA, arm64SP, 0}
)

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// absolute is the body of an FDE with 8-byte addresses.
func absolute(program ...byte) func(int) []byte {
	return func(int) []byte {
		body := binary.LittleEndian.AppendUint64(nil, codeAt)
		return append(binary.LittleEndian.AppendUint64(body, codeSize), program...)
	}
}

// ehSection makes the .eh_frame of one function with the given program.
func ehSection(arch Arch, augmentation string, program ...byte) frameSection {
	c := cfi{eh: true}
	rest := join(amd64Factors, []byte{1, ptrAbsolute}, amd64Initial)
	if arch == ARM64 {
		rest = join(arm64Factors, []byte{1, ptrAbsolute}, arm64Initial)
	}
	c.fde(c.cie(1, augmentation, rest...), absolute(append([]byte{0}, program...)...))
	return frameSection{data: c.data, eh: true, bases: bases{section: sectionAt}}
}

func block8(op byte, reg int, expr ...byte) []byte {
	out := []byte{op}
	if reg >= 0 {
		out = append(out, byte(reg))
	}
	return append(append(out, byte(len(expr))), expr...)
}

func TestProgramsBecomeRules(t *testing.T) {
	const advance1 = cfaAdvanceLoc | 1
	ra8 := " ra=*(cfa-8)"
	for _, test := range []struct {
		name         string
		arch         Arch
		augmentation string
		program      []byte
		want         []string
	}{
		{"frame pointer", AMD64, "zR", []byte{advance1, cfaDefCFAOffset, 16, cfaOffset | amd64FP, 2, cfaAdvanceLoc | 3, cfaDefCFARegister, amd64FP},
			[]string{"0: cfa=sp+8" + ra8, "1: cfa=sp+16 fp=*(cfa-16)" + ra8, "4: cfa=fp+16 fp=*(cfa-16)" + ra8}},
		{"remembered state includes the CFA", AMD64, "zR", []byte{advance1, cfaDefCFAOffset, 16, cfaRememberState, advance1, cfaDefCFAOffset, 8, advance1, cfaRestoreState},
			[]string{"0: cfa=sp+8" + ra8, "1: cfa=sp+16" + ra8, "2: cfa=sp+8" + ra8, "3: cfa=sp+16" + ra8}},
		{"restore", AMD64, "zR", []byte{cfaOffset | amd64BX, 3, advance1, cfaRestore | amd64BX},
			[]string{"0: cfa=sp+8 bx=*(cfa-24)" + ra8, "1: cfa=sp+8" + ra8}},
		{"undefined return address", AMD64, "zR", []byte{cfaUndefined, amd64RA}, []string{"0: stop"}},
		{"signal frame", AMD64, "zRS", nil, []string{"-1: signal"}},
		{"argument size is no row", AMD64, "zR", []byte{advance1, cfaGNUArgsSize, 16}, []string{"0: cfa=sp+8" + ra8}},
		{"CFA in another register", AMD64, "zR", []byte{cfaDefCFA, 10, 0}, []string{"0: cfa=r10+0" + ra8}},
		{"lazy PLT", AMD64, "zR", block8(cfaDefCFAExpression, -1, opBreg0+7, 8, opBreg0+16, 0, opLit0+15, opAnd, opLit0+11, opGe, opLit0+3, opShl, opPlus),
			[]string{"0: cfa=plt" + ra8}},
		{"CFA at a frame offset", AMD64, "zR", block8(cfaDefCFAExpression, -1, opBreg0+6, 0x78, opDeref), []string{"0: cfa=*(fp-8)" + ra8}},
		{"CFA at a stack offset", AMD64, "zR", block8(cfaDefCFAExpression, -1, opBreg0+7, 24, opDeref, opPlusUconst, 8), []string{"0: cfa=*(sp+24)+8" + ra8}},
		{"CFA as a sum", AMD64, "zR", block8(cfaDefCFAExpression, -1, opBreg0+7, 24, opLit0+8, opPlus), []string{"0: cfa=sp+32" + ra8}},
		{"unknown CFA expression", AMD64, "zR", block8(cfaDefCFAExpression, -1, opBreg0+7, 24, opDeref, opDeref), []string{"0: unsupported"}},
		{"frame pointer saved below itself", AMD64, "zR", block8(cfaExpression, amd64FP, opBreg0+6, 0), []string{"0: cfa=sp+8 fp=*(fp+0)" + ra8}},
		{"return address in a register", AMD64, "zR", []byte{cfaRegister, amd64RA, 1}, []string{"0: cfa=sp+8 ra=r1"}},
		{"signed offsets", AMD64, "zR", []byte{cfaDefCFASf, amd64SP, 0x70, cfaOffsetExtendedSf, amd64FP, 0x7e},
			[]string{"0: cfa=sp+128 fp=*(cfa+16)" + ra8}},
		{"an offset too large for a rule", AMD64, "zR", []byte{cfaOffsetExtended, amd64RA, 0xff, 0xff, 0x03}, []string{"0: unsupported"}},
		{"unknown instruction", AMD64, "zR", []byte{advance1, cfaDefCFAOffset, 16, advance1, 0x3f}, []string{"0: cfa=sp+8" + ra8, "1: cfa=sp+16" + ra8, "2: none"}},
		{"restore without remember", AMD64, "zR", []byte{advance1, cfaRestoreState}, []string{"0: cfa=sp+8" + ra8, "1: none"}},
		{"advance past the end", AMD64, "zR", []byte{cfaAdvanceLoc4, 0, 0, 0, 0x7f, cfaDefCFAOffset, 16}, []string{"0: cfa=sp+8" + ra8}},
		{"set_loc", AMD64, "zR", []byte{cfaSetLoc, 0x04, 0x10, 0, 0, 0, 0, 0, 0, cfaDefCFAOffset, 16}, []string{"0: cfa=sp+8" + ra8, "4: cfa=sp+16" + ra8}},
		{"arm64 leaf and frame", ARM64, "zR", []byte{advance1, cfaDefCFAOffset, 32, cfaOffset | arm64FP, 4, cfaOffset | arm64LR, 3, advance1, cfaRestore | arm64LR, cfaRestore | arm64FP, cfaDefCFAOffset, 0},
			[]string{"0: cfa=sp+0 ra=lr", "4: cfa=sp+32 fp=*(cfa-32) ra=*(cfa-24)", "8: cfa=sp+0 ra=lr"}},
		{"arm64 signed return address", ARM64, "zRB", []byte{advance1, cfaNegateRAState, advance1, cfaDefCFAOffset, 16},
			[]string{"0: cfa=sp+0 ra=lr", "8: cfa=sp+16 ra=lr"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, skipped := compile(t, test.arch, ehSection(test.arch, test.augmentation, test.program...))
			if skipped != 0 || !slices.Equal(got, test.want) {
				t.Errorf("rows, %d entries skipped:\n%s\nwant:\n%s", skipped, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestOtherPLTFormsBecomeRows covers lazy PLTs whose entries push at another
// offset than the rule for PLTs assumes, such as those for -z ibtplt.
func TestOtherPLTFormsBecomeRows(t *testing.T) {
	program := block8(cfaDefCFAExpression, -1, opBreg0+7, 8, opBreg0+16, 0, opLit0+15, opAnd, opLit0+9, opGe, opLit0+3, opShl, opPlus)
	got, _ := compile(t, AMD64, ehSection(AMD64, "zR", program...))
	want := []string{"0: cfa=sp+8 ra=*(cfa-8)", "9: cfa=sp+16 ra=*(cfa-8)", "16: cfa=sp+8 ra=*(cfa-8)"}
	if len(got) != 2*codeSize/16 || !slices.Equal(got[:3], want) {
		t.Errorf("%d rows, from %q", len(got), got[:min(3, len(got))])
	}
}

func TestEntryFormats(t *testing.T) {
	frame := []byte{cfaAdvanceLoc | 1, cfaDefCFAOffset, 16}
	want := []string{"0: cfa=sp+8 ra=*(cfa-8)", "1: cfa=sp+16 ra=*(cfa-8)"}
	encoded := func(encoding byte, start, size []byte) frameSection {
		c := cfi{eh: true}
		cie := c.cie(1, "zR", join(amd64Factors, []byte{1, encoding}, amd64Initial)...)
		c.fde(cie, func(at int) []byte { return join(start, size, []byte{0}, frame) })
		return frameSection{data: c.data, eh: true, bases: bases{section: sectionAt, data: 0x800, text: 0x900}}
	}
	debug := func(version byte, wide bool, augmentation string, prefix ...byte) frameSection {
		c := cfi{wide: wide}
		c.fde(c.cie(version, augmentation, join(prefix, amd64Factors, amd64Initial)...), absolute(frame...))
		return frameSection{data: c.data}
	}
	wideEH := cfi{eh: true, wide: true}
	wideEH.fde(wideEH.cie(1, "", join(amd64Factors, amd64Initial)...), absolute(frame...))
	le := binary.LittleEndian
	relative := cfi{eh: true}
	relative.fde(relative.cie(1, "zR", join(amd64Factors, []byte{1, ptrPCRel | ptrSdata8}, amd64Initial)...), func(at int) []byte {
		start := int64(codeAt - sectionAt - at)
		return join(le.AppendUint64(nil, uint64(start)), le.AppendUint64(nil, codeSize), []byte{0}, frame)
	})
	aligned := cfi{eh: true}
	aligned.fde(aligned.cie(1, "zR", join(amd64Factors, []byte{1, ptrAligned}, amd64Initial)...), func(at int) []byte {
		padding := make([]byte, -at&7)
		return join(padding, le.AppendUint64(nil, codeAt), le.AppendUint64(nil, codeSize), []byte{0}, frame)
	})
	personality := cfi{eh: true}
	personality.fde(personality.cie(1, "zPLR", join(amd64Factors,
		[]byte{7, ptrIndirect | ptrPCRel | ptrSdata4, 1, 2, 3, 4, ptrAbsolute, ptrAbsolute}, amd64Initial)...),
		absolute(append(append([]byte{8}, make([]byte, 8)...), frame...)...))
	old := cfi{eh: true}
	old.fde(old.cie(1, "eh", join(make([]byte, 8), amd64Factors, amd64Initial)...), absolute(frame...))
	for name, section := range map[string]frameSection{
		"absolute":         encoded(ptrAbsolute, le.AppendUint64(nil, codeAt), le.AppendUint64(nil, codeSize)),
		"udata2":           encoded(ptrUdata2, le.AppendUint16(nil, codeAt), le.AppendUint16(nil, codeSize)),
		"udata4":           encoded(ptrUdata4, le.AppendUint32(nil, codeAt), le.AppendUint32(nil, codeSize)),
		"uleb":             encoded(ptrULEB, []byte{0x80, 0x20}, []byte{0x80, 0x02}),
		"data-relative":    encoded(ptrDataRel|ptrSdata4, le.AppendUint32(nil, codeAt-0x800), le.AppendUint32(nil, codeSize)),
		"text-relative":    encoded(ptrTextRel|ptrUdata2, le.AppendUint16(nil, codeAt-0x900), le.AppendUint16(nil, codeSize)),
		"relative 64-bit":  {data: relative.data, eh: true, bases: bases{section: sectionAt}},
		"aligned":          {data: aligned.data, eh: true, bases: bases{section: sectionAt}},
		"personality":      {data: personality.data, eh: true, bases: bases{section: sectionAt}},
		"eh augmentation":  {data: old.data, eh: true, bases: bases{section: sectionAt}},
		"64-bit .eh_frame": {data: wideEH.data, eh: true, bases: bases{section: sectionAt}},
		"DWARF 2":          debug(1, false, ""),
		"DWARF 3":          debug(3, false, ""),
		"DWARF 4":          debug(4, false, "", 8, 0),
		"64-bit DWARF 4":   debug(4, true, "", 8, 0),
		"terminator":       {data: join(debug(3, false, "").data, make([]byte, 4))},
	} {
		t.Run(name, func(t *testing.T) {
			got, skipped := compile(t, AMD64, section)
			if skipped != 0 || !slices.Equal(got, want) {
				t.Errorf("%d entries skipped, rows %q", skipped, got)
			}
		})
	}
}

// TestMalformedEntriesAreSkipped cuts a good section short at every byte: the
// entries that are left whole have to survive and the rest has to be counted.
func TestMalformedEntriesAreSkipped(t *testing.T) {
	whole := ehSection(AMD64, "zR", cfaAdvanceLoc|1, cfaDefCFAOffset, 16)
	for size := range whole.data {
		cut := whole
		cut.data = whole.data[:size:size]
		rows, _ := compile(t, AMD64, cut)
		if len(rows) != 0 {
			t.Fatalf("%d of %d bytes gave rows %q", size, len(whole.data), rows)
		}
	}
	for name, section := range map[string]frameSection{
		"CIE outside": func() frameSection {
			s := ehSection(AMD64, "zR")
			s.data = slices.Clone(s.data)
			s.data[len(s.data)-28] ^= 0xff
			return s
		}(),
		"unknown version": func() frameSection {
			c := cfi{eh: true}
			c.fde(c.cie(9, "", amd64Factors...), absolute())
			return frameSection{data: c.data, eh: true}
		}(),
		"unknown letter": func() frameSection {
			c := cfi{eh: true}
			c.fde(c.cie(1, "X", amd64Factors...), absolute())
			return frameSection{data: c.data, eh: true}
		}(),
	} {
		if rows, skipped := compile(t, AMD64, section); skipped == 0 || len(rows) != 0 {
			t.Errorf("%s: %d entries skipped, rows %q", name, skipped, rows)
		}
	}
}
