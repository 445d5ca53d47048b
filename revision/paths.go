package revision

import (
	"path"
	"slices"
	"strings"
)

// paths finds the file of the repository that a name in a profile means.
type paths struct {
	roots   []string
	changed map[string]bool     // the files that are asked about
	byBase  map[string][]string // files of the repository with the last element of a changed one
	modules []module            // the longest path first
}

type module struct{ path, dir string }

// newPaths returns paths for questions about changed files.
func newPaths(roots, changed []string) *paths {
	p := &paths{roots: roots, changed: make(map[string]bool), byBase: make(map[string][]string)}
	for _, name := range changed {
		p.changed[name] = true
		p.byBase[path.Base(name)] = append(p.byBase[path.Base(name)], name)
	}
	return p
}

// add adds a file of the repository.
func (p *paths) add(name string) {
	base := path.Base(name)
	if same, asked := p.byBase[base]; asked && !p.changed[name] {
		p.byBase[base] = append(same, name)
	}
}

// addModule adds a Go module and its directory.
func (p *paths) addModule(modulePath, dir string) {
	if modulePath == "" {
		return
	}
	p.modules = append(p.modules, module{modulePath, dir})
	slices.SortStableFunc(p.modules, func(a, b module) int { return len(b.path) - len(a.path) })
}

// resolve returns the path of a changed file.
func (p *paths) resolve(file string) (string, bool) {
	if file == "" || len(p.changed) == 0 || len(p.byBase[path.Base(file)]) == 0 {
		return "", false
	}
	// example.com/lib@v1.2.3/a.go and the module cache: somebody else's code.
	if versioned(file) {
		return "", false
	}
	below := strings.HasPrefix(file, "./") || strings.HasPrefix(file, "../")
	file = path.Clean(file)
	if path.IsAbs(file) {
		if rest, ok := p.insideRoot(file); ok {
			return rest, p.changed[rest]
		}
		return p.bySuffix(file)
	}
	if rest, ok := strings.CutPrefix(file, "command-line-arguments/"); ok {
		file, below = rest, true
	}
	if !below {
		for _, m := range p.modules {
			if rest, ok := strings.CutPrefix(file, m.path+"/"); ok {
				name := path.Join(m.dir, rest)
				return name, p.changed[name]
			}
		}
		// -trimpath leaves only the standard library without a module.
		if strings.HasSuffix(file, ".go") && len(p.modules) > 0 {
			return "", false
		}
	}
	for strings.HasPrefix(file, "../") {
		file = file[len("../"):]
	}
	return p.bySuffix(file)
}

// insideRoot returns the path below one of the roots, or below a worktree that
// an earlier comparison made.
func (p *paths) insideRoot(file string) (string, bool) {
	for _, root := range p.roots {
		if rest, ok := strings.CutPrefix(file, strings.TrimSuffix(root, "/")+"/"); ok {
			return rest, true
		}
	}
	if _, after, ok := strings.Cut(file, "/"+worktreePrefix); ok {
		if _, rest, ok := strings.Cut(after, "/"); ok {
			return rest, true
		}
	}
	return "", false
}

// bySuffix compares names from their ends. A name that has more in front than
// the repository's has been moved as a whole (another machine, a prefix map);
// then at least a directory must agree, since every second library has a
// util.c. A name that has less is relative to somewhere in the tree.
func (p *paths) bySuffix(file string) (string, bool) {
	best, several := "", false
	var shorter []string
	for _, name := range p.byBase[path.Base(file)] {
		switch {
		case name == file:
			return name, p.changed[name]
		case strings.HasSuffix(file, "/"+name):
			if len(name) > len(best) && strings.Contains(name, "/") {
				best = name
			}
		case !path.IsAbs(file) && strings.HasSuffix(name, "/"+file):
			shorter = append(shorter, name)
		}
	}
	if best == "" {
		slices.Sort(shorter)
		if shorter = slices.Compact(shorter); len(shorter) > 0 {
			best, several = shorter[0], len(shorter) > 1
		}
	}
	if best == "" || several {
		return "", false
	}
	return best, p.changed[best]
}

// versioned reports whether an element of the name ends in a version of a Go
// module, as in "lib@v1.2.3".
func versioned(file string) bool {
	for rest := file; ; {
		_, after, ok := strings.Cut(rest, "@v")
		if !ok {
			return false
		}
		if after != "" && after[0] >= '0' && after[0] <= '9' && strings.Contains(after, "/") {
			return true
		}
		rest = after
	}
}
