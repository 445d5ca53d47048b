package revision

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Range is a range of lines, 1-based and inclusive. A Gap has no lines: the
// other side has some after line Start.
type Range struct {
	Start, End int
	Gap        bool
}

// wholeFile is the range of a file whose lines are not known.
var wholeFile = Range{Start: 1, End: math.MaxInt}

// FileChange is what a change does to one file.
type FileChange struct {
	Base, Head string // slash-separated, from the root; "" where the side has no such file
	// BaseLines and HeadLines are the lines that differ, in order.
	BaseLines, HeadLines []Range
}

// maxPatchLine bounds what is looked at of a line of a patch.
const maxPatchLine = 64 << 10

// parsePatch reads the output of git diff -U0 with the prefixes a/ and b/.
func parsePatch(r io.Reader) ([]FileChange, error) {
	in := bufio.NewReaderSize(r, maxPatchLine)
	var files []FileChange
	var file *FileChange
	for number := 1; ; number++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read patch: %w", err)
		}
		text := string(line)
		if rest, ok := strings.CutPrefix(text, "diff --git "); ok {
			base, head := splitHeader(rest)
			files = append(files, FileChange{Base: base, Head: head})
			file = &files[len(files)-1]
			continue
		}
		if file == nil {
			continue
		}
		if hunk, ok := strings.CutPrefix(text, "@@ -"); ok {
			lines, err := file.hunk(hunk)
			if err != nil {
				return nil, fmt.Errorf("read patch: line %d: %w", number, err)
			}
			// Lines of a hunk may look like headers.
			for ; lines > 0; number++ {
				line, err := readLine(in)
				if errors.Is(err, io.EOF) {
					return nil, fmt.Errorf("read patch: line %d: %w", number, io.ErrUnexpectedEOF)
				}
				if err != nil {
					return nil, fmt.Errorf("read patch: %w", err)
				}
				if !bytes.HasPrefix(line, []byte(`\`)) { // "\ No newline at end of file"
					lines--
				}
			}
			continue
		}
		file.header(text)
	}
}

// readLine returns a line without its end, cut off at maxPatchLine. The result
// is valid until the next call.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], nil
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return line, err
}

// header takes an extended header line of git-diff(1).
func (f *FileChange) header(text string) {
	for _, h := range []struct {
		prefix string
		take   func(rest string)
	}{
		{"--- ", func(rest string) { f.Base = patchName(rest, "a/") }},
		{"+++ ", func(rest string) { f.Head = patchName(rest, "b/") }},
		{"rename from ", func(rest string) { f.Base = unquote(rest) }},
		{"rename to ", func(rest string) { f.Head = unquote(rest) }},
		{"copy from ", func(rest string) { f.Base = unquote(rest) }},
		{"copy to ", func(rest string) { f.Head = unquote(rest) }},
		{"new file mode ", func(string) { f.Base = "" }},
		{"deleted file mode ", func(string) { f.Head = "" }},
		{"Binary files ", func(string) {
			// Also text that an attribute declares binary.
			if f.Base != "" {
				f.BaseLines = []Range{wholeFile}
			}
			if f.Head != "" {
				f.HeadLines = []Range{wholeFile}
			}
		}},
	} {
		if rest, ok := strings.CutPrefix(text, h.prefix); ok {
			h.take(rest)
			return
		}
	}
}

// hunk takes "L,N +L,N @@ ..." and returns the number of lines that follow.
func (f *FileChange) hunk(text string) (lines int, err error) {
	base, rest, ok1 := strings.Cut(text, " +")
	head, _, ok2 := strings.Cut(rest, " @@")
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("hunk %.40q", text)
	}
	for _, side := range []struct {
		text string
		to   *[]Range
	}{{base, &f.BaseLines}, {head, &f.HeadLines}} {
		first, length, has := strings.Cut(side.text, ",")
		start, err := lineNumber(first)
		if err != nil {
			return 0, err
		}
		count := 1
		if has {
			if count, err = lineNumber(length); err != nil {
				return 0, err
			}
		}
		r := Range{Start: start, End: start + count - 1}
		if count == 0 {
			r = Range{Start: start, End: start, Gap: true}
		}
		*side.to = append(*side.to, r)
		lines += count
	}
	return lines, nil
}

func lineNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 30)
	if err != nil {
		return 0, fmt.Errorf("line number %.40q", text)
	}
	return int(n), nil
}

// splitHeader splits "a/X b/X". Where the names differ, lines that follow say
// so; a blank in a name makes the line ambiguous otherwise.
func splitHeader(text string) (base, head string) {
	if strings.HasPrefix(text, `"`) || strings.HasSuffix(text, `"`) {
		first, rest := cutQuoted(text)
		return patchName(first, "a/"), patchName(strings.TrimPrefix(rest, " "), "b/")
	}
	if half := len(text) / 2; len(text)%2 == 1 && text[half] == ' ' {
		base, head = patchName(text[:half], "a/"), patchName(text[half+1:], "b/")
		if base == head {
			return base, head
		}
	}
	return "", ""
}

// cutQuoted cuts after the first name, which may be quoted.
func cutQuoted(text string) (first, rest string) {
	if !strings.HasPrefix(text, `"`) {
		first, rest, _ = strings.Cut(text, ` "`)
		return first, `"` + rest
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i+1], text[i+1:]
		}
	}
	return text, ""
}

// patchName returns the name in a --- or +++ line; "" for /dev/null.
func patchName(text, prefix string) string {
	// A blank in the name makes git end it with a tab.
	name := unquote(strings.TrimSuffix(text, "\t"))
	if name == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(name, prefix)
}

// unquote undoes git's quoting of odd names, which is that of C
// (core.quotePath in git-config(1)).
func unquote(text string) string {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return text
	}
	text = text[1 : len(text)-1]
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		if at := strings.IndexByte("abtnvfr", text[i]); at >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r"[at])
			continue
		}
		if i+3 <= len(text) {
			if octal, err := strconv.ParseUint(text[i:i+3], 8, 8); err == nil {
				b.WriteByte(byte(octal))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
