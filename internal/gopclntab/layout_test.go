package gopclntab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

func handFile(t *testing.T, image []byte) *safeelf.File {
	t.Helper()
	file, err := safeelf.New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLayouts reads tables assembled by hand, for the versions and
// architectures that no toolchain at hand writes.
func TestLayouts(t *testing.T) {
	for _, s := range seeds() {
		version := magic(binary.LittleEndian.Uint32(s.table))
		t.Run(fmt.Sprintf("%x-arm64=%v-sections=%v", uint32(version), s.arm64, s.sections), func(t *testing.T) {
			table := newTestTable(t, handFile(t, elfImage(s.table, s.arm64, s.sections)))
			start, inner := 0, 0
			if version == magic120 {
				start, inner = 8, 20
			}
			outer := func(line int) Line { return Line{"a.outer", "a.outer", "a.go", line, start} }
			for off, want := range map[uint64][]Line{
				0:  {outer(10)},
				3:  {outer(10)},
				4:  {{"a.inner", "a.inner", "a.go", 11, inner}, outer(10)},
				8:  {outer(9)},
				15: {outer(9)},
				16: {{"a.last", "a.last", "a.go", 10, start}},
				32: nil,
			} {
				if got := table.Lines(textVaddr + off); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("Lines(+%d) = %v, want %v", off, got, want)
				}
			}
			f, ok := table.Find(textVaddr + 5)
			if !ok || f.Entry != textVaddr || f.End != textVaddr+16 || f.Flags != FlagAsm {
				t.Fatalf("Find(+5) = %+v, %v", f, ok)
			}
			var depths []Span
			for span := range f.Values(SPDelta) {
				depths = append(depths, span)
			}
			want := []Span{{textVaddr, textVaddr + 4, 0}, {textVaddr + 4, textVaddr + 16, 16}}
			if fmt.Sprint(depths) != fmt.Sprint(want) {
				t.Errorf("depths are %v, want %v", depths, want)
			}
		})
	}
}

// TestSplitText converts addresses of a text in two sections, as the linker
// makes for arm64 above 124 MiB.
func TestSplitText(t *testing.T) {
	m := textMap{start: 0x1000, sections: []textSection{
		{off: 0, end: 0x100, vaddr: 0x1000},
		{off: 0x100, end: 0x300, vaddr: 0x8000},
	}}
	for off, vaddr := range map[uint32]uint64{0: 0x1000, 0xff: 0x10ff, 0x100: 0x8000, 0x2ff: 0x81ff} {
		if got := m.vaddr(off); got != vaddr {
			t.Errorf("vaddr(%#x) = %#x, want %#x", off, got, vaddr)
		}
		if got, ok := m.offset(vaddr); !ok || got != off {
			t.Errorf("offset(%#x) = %#x, %v, want %#x", vaddr, got, ok, off)
		}
	}
	if got := m.vaddr(0x300); got != 0x8200 {
		t.Errorf("the end of the text is %#x, want 0x8200", got)
	}
	for _, vaddr := range []uint64{0, 0xfff, 0x1100, 0x7fff, 0x8200} {
		if off, ok := m.offset(vaddr); ok {
			t.Errorf("offset(%#x) = %#x, want none", vaddr, off)
		}
	}
}

// TestMovedGofunc puts the address of the inline trees elsewhere in the
// module data, as a later version may.
func TestMovedGofunc(t *testing.T) {
	table := handTable(magic120, 1)
	image := elfImage(table, false, true)
	data := moduleData(table)
	at := bytes.Index(image, data)
	if at < 0 {
		t.Fatal("no module data in the file")
	}
	clear(image[at+moduleGofunc118*8 : at+moduleGofunc120*8+8])
	binary.LittleEndian.PutUint64(image[at+47*8:], tableVaddr)
	lines := newTestTable(t, handFile(t, image)).Lines(textVaddr + 4)
	if len(lines) != 2 || lines[0].Function != "a.inner" {
		t.Fatalf("lines are %v, want a.inner in a.outer", lines)
	}
}

// TestMalformedTablesAreErrors damages one thing at a time.
func TestMalformedTablesAreErrors(t *testing.T) {
	le := binary.LittleEndian
	for name, damage := range map[string]func([]byte){
		"magic":                    func(b []byte) { b[0] = 0xfb },
		"padding":                  func(b []byte) { b[4] = 1 },
		"quantum":                  func(b []byte) { b[6] = 4 },
		"pointer size":             func(b []byte) { b[7] = 4 },
		"no functions":             func(b []byte) { le.PutUint64(b[8:], 0) },
		"many functions":           func(b []byte) { le.PutUint64(b[8:], 1<<61) },
		"parts past end":           func(b []byte) { le.PutUint64(b[8+7*8:], 1<<40) },
		"parts in header":          func(b []byte) { le.PutUint64(b[8+3*8:], 8) },
		"parts disordered":         func(b []byte) { le.PutUint64(b[8+4*8:], headerSize) },
		"functions past their end": func(b []byte) { le.PutUint32(b[le.Uint64(b[8+7*8:]):], 100) },
		"text too long":            func(b []byte) { le.PutUint32(b[le.Uint64(b[8+7*8:])+16:], 1<<30) },
	} {
		table := handTable(magic120, 1)
		damage(table)
		if _, err := New(handFile(t, elfImage(table, false, true))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
