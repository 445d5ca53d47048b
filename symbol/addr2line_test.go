package symbol

import (
	"bytes"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// addr2lines runs GNU addr2line over addresses: function and line of each
// frame, the innermost first.
func addr2lines(t *testing.T, file string, addrs []uint64) [][]Line {
	t.Helper()
	tool, err := exec.LookPath("addr2line")
	if err != nil {
		t.Skip("addr2line is missing (package binutils)")
	}
	var input bytes.Buffer
	for _, addr := range addrs {
		fmt.Fprintf(&input, "%#x\n", addr)
	}
	cmd := exec.Command(tool, "-a", "-f", "-i", "-e", file)
	cmd.Stdin = &input
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("addr2line: %v", err)
	}
	var result [][]Line
	printed := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := 0; i < len(printed); {
		if strings.HasPrefix(printed[i], "0x") {
			result = append(result, nil)
			i++
			continue
		}
		if i+1 == len(printed) || len(result) == 0 {
			t.Fatalf("addr2line printed %q", printed[i:])
		}
		// file:line (discriminator 2)
		place, _, _ := strings.Cut(printed[i+1], " ")
		colon := strings.LastIndexByte(place, ':')
		line, _ := strconv.Atoi(place[colon+1:]) // "?" is 0
		last := &result[len(result)-1]
		*last = append(*last, Line{System: printed[i], File: place[:colon], Line: line})
		i += 2
	}
	if len(result) != len(addrs) {
		t.Fatalf("addr2line answered %d of %d addresses", len(result), len(addrs))
	}
	return result
}

// TestAgreesWithAddr2line compares with another reader of DWARF, which shares
// nothing with llvm-symbolizer.
func TestAgreesWithAddr2line(t *testing.T) {
	const addresses = 1500
	for _, test := range []struct{ name, command string }{
		{"C, DWARF 5", "gcc -O2 -g -gdwarf-5 -o program $T/sort.c"},
		{"C, DWARF 4", "gcc -O2 -g -gdwarf-4 -o program $T/sort.c"},
		{"C++", "g++ -std=c++17 -O2 -g -o program $T/shapes.cc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			run(t, dir, test.command)
			program := filepath.Join(dir, "program")
			addrs := sampleVaddrs(t, program, addresses)
			want := addr2lines(t, program, addrs)
			symbols := symbolsByName(t, program)
			b := open(t, program, Options{DebugDirs: noDebugDirs(t)})
			counts := make(map[string]int)
			for i, addr := range addrs {
				got := b.Lines(addr)
				class := compareAddr2line(got, want[i], symbols)
				if counts[class]++; strings.HasPrefix(class, differs) && counts[class] <= 3 {
					t.Errorf("%#x %s\n  got%s\n  want%s", addr, class, frames(got), frames(want[i]))
				}
			}
			if t.Log(counts); counts[agrees]+counts[qualified] < addresses*8/10 {
				t.Errorf("%d of %d addresses agree, too few", counts[agrees]+counts[qualified], addresses)
			}
		})
	}
}

// enclosing is a class of its own: where the innermost inlined function has no
// linkage name, addr2line (binutils 2.40) puts the symbol of the function
// around it in its place, so that one function is printed twice.
const enclosing = "enclosing"

// compareAddr2line names the class of a comparison. In padding addr2line names
// the symbol before it.
func compareAddr2line(got, want []Line, symbols map[string]uint64) string {
	if len(got) == 0 && len(want) == 1 {
		return padding
	}
	if len(got) != len(want) {
		return differs + " in depth"
	}
	class := agrees
	for i := range got {
		g, w := got[i], want[i]
		switch gotName, wantName := trimClone(g.System), trimClone(w.System); {
		case gotName == wantName:
		case strings.HasSuffix(gotName, "::"+wantName):
			class = qualified
		case i == len(got)-1 && symbols[g.System] != 0 && strings.Contains(g.Function, w.System[:strings.IndexByte(w.System+"<", '<')]):
			// The function has a symbol; addr2line prints DW_AT_name.
			class = qualified
		case i == 0 && trimClone(got[len(got)-1].System) == wantName:
			class = enclosing
		default:
			return differs + " in name"
		}
		if w.File == "??" && g.File == "" || g.Line == 0 && w.Line == 0 {
			continue
		}
		if g.File != path.Clean(w.File) {
			return differs + " in file"
		}
		if g.Line != w.Line {
			return differs + " in line"
		}
	}
	return class
}
