package symbol

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// sampleVaddrs draws addresses of executable sections, uniformly by byte.
func sampleVaddrs(t testing.TB, file string, count int) []uint64 {
	t.Helper()
	f, err := safeelf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var text []safeelf.Section
	var total uint64
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Type == elf.SHT_PROGBITS && s.Name == ".text" {
			text = append(text, s)
			total += s.Size
		}
	}
	if total == 0 {
		t.Fatalf("%s has no .text", file)
	}
	random := rand.New(rand.NewPCG(1, 2))
	addrs := make([]uint64, count)
	for i := range addrs {
		n := random.Uint64N(total)
		for _, s := range text {
			if n < s.Size {
				addrs[i] = s.Addr + n
				break
			}
			n -= s.Size
		}
	}
	return addrs
}

// llvmLines runs llvm-symbolizer-14 over addresses: the frames of each, the
// innermost first, named by linkage name.
func llvmLines(t *testing.T, file string, addrs []uint64) [][]Line {
	t.Helper()
	tool, err := exec.LookPath("llvm-symbolizer-14")
	if err != nil {
		t.Skip("llvm-symbolizer-14 is missing (package llvm-14)")
	}
	var input bytes.Buffer
	for _, addr := range addrs {
		fmt.Fprintf(&input, "%#x\n", addr)
	}
	cmd := exec.Command(tool, "--obj="+file, "--inlines", "--functions=linkage", "--output-style=JSON", "--no-demangle")
	cmd.Stdin = &input
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("llvm-symbolizer-14: %v", err)
	}
	var result [][]Line
	scanner := bufio.NewScanner(bytes.NewReader(out))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var answer struct {
			Symbol []struct {
				FunctionName, FileName  string
				Line, Column, StartLine int
			}
		}
		if err := json.Unmarshal(scanner.Bytes(), &answer); err != nil {
			t.Fatalf("llvm-symbolizer-14 printed %q: %v", scanner.Text(), err)
		}
		var lines []Line
		for _, s := range answer.Symbol {
			lines = append(lines, Line{System: s.FunctionName, File: s.FileName, Line: s.Line, Column: s.Column, StartLine: s.StartLine})
		}
		result = append(result, lines)
	}
	if len(result) != len(addrs) {
		t.Fatalf("llvm-symbolizer-14 answered %d of %d addresses", len(result), len(addrs))
	}
	return result
}

// frames formats lines for messages.
func frames(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "\n    %s %s:%d:%d start %d", l.System, l.File, l.Line, l.Column, l.StartLine)
	}
	return b.String()
}

// Classes of comparison between our frames and llvm-symbolizer's. All but
// differs are explained.
const (
	agrees = "agrees"
	// padding: between functions llvm-symbolizer prints the row of the line
	// table that happens to cover the padding, without a function. Lines says
	// nothing: no code runs there.
	padding = "padding"
	// alias: llvm-symbolizer replaces the name of the outermost function with
	// one of the symbols at its address. Constructors (C1, C2) and functions
	// that the linker folded have several; debug information names one.
	alias = "alias"
	// qualified: GCC gives no linkage name to inlined functions of internal
	// linkage; llvm-symbolizer prints the plain name, Lines the scopes too.
	qualified = "qualified"
	differs   = "differs"
)

// classify compares the frames of one address. symbols has the names of all
// symbols by address.
func classify(got, want []Line, symbols map[string]uint64) (class, what string) {
	if len(got) == 0 && len(want) == 1 && want[0].System == "" {
		return padding, ""
	}
	if len(got) != len(want) {
		return differs, "number of frames"
	}
	class = agrees
	for i := range got {
		g, w := got[i], want[i]
		outermost := i == len(got)-1
		switch gotName, wantName := trimClone(g.System), trimClone(w.System); {
		case gotName == wantName:
		case strings.HasSuffix(gotName, "::"+wantName):
			class = qualified
		case outermost && symbols[g.System] != 0 && symbols[g.System] == symbols[w.System]:
			class = alias
		default:
			return differs, "name"
		}
		if g.File == "" && g.Line == 0 && w.Line == 0 {
			continue // no debug information: llvm-symbolizer has the file of the symbol
		}
		switch {
		case g.File != path.Clean(w.File) && !(g.File == "" && w.File == ""):
			return differs, "file"
		case g.Line != w.Line:
			return differs, "line"
		case g.Column != w.Column:
			return differs, "column"
		case g.StartLine != w.StartLine:
			return differs, "start line"
		}
	}
	return class, ""
}

