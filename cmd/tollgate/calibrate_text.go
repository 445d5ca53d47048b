package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/tollgate-dev/tollgate/baseline"
	"github.com/tollgate-dev/tollgate/calibration"
)

// calibrationPage is what calibrate prints: what the machine can detect in the first line, then why.
type calibrationPage struct {
	app       *app
	result    *calibration.Result
	recording *baseline.Recording
	colored   bool

	b strings.Builder
}

func (c *calibrationPage) write(w io.Writer) error {
	c.verdict()
	c.runs()
	c.noise()
	c.detectable()
	c.gates()
	c.warnings()
	c.recommended()
	if _, err := io.WriteString(w, c.b.String()); err != nil {
		return fail(exitEnvironment, fmt.Errorf("write calibration: %w", err), "")
	}
	return nil
}

func (c *calibrationPage) paint(s, code string) string {
	if !c.colored {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (c *calibrationPage) title(s string) { fmt.Fprintf(&c.b, "\n%s\n", c.paint(s, "1")) }

func (c *calibrationPage) verdict() {
	colors := map[calibration.Fit]string{calibration.Fits: "1;32", calibration.Noisy: "1;33", calibration.Unsound: "1;31"}
	name := ""
	if c.recording.Suite != "" {
		name = oneLine(c.recording.Suite) + ": "
	}
	word := strings.ToUpper(string(c.result.Verdict))
	fmt.Fprintf(&c.b, "%s  %s%s\n", c.paint(word, colors[c.result.Verdict]), name, oneLine(c.result.Reason))
}

// runs says what was measured, on what machine, and in what company.
func (c *calibrationPage) runs() {
	m, r := &c.recording.Manifest, c.result
	what := c.recording.Source
	if len(m.Command) > 0 {
		what = shorten(commandLine(m.Command), 60)
	}
	fmt.Fprintf(&c.b, "\n  %d runs of %s", r.Runs, oneLine(what))
	if r.Frequency > 0 {
		fmt.Fprintf(&c.b, ", %s at %d Hz", m.Event, r.Frequency)
	}
	c.b.WriteString("\n")
	if c.recording.Foreign {
		return
	}
	fmt.Fprintf(&c.b, "  on %s\n", oneLine(m.Env.String()))
	wall, busy := 0.0, 0.0
	others := make(map[string]float64)
	for _, run := range m.Runs {
		wall += run.WallSeconds
		for _, other := range run.Others {
			busy += other.CPUSeconds
			others[other.Comm] += other.CPUSeconds
		}
	}
	if wall > 0 && busy >= 0.01*wall {
		fmt.Fprintf(&c.b, "  others kept %.2f CPUs busy meanwhile: %s\n", busy/wall, topConsumers(others, 3, 0))
	}
}

func (c *calibrationPage) noise() {
	r := c.result
	c.title("Noise between runs")
	t := c.table()
	for _, q := range []struct {
		name   string
		spread calibration.Spread
	}{{"wall time", r.Wall}, {"CPU time", r.CPU}, {"calibration kernel", r.Anchor}} {
		if q.spread.Mean > 0 {
			fmt.Fprintf(t, "  %s\tCV %.1f %%\tof %s\n", q.name, 100*q.spread.CV, seconds(q.spread.Mean))
		}
	}
	if n := r.Noise; n.Functions > 0 {
		fmt.Fprintf(t, "  share of a function\tCV %.1f %%\tmedian of %d; its variance is %.1f times that of sampling alone\n",
			100*n.MedianCV, n.Functions, n.MedianRatio)
	}
	t.Flush()
	if len(r.Noise.Noisiest) == 0 {
		return
	}
	c.b.WriteString("\n")
	rows := [][]string{{"noisiest functions", "where", "share", "CV", "times sampling"}}
	const noisiest = 5
	for _, f := range r.Noise.Noisiest[:min(noisiest, len(r.Noise.Noisiest))] {
		rows = append(rows, c.row(f.Function, fmt.Sprintf("%.1f %%", 100*f.CV), fmt.Sprintf("%.1f", f.Ratio)))
	}
	c.columns(rows)
}

func (c *calibrationPage) detectable() {
	d := c.result.Detectable
	if len(d.Functions) == 0 {
		return
	}
	c.title(fmt.Sprintf("Smallest regressions that %s show (power %.0f %%), and the pairs that show the goal", plural(c.result.Pairs, "pair"), 100*d.Power))
	rows := [][]string{{"largest functions", "where", "share", "from", "goal", "pairs"}}
	for _, f := range d.Functions {
		rows = append(rows, c.row(f.Function, points(f.Effect), points(f.Goal), pairsOrNone(f.Pairs)))
	}
	if d.Total.Effect > 0 {
		rows = append(rows, []string{"total CPU", "", "100.0 %", points(d.Total.Effect), points(d.Total.Goal), pairsOrNone(d.Total.Pairs)})
	}
	c.columns(rows)
}

// points renders an effect. One as large as the program is not worth its digits.
func points(effect float64) string {
	if effect > 1 {
		return ">100 pp"
	}
	return fmt.Sprintf("%+.2f pp", 100*effect)
}

// pairsOrNone renders a number of pairs where 0 stands for none that does.
func pairsOrNone(pairs int) string {
	if pairs == 0 {
		return "none does"
	}
	return strconv.Itoa(pairs)
}

func (c *calibrationPage) gates() {
	c.title("The program compared with itself, where every red is false")
	rows := [][]string{{"gate", "", "judged", "red", "at most", "pass", "inconclusive", "pairs"}}
	for _, g := range c.result.Gates {
		part := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(g.Judged)) }
		rows = append(rows, []string{
			g.Name, "", strconv.Itoa(g.Judged), strconv.Itoa(g.Red), fmt.Sprintf("%.1f %%", 100*g.High),
			part(g.Pass), part(g.Inconclusive), fmt.Sprintf("%.1f", g.MeanPairs),
		})
	}
	c.columns(rows)
	for _, g := range c.result.Gates {
		if len(g.Blamed) > 0 {
			fmt.Fprintf(&c.b, "  red in %s for %s\n", g.Name, shorten(oneLine(strings.Join(g.Blamed, ", ")), 80))
		}
	}
}

