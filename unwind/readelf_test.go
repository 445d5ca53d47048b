package unwind

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// dumpedFDE is one FDE as `readelf --debug-dump=frames-interp` prints it.
type dumpedFDE struct {
	start, end uint64
	signal     bool
	columns    []string // names after LOC, from CFA on
	rows       []dumpedRow
	initial    []dumpedRow // of the CIE
}

type dumpedRow struct {
	at    uint64
	cells map[string]string // by column, CFA included
}

var (
	dumpedEntry = regexp.MustCompile(`^([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ (CIE|FDE) ?(?:cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+))?`)
	dumpedCIE   = regexp.MustCompile(`^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ CIE "([^"]*)"`)
)

// readelfRows runs readelf on path and returns its FDEs.
func readelfRows(t *testing.T, path string) []dumpedFDE {
	t.Helper()
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("readelf (binutils) is not installed")
	}
	// --debug-dump must not follow links to separate debug files.
	cmd := exec.Command(readelf, "--debug-dump=frames-interp", "--debug-dump=no-follow-links", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var fdes []dumpedFDE
	cies := map[string]*dumpedFDE{}
	var current *dumpedFDE
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := dumpedEntry.FindStringSubmatch(line); m != nil {
			if m[2] == "CIE" {
				c := dumpedCIE.FindStringSubmatch(line)
				current = &dumpedFDE{signal: c != nil && strings.Contains(c[1], "S")}
				cies[m[1]] = current
				continue
			}
			cie := cies[m[3]]
			if cie == nil {
				t.Fatalf("readelf prints an FDE before its CIE: %s", line)
			}
			f := dumpedFDE{start: hex(t, m[4]), end: hex(t, m[5]), signal: cie.signal, columns: cie.columns}
			for _, row := range cie.rows {
				// An FDE without instructions has the row of its CIE only.
				f.initial = append(f.initial, dumpedRow{at: f.start, cells: row.cells})
			}
			fdes = append(fdes, f)
			current = &fdes[len(fdes)-1]
			continue
		}
		fields := strings.Fields(line)
		switch {
		case current == nil || len(fields) < 2:
		case fields[0] == "LOC":
			current.columns = fields[1:]
		case len(fields[0]) == 16:
			row := dumpedRow{at: hex(t, fields[0]), cells: map[string]string{}}
			column := 0
			for _, cell := range fields[1:] {
				// "r9 (r9)" is one cell: a register and its name.
				if !strings.HasPrefix(cell, "(") && column < len(current.columns) {
					row.cells[current.columns[column]] = cell
					column++
				}
			}
			current.rows = append(current.rows, row)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for i := range fdes {
		if len(fdes[i].rows) == 0 {
			fdes[i].rows = fdes[i].initial
		}
	}
	return fdes
}

func hex(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatalf("readelf printed %q where an address is due", s)
	}
	return v
}

// dumpedString renders a dumped row the way Rule.String does. ok is false for
// rows with expressions, which readelf does not print.
func dumpedString(arch Arch, row dumpedRow) (s string, ok bool) {
	if arch == ARM64 {
		return dumpedARM64(row)
	}
	cfa := row.cells["CFA"]
	ra, fp, bx := row.cells["ra"], row.cells["rbp"], row.cells["rbx"]
	if ra == "u" {
		return "stop", true
	}
	if cfa == "exp" || strings.HasPrefix(cfa, "vexp") || strings.Contains(ra+fp+bx, "exp") {
		return "", false
	}
	reg, off, found := strings.Cut(cfa, "+")
	if !found {
		return "", false
	}
	numbers := map[string]string{"rax": "r0", "rdx": "r1", "rcx": "r2", "rbx": "r3", "rsi": "r4", "rdi": "r5", "rbp": "fp", "rsp": "sp"}
	if name, ok := numbers[reg]; ok {
		reg = name
	}
	s = fmt.Sprintf("cfa=%s+%s", reg, off)
	if strings.HasPrefix(fp, "c") {
		s += fmt.Sprintf(" fp=*(cfa%s)", fp[1:])
	}
	if strings.HasPrefix(bx, "c") {
		s += fmt.Sprintf(" bx=*(cfa%s)", bx[1:])
	}
	if strings.HasPrefix(ra, "r") && reg == "sp" {
		return s + " ra=" + ra, true
	}
	if !strings.HasPrefix(ra, "c") {
		return "unsupported", true
	}
	return s + fmt.Sprintf(" ra=*(cfa%s)", ra[1:]), true
}

