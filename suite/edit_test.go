package suite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetLeavesTheRestAlone(t *testing.T) {
	for _, tt := range []struct {
		name, suite, before, after string
		values                     map[string]int
	}{
		{"a key that is there", "b",
			"suites:\n  - {name: a, command: ./a, runs: 3}\n  - name: b\n    command: ./b\n    runs:   20   # pairs\n",
			"suites:\n  - {name: a, command: ./a, runs: 3}\n  - name: b\n    command: ./b\n    runs:   12   # pairs\n",
			map[string]int{"runs": 12}},
		{"keys that are not", "b",
			"suites:\n- name: 'b' # main\n  command: ./b\n# end\n",
			"suites:\n- name: 'b' # main\n  runs: 12\n  frequency: 499\n  command: ./b\n# end\n",
			map[string]int{"runs": 12, "frequency": 499}},
		{"one line with the key", "ä",
			"suites: [{name: \"ä\", runs: 3, command: ./a}]",
			"suites: [{name: \"ä\", runs: 12, command: ./a}]",
			map[string]int{"runs": 12}},
		{"lines of Windows, name at the end", "a",
			"suites:\r\n  - command: ./a\r\n    name: a\r\n",
			"suites:\r\n  - command: ./a\r\n    name: a\r\n    warmup: 0\r\n",
			map[string]int{"warmup": 0}},
		{"no end of line, the only suite", "",
			"suites:\n  - command: ./a\n    name: a",
			"suites:\n  - command: ./a\n    name: a\n    runs: 7\n",
			map[string]int{"runs": 7}},
	} {
		got, err := Set(FileName, []byte(tt.before), tt.suite, tt.values)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if d := cmp.Diff(tt.after, string(got)); d != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, d)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, suite, text string
		values            map[string]int
		want              error
	}{
		{"one line without the key", "a", "suites: [{name: a, command: ./a}]", map[string]int{"runs": 3}, ErrEdit},
		{"another key", "a", "suites: [{name: a, command: ./a}]", map[string]int{"timeout": 3}, ErrEdit},
		{"another suite", "b", "suites: [{name: a, command: ./a}]", map[string]int{"runs": 3}, ErrNoSuite},
		{"out of range", "a", "suites: [{name: a, command: ./a, runs: 3}]", map[string]int{"runs": 0}, ErrEdit},
	} {
		if _, err := Set(FileName, []byte(tt.text), tt.suite, tt.values); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), FileName) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	var wrong *FileError
	if _, err := Set(FileName, []byte("suites: []"), "a", nil); !errors.As(err, &wrong) {
		t.Errorf("a wrong file: %v", err)
	}
}

func FuzzSet(f *testing.F) {
	names, err := filepath.Glob("testdata/valid/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "parse")
	}
	f.Fuzz(func(t *testing.T, data []byte, suite string) {
		values := map[string]int{"runs": 12, "frequency": 499}
		edited, err := Set(FileName, data, suite, values)
		if err != nil {
			return
		}
		before, err := Parse(FileName, data)
		if err != nil {
			t.Fatal(err)
		}
		after, err := Parse(FileName, edited)
		if err != nil {
			t.Fatal(err)
		}
		if len(before.Suites) != len(after.Suites) {
			t.Fatalf("%d suites became %d", len(before.Suites), len(after.Suites))
		}
		for i := range before.Suites {
			if a, b := before.Suites[i], after.Suites[i]; a.Name != b.Name || a.Command.String() != b.Command.String() || a.Warmup != b.Warmup {
				t.Errorf("suite %d changed from %+v to %+v", i, a, b)
			}
		}
	})
}