// symbolsByName reads .symtab.
func symbolsByName(t *testing.T, file string) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]uint64)
	for _, s := range symbols {
		byName[s.Name] = s.Value
	}
	return byName
}

// TestAgreesWithLLVM compares random addresses of real programs with
// llvm-symbolizer-14.
func TestAgreesWithLLVM(t *testing.T) {
	const addresses = 1500
	tests := []struct {
		name, command string
		more          []string // run after command
		expected      []string // classes that must not be absent, besides agrees
	}{
		{name: "C, GCC, DWARF 5", command: "gcc -O2 -g -gdwarf-5 -o program $T/sort.c"},
		{name: "C, GCC, DWARF 4", command: "gcc -O2 -g -gdwarf-4 -o program $T/sort.c"},
		{name: "C, GCC, DWARF 2", command: "gcc -O2 -g -gdwarf-2 -o program $T/sort.c"},
		{name: "C, GCC, 64-bit DWARF", command: "gcc -O2 -g -gdwarf64 -o program $T/sort.c"},
		{name: "C, GCC, not optimized", command: "gcc -O0 -g -o program $T/sort.c"},
		{name: "C, GCC, compressed", command: "gcc -O2 -g -gz=zlib -o program $T/sort.c"},
		{name: "C, GCC, compressed the old way", command: "gcc -O2 -g -gz=zlib-gnu -o program $T/sort.c"},
		{name: "C, GCC, types in units", command: "gcc -O2 -g -fdebug-types-section -o program $T/sort.c"},
		{name: "C, GCC, link-time optimization", command: "gcc -O2 -g -flto -o program $T/sort.c"},
		{name: "C, GCC, sections discarded", command: "gcc -O2 -g -ffunction-sections -Wl,--gc-sections -o program $T/sort.c"},
		{name: "C, GCC, arm64", command: "aarch64-linux-gnu-gcc -O2 -g -o program $T/sort.c"},
		{name: "C, Clang, DWARF 5", command: "clang-14 -O2 -g -gdwarf-5 -o program $T/sort.c"},
		{name: "C, Clang, DWARF 4", command: "clang-14 -O2 -g -gdwarf-4 -o program $T/sort.c"},
		{
			name: "C++, GCC, DWARF 5", command: "g++ -std=c++17 -O2 -g -gdwarf-5 -o program $T/shapes.cc",
			expected: []string{padding, qualified},
		},
		{
			name: "C++, GCC, DWARF 4", command: "g++ -std=c++17 -O2 -g -gdwarf-4 -o program $T/shapes.cc",
			expected: []string{padding, qualified},
		},
		{name: "C++, Clang", command: "clang++-14 -std=c++17 -O2 -g -gdwarf-5 -o program $T/shapes.cc"},
		{
			name: "C++, deduplicated by dwz", command: "g++ -std=c++17 -O2 -g -gdwarf-4 -o program $T/shapes.cc",
			more: []string{"dwz program"},
		},
		{name: "Rust", command: "rustc -O -g -o program $T/words.rs"},
		{
			name: "Rust, compressed", command: "rustc -O -g -o program $T/words.rs",
			more: []string{"objcopy --compress-debug-sections program"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, command := range append([]string{test.command}, test.more...) {
				run(t, dir, command)
			}
			program := filepath.Join(dir, "program")
			addrs := sampleVaddrs(t, program, addresses)
			want := llvmLines(t, program, addrs)
			symbols := symbolsByName(t, program)
			b := open(t, program, Options{DebugDirs: noDebugDirs(t)})
			if b.Source() != "dwarf" {
				t.Errorf("source is %q, want dwarf", b.Source())
			}
			counts := make(map[string]int)
			for i, addr := range addrs {
				got := b.Lines(addr)
				class, what := classify(got, want[i], symbols)
				if counts[class]++; class == differs && counts[class] <= 5 {
					t.Errorf("%#x differs in %s\n  got%s\n  want%s", addr, what, frames(got), frames(want[i]))
				}
			}
			t.Logf("%v", counts)
			if counts[agrees]*2 < addresses && counts[qualified] == 0 {
				t.Errorf("only %d of %d addresses agree", counts[agrees], addresses)
			}
			for _, class := range test.expected {
				if counts[class] == 0 {
					t.Errorf("no address is of class %q: its explanation is out of date", class)
				}
			}
		})
	}
}
