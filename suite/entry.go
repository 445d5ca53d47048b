package suite

import (
	"path"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// document is tollgate.yaml as it is written. nil is a key that is not there.
type document struct {
	Defaults   settings      `yaml:"defaults"`
	Suites     []suiteEntry  `yaml:"suites"`
	Accept     []acceptEntry `yaml:"accept"`
	Statistics Statistics    `yaml:"statistics"`
}

// settings are the keys that suites and defaults share.
type settings struct {
	Runs         *int       `yaml:"runs" min:"1" max:"10000"`
	Warmup       *int       `yaml:"warmup" min:"0" max:"10000"`
	Frequency    *int       `yaml:"frequency" min:"1" max:"10000"`
	Event        *event     `yaml:"event"`
	Timeout      *Duration  `yaml:"timeout"`
	BuildTimeout *Duration  `yaml:"build_timeout"`
	Scope        *Scope     `yaml:"scope"`
	Thresholds   Thresholds `yaml:"thresholds"`
	Ignore       []Pattern  `yaml:"ignore"`
}

type suiteEntry struct {
	Name      string   `yaml:"name"`
	Command   *Command `yaml:"command"`
	Build     *Command `yaml:"build"`
	Directory string   `yaml:"directory"`
	Work      *Work    `yaml:"work"`
	settings
}

type acceptEntry struct {
	Suite    string   `yaml:"suite"`
	Function *Pattern `yaml:"function"`
	Total    *bool    `yaml:"total"`
	Delta    *Percent `yaml:"delta" min:"0" max:"10"`
	Reason   string   `yaml:"reason"`
	Expires  *Date    `yaml:"expires"`
}

// event is what samples are taken by.
type event string

func (e *event) decode(d *decoder, path string, node ast.Node) {
	text, ok := d.text(path, node)
	if ok && text != EventCPUClock && text != EventCycles {
		d.reject(path, "", "unknown event %q, must be %s or %s", text, EventCPUClock, EventCycles)
		return
	}
	*e = event(text)
}

// Command is a command as it is written: a line for a shell, or arguments.
type Command struct {
	Line string
	Args []string
}

// IsZero reports whether there is no command.
func (c Command) IsZero() bool { return c.Line == "" && len(c.Args) == 0 }

// String returns the line, or the arguments with spaces between.
func (c Command) String() string {
	if c.Line != "" {
		return c.Line
	}
	return strings.Join(c.Args, " ")
}

func (c *Command) decode(d *decoder, path string, node ast.Node) {
	if list, ok := node.(*ast.SequenceNode); ok {
		for _, entry := range list.Values {
			arg, ok := d.text(path, entry)
			if !ok {
				return
			}
			c.Args = append(c.Args, arg)
		}
		if len(c.Args) == 0 || c.Args[0] == "" {
			d.reject(path, "", "names no program")
		}
		return
	}
	if _, ok := node.(*ast.MappingNode); ok {
		d.wrong(path, node, "a command line or a list of arguments")
		return
	}
	line, ok := d.text(path, node)
	if !ok {
		return
	}
	if c.Line = strings.TrimSpace(line); c.Line == "" {
		d.reject(path, "", "names no program")
	}
}

func (p *Pattern) decode(d *decoder, path string, node ast.Node) {
	text, ok := d.text(path, node)
	if !ok {
		return
	}
	pattern, err := NewPattern(text)
	if err != nil {
		d.reject(path, "", "%v", err)
		return
	}
	*p = pattern
}

func (p *Percent) decode(d *decoder, path string, node ast.Node) {
	const hint = "write 0.5% for half a percentage point of the baseline's CPU"
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		d.reject(path, hint, "%s has no unit, must be a percentage such as 0.5%%", node.GetToken().Value)
		return
	}
	text, ok := d.text(path, node)
	if !ok {
		return
	}
	value, err := parsePercent(text)
	if err != nil {
		d.reject(path, hint, "%v", err)
		return
	}
	*p = Percent(value)
}

func (f *Fraction) decode(d *decoder, path string, node ast.Node) {
	if text, ok := node.(*ast.StringNode); ok && !isNumber(node) {
		value, err := parsePercent(text.Value)
		if err != nil {
			d.reject(path, "", "%q is neither a fraction such as 0.007 nor a percentage such as 0.7%%", text.Value)
			return
		}
		*f = Fraction(value)
		return
	}
	if value, ok := d.number(path, node); ok {
		*f = Fraction(value)
	}
}

func (t *Duration) decode(d *decoder, path string, node ast.Node) {
	if number, ok := node.(*ast.IntegerNode); ok {
		d.reject(path, "", "%s has no unit, must be a time such as 90s, 10m or 1h30m", number.GetToken().Value)
		return
	}
	text, ok := d.text(path, node)
	if !ok {
		return
	}
	value, err := parseDuration(text)
	if err != nil {
		d.reject(path, "", "%v", err)
		return
	}
	*t = value
}

func (t *Date) decode(d *decoder, path string, node ast.Node) {
	text, ok := d.text(path, node)
	if !ok {
		return
	}
	day, err := parseDate(text)
	if err != nil {
		d.reject(path, "", "%v", err)
		return
	}
	*t = day
}

// cleanDirectory returns a directory below the root in its shortest form.
func cleanDirectory(dir string) (string, bool) {
	clean := path.Clean(dir)
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.Contains(dir, "\x00") {
		return "", false
	}
	return clean, true
}
