package suite

import (
	"fmt"
	"regexp"
	"strings"
)

// Pattern selects functions by the name that reports print. Three forms:
//
//	parser.(*Lexer).Next   that function
//	runtime.*              a star stands for any characters, also none, dots and slashes included
//	/^runtime\.gc/         a regular expression (RE2) between slashes, found anywhere in the name
//
// The zero Pattern matches nothing.
type Pattern struct {
	text string
	re   *regexp.Regexp // nil for a plain name
}

// NewPattern compiles the text of a pattern.
func NewPattern(text string) (Pattern, error) {
	p := Pattern{text: text}
	var err error
	switch {
	case strings.TrimSpace(text) == "":
		return Pattern{}, fmt.Errorf("a pattern of functions is empty")
	case len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/':
		if p.re, err = regexp.Compile(text[1 : len(text)-1]); err != nil {
			return Pattern{}, fmt.Errorf("regular expression %s: %w", text, bareSyntax(err))
		}
	case strings.Contains(text, "*"):
		parts := strings.Split(text, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if p.re, err = regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`); err != nil {
			return Pattern{}, fmt.Errorf("pattern %q: %w", text, bareSyntax(err))
		}
	}
	return p, nil
}

// String returns the text of the pattern.
func (p Pattern) String() string { return p.text }

// Matches reports whether the pattern selects a function of that name.
func (p Pattern) Matches(name string) bool {
	if p.text == "" || name == "" {
		return false
	}
	// The star of (*T) is one in a name, too.
	if p.text == name {
		return true
	}
	return p.re != nil && p.re.MatchString(name)
}

// bareSyntax leaves out what the sentence around it says already.
func bareSyntax(err error) error {
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}
