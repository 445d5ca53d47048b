package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// inert returns s with everything that a terminal would act on instead of show written as a Go
// escape: control characters (and with them ANSI sequences), line breaks, bidirectional marks,
// zero-width characters, invalid UTF-8. Names come from the files under test, which are not trusted.
func inert(s string) string {
	clean := true
	for _, r := range s {
		// IsPrint leaves out categories Cc, Cf, Co, Cs, Zl and Zp, and all spaces but U+0020.
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// columns returns how many columns of a terminal s takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

const ellipsis = "…"

// shorten cuts the middle out of s so that it takes at most limit columns. Both ends of a symbol say
// something: its package, and its name.
func shorten(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	if limit <= 1 {
		return ellipsis[:len(ellipsis)*max(limit, 0)]
	}
	// The end gets a little more: it has the function's own name.
	tail := (limit - 1) * 3 / 5
	return head(s, limit-1-tail) + ellipsis + end(s, tail)
}

// shortenStart cuts the beginning of s so that it takes at most limit columns, for paths whose end
// matters.
func shortenStart(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	if limit <= 1 {
		return ellipsis[:len(ellipsis)*max(limit, 0)]
	}
	return ellipsis + end(s, limit-1)
}

// head returns the longest beginning of s of at most limit columns.
func head(s string, limit int) string {
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > limit {
			return s[:i]
		}
	}
	return s
}

// end returns the longest end of s of at most limit columns.
func end(s string, limit int) string {
	used, start := 0, len(s)
	for start > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:start])
		if used += runeColumns(r); used > limit {
			break
		}
		start -= size
	}
	return s[start:]
}
