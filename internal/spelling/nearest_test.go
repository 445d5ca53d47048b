package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	keys := []string{"command", "build", "runs", "warmup", "frequency", "timeout"}
	for _, tt := range []struct{ word, want string }{
		{"comand", "command"},
		{"Command", "command"},
		{"tiemout", "timeout"},
		{"time-out", "timeout"},
		{"run", "runs"},
		{"rusn", "runs"},
		{"warm_up", "warmup"},
		{"threshold", ""},
		{"x", ""},
		{"", ""},
		{strings.Repeat("command", 40), ""},
	} {
		if got := Nearest(tt.word, keys); got != tt.want {
			t.Errorf("Nearest(%q) = %q, want %q", tt.word, got, tt.want)
		}
	}
	if got := Nearest("mian", []string{"main", "mean"}); got != "main" {
		t.Errorf("exchanged letters: %q", got)
	}
	if got := Nearest("größe", []string{"grösse", "gross"}); got != "" && got != "grösse" {
		t.Errorf("letters beyond ASCII: %q", got)
	}
}
