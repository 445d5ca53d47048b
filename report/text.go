package report

import (
	"fmt"
	"io"
	"math"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tollgate-dev/tollgate/diff"
)

// TextOptions fit the text to where it is read.
type TextOptions struct {
	Color bool
	Width int    // columns; 0 means that nobody looks, as in a file or a pipe
	Root  string // files below this directory are named relative to it
}

// effectColumn is the column of a table of findings that shows the effect.
const effectColumn = 4

// Text writes the report for a person, the verdict first.
func Text(w io.Writer, r *diff.Result, m Meta, o TextOptions) error {
	t := text{result: r, meta: m, options: o, style: style(o.Color)}
	t.verdict()
	t.sides()
	t.findings()
	t.total()
	t.warnings()
	t.sensitivity()
	t.commands()
	if _, err := io.WriteString(w, t.b.String()); err != nil {
		return fmt.Errorf("write text report: %w", err)
	}
	return nil
}

// Summary returns the verdict in one line without color, for logs.
func Summary(r *diff.Result, m Meta) string {
	var b strings.Builder
	b.WriteString(r.Verdict.String())
	if m.Suite != "" {
		b.WriteString(" " + inert(m.Suite))
	}
	b.WriteString(": ")
	worst, more := -1, 0
	for i, f := range r.Findings {
		if f.Severity != diff.Fails {
			continue
		}
		if worst < 0 {
			worst = i
		} else {
			more++
		}
	}
	if worst >= 0 {
		f := r.Findings[worst]
		fmt.Fprintf(&b, "%s %s", shorten(name(f), unlimited), signedPoints(f.Effect))
		if more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	} else {
		b.WriteString(oneLine(r.Reason.Text))
	}
	if r.Base.Runs > 0 && r.Head.Runs > 0 {
		fmt.Fprintf(&b, " (%d against %d runs)", r.Head.Runs, r.Base.Runs)
	}
	return b.String()
}

type text struct {
	b       strings.Builder
	result  *diff.Result
	meta    Meta
	options TextOptions
	style   style
}

func (t *text) verdict() {
	word := strings.ToUpper(t.result.Verdict.String())
	color := sgrYellow
	switch t.result.Verdict {
	case diff.Pass:
		color = sgrGreen
	case diff.Fail:
		color = sgrRed
	}
	line := oneLine(t.shortReason())
	if t.meta.Suite != "" {
		line = inert(t.meta.Suite) + ": " + line
	}
	// Color is added afterwards, since it takes no columns.
	var b strings.Builder
	wrap(&b, word+"  ", strings.Repeat(" ", len(word)+2), line, t.options.Width)
	t.b.WriteString(t.style.paint(word, sgrBold, color) + strings.TrimPrefix(b.String(), word))
}

// shortReason is the reason with a long name in it cut as in the table, so that the numbers behind it
// can be found.
func (t *text) shortReason() string {
	reason := t.result.Reason.Text
	const enough = 60
	for _, f := range t.result.Findings {
		if columns(f.Function) > enough && strings.Contains(reason, f.Function) {
			return strings.Replace(reason, f.Function, shorten(inert(f.Function), enough), 1)
		}
	}
	return reason
}

