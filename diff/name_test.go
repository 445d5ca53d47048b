package diff

import "testing"

func TestCanonicalStripsWhatBuildsChange(t *testing.T) {
	for name, want := range map[string]string{
		"foo":                          "foo",
		"foo.llvm.1234567890":          "foo",
		"foo.part.0":                   "foo",
		"foo.constprop.0.isra.1":       "foo",
		"foo.cold":                     "foo",
		"foo.part.0.cold":              "foo",
		"foo.__uniq.98765.llvm.4321":   "foo",
		"foo.cfi":                      "foo",
		"ns::f(int) [clone .isra.0]":   "ns::f(int)",
		"main.Map[go.shape.int]":       "main.Map",
		"main.Map[...]":                "main.Map",
		"main.(*T[go.shape.[]int]).Do": "main.(*T).Do",
		"runtime.memmove.abi0":         "runtime.memmove",
		"core::ptr::drop_in_place::h0123456789abcdef": "core::ptr::drop_in_place",
		"main.f.func1":         "main.f.func1",
		"liblzma.so.5+0x16900": "liblzma.so.5+0x16900",
		".cold":                ".cold",
		"[exit]":               "[exit]",
		"main.coldStart":       "main.coldStart",
		"[...]":                "[...]",
		"f[go.shape.int":       "f[go.shape.int",
	} {
		if got := Canonical(name); got != want {
			t.Errorf("Canonical(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestSuffixStaysWhereItTellsFunctionsApart(t *testing.T) {
	side := func(entries ...entry) []observed {
		c := &Counts{}
		for _, e := range entries {
			e.n = 10
			c.entries = append(c.entries, e)
			c.total += e.n
		}
		return []observed{{counts: c}}
	}
	at := func(name, file string, line int) entry {
		return entry{Function: Function{Name: name, File: file}, start: line}
	}
	for _, tc := range []struct {
		name       string
		base, head []observed
		want       []string
	}{
		{"a part of the function", side(at("f", "", 0), at("f.part.0", "", 0)), side(at("f", "", 0)), []string{"f"}},
		{"clones of one line", side(at("f.isra.0", "a.c", 5), at("f.constprop.0", "a.c", 5)), side(at("f", "a.c", 9)), []string{"f"}},
		{"two files", side(at("f.llvm.1", "a.c", 5), at("f.llvm.2", "b.c", 7)), side(at("f.llvm.1", "a.c", 5)), []string{"f.llvm.1", "f.llvm.2"}},
		{"two files, on head only", side(at("f.llvm.1", "a.c", 5)), side(at("f.llvm.1", "a.c", 5), at("f.llvm.2", "b.c", 7)), []string{"f.llvm.1", "f.llvm.2"}},
		{"two hashes without lines", side(at("f.llvm.1", "", 0), at("f.llvm.2", "", 0)), side(at("f.llvm.1", "", 0)), []string{"f.llvm.1", "f.llvm.2"}},
		{"another hash in another build", side(at("f.llvm.1", "", 0)), side(at("f.llvm.2", "", 0)), []string{"f"}},
		{"another directory in another build", side(at("f.cold", "/base/a.c", 5)), side(at("f", "/head/a.c", 8)), []string{"f"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMatrix(tc.base, tc.head, newNames(tc.base, tc.head), false)
			got := []string{}
			for _, f := range m.functions {
				got = append(got, f.Name)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			}
		})
	}
}
