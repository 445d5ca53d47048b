package revision

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Side is one of the two sides of a comparison.
type Side uint8

const (
	BaseSide Side = iota
	HeadSide
)

// Changes are the lines in which the working tree differs from a commit,
// uncommitted changes and untracked files included.
type Changes struct {
	Files []FileChange

	lines [2]map[string][]Range // by side and path
	paths *paths
}

const (
	// maxPath bounds a name in git's lists.
	maxPath = 64 << 10
	// maxModules bounds the Go modules of a repository that are looked at.
	maxModules = 1000
)

// Changes compares the working tree with a commit. roots are further
// directories that hold the repository's files in the same layout: the
// worktree that the base was built in.
func (r *Repository) Changes(ctx context.Context, commit string, roots ...string) (*Changes, error) {
	fail := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &Error{"compare the working tree with", short(commit), err, ""}
	}
	c := &Changes{}
	// The plumbing command does not depend on how the user likes diffs.
	err := r.git.stream(ctx, r.Root, func(out io.Reader) (err error) {
		c.Files, err = parsePatch(out)
		return err
	}, "-c", "core.quotePath=true", "diff-index", "-p", "-U0", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames",
		"--ignore-submodules=all", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", commit, "--")
	if err != nil {
		return nil, fail(err)
	}
	err = r.list(ctx, func(name string) {
		if !strings.HasSuffix(name, "/") { // another repository inside this one
			c.Files = append(c.Files, FileChange{Head: name, HeadLines: []Range{wholeFile}})
		}
	}, "--others", "--exclude-standard")
	if err != nil {
		return nil, fail(err)
	}
	c.index()
	c.paths = newPaths(append([]string{r.Root, r.named}, roots...), c.names())
	var modules []string
	err = r.list(ctx, func(name string) {
		c.paths.add(name)
		if path.Base(name) == "go.mod" && len(modules) < maxModules {
			modules = append(modules, name)
		}
	}, "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, fail(err)
	}
	for _, name := range modules {
		if data, err := os.ReadFile(filepath.Join(r.Root, filepath.FromSlash(name))); err == nil {
			c.paths.addModule(modulePath(data), path.Dir(name))
		}
	}
	return c, nil
}

// list hands the names that git ls-files prints to take.
func (r *Repository) list(ctx context.Context, take func(name string), args ...string) error {
	return r.git.stream(ctx, r.Root, func(out io.Reader) error {
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, maxPath)
		scanner.Split(func(data []byte, end bool) (int, []byte, error) {
			if i := bytes.IndexByte(data, 0); i >= 0 {
				return i + 1, data[:i], nil
			}
			return 0, nil, nil
		})
		for scanner.Scan() {
			take(scanner.Text())
		}
		return scanner.Err()
	}, append([]string{"ls-files", "-z"}, args...)...)
}

func (c *Changes) index() {
	c.lines = [2]map[string][]Range{{}, {}}
	for _, f := range c.Files {
		for side, at := range [2]struct {
			name  string
			lines []Range
		}{{f.Base, f.BaseLines}, {f.Head, f.HeadLines}} {
			if at.name != "" && len(at.lines) > 0 {
				c.lines[side][at.name] = append(c.lines[side][at.name], at.lines...)
			}
		}
	}
}

// names returns the paths of files with changed lines, of both sides.
func (c *Changes) names() []string {
	var names []string
	for _, lines := range c.lines {
		for name := range lines {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Touched reports whether the change touches the lines from startLine to
// endLine of a file, on either side. file is a name as profiles have it: see
// TouchedOn.
func (c *Changes) Touched(file string, startLine, endLine int) bool {
	return c.TouchedOn(BaseSide, file, startLine, endLine) || c.TouchedOn(HeadSide, file, startLine, endLine)
}

// TouchedOn reports whether the change touches the lines from startLine to
// endLine of a file, as they are numbered on that side. For a function of a
// profile these are its start line and the greatest line that a sample has;
// endLine below startLine means startLine alone, and a startLine below 1 is
// not known and never touched. Lines that the other side has in excess touch
// the function with the line before them.
//
// The name may be absolute, in the repository or in one of the roots; absolute
// in a directory where the same tree was built, such as that of another
// machine; relative to any directory of the tree; or begin with the path of a
// Go module, as -trimpath makes it. Where a name could mean several files of
// the repository, or one outside of it as well, the answer is no.
func (c *Changes) TouchedOn(side Side, file string, startLine, endLine int) bool {
	if startLine < 1 || len(c.Files) == 0 {
		return false
	}
	name, ok := c.paths.resolve(file)
	if !ok {
		return false
	}
	endLine = max(startLine, endLine)
	return slices.ContainsFunc(c.lines[side][name], func(r Range) bool { return startLine <= r.End && r.Start <= endLine })
}

// modulePath returns the path in the module directive of a go.mod.
func modulePath(data []byte) string {
	for line := range bytes.Lines(data) {
		text, _, _ := strings.Cut(string(line), "//")
		if rest, ok := strings.CutPrefix(strings.TrimSpace(text), "module"); ok {
			return strings.Trim(strings.TrimSpace(rest), "\"`")
		}
	}
	return ""
}