func (t *text) sides() {
	base, head := t.result.Base, t.result.Head
	if base.Runs == 0 && head.Runs == 0 && t.meta.Base == (Side{}) && t.meta.Head == (Side{}) {
		return
	}
	t.b.WriteString("\n")
	labels := [2]string{oneLine(t.meta.Base.label("base")), oneLine(t.meta.Head.label("head"))}
	counts := [2]string{plural(base.Runs, "run"), plural(head.Runs, "run")}
	room := unlimited
	if t.options.Width > 0 {
		room = max(10, t.options.Width-len("  base    10 runs  12.345 CPU-s each, CV 12.3 %"))
	}
	widest, widestCount := 0, max(len(counts[0]), len(counts[1]))
	for i := range labels {
		labels[i] = shorten(labels[i], room)
		widest = max(widest, columns(labels[i]))
	}
	for i, side := range []diff.Side{base, head} {
		word := [2]string{"base", "head"}[i]
		line := indent + word
		if widest > 0 {
			line += gap + pad(labels[i], widest)
		}
		if side.Runs > 0 {
			line += gap + fmt.Sprintf("%*s", widestCount, counts[i])
		}
		if side.CPUSeconds > 0 {
			line += gap + seconds(side.CPUSeconds) + " CPU-s each"
			if t.meta.PerUnit {
				line = strings.TrimSuffix(line, "each") + "a unit of work"
			}
			if side.Runs > 1 {
				line += ", CV " + percent(side.CV, 1)
			}
		}
		t.b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	switch a, b := oneLine(t.meta.Base.Environment), oneLine(t.meta.Head.Environment); {
	case a == b && a != "":
		wrap(&t.b, "  on    ", "        ", a, t.options.Width)
	case a != b:
		wrap(&t.b, "  base on  ", "           ", or(a, "an unknown machine"), t.options.Width)
		wrap(&t.b, "  head on  ", "           ", or(b, "an unknown machine"), t.options.Width)
	}
}

func (t *text) findings() {
	growth := "Regressions"
	if t.result.Verdict != diff.Fail {
		growth = "Growth, not judged" // the reason of the verdict says why
	}
	news := func(f diff.Finding) bool { return f.Severity == diff.Informs && f.Kind != diff.CostShift }
	for _, section := range []struct {
		title string
		holds func(diff.Finding) bool
	}{
		{growth, func(f diff.Finding) bool { return f.Severity == diff.Fails }},
		{"Worth a look", func(f diff.Finding) bool { return f.Severity == diff.Warns && f.Kind != diff.CostShift }},
		{"Cost moved", func(f diff.Finding) bool { return f.Severity != diff.Fails && f.Kind == diff.CostShift }},
		{"Improvements", func(f diff.Finding) bool { return news(f) && f.Effect < 0 }},
		{"Other changes", func(f diff.Finding) bool { return news(f) && !(f.Effect < 0) }},
	} {
		t.section(section.title, section.holds)
	}
}

func (t *text) section(title string, holds func(diff.Finding) bool) {
	table := table{header: []string{
		"function", "where", "base", "head", "effect",
		strings.TrimSpace(percent(t.result.Confidence, 0) + " interval"), "q",
	}}
	found := 0
	for _, f := range t.result.Findings {
		if !holds(f) {
			continue
		}
		if found++; found > t.maxRows() {
			continue
		}
		table.rows = append(table.rows, row{
			cells: []string{
				name(f), t.where(f), percent(f.ShareBase, 2), percent(f.ShareHead, 2), signedPoints(f.Effect),
				interval(f.CI), probability(f.Q),
			},
			note: t.note(f),
		})
	}
	if found == 0 {
		return
	}
	t.b.WriteString("\n" + t.style.bold(title) + "\n")
	table.write(&t.b, t.options.Width, t.style)
	if more := found - len(table.rows); more > 0 {
		fmt.Fprintf(&t.b, "%sand %d more\n", indent, more)
	}
}

// note is what is said below a finding: why it is judged as it is, the call that explains it, and
// whether the change touches it.
func (t *text) note(f diff.Finding) string {
	var parts []string
	if f.Text != "" {
		parts = append(parts, f.Text)
	}
	if f.Severity != diff.Informs {
		if f.Through != nil {
			parts = append(parts, fmt.Sprintf("%.0f %% of the growth is below %s", 100*min(f.Through.Coverage, 1), shorten(inert(f.Through.Function), callerWidth)))
		}
		if t.meta.Touched && f.Function != "" {
			touched := "the change does not touch it"
			if f.Touched {
				touched = "the change touches it"
			}
			parts = append(parts, touched)
		}
	}
	return oneLine(strings.Join(parts, "; "))
}

// callerWidth is how much of a caller's name is shown in a note.
const callerWidth = 60

// maxRows is how many findings of a kind are listed; the JSON report has all. Of two programs that
// have nothing in common a few say enough.
func (t *text) maxRows() int {
	if t.result.Reason.Code == diff.ReasonNotComparable {
		return 3
	}
	return 20
}

// where returns the file and line of a finding as short as it can be without doubt, or the object
// that has the code.
func (t *text) where(f diff.Finding) string {
	if f.File == "" {
		return inert(f.Object)
	}
	file := f.File
	if t.options.Root != "" {
		if relative, err := filepath.Rel(t.options.Root, file); err == nil && filepath.IsLocal(relative) {
			file = relative
		}
	}
	if path.IsAbs(file) {
		file = path.Clean(file)
	}
	file = inert(file)
	if f.Line > 0 {
		file += ":" + strconv.Itoa(f.Line)
	}
	return file
}

func (t *text) total() {
	total := t.result.Total
	if !total.Tested && total.Effect == 0 {
		return
	}
	line := fmt.Sprintf("Total CPU %s", signedPercent(total.Effect))
	if total.Tested {
		line += " " + interval(total.CI)
	}
	if total.Sampled {
		line += ", counted from samples"
	}
	if total.HasAnchor {
		line += "; the calibration kernel " + signedPercent(total.AnchorEffect)
		if total.Tested {
			line += " " + interval(total.AnchorCI)
		}
	}
	t.b.WriteString("\n")
	wrap(&t.b, "", indent, line, t.options.Width)
}

func (t *text) warnings() {
	all := append(append([]diff.Warning{}, t.result.Warnings...), t.meta.Notes...)
	if len(all) == 0 {
		return
	}
	t.b.WriteString("\n")
	for _, warning := range all {
		// What the verdict has said already needs only its hint.
		if warning.Text != t.result.Reason.Text {
			t.labeled("warning: ", oneLine(warning.Text))
		}
		if warning.Hint != "" {
			t.labeled("hint: ", oneLine(warning.Hint))
		}
	}
}

// labeled writes a label in color and a text that wraps below itself.
func (t *text) labeled(label, line string) {
	var b strings.Builder
	wrap(&b, label, indent, line, t.options.Width)
	t.b.WriteString(t.style.paint(strings.TrimSuffix(label, " "), sgrYellow) + strings.TrimPrefix(b.String(), strings.TrimSuffix(label, " ")))
}

// sensitivity says what would have been found, and how many runs a pass takes.
func (t *text) sensitivity() {
	r := t.result
	if r.Tested == 0 || r.Reason.Code == diff.ReasonNotComparable || !(r.MDE > 0) || math.IsInf(r.MDE, 0) {
		return
	}
	line := fmt.Sprintf("These runs would have shown a regression from %s in any tested function", unsignedPoints(r.MDE))
	if r.MDEMedian > 0 && r.MDEMedian < r.MDE {
		line += fmt.Sprintf(", from %s in half of them", unsignedPoints(r.MDEMedian))
	}
	if r.Total.Tested && r.Total.MDE > 0 && !math.IsInf(r.Total.MDE, 0) {
		line += fmt.Sprintf(", and from %s of the total", percent(r.Total.MDE, 1))
	}
	line += "."
	if r.Verdict == diff.Inconclusive {
		if r.PairsNeeded > 0 {
			line += fmt.Sprintf(" About %s of runs would allow a pass.", plural(r.PairsNeeded, "pair"))
		} else {
			line += " More runs alone would not allow a pass."
		}
	}
	t.b.WriteString("\n")
	wrap(&t.b, "", "", line, t.options.Width)
}

// commands are shown unwrapped, to be copied.
func (t *text) commands() {
	if t.result.Verdict == diff.Pass {
		return
	}
	var lines []string
	if t.meta.Reproduce != "" {
		lines = append(lines, "reproduce:  "+inert(t.meta.Reproduce))
	}
	if t.meta.Accept != "" && t.result.Verdict == diff.Fail {
		lines = append(lines, "accept:     "+inert(t.meta.Accept))
	}
	if len(lines) > 0 {
		t.b.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	}
}

// name returns what a finding is about.
func name(f diff.Finding) string {
	if f.Function == "" {
		return "(all functions)"
	}
	return inert(f.Subject())
}

// maxSentence is the most columns that one sentence gets: those with a 10 kB symbol in them are cut.
const maxSentence = 500

// oneLine makes a sentence inert and keeps it on one line.
func oneLine(s string) string {
	return shorten(inert(strings.Join(strings.Fields(s), " ")), maxSentence)
}

func signedPoints(fraction float64) string   { return unit("%+.2f pp", fraction) }
func unsignedPoints(fraction float64) string { return unit("%.2f pp", fraction) }
func signedPercent(fraction float64) string  { return unit("%+.2f %%", fraction) }

func percent(fraction float64, decimals int) string {
	return unit("%."+strconv.Itoa(decimals)+"f %%", fraction)
}

// unit formats a fraction in hundredths; what is not a number is a dash.
func unit(format string, fraction float64) string {
	if math.IsNaN(fraction) || math.IsInf(fraction, 0) {
		return "-"
	}
	return fmt.Sprintf(format, fraction*100)
}

func interval(i diff.Interval) string {
	bound := func(fraction float64) string {
		switch {
		case math.IsNaN(fraction):
			return "?"
		case math.IsInf(fraction, 1):
			return "+inf"
		case math.IsInf(fraction, -1):
			return "-inf"
		}
		return fmt.Sprintf("%+.2f", fraction*100)
	}
	return "[" + bound(i.Low) + ", " + bound(i.High) + "]"
}

// probability shows three digits, which is more than anyone decides by.
func probability(p float64) string {
	switch {
	case math.IsNaN(p):
		return "-"
	case p < 0.0005:
		return "<0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// seconds shows three significant digits at least.
func seconds(s float64) string {
	decimals := 1
	for limit := 10.0; decimals < 6 && s < limit; limit /= 10 {
		decimals++
	}
	return strconv.FormatFloat(s, 'f', decimals, 64)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
