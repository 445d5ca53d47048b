package revision

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBaseIsTheMergeBase(t *testing.T) {
	s := newSandbox(t)
	fork := s.git("rev-parse", "HEAD")
	s.git("checkout", "--quiet", "-b", "feature")
	s.write("src/b.c", "b\n")
	s.commit("on feature")
	s.git("checkout", "--quiet", "main")
	s.write("src/c.c", "c\n")
	s.commit("on main")
	s.git("tag", "v1.0")
	s.git("checkout", "--quiet", "feature")
	r := s.open()
	for _, ref := range []string{"main", "v1.0", "HEAD~1", fork, fork[:9], "refs/heads/main"} {
		base, err := r.Base(t.Context(), ref)
		if err != nil || base.Commit != fork || base.Fallback || base.Deepened != 0 || len(base.Notes) != 0 {
			t.Errorf("%s: %+v, %v, want %s", ref, base, err, fork)
		}
	}
	base, err := r.Base(t.Context(), "feature")
	if err != nil || len(base.Notes) != 1 || !strings.Contains(base.Notes[0], "both sides are the same") {
		t.Errorf("itself: %+v, %v", base, err)
	}
	s.write("src/b.c", "dirty\n")
	if base, err = r.Base(t.Context(), "feature"); err != nil || len(base.Notes) != 0 {
		t.Errorf("itself, with changes: %+v, %v", base, err)
	}
}

func TestRevisionsThatDoNotExist(t *testing.T) {
	s := newSandbox(t)
	s.git("branch", "release/2.1")
	s.git("update-ref", "refs/remotes/upstream/develop", "HEAD")
	r := s.open()
	for ref, hint := range map[string]string{
		"mian":          `did you mean "main"?`,
		"release/2.0":   `did you mean "release/2.1"?`,
		"develop":       `did you mean "upstream/develop"?`,
		"nothing-alike": "git branch -a",
		"":              "name a branch",
		"--all":         "name a branch",
		"HEAD:README":   "",
		"HEAD~7":        "",
		"a b":           "",
	} {
		_, err := r.Base(t.Context(), ref)
		if !errors.Is(err, ErrNoRevision) || !strings.Contains(hintOf(err), hint) {
			t.Errorf("%q: %v (hint %q)", ref, err, hintOf(err))
		}
	}
}

func TestUnrelatedHistories(t *testing.T) {
	s := newSandbox(t)
	s.git("checkout", "--quiet", "--orphan", "other")
	s.commit("other root")
	if _, err := s.open().Base(t.Context(), "main"); !errors.Is(err, ErrNoMergeBase) || hintOf(err) == "" {
		t.Errorf("%v", err)
	}
}

func TestSeveralMergeBasesAreSaid(t *testing.T) {
	s := newSandbox(t)
	s.git("checkout", "--quiet", "-b", "one")
	s.write("one", "1\n")
	s.commit("one")
	s.git("checkout", "--quiet", "-b", "two", "main")
	s.write("two", "2\n")
	s.commit("two")
	s.git("tag", "crossed")
	s.git("merge", "--quiet", "--no-edit", "one")
	s.git("checkout", "--quiet", "one")
	s.git("merge", "--quiet", "--no-edit", "crossed")
	base, err := s.open().Base(t.Context(), "two")
	if err != nil || len(base.Notes) != 1 || !strings.Contains(base.Notes[0], "2 merge bases") {
		t.Errorf("%+v, %v", base, err)
	}
}

