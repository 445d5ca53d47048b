package revision

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (s *sandbox) changes(r *Repository, commit string, roots ...string) *Changes {
	s.t.Helper()
	c, err := r.Changes(s.t.Context(), commit, roots...)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// edited returns numbered lines with some replaced, by number, where "" removes
// a line.
func edited(from, to int, with map[int]string) string {
	var b strings.Builder
	for i, line := range strings.SplitAfter(numbered(from, to), "\n") {
		if text, ok := with[from+i]; ok {
			b.WriteString(text)
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestTouchedLinesOfBothSides(t *testing.T) {
	s := newSandbox(t)
	base := s.git("rev-parse", "HEAD")
	// Line 10 changed; two lines after 20 are new; line 30 is gone.
	text := edited(1, 40, map[int]string{10: "changed\n", 20: "line 20\nnew 1\nnew 2\n", 30: ""})
	s.write("src/a.c", text)
	c := s.changes(s.open(), base)
	want := []FileChange{{
		Base: "src/a.c", Head: "src/a.c",
		BaseLines: []Range{{Start: 10, End: 10}, {Start: 20, End: 20, Gap: true}, {Start: 30, End: 30}},
		HeadLines: []Range{{Start: 10, End: 10}, {Start: 21, End: 22}, {Start: 31, End: 31, Gap: true}},
	}}
	if d := cmp.Diff(want, c.Files); d != "" {
		t.Fatalf("-want +got:\n%s", d)
	}
	for _, tt := range []struct {
		start, end int
		base, head bool
	}{
		{1, 9, false, false},
		{1, 10, true, true},
		{10, 10, true, true},
		{10, 0, true, true}, // no end is known
		{11, 19, false, false},
		{11, 20, true, false}, // what base lacks comes after 20
		{21, 21, false, true},
		{21, 29, false, true},
		{23, 29, false, false},
		{30, 30, true, false},
		{23, 31, true, true}, // what head lacks came after 31
		{32, 40, false, false},
		{0, 40, false, false}, // not known
	} {
		gotBase := c.TouchedOn(BaseSide, "src/a.c", tt.start, tt.end)
		gotHead := c.TouchedOn(HeadSide, "src/a.c", tt.start, tt.end)
		if gotBase != tt.base || gotHead != tt.head || c.Touched("src/a.c", tt.start, tt.end) != (tt.base || tt.head) {
			t.Errorf("%d-%d: base %v, head %v, want %v, %v", tt.start, tt.end, gotBase, gotHead, tt.base, tt.head)
		}
	}
}

// Committed, staged, unstaged and untracked; new, deleted, renamed, binary, of
// another mode; names of every kind. The user's own taste in diffs must not
// matter.
func TestChangesOfEveryKind(t *testing.T) {
	s := newSandbox(t)
	odd := []string{"with space/f g.c", "ünï/ö.c", "tab\there.c", `quote"d.c`, `back\slash.c`, "line\nbreak.c", " lead.c", "trail .c ", "a b/a b"}
	for _, name := range odd {
		s.write(name, numbered(1, 5))
	}
	s.write("deleted.c", numbered(500, 502))
	s.write("old name.c", numbered(1, 50))
	s.write("moved only.c", numbered(100, 150))
	s.write("mode.sh", "x\n")
	s.write("opaque.c", "x\n")
	s.write("opaque new.c", "x\n")
	s.write(".gitattributes", "opaque* -diff\nsrc/a.c diff=odd\n")
	s.write(".gitignore", "ignored.c\n")
	s.write("dashes.sql", "-- a/x\n-- b/x\nkeep\n")
	s.write("no end.c", "a")
	base := s.commit("names")

	for _, key := range []string{"diff.noprefix=true", "diff.mnemonicPrefix=true", "diff.external=false", "diff.odd.textconv=false",
		"diff.odd.command=false", "color.ui=always", "diff.context=9", "diff.interHunkContext=9", "diff.renames=false", "diff.relative=true", "core.quotePath=false"} {
		name, value, _ := strings.Cut(key, "=")
		s.git("config", name, value)
	}
	for _, name := range odd {
		s.write(name, edited(1, 5, map[int]string{3: "changed\n"}))
	}
	s.git("mv", "old name.c", "new name.c")
	s.write("new name.c", edited(1, 50, map[int]string{7: "changed\n"}))
	s.git("mv", "moved only.c", "moved.c")
	s.commit("head")
	s.git("rm", "--quiet", "deleted.c")
	if err := os.Chmod(filepath.Join(s.dir, "mode.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("opaque.c", "y\n")
	s.write("src/a.c", edited(1, 40, map[int]string{1: "staged\n"}))
	s.write("staged.c", numbered(1, 2))
	s.git("add", "src/a.c", "staged.c")
	s.write("src/a.c", edited(1, 40, map[int]string{1: "staged\n", 40: "not staged\n"}))
	s.write("dashes.sql", "++ b/y\n-- b/x\nkeep\n")
	s.write("no end.c", "b")
	s.write("dir/untracked ä.c", "x\n")
	s.write("ignored.c", "x\n")
	s.at(filepath.Join(s.dir, "nested")).mkdir(filepath.Join(s.dir, "nested"))
	s.at(filepath.Join(s.dir, "nested")).git("init", "--quiet")

	c := s.changes(s.open(), base)
	third := []Range{{Start: 3, End: 3}}
	whole := []Range{wholeFile}
	want := map[string]FileChange{
		"new name.c":        {Base: "old name.c", Head: "new name.c", BaseLines: []Range{{Start: 7, End: 7}}, HeadLines: []Range{{Start: 7, End: 7}}},
		"moved.c":           {Base: "moved only.c", Head: "moved.c"},
		"-deleted.c":        {Base: "deleted.c", BaseLines: []Range{{Start: 1, End: 3}}, HeadLines: []Range{{Gap: true}}},
		"mode.sh":           {Base: "mode.sh", Head: "mode.sh"},
		"opaque.c":          {Base: "opaque.c", Head: "opaque.c", BaseLines: whole, HeadLines: whole},
		"src/a.c":           {Base: "src/a.c", Head: "src/a.c", BaseLines: []Range{{Start: 1, End: 1}, {Start: 40, End: 40}}, HeadLines: []Range{{Start: 1, End: 1}, {Start: 40, End: 40}}},
		"staged.c":          {Head: "staged.c", BaseLines: []Range{{Gap: true}}, HeadLines: []Range{{Start: 1, End: 2}}},
		"dashes.sql":        {Base: "dashes.sql", Head: "dashes.sql", BaseLines: []Range{{Start: 1, End: 1}}, HeadLines: []Range{{Start: 1, End: 1}}},
		"no end.c":          {Base: "no end.c", Head: "no end.c", BaseLines: []Range{{Start: 1, End: 1}}, HeadLines: []Range{{Start: 1, End: 1}}},
		"dir/untracked ä.c": {Head: "dir/untracked ä.c", HeadLines: whole},
	}
	for _, name := range odd {
		want[name] = FileChange{Base: name, Head: name, BaseLines: third, HeadLines: third}
	}
	got := make(map[string]FileChange)
	for _, f := range c.Files {
		key := f.Head
		if key == "" {
			key = "-" + f.Base
		}
		got[key] = f
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for _, name := range odd {
		if !c.Touched(filepath.Join(s.dir, name), 2, 4) || c.Touched(filepath.Join(s.dir, name), 4, 5) {
			t.Errorf("%q is not touched in line 3 alone", name)
		}
	}
	if !c.TouchedOn(BaseSide, "old name.c", 1, 9) || !c.TouchedOn(HeadSide, "new name.c", 1, 9) || c.Touched("moved.c", 1, 50) {
		t.Error("renames are not followed")
	}
}

// The names of a file that compilers and options produce.
func TestFileNamesOfProfiles(t *testing.T) {
	s := newSandbox(t)
	for name, text := range map[string]string{
		"go.mod":             "// a comment\nmodule example.com/mod // with one behind\n\ngo 1.26\n",
		"tools/go.mod":       "module \"example.com/mod/cmd/tools/v2\"\n",
		"main.go":            numbered(1, 5),
		"sort.go":            numbered(1, 5),
		"pkg/a.go":           numbered(1, 5),
		"tools/pkg/a.go":     numbered(1, 5),
		"lib/util.c":         numbered(1, 5),
		"other/util.c":       numbered(1, 5),
		"lib/unique.c":       numbered(1, 5),
		"top.c":              numbered(1, 5),
		"lib/unchanged.c":    numbered(1, 5),
		"deep/lib/unique2.c": numbered(1, 5),
	} {
		s.write(name, text)
	}
	base := s.commit("files")
	changed := []string{"main.go", "sort.go", "pkg/a.go", "lib/util.c", "lib/unique.c", "top.c", "deep/lib/unique2.c"}
	for _, name := range changed {
		s.write(name, edited(1, 5, map[int]string{3: "changed\n"}))
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.dir, link); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), filepath.Join(link, "lib"), Options{Env: s.env, TempDir: s.tmp})
	if err != nil {
		t.Fatal(err)
	}
	c := s.changes(r, base, "/work/base tree")
	for _, tt := range []struct {
		file string
		want string // "" when it is no changed file
	}{
		// In the repository, as named, and in the given root.
		{s.dir + "/top.c", "top.c"},
		{s.dir + "/lib/../top.c", "top.c"},
		{link + "/top.c", "top.c"},
		{"/work/base tree/top.c", "top.c"},
		{"/work/base tree/lib/unchanged.c", ""},
		{"/work/base tree/sub/top.c", ""},
		{"/work/base treehouse/top.c", ""},
		// In the worktree of an earlier run.
		{"/tmp/tollgate-base-1234/top.c", "top.c"},
		{"/tmp/tollgate-base-1234/x/top.c", ""},
		// Built elsewhere: a directory has to agree.
		{"/build/lib/unique.c", "lib/unique.c"},
		{"/proc/self/cwd/lib/util.c", "lib/util.c"},
		{"/build/deep/lib/unique2.c", "deep/lib/unique2.c"},
		{"/build/top.c", ""},
		{"/usr/src/zlib/unique.c", ""},
		{"/usr/src/other/util.c", ""},
		// Relative, to the root or to a directory below.
		{"lib/unique.c", "lib/unique.c"},
		{"./lib/unique.c", "lib/unique.c"},
		{"unique.c", "lib/unique.c"},
		{"../lib/unique.c", "lib/unique.c"},
		{"../../top.c", "top.c"},
		{"lib/unique2.c", "deep/lib/unique2.c"},
		{"util.c", ""}, // lib's or other's
		{"other/util.c", ""},
		{"proj/lib/unique.c", "lib/unique.c"},
		{"proj/top.c", ""},
		{"unchanged.c", ""},
		// Go with -trimpath.
		{"example.com/mod/main.go", "main.go"},
		{"example.com/mod/pkg/a.go", "pkg/a.go"},
		{"example.com/mod/cmd/tools/v2/pkg/a.go", ""}, // tools/pkg/a.go is unchanged
		{"example.com/mod@v1.2.3/pkg/a.go", ""},
		{"example.com/other/pkg/a.go", ""},
		{"sort/sort.go", ""},
		{"sort.go", ""},
		{"command-line-arguments/main.go", "main.go"},
		{"./main.go", "main.go"},
		{"/root/go/pkg/mod/example.com/x@v0.1.0/pkg/a.go", ""},
		{"/usr/local/go/src/sort/sort.go", ""},
		// Odd ones.
		{"", ""}, {"/", ""}, {".", ""}, {"..", ""}, {"<autogenerated>", ""}, {"_cgo_gotypes.go", ""},
	} {
		got, ok := c.paths.resolve(tt.file)
		if !ok {
			got = ""
		}
		if got != tt.want || c.Touched(tt.file, 1, 5) != (tt.want != "") {
			t.Errorf("%q is %q, touched %v, want %q", tt.file, got, c.Touched(tt.file, 1, 5), tt.want)
		}
	}
}

func TestNothingChanged(t *testing.T) {
	s := newSandbox(t)
	c := s.changes(s.open(), "HEAD")
	if len(c.Files) != 0 || c.Touched("src/a.c", 1, 40) {
		t.Errorf("%+v", c.Files)
	}
	if _, err := s.open().Changes(t.Context(), strings.Repeat("1", 40)); err == nil || !strings.Contains(err.Error(), "compare the working tree with 111111111111: git diff-index: ") {
		t.Errorf("an unknown commit: %v", err)
	}
}

// A merge that was left in the middle: files with conflicts count as they are.
func TestChangesDuringAMerge(t *testing.T) {
	s := newSandbox(t)
	base := s.git("rev-parse", "HEAD")
	s.git("checkout", "--quiet", "-b", "one")
	s.write("src/a.c", edited(1, 40, map[int]string{5: "one\n"}))
	s.commit("one")
	s.git("checkout", "--quiet", "-b", "two", "main")
	s.write("src/a.c", edited(1, 40, map[int]string{5: "two\n"}))
	s.write("src/b.c", "b\n")
	s.commit("two")
	if err := s.tryGit("merge", "--quiet", "one"); err == nil {
		t.Fatal("no conflict")
	}
	c := s.changes(s.open(), base)
	if !c.Touched("src/b.c", 1, 1) {
		t.Errorf("%+v", c.Files)
	}
}

func TestPatchesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"diff --git a/x b/x\n@@ -1 +1 @@\n-a\n":           "unexpected EOF",
		"diff --git a/x b/x\n@@ -one +1 @@\n":             "line number",
		"diff --git a/x b/x\n@@ -1\n":                     "hunk",
		"diff --git a/x b/x\n@@ -1,99999999999 +1 @@\n":   "line number",
		"diff --git a/x b/x\n@@ -1 +18446744073709551616": "hunk",
	} {
		if _, err := parsePatch(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	long := "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-" + strings.Repeat("x", 3*maxPatchLine) + "\n+y\n@@ -9,0 +9 @@\n+z\n"
	files, err := parsePatch(strings.NewReader(long))
	if err != nil || len(files) != 1 || len(files[0].HeadLines) != 2 {
		t.Errorf("long lines: %+v, %v", files, err)
	}
}

func FuzzParsePatch(f *testing.F) {
	f.Add("diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1 @@ int f()\n-a\n-b\n+c\n\\ No newline at end of file\n")
	f.Add("diff --git a/old name b/new name\nsimilarity index 90%\nrename from old name\nrename to new name\n--- a/old name\t\n+++ b/new name\t\n@@ -3,0 +4,2 @@\n+x\n+y\n")
	f.Add("diff --git \"a/tab\\there\" \"b/\\303\\274\"\nnew file mode 100644\nBinary files /dev/null and \"b/\\303\\274\" differ\n")
	f.Add("* Unmerged path x\ndiff --git a/a b/a b/a b/a\nold mode 100644\nnew mode 100755\n")
	f.Fuzz(func(t *testing.T, text string) {
		files, err := parsePatch(strings.NewReader(text))
		if err != nil {
			return
		}
		c := &Changes{Files: files}
		c.index()
		c.paths = newPaths([]string{"/repo"}, c.names())
		for _, file := range files {
			for _, lines := range [][]Range{file.BaseLines, file.HeadLines} {
				for _, r := range lines {
					if r.Start < 0 || r.End < r.Start && !r.Gap && r.Start != 0 {
						t.Errorf("%q: range %+v", text, r)
					}
				}
			}
			c.Touched(file.Head, 1, 10)
			c.Touched("/repo/"+file.Base, 1, 10)
		}
	})
}

func FuzzResolve(f *testing.F) {
	for _, name := range []string{"src/a.c", "/tmp/tollgate-base-1/src/a.c", "example.com/mod/src/a.c", "../src/a.c", "x@v1.0.0/src/a.c", "//", "a@v"} {
		f.Add(name)
	}
	p := newPaths([]string{"/repo"}, []string{"src/a.c", "b.c"})
	p.add("lib/a.c")
	p.addModule("example.com/mod", ".")
	f.Fuzz(func(t *testing.T, name string) {
		if got, ok := p.resolve(name); ok && got != "src/a.c" && got != "b.c" {
			t.Errorf("%q is %q, which did not change", name, got)
		}
	})
}

func TestErrorsAreTyped(t *testing.T) {
	cause := errors.New("cause")
	err := error(&Error{"find base", "main", because(ErrNoMergeBase, cause), "hint"})
	if !errors.Is(err, ErrNoMergeBase) || !errors.Is(err, cause) || err.Error() != "find base main: no common ancestor: cause" || hintOf(err) != "hint" {
		t.Errorf("%v", err)
	}
}
