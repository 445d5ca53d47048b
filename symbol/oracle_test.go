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

// tally counts comparisons by class.
type tally struct {
	t      *testing.T
	counts map[string]int
}

// note counts one address, and logs the first few of a class that is not
// agreement.
func (c *tally) note(class, format string, args ...any) {
	c.counts[class]++
	if class != "agree" && c.counts[class] <= 5 {
		c.t.Logf("%s: %s", class, fmt.Sprintf(format, args...))
	}
}

func frames(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "\n    %s %s:%d:%d start %d", l.System, l.File, l.Line, l.Column, l.StartLine)
	}
	return b.String()
}

// disagreement names the class of the difference between our frames and the
// oracle's, "agree" for none.
func disagreement(got, want []Line) string {
	if len(got) == 0 && (len(want) == 0 || want[0].System == "" && want[0].Line == 0) {
		return "agree"
	}
	if len(got) != len(want) {
		return "depth"
	}
	for i := range got {
		g, w := got[i], want[i]
		switch {
		case trimClone(g.System) != trimClone(w.System):
			return "name"
		case w.Line == 0 && g.Line == 0 && g.File == "":
			// llvm-symbolizer names the file of the symbol (STT_FILE).
		case path.Clean(g.File) != path.Clean(w.File):
			return "file"
		case g.Line != w.Line:
			return "line"
		case g.Column != w.Column:
			return "column"
		case g.StartLine != w.StartLine:
			return "start line"
		}
	}
	return "agree"
}
