package report

import "strings"

// table lays out findings in columns. The first two columns are names and give way where the width
// does not suffice; the others are numbers, aligned right.
type table struct {
	header []string
	rows   []row
}

type row struct {
	cells []string
	note  string // shown below the row
}

const (
	indent = "  "
	gap    = "  "
	// unlimited is the widest that names get where no width is known: long enough to search for, short
	// enough to keep the columns below one another for most.
	unlimited = 100
	// leastNames is the room below which names get a line of their own.
	leastNames = 36
)

// write appends the table to b, no line wider than width columns; 0 means no limit.
func (t *table) write(b *strings.Builder, width int, style style) {
	widths := make([]int, len(t.header))
	for i, cell := range t.header {
		widths[i] = columns(cell)
	}
	for _, row := range t.rows {
		for i, cell := range row.cells {
			widths[i] = max(widths[i], columns(cell))
		}
	}
	numbers := 0
	for _, w := range widths[2:] {
		numbers += len(gap) + w
	}
	names := 2*unlimited + len(gap)
	if width > 0 {
		names = width - len(indent) - numbers
	}
	if names < leastNames {
		t.writeStacked(b, width, widths, style)
		return
	}
	widths[0], widths[1] = share(widths[0], widths[1], names-len(gap))
	line := func(cells []string, paint func(string) string) {
		b.WriteString(indent)
		b.WriteString(paint(pad(shorten(cells[0], widths[0]), widths[0])))
		b.WriteString(gap)
		b.WriteString(pad(shortenStart(cells[1], widths[1]), widths[1]))
		t.writeNumbers(b, cells, widths, style)
	}
	line(t.header, style.plain)
	for _, row := range t.rows {
		line(row.cells, style.bold)
		writeNote(b, row.note, width)
	}
}

// writeStacked gives names and numbers a line each.
func (t *table) writeStacked(b *strings.Builder, width int, widths []int, style style) {
	first := true
	for _, row := range t.rows {
		function, where := row.cells[0], row.cells[1]
		room := width - len(indent) - len(gap)
		a, c := share(columns(function), columns(where), room)
		b.WriteString(indent + style.bold(shorten(function, a)))
		if where != "" {
			b.WriteString(gap + shortenStart(where, c))
		}
		b.WriteString("\n")
		if first {
			b.WriteString(indent)
			t.writeNumbers(b, t.header, widths, style)
			first = false
		}
		b.WriteString(indent)
		t.writeNumbers(b, row.cells, widths, style)
		writeNote(b, row.note, width)
	}
}

// writeNumbers appends the columns after the names and ends the line.
func (t *table) writeNumbers(b *strings.Builder, cells []string, widths []int, style style) {
	var line strings.Builder
	for i := 2; i < len(cells); i++ {
		line.WriteString(gap)
		line.WriteString(strings.Repeat(" ", widths[i]-columns(cells[i])))
		if i == effectColumn {
			line.WriteString(style.effect(cells[i]))
		} else {
			line.WriteString(cells[i])
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteString("\n")
}

func writeNote(b *strings.Builder, note string, width int) {
	if note != "" {
		wrap(b, indent+indent, indent+indent, note, width)
	}
}

// share divides room between two columns that want a and b: whoever wants less than its part leaves
// the rest to the other. Function names get three fifths.
func share(a, b, room int) (int, int) {
	room = max(room, 2)
	if a+b <= room {
		return a, b
	}
	part := room * 3 / 5
	switch {
	case a <= part:
		return a, room - a
	case b <= room-part:
		return room - b, b
	}
	return part, room - part
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-columns(s)))
}

// wrap appends text in lines of at most width columns (0: one line), the first after first, the
// others after rest. Units stay with their numbers; a word wider than a line is shortened.
func wrap(b *strings.Builder, first, rest, text string, width int) {
	words := strings.Fields(text)
	used := columns(first)
	b.WriteString(first)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if i+1 < len(words) && (strings.HasPrefix(words[i+1], "%") || strings.HasPrefix(words[i+1], "pp")) {
			i++
			word += " " + words[i]
		}
		if width > 0 {
			word = shorten(word, max(width-columns(rest), 1))
		}
		switch fresh := used == columns(first) || used == columns(rest); {
		case width > 0 && used+1+columns(word) > width && !fresh, width > 0 && used+columns(word) > width:
			b.WriteString("\n" + rest)
			used = columns(rest)
		case !fresh:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += columns(word)
	}
	b.WriteString("\n")
}

// style adds color, or nothing.
type style bool

// ECMA-48, 8.3.117, "SGR: select graphic rendition".
const (
	sgrBold   = "1"
	sgrRed    = "31"
	sgrGreen  = "32"
	sgrYellow = "33"
)

func (s style) paint(text string, codes ...string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + strings.Join(codes, ";") + "m" + text + "\x1b[0m"
}

func (s style) plain(text string) string { return text }
func (s style) bold(text string) string  { return s.paint(text, sgrBold) }

// effect colors a signed number by its direction.
func (s style) effect(text string) string {
	switch {
	case strings.HasPrefix(text, "+"):
		return s.paint(text, sgrRed)
	case strings.HasPrefix(text, "-"):
		return s.paint(text, sgrGreen)
	}
	return text
}