// history makes an origin with main and feature, which fork after `common`
// commits and have `own` commits of their own, with `git fast-import`.
func history(t *testing.T, common, own int) (origin *sandbox, fork string) {
	t.Helper()
	origin = &sandbox{t: t, dir: filepath.Join(t.TempDir(), "origin.git"), env: hermetic(t), tmp: t.TempDir()}
	origin.mkdir(origin.dir)
	origin.git("init", "--quiet", "--bare")
	var b strings.Builder
	mark := 0
	commit := func(branch string, parent int) {
		mark++
		fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata 1\nx\n", branch, mark, 1767225600+mark)
		if parent > 0 {
			fmt.Fprintf(&b, "from :%d\n", parent)
		}
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%d\n\n", branch, len(fmt.Sprint(mark)), mark)
	}
	for i := range common {
		commit("main", i)
	}
	for i := range own {
		commit("main", mark)
		_ = i
	}
	for i := range own {
		parent := common
		if i > 0 {
			parent = mark
		}
		commit("feature", parent)
	}
	stream := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(stream, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	origin.git("-c", "alias.load=!git fast-import --quiet <"+stream, "load")
	return origin, origin.git("merge-base", "main", "feature")
}

// clone makes a shallow clone with one branch, as CI does.
func clone(t *testing.T, origin *sandbox, branch string) *sandbox {
	t.Helper()
	s := origin.at(filepath.Join(t.TempDir(), "clone"))
	s.t = t
	origin.git("clone", "--quiet", "--depth=1", "--branch="+branch, "file://"+origin.dir, s.dir)
	return s
}

func TestShallowClonesAreDeepened(t *testing.T) {
	origin, fork := history(t, 30, 90)
	s := clone(t, origin, "feature")
	before := strings.Join(slices.DeleteFunc(strings.SplitAfter(s.state(), "\n"), func(line string) bool {
		return strings.Contains(line, filepath.FromSlash("refs/remotes"))
	}), "")
	base, err := s.open().Base(t.Context(), "origin/main")
	if err != nil || base.Commit != fork || base.Fallback {
		t.Fatalf("%+v, %v, want %s", base, err, fork)
	}
	notes := strings.Join(base.Notes, "\n")
	if base.Deepened != 300 || !strings.Contains(notes, "fetched origin/main") || !strings.Contains(notes, "deepened") {
		t.Errorf("deepened by %d: %q", base.Deepened, base.Notes)
	}
	// Besides objects and .git/shallow, only the branch that was asked for is new.
	kept := slices.DeleteFunc(strings.SplitAfter(s.state(), "\n"), func(line string) bool {
		return strings.Contains(line, filepath.FromSlash("refs/remotes"))
	})
	if got := strings.Join(kept, ""); got != before {
		t.Errorf("the clone changed from\n%s\nto\n%s", before, got)
	}
	if got := s.git("for-each-ref", "--format=%(refname)", "refs/remotes", "refs/tags"); got != "refs/remotes/origin/feature\nrefs/remotes/origin/main" {
		t.Errorf("the references are %s", got)
	}
	// The second time everything is there.
	if base, err = s.open().Base(t.Context(), "origin/main"); err != nil || base.Commit != fork || base.Deepened != 0 || len(base.Notes) != 0 {
		t.Errorf("again: %+v, %v", base, err)
	}
}

func TestCommitsThatTheServerDoesNotKnow(t *testing.T) {
	origin, fork := history(t, 5, 60)
	s := clone(t, origin, "feature")
	s.write("local", "local\n")
	s.commit("not pushed")
	base, err := s.open().Base(t.Context(), "origin/main")
	if err != nil || base.Commit != fork || base.Fallback {
		t.Errorf("%+v, %v, want %s", base, err, fork)
	}
}

func TestFallbackIsSaid(t *testing.T) {
	origin, _ := history(t, 5, 60)
	s := clone(t, origin, "feature")
	s.git("fetch", "--quiet", "--depth=1", "origin", "+refs/heads/main:refs/remotes/origin/main")
	tip := s.git("rev-parse", "origin/main")
	check := func(name, note string) {
		t.Helper()
		base, err := s.open().Base(t.Context(), "origin/main")
		if err != nil || !base.Fallback || base.Commit != tip {
			t.Errorf("%s: %+v, %v, want %s", name, base, err, tip)
		}
		if notes := strings.Join(base.Notes, "\n"); !strings.HasPrefix(notes, "compared with origin/main itself") || !strings.Contains(notes, note) {
			t.Errorf("%s: notes %q", name, base.Notes)
		}
	}
	if err := os.Rename(origin.dir, origin.dir+".gone"); err != nil {
		t.Fatal(err)
	}
	check("no server", "history could not be deepened: git fetch: ")
	s.git("update-ref", "refs/keep", "origin/main")
	s.git("remote", "remove", "origin")
	s.git("update-ref", "refs/remotes/origin/main", "refs/keep")
	check("no remote", "no remote")
	if _, err := s.open().Base(t.Context(), "v1.0"); !errors.Is(err, ErrNoRevision) || !strings.Contains(hintOf(err), "fetch-depth: 0") {
		t.Errorf("a tag that was not cloned: %v (hint %q)", err, hintOf(err))
	}
}

func TestDeepeningEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("fetches 5,300 commits")
	}
	most := 0
	for _, step := range deepenBy {
		most += step
	}
	origin, _ := history(t, 3, most+100)
	s := clone(t, origin, "feature")
	base, err := s.open().Base(t.Context(), "origin/main")
	if err != nil || !base.Fallback || base.Deepened != most {
		t.Errorf("%+v, %v", base, err)
	}
}
