package suite

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tollgate-dev/tollgate/internal/spelling"
)

// Schema is the JSON Schema (2020-12) of tollgate.yaml. It describes the form;
// what names, patterns and bounds mean to each other is checked by Parse.
//
//go:embed schema/tollgate.schema.json
var Schema []byte

// maxName bounds the name of a suite, in characters.
const maxName = 200

// Config is a tollgate.yaml that was found to be right.
type Config struct {
	Name       string // of the file, for messages
	Suites     []Suite
	Accept     []Accept
	Statistics Statistics
}

// Load reads the file of that name. The error is a *FileError when the file
// could be read and is wrong.
func Load(name string) (*Config, error) {
	file, err := os.Open(name)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return Parse(name, data)
}

// Parse decodes and checks a file. name is what messages call it. The error is
// a *FileError.
func Parse(name string, data []byte) (*Config, error) {
	d := &decoder{at: make(map[string]position)}
	config := &Config{Name: name}
	if node, ok := d.parse(data); ok {
		var doc document
		d.value("", node, reflect.ValueOf(&doc).Elem())
		if len(d.problems) == 0 {
			d.check(&doc)
		}
		if len(d.problems) == 0 {
			config.build(&doc, d)
		}
	}
	if len(d.problems) > 0 {
		return nil, &FileError{Name: name, Problems: d.sorted()}
	}
	return config, nil
}

// Suite returns the suite of that name. An empty name selects the only suite.
func (c *Config) Suite(name string) (*Suite, error) {
	var names []string
	for i := range c.Suites {
		if c.Suites[i].Name == name || name == "" && len(c.Suites) == 1 {
			return &c.Suites[i], nil
		}
		names = append(names, c.Suites[i].Name)
	}
	list := "the suites are " + strings.Join(names, ", ")
	if name == "" {
		return nil, &hinted{fmt.Errorf("choose a suite of %s: %w of an empty name", c.Name, ErrNoSuite), list}
	}
	if near := spelling.Nearest(name, names); near != "" {
		list = fmt.Sprintf("did you mean %q? %s", near, list)
	}
	return nil, &hinted{fmt.Errorf("choose suite %q of %s: %w", name, c.Name, ErrNoSuite), list}
}

// CheckExpiry returns an error that names every accept entry whose last day
// was before now, in UTC; nil when there is none. It matches ErrExpired.
func (c *Config) CheckExpiry(now time.Time) error {
	failed := &FileError{Name: c.Name, cause: ErrExpired}
	for i, a := range c.Accept {
		if !a.Expired(now) {
			continue
		}
		failed.Problems = append(failed.Problems, Problem{
			Line: a.line, Column: a.column, Path: fmt.Sprintf("accept[%d]", i),
			Text: fmt.Sprintf("the accepted growth of %s in suite %q has expired on %s (%s)", a.what(), a.Suite, a.Expires, a.Reason),
			Hint: "mend the regression, or accept it anew with a later date",
		})
	}
	if len(failed.Problems) == 0 {
		return nil
	}
	return failed
}