// dumpedARM64 is dumpedString for arm64, where readelf prints "u" for a return
// address that has not been saved.
func dumpedARM64(row dumpedRow) (s string, ok bool) {
	cfa, ra, fp := row.cells["CFA"], row.cells["ra"], row.cells["x29"]
	reg, off, found := strings.Cut(cfa, "+")
	if !found || strings.Contains(ra+fp, "exp") {
		return "", false
	}
	reg = strings.Replace(strings.Replace(reg, "x29", "fp", 1), "x", "r", 1)
	s = fmt.Sprintf("cfa=%s+%s", reg, off)
	if strings.HasPrefix(ra, "c") {
		if at, err := strconv.Atoi(ra[1:]); err != nil || at != int(int16(at)) {
			return "unsupported", true
		}
	}
	if strings.HasPrefix(fp, "c") {
		s += fmt.Sprintf(" fp=*(cfa%s)", fp[1:])
	}
	if strings.HasPrefix(ra, "c") {
		return s + fmt.Sprintf(" ra=*(cfa%s)", ra[1:]), true
	}
	return s + " ra=lr", true
}

// buildC compiles a C program of testdata with gcc and returns its path.
func buildC(t *testing.T, source string, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed")
	}
	out := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-o", out, filepath.Join("testdata", source)}, flags...)
	if text, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		if strings.Contains(string(text), "cannot find") {
			t.Skipf("gcc %v: a library is missing: %s", flags, text)
		}
		t.Fatalf("gcc %v: %v\n%s", args, err, text)
	}
	return out
}

// TestRowsAgreeWithReadelf compares every row of real files with binutils'
// interpretation of the same call frame information.
func TestRowsAgreeWithReadelf(t *testing.T) {
	files := map[string]func(t *testing.T) string{
		"libc":   systemFile("/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"),
		"ld.so":  systemFile("/usr/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
		"C++":    systemFile("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/lib64/libstdc++.so.6"),
		"crypto": systemFile("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/lib64/libcrypto.so.3"),
		"PIE":    func(t *testing.T) string { return buildC(t, "calls.c", "-O2", "-fomit-frame-pointer", "-Wl,-z,lazy") },
		"debug_frame": func(t *testing.T) string {
			return buildC(t, "calls.c", "-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
		},
		"compressed debug_frame": func(t *testing.T) string {
			return buildC(t, "calls.c", "-O2", "-g", "-gz", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
		},
	}
	// Parsing does not depend on the machine it runs on.
	files["arm64"] = func(t *testing.T) string { return "testdata/arm64/frames.so" }
	files["arm64 libc"] = systemFile("/usr/aarch64-linux-gnu/lib/libc.so.6")
	files["arm64 C++"] = systemFile("/usr/aarch64-linux-gnu/lib/libstdc++.so.6")
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			path := file(t)
			f, err := safeelf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			rules := NewRuleSet()
			table, err := NewTable(f, rules)
			if err != nil {
				t.Fatal(err)
			}
			compareRows(t, f, table, rules, readelfRows(t, path))
		})
	}
}

func systemFile(paths ...string) func(t *testing.T) string {
	return func(t *testing.T) string {
		for _, path := range paths {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
		t.Skipf("none of %v exists", paths)
		return ""
	}
}

// compareRows checks the rule at the first and the last byte of every row.
func compareRows(t *testing.T, f *safeelf.File, table *Table, rules *RuleSet, fdes []dumpedFDE) {
	t.Helper()
	arch, err := archOf(f)
	if err != nil {
		t.Fatal(err)
	}
	compared, expressions, wrong := 0, 0, 0
	for i, fde := range fdes {
		if fde.start == fde.end {
			continue
		}
		for j, row := range fde.rows {
			want, ok := dumpedString(arch, row)
			if fde.signal {
				want, ok = "signal", true
			}
			if !ok {
				expressions++
				continue
			}
			end := fde.end
			if j+1 < len(fde.rows) {
				end = fde.rows[j+1].at
			}
			if row.at >= end {
				continue // superseded at the same address
			}
			if i+1 < len(fdes) && fdes[i+1].signal && fdes[i+1].start == end {
				end-- // a signal frame's rule starts one byte early
			}
			for _, vaddr := range []uint64{row.at, end - 1} {
				off, ok := f.Offset(vaddr)
				if !ok {
					t.Fatalf("readelf reports an FDE at %#x, which is in no segment", vaddr)
				}
				compared++
				got := table.Lookup(rules, off).String()
				if arch == ARM64 && row.cells["ra"] == "u" && got == "stop" {
					continue // readelf prints the same for undefined and unsaved
				}
				if got != want {
					if wrong++; wrong <= 10 {
						t.Errorf("rule at %#x (FDE %#x..%#x): got %q, want %q", vaddr, fde.start, fde.end, got, want)
					}
				}
			}
		}
	}
	if compared < 20 {
		t.Fatalf("only %d rules were compared; readelf's output was not understood", compared)
	}
	if wrong > 0 {
		t.Errorf("%d of %d rules differ", wrong, compared)
	}
	t.Logf("compared %d rules; %d rows have expressions", compared, expressions)
}
