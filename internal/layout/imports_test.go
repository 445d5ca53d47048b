// Package layout holds the tests of the repository's layout.
package layout

import (
	"bufio"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/tollgate-dev/tollgate"
	root   = "../.."
	config = root + "/.golangci.yml"
)

// unrestricted are the directories whose code may import everything.
var unrestricted = []string{"cmd/tollgate", "bench", "internal/layout"}

// TestImportsAreAllowed checks the imports of all code but tests against the
// lists that .golangci.yml has for depguard.
func TestImportsAreAllowed(t *testing.T) {
	rules := readRules(t)
	checked := 0
	for _, file := range goFiles(t) {
		rule, restricted := ruleFor(rules, path.Dir(file))
		if !restricted {
			continue
		}
		if rule == nil {
			t.Errorf("%s: its directory has no rule in .golangci.yml", file)
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		checked++
		for _, finding := range check(t, file, source, rule) {
			t.Error(finding)
		}
	}
	if checked < 10 {
		t.Errorf("only %d files checked", checked)
	}
}

// TestForbiddenImportsAreFound makes sure that the check can fail.
func TestForbiddenImportsAreFound(t *testing.T) {
	rules := readRules(t)
	for _, test := range []struct {
		dir, imported string
		allowed       bool
	}{
		{"unwind", "debug/elf", true},
		{"unwind", module + "/internal/safeelf", true},
		{"unwind", module + "/symbol", false},
		{"unwind", "golang.org/x/sys/unix", false},
		{"symbol", module + "/unwind", true},
		{"symbol", module + "/capture", false},
		{"capture", module + "/bpf", true},
		{"capture", module + "/diff", false},
		{"diff", "gonum.org/v1/gonum/stat", true},
		{"diff", module + "/baseline", false},
		{"baseline", module + "/capture", false},
		{"report", module + "/diff", true},
		{"report", module + "/baseline", false},
		{"bpf", "github.com/cilium/ebpf/link", true},
		{"bpf", "github.com/cilium/ebpfother", false},
		{"bpf", module + "/unwind", false},
		{"internal/gopclntab", module + "/symbol", false},
		{"symbol/internal/anything", module + "/capture", false},
	} {
		rule, restricted := ruleFor(rules, test.dir)
		if !restricted || rule == nil {
			t.Errorf("%s has no rule", test.dir)
			continue
		}
		source := fmt.Sprintf("package p\n\nimport _ %q\n", test.imported)
		findings := check(t, test.dir+"/p.go", []byte(source), rule)
		if allowed := len(findings) == 0; allowed != test.allowed {
			t.Errorf("import of %s by %s: allowed is %v, want %v", test.imported, test.dir, allowed, test.allowed)
		}
	}
	if rule, restricted := ruleFor(rules, "newpackage"); rule != nil || !restricted {
		t.Error("a new directory needs no rule")
	}
}

// check returns a line for each import of the file that rule does not allow.
func check(t *testing.T, name string, source []byte, rule []string) (findings []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !allows(rule, imported) {
			findings = append(findings, fmt.Sprintf("%s: %s may not import %s", files.Position(spec.Pos()), path.Dir(name), imported))
		}
	}
	return findings
}

// allows reports whether a list has the imported package or one above it.
func allows(rule []string, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	standard := !strings.Contains(first, ".")
	for _, allowed := range rule {
		if allowed == "$gostd" && standard || imported == allowed || strings.HasPrefix(imported, allowed+"/") {
			return true
		}
	}
	return false
}

// ruleFor returns the list of the directory, or of the nearest one above it.
func ruleFor(rules map[string][]string, dir string) (rule []string, restricted bool) {
	for _, free := range unrestricted {
		if dir == free || strings.HasPrefix(dir, free+"/") {
			return nil, false
		}
	}
	for ; dir != "."; dir = path.Dir(dir) {
		if rule := rules[dir]; rule != nil {
			return rule, true
		}
	}
	return nil, true
}

// readRules reads the lists under depguard in .golangci.yml, by directory. It
// knows as much YAML as that part of the file uses, and fails on anything else.
func readRules(t *testing.T) map[string][]string {
	t.Helper()
	file, err := os.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rules := make(map[string][]string)
	inside, dir := false, ""
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		line := scanner.Text()
		text := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case line == "    depguard:":
			inside = true
		case !inside || text == "" || strings.HasPrefix(text, "#"):
		case indent <= 4:
			inside = false
		case indent == 6 && text == "rules:":
		case indent == 8 && strings.HasSuffix(text, ":"):
			dir = strings.TrimSuffix(text, ":")
		case indent == 10 && (text == "list-mode: strict" || text == "allow:"):
		case indent == 10 && text == fmt.Sprintf("files: [\"${base-path}/%s/**\", \"!$test\"]", dir):
		case indent == 12 && strings.HasPrefix(text, "- "):
			rules[dir] = append(rules[dir], strings.TrimPrefix(text, "- "))
		default:
			t.Fatalf("%s: this test does not understand %q", config, line)
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	if len(rules) < 8 {
		t.Fatalf("%s: only %d rules for depguard", config, len(rules))
	}
	return rules
}

// goFiles returns the module's files that are no tests.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			base := entry.Name()
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			other := err == nil && name != root
			if other || name != root && (base == "testdata" || base[0] == '.' || base[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			relative, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
