package dwarf

import (
	"path/filepath"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// FuzzLookup mutates the sections apart from each other, without an ELF file
// around them to keep valid. The seeds are made by symbol/testdata/seed.sh.
func FuzzLookup(f *testing.F) {
	seeds, err := filepath.Glob("../../testdata/seed*.elf")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		file, err := safeelf.Open(seed)
		if err != nil {
			f.Fatal(err)
		}
		section := func(names ...string) []byte {
			for _, name := range names {
				if s := file.Section(name); s != nil {
					data, err := file.Data(s)
					if err != nil {
						f.Fatal(err)
					}
					return data
				}
			}
			return []byte{}
		}
		f.Add(section(".debug_info"), section(".debug_abbrev"), section(".debug_line"),
			section(".debug_rnglists", ".debug_ranges"), section(".debug_str"), section(".debug_addr"), section(".debug_str_offsets"))
		file.Close()
	}
	f.Fuzz(func(t *testing.T, info, abbrev, line, ranges, text, addr, strOffsets []byte) {
		sections := Sections{
			Info: info, Abbrev: abbrev, Line: line, Ranges: ranges, Rnglists: ranges,
			Str: text, LineStr: text, Addr: addr, StrOffsets: strOffsets,
		}
		sup, err := New(sections, Options{})
		if err != nil {
			sup = nil
		}
		d, err := New(sections, Options{Supplementary: sup, Memory: 1 << 12})
		if err != nil {
			return
		}
		var frames []Frame
		for pc := uint64(0x400000); pc < 0x400400; pc += 16 {
			frames = d.Lookup(frames[:0], pc)
		}
		for _, pc := range []uint64{0, 1, 0x1000, 1 << 63, ^uint64(0)} {
			for _, frame := range d.Lookup(nil, pc) {
				if frame.Function != nil {
					d.QualifiedName(frame.Function)
				}
			}
		}
	})
}
