package suite

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Take says which numbers count when a pattern matches more than once.
type Take string

const (
	TakeSum   Take = "sum" // the default
	TakeFirst Take = "first"
	TakeLast  Take = "last"
)

// Work says how many units of work a run does. The zero Work leaves it to
// Go benchmarks in the output, and to 1 where there are none.
type Work struct {
	Units   float64        // fixed; 0: read from the output
	Pattern *regexp.Regexp // its first group is a number in the output
	Take    Take
}

// NeedsOutput reports whether the command's output has to be kept to know the
// units of work: with a pattern, and for Go benchmarks that run for a fixed
// time.
func (w Work) NeedsOutput(command []string) bool {
	if w.Units > 0 {
		return false
	}
	_, fixed := FixedTime(command)
	return w.Pattern != nil || fixed
}

// Count returns the units of work that the pattern finds in an output. It is
// ErrNoWork that it finds none. Without a pattern it returns Units, or 1.
func (w Work) Count(output []byte) (float64, error) {
	if w.Pattern == nil {
		if w.Units > 0 {
			return w.Units, nil
		}
		return 1, nil
	}
	sum, found := 0.0, false
	for _, match := range w.Pattern.FindAllSubmatch(output, -1) {
		text := strings.ReplaceAll(string(match[1]), ",", "")
		x, err := parseDecimal(text)
		if err != nil || x < 0 {
			return 0, fmt.Errorf("read units of work by %s: %w: %q is not a number", w.Pattern, ErrNoWork, abbreviate(string(match[1])))
		}
		switch {
		case w.Take == TakeFirst && found:
			continue
		case w.Take == TakeLast:
			sum = x
		default:
			sum += x
		}
		found = true
	}
	if !found {
		return 0, &hinted{fmt.Errorf("read units of work by %s: %w: the output does not match", w.Pattern, ErrNoWork),
			"look at what the command prints, and at work.pattern"}
	}
	if sum == 0 {
		return 0, fmt.Errorf("read units of work by %s: %w: they are 0", w.Pattern, ErrNoWork)
	}
	return sum, nil
}

// workPattern is the form of work that is read from the output.
type workPattern struct {
	Pattern *string `yaml:"pattern"`
	Take    *string `yaml:"take"`
}

func (w *Work) decode(d *decoder, path string, node ast.Node) {
	if isNumber(node) {
		x, ok := d.number(path, node)
		if ok && (x <= 0 || x > 1e18) {
			d.reject(path, "", "%s units of work, must be above 0 and at most 1e18", trimFloat(x))
		}
		w.Units = x
		return
	}
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		d.wrong(path, node, "a number, or a pattern on the output")
		return
	}
	var form workPattern
	before := len(d.problems)
	d.object(path, node, valueOf(&form))
	if len(d.problems) > before {
		return
	}
	if form.Pattern == nil {
		d.reject(path, "", "needs a pattern")
		return
	}
	re, err := regexp.Compile(*form.Pattern)
	switch {
	case err != nil:
		d.reject(join(path, "pattern"), "", "regular expression %q: %v", *form.Pattern, bareSyntax(err))
		return
	case re.NumSubexp() == 0:
		d.reject(join(path, "pattern"), `put it in parentheses, as in (\d+) records`, "regular expression %q has no group for the number", *form.Pattern)
		return
	}
	w.Pattern, w.Take = re, TakeSum
	if form.Take != nil {
		w.Take = Take(*form.Take)
		if w.Take != TakeSum && w.Take != TakeFirst && w.Take != TakeLast {
			d.reject(join(path, "take"), "", "unknown %q, must be sum, first or last", *form.Take)
		}
	}
}
