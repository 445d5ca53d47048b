package unwind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// open parses an ELF image in memory.
func open(t testing.TB, image []byte) *safeelf.File {
	t.Helper()
	f, err := safeelf.New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// withoutSections returns a copy of an ELF image whose header names no
// section headers, as sstrip leaves it.
func withoutSections(image []byte) []byte {
	image = bytes.Clone(image)
	clear(image[0x28:0x30]) // e_shoff
	clear(image[0x3c:0x40]) // e_shnum, e_shstrndx
	return image
}

func TestTableWithoutSectionHeaders(t *testing.T) {
	for name, file := range map[string]func(*testing.T) string{
		"libc":       systemFile("/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"),
		"static PIE": func(t *testing.T) string { return buildC(t, "calls.c", "-O2", "-static-pie", "-pthread") },
	} {
		t.Run(name, func(t *testing.T) {
			image, err := os.ReadFile(file(t))
			if err != nil {
				t.Fatal(err)
			}
			rules := NewRuleSet()
			want, err := NewTable(open(t, image), rules)
			if err != nil {
				t.Fatal(err)
			}
			got, err := NewTable(open(t, withoutSections(image)), rules)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Rows, want.Rows) || !slices.Equal(got.Pages, want.Pages) {
				t.Errorf("%d rows from %d FDEs, with section headers %d from %d", len(got.Rows), got.Stats.FDEs, len(want.Rows), want.Stats.FDEs)
			}
			if got.Stats.FDEs < 100 {
				t.Errorf("only %d FDEs", got.Stats.FDEs)
			}
		})
	}
}

func TestTableOfUnsupportedArchitecture(t *testing.T) {
	image, err := os.ReadFile("testdata/arm64/frames.so")
	if err != nil {
		t.Fatal(err)
	}
	const riscv = 243
	binary.LittleEndian.PutUint16(image[18:], riscv)
	f := open(t, image)
	if _, err := NewTable(f, NewRuleSet()); !errors.Is(err, ErrUnsupported) {
		t.Errorf("NewTable: %v", err)
	}
	if _, err := Functions(f); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Functions: %v", err)
	}
}

func TestFunctionsAreThoseOfReadelf(t *testing.T) {
	for _, path := range []string{"testdata/arm64/frames.so", "/usr/lib/x86_64-linux-gnu/libc.so.6"} {
		t.Run(path, func(t *testing.T) {
			f, err := safeelf.Open(path)
			if errors.Is(err, os.ErrNotExist) {
				t.Skipf("no %s", path)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := Functions(f)
			if err != nil {
				t.Fatal(err)
			}
			var want []Range
			for _, fde := range readelfRows(t, path) {
				if fde.start < fde.end {
					want = append(want, Range{fde.start, fde.end})
				}
			}
			slices.SortFunc(want, func(a, b Range) int { return int(int64(a.Start - b.Start)) })
			// A signal restorer's FDE starts in the padding before it and may
			// overlap its neighbour, which is then cut short.
			wrong := 0
			for i := range want {
				if i < len(got) && got[i] != want[i] && (got[i].Start != want[i].Start || i+1 < len(want) && got[i].End != want[i+1].Start) {
					wrong++
				}
			}
			if len(got) != len(want) || wrong > 0 {
				t.Errorf("%d functions, readelf shows %d; %d differ", len(got), len(want), wrong)
			}
		})
	}
}

// TestPLT checks the rules of a lazy procedure linkage table against its
// instructions: a call enters at an entry's start, and the push is 6 bytes on.
func TestPLT(t *testing.T) {
	program := buildC(t, "calls.c", "-O2", "-pthread", "-Wl,-z,lazy", "-fcf-protection=none")
	f, err := safeelf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plt := f.Section(".plt")
	if plt == nil || plt.Size < 64 {
		t.Skip("the linker made no lazy PLT")
	}
	rules := NewRuleSet()
	table, err := NewTable(f, rules)
	if err != nil {
		t.Fatal(err)
	}
	for off, want := range map[uint64]string{
		0: "cfa=sp+16 ra=*(cfa-8)", 6: "cfa=sp+24 ra=*(cfa-8)", 16: "cfa=plt ra=*(cfa-8)", 27: "cfa=plt ra=*(cfa-8)", 48: "cfa=plt ra=*(cfa-8)",
	} {
		if got := table.Lookup(rules, plt.Offset+off).String(); got != want {
			t.Errorf("rule at .plt+%d: got %q, want %q", off, got, want)
		}
	}
}
