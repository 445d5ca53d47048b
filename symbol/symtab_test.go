package symbol

import (
	"debug/elf"
	"math/rand/v2"
	"testing"
)

// testTable makes a table from symbols whose names are given; the section ends
// at limit.
func testTable(limit uint64, symbols []namedSymbol) *symbolTable {
	names := []byte{0}
	var entries []codeSymbol
	for _, s := range symbols {
		entries = append(entries, codeSymbol{
			value: s.value, size: s.size, limit: limit, name: uint32(len(names)),
			info: uint8(s.bind)<<4 | uint8(s.kind),
		})
		names = append(append(names, s.name...), 0)
	}
	t := &symbolTable{names: [][]byte{names}}
	t.build(entries)
	return t
}

type namedSymbol struct {
	name        string
	value, size uint64
	bind        elf.SymBind
	kind        elf.SymType
}

func TestSymbolChoice(t *testing.T) {
	const limit = 0x2000
	function, label := elf.STT_FUNC, elf.STT_NOTYPE
	table := []namedSymbol{
		{"outer", 0x1000, 0x100, elf.STB_LOCAL, function},
		{"inner", 0x1040, 0x20, elf.STB_LOCAL, function},
		{"loop", 0x1010, 0, elf.STB_GLOBAL, label}, // a label within outer
		{"_weak", 0x1200, 0x10, elf.STB_WEAK, function},
		{"strong", 0x1200, 0x10, elf.STB_GLOBAL, function},
		{"__strong", 0x1200, 0x10, elf.STB_GLOBAL, function},
		{"local", 0x1200, 0x10, elf.STB_LOCAL, function},
		{"note", 0x1200, 0x10, elf.STB_GLOBAL, label},
		{"entry", 0x1300, 0, elf.STB_GLOBAL, label}, // from assembler, no size
		{"next", 0x1380, 0x10, elf.STB_GLOBAL, function},
		{"versioned@@V_1", 0x1400, 0x10, elf.STB_GLOBAL, function},
		{"b", 0x1500, 0x10, elf.STB_GLOBAL, function},
		{"a", 0x1500, 0x10, elf.STB_GLOBAL, function},
		{"huge", 0x1f00, 1 << 63, elf.STB_GLOBAL, function}, // past its section
	}
	want := map[uint64]string{
		0xfff: "", 0x1000: "outer", 0x1010: "outer", 0x103f: "outer", 0x1040: "inner", 0x105f: "inner",
		0x1060: "outer", 0x10ff: "outer", 0x1100: "", 0x1200: "strong", 0x1210: "",
		0x1300: "entry", 0x137f: "entry", 0x1380: "next", 0x1390: "",
		0x1400: "versioned", 0x1500: "a", 0x1fff: "huge", 0x2000: "",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 { // the order in the file does not matter
		random.Shuffle(len(table), func(i, j int) { table[i], table[j] = table[j], table[i] })
		built := testTable(limit, table)
		for addr, name := range want {
			if got, _ := built.find(addr); got != name {
				t.Errorf("%#x is in %q, want %q", addr, got, name)
			}
		}
	}
}

func TestSymbolsThatOverlapWithoutNesting(t *testing.T) {
	built := testTable(0x2000, []namedSymbol{
		{"first", 0x1000, 0x20, elf.STB_GLOBAL, elf.STT_FUNC},
		{"second", 0x1010, 0x20, elf.STB_GLOBAL, elf.STT_FUNC},
	})
	for addr, name := range map[uint64]string{0x100f: "first", 0x1010: "second", 0x1025: "second", 0x1030: ""} {
		if got, _ := built.find(addr); got != name {
			t.Errorf("%#x is in %q, want %q", addr, got, name)
		}
	}
}

func TestArm64Stub(t *testing.T) {
	// From a PLT that GNU ld made, the stub at 0x820 whose slot is at 0x20008:
	// adrp x16, 20000; ldr x17, [x16, #8]; add x16, x16, #0x8; br x17.
	stub := []byte{
		0x10, 0x01, 0x00, 0x90, 0x11, 0x06, 0x40, 0xf9, 0x10, 0x22, 0x00, 0x91, 0x20, 0x02, 0x1f, 0xd6,
	}
	slot, ok := stubSlot(stub, 0x820, elf.EM_AARCH64)
	if !ok || slot != 0x20008 {
		t.Errorf("slot is %#x, %v, want 0x20008", slot, ok)
	}
}
