package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestShellCommandSplitsPlainLinesItself(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"./bench", []string{"./bench"}},
		{"  gzip  -9\tfile ", []string{"gzip", "-9", "file"}},
		{"./b --size=10 -x=", []string{"./b", "--size=10", "-x="}},
		{`./b 'a b' "c d" e'f'g ''`, []string{"./b", "a b", "c d", "efg", ""}},
		{`./b '$HOME' "it's"`, []string{"./b", "$HOME", "it's"}},
		{"a b | c", nil},
		{"gzip < in > out", nil},
		{"A=1 ./b", nil},
		{`./b "$HOME"`, nil},
		{`./b a\ b`, nil},
		{"./b *.txt", nil},
		{"cd sub && ./b", nil},
		{"cd sub", nil},
		{"./b 'open", nil},
		{"~/bench", nil},
	} {
		want := tt.want
		if want == nil {
			want = []string{"sh", "-c", tt.line}
		}
		if got := shellCommand(tt.line); !slices.Equal(got, want) {
			t.Errorf("shellCommand(%q) = %q, want %q", tt.line, got, want)
		}
	}
}

// What is split here must come out as the shell splits it.
func FuzzShellCommandAgreesWithTheShell(f *testing.F) {
	for _, line := range []string{"echo a b", `x 'a b'"c"`, "p --k=v", "p ,:@+-./_^"} {
		f.Add(line)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		f.Skip("needs sh")
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, ok := plainWords(line)
		if !ok || strings.ContainsRune(line, 0) || strings.ContainsAny(words[0], "/") {
			return
		}
		// The line becomes the arguments of a function, so that nothing of it is executed.
		script := `f() { for w in "$@"; do printf '%s\n\0' "$w"; done; }; f ` + line
		out, err := exec.Command(sh, "-c", script).Output()
		if err != nil {
			t.Fatalf("sh refuses %q, which was taken as %q: %v", line, words, err)
		}
		if got := strings.Join(words, "\n\x00") + "\n\x00"; got != string(out) {
			t.Errorf("plainWords(%q) = %q, sh says %q", line, words, out)
		}
	})
}