func (c *calibrationPage) warnings() {
	if len(c.result.Warnings) > 0 {
		c.b.WriteString("\n")
	}
	for _, w := range c.result.Warnings {
		fmt.Fprintf(&c.b, "%s %s\n", c.paint("warning:", "33"), oneLine(w.Text))
		if w.Hint != "" {
			fmt.Fprintf(&c.b, "%s %s\n", c.paint("hint:", "33"), oneLine(w.Hint))
		}
	}
}

func (c *calibrationPage) recommended() {
	r := c.result.Recommended
	c.b.WriteString("\n")
	if r.Pairs == 0 {
		c.b.WriteString("No setting makes this program fit here: take out what varies in it, or use a calmer machine.\n")
		return
	}
	c.b.WriteString("Recommended: ")
	if r.Work > 1 {
		fmt.Fprintf(&c.b, "%d times the work in a run, and ", r.Work)
	}
	fmt.Fprintf(&c.b, "--runs %d", r.Pairs)
	if r.Frequency > 0 {
		fmt.Fprintf(&c.b, " --frequency %d", r.Frequency)
	}
	if r.Seconds > 0 {
		fmt.Fprintf(&c.b, ", which takes %s at most", seconds(r.Seconds))
	}
	fmt.Fprintf(&c.b, " (%s).\n", oneLine(r.Why))
}

// row begins a row with a function's name, where it is, and its share.
func (c *calibrationPage) row(f calibration.Function, more ...string) []string {
	const widestName, widestPlace = 48, 32
	place := f.File
	if here, err := filepath.Abs("."); err == nil && place != "" {
		if relative, err := filepath.Rel(here, place); err == nil && filepath.IsLocal(relative) {
			place = relative
		}
	}
	if place != "" {
		if f.Line > 0 {
			place += ":" + strconv.Itoa(f.Line)
		}
		// The end of a path says most.
		if runes := []rune(place); len(runes) > widestPlace {
			place = "…" + string(runes[len(runes)-widestPlace+1:])
		}
	}
	name := oneLine(f.Name)
	// The path of a Go package says least.
	if i := strings.LastIndexByte(name, '/'); utf8.RuneCountInString(name) > widestName && i > 0 && !strings.ContainsAny(name[:i], "(<") {
		name = "…" + name[i:]
	}
	return append([]string{shorten(name, widestName), oneLine(place), fmt.Sprintf("%.1f %%", 100*f.Share)}, more...)
}

func (c *calibrationPage) table() *tabwriter.Writer {
	return tabwriter.NewWriter(&c.b, 0, 0, 2, ' ', 0)
}

// columns lays rows out: two columns of words, then numbers, which are aligned on the right.
func (c *calibrationPage) columns(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case widths[i] == 0:
			case i < 2:
				line += "  " + cell + pad
			default:
				line += "  " + pad + cell
			}
		}
		c.b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