// check finds what is wrong beyond the form.
func (d *decoder) check(doc *document) {
	if len(doc.Suites) == 0 {
		d.reject("suites", "a suite has at least a name and a command", "no suite is defined")
	}
	line := make(map[string]int)
	var names []string
	for i := range doc.Suites {
		s, path := &doc.Suites[i], fmt.Sprintf("suites[%d]", i)
		switch first, again := line[s.Name]; {
		case s.Name == "":
			d.reject(join(path, "name"), "", "a suite needs a name")
		case s.Name == "*" || len([]rune(s.Name)) > maxName || strings.ContainsFunc(s.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
			d.reject(join(path, "name"), fmt.Sprintf("use up to %d printable characters", maxName), "%q cannot name a suite", abbreviate(s.Name))
		case again:
			d.reject(join(path, "name"), "", "the name %q is taken by the suite in line %d", s.Name, first)
		default:
			line[s.Name] = d.place(join(path, "name")).line
			names = append(names, s.Name)
		}
		if s.Command == nil {
			d.reject(join(path, "command"), "", "a suite needs a command")
		}
		clean, ok := cleanDirectory(s.Directory)
		if !ok {
			d.reject(join(path, "directory"), "", "%q is not below the directory of %s", s.Directory, FileName)
		}
		s.Directory = clean
		d.checkThresholds(join(path, "thresholds"), s.Thresholds.over(doc.Defaults.Thresholds))
	}
	if len(doc.Suites) > 0 && len(d.problems) == 0 {
		d.checkThresholds("defaults.thresholds", doc.Defaults.Thresholds)
	}
	for i := range doc.Accept {
		d.checkAccept(fmt.Sprintf("accept[%d]", i), &doc.Accept[i], names)
	}
	d.checkLooks(doc.Statistics.Looks)
}

func (d *decoder) checkAccept(path string, a *acceptEntry, suites []string) {
	switch {
	case a.Suite == "":
		d.reject(join(path, "suite"), `"*" stands for all suites`, "an accept entry needs a suite")
	case a.Suite != "*" && !slices.Contains(suites, a.Suite):
		text := fmt.Sprintf("there is no suite %q", a.Suite)
		if near := spelling.Nearest(a.Suite, suites); near != "" {
			text += fmt.Sprintf(", did you mean %q?", near)
		}
		d.reject(join(path, "suite"), "", "%s", text)
	}
	switch {
	case a.Function == nil && a.Total == nil:
		d.reject(path, "total: true accepts the growth of the whole", "an accept entry needs a function, or total: true")
	case a.Function != nil && a.Total != nil:
		d.reject(join(path, "total"), "make two entries of it", "an accept entry is for a function or for the total")
	case a.Total != nil && !*a.Total:
		d.reject(join(path, "total"), "remove the key", "total is false, must be true")
	}
	if a.Delta == nil {
		d.reject(join(path, "delta"), "write as much as the report printed, such as 2%", "an accept entry needs the delta it accepts")
	}
	if strings.TrimSpace(a.Reason) == "" {
		d.reject(join(path, "reason"), "", "an accept entry needs a reason")
	}
	if a.Expires == nil {
		d.reject(join(path, "expires"), "write the last day it holds, such as 2026-12-31", "an accept entry needs a day on which it expires")
	}
}

// build fills the configuration from a document without problems.
func (c *Config) build(doc *document, d *decoder) {
	c.Statistics = doc.Statistics
	for i, a := range doc.Accept {
		at := d.place(fmt.Sprintf("accept[%d]", i))
		entry := Accept{Suite: a.Suite, Total: a.Total != nil, Delta: float64(*a.Delta), Reason: a.Reason, Expires: *a.Expires, line: at.line, column: at.column}
		if a.Function != nil {
			entry.Function = *a.Function
		}
		c.Accept = append(c.Accept, entry)
	}
	for _, entry := range doc.Suites {
		s := Suite{
			Name: entry.Name, Command: *entry.Command, Directory: entry.Directory,
			Frequency: DefaultFrequency, Event: EventCPUClock, BuildTimeout: DefaultBuildTimeout, Warmup: Unset,
			Thresholds: entry.Thresholds.over(doc.Defaults.Thresholds),
			Ignore:     slices.Concat(entry.Ignore, doc.Defaults.Ignore),
			statistics: &c.Statistics,
		}
		if entry.Build != nil {
			s.Build = *entry.Build
		}
		if entry.Work != nil {
			s.Work = *entry.Work
		}
		for _, from := range []settings{doc.Defaults, entry.settings} {
			s.apply(from)
		}
		for _, a := range c.Accept {
			if a.Suite == "*" || a.Suite == s.Name {
				s.Accept = append(s.Accept, a)
			}
		}
		c.Suites = append(c.Suites, s)
	}
}

// Find returns the name of the tollgate.yaml that holds for dir: the nearest
// one in dir or a directory above it, up to the root of the git repository.
// Outside of a repository only dir itself is looked at, lest a file that
// somebody left in /tmp decides what is run. It is ErrNotFound that there is
// none.
func Find(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", FileName, err)
	}
	root := repositoryRoot(dir)
	for at := dir; ; at = filepath.Dir(at) {
		name := filepath.Join(at, FileName)
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			return name, nil
		}
		other := filepath.Join(at, strings.TrimSuffix(FileName, "yaml")+"yml")
		if _, err := os.Stat(other); err == nil {
			return "", &hinted{fmt.Errorf("find configuration of %s: %w", dir, ErrNotFound), fmt.Sprintf("rename %s to %s", other, FileName)}
		}
		if at == root || at == filepath.Dir(at) {
			return "", &hinted{fmt.Errorf("find configuration of %s: %w", dir, ErrNotFound), "tollgate init writes one; or give the command after --"}
		}
	}
}

// repositoryRoot returns the nearest directory with a .git in it, or dir.
func repositoryRoot(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}
