package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	progressInterval = 200 * time.Millisecond
	// detailLasts is how long a detail is shown that nothing follows: its beginning is told, not its end.
	detailLasts = 2 * time.Second
)

// progress tells the user what is going on: on a terminal by one line that is written over, elsewhere
// by plain lines that stay. All of it goes to stderr.
type progress struct {
	w     io.Writer
	live  bool // one updating line
	width int

	mu          sync.Mutex
	step        string // what is being done
	since       time.Time
	detail      string // within the step
	detailSince time.Time
	shown       bool // a line is on the terminal that must be cleared
	ticking     chan struct{}
	done        chan struct{}
}

// newProgress returns a progress on the app's stderr.
func newProgress(a *app) *progress {
	return &progress{
		w:     a.stderr,
		live:  isTerminal(a.stderr) && a.env.get("TERM") != "dumb",
		width: a.width(a.stderr),
	}
}

// note prints a line that stays.
func (p *progress) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, "tollgate: %s\n", fmt.Sprintf(format, args...))
	p.draw()
}

// warn prints a line that stays and says that something is not as it should be.
func (p *progress) warn(format string, args ...any) {
	p.note("warning: "+format, args...)
}

// begin starts a step. With yield the step's line is not kept up to date, because the measured
// command writes to the same terminal: it then stays as a plain line above the command's output.
func (p *progress) begin(yield bool, format string, args ...any) {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.detail, p.since = fmt.Sprintf(format, args...), "", time.Now()
	if !p.live || yield {
		fmt.Fprintf(p.w, "tollgate: %s\n", p.step)
		p.step = ""
		return
	}
	p.draw()
	p.ticking, p.done = make(chan struct{}), make(chan struct{})
	go p.tick(p.ticking, p.done)
}

// busy starts a step that is worth a word only to someone who is watching.
func (p *progress) busy(step string) {
	if p.live {
		p.begin(false, "%s", step)
	}
}

// within says what the current step is busy with; empty when nothing special.
func (p *progress) within(detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.detail != detail {
		p.detail, p.detailSince = detail, time.Now()
		p.draw()
	}
}

// end finishes the current step and removes its updating line.
func (p *progress) end() {
	p.mu.Lock()
	ticking, done := p.ticking, p.done
	p.ticking, p.done = nil, nil
	p.mu.Unlock()
	if ticking != nil {
		close(ticking)
		<-done
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.step, p.detail = "", ""
}

func (p *progress) tick(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// draw writes the updating line; p.mu is held.
func (p *progress) draw() {
	if !p.live || p.step == "" {
		return
	}
	line := "tollgate: " + p.step
	if elapsed := time.Since(p.since); elapsed >= time.Second {
		line += ", " + seconds(elapsed.Seconds())
	}
	if p.detail != "" && time.Since(p.detailSince) < detailLasts {
		line += ", " + p.detail
	}
	// A line that wraps could not be cleared again.
	if runes := []rune(line); len(runes) >= p.width && p.width > 1 {
		line = string(runes[:p.width-2]) + "…"
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	p.shown = true
}

// clear removes the updating line; p.mu is held.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// seconds renders a duration for people: three digits at most.
func seconds(s float64) string {
	switch {
	case s >= 120:
		return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
	case s >= 9.95:
		return fmt.Sprintf("%.0f s", s)
	case s >= 0.995:
		return fmt.Sprintf("%.1f s", s)
	default:
		return fmt.Sprintf("%.0f ms", s*1000)
	}
}
