package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(side, script string) Build {
	return Build{Side: side, Args: []string{"sh", "-c", script}}
}

func TestBuildsRunInTheirDirectory(t *testing.T) {
	b := shell("head", `pwd; echo "$KIND $GIT_DIR." >&2; cat; touch made`)
	b.Dir = t.TempDir()
	b.Env = append(os.Environ(), "KIND=fast", "GIT_DIR=/elsewhere")
	var output bytes.Buffer
	b.Output = &output
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := b.Dir + "\nfast .\n"; output.String() != want {
		t.Errorf("output is %q, want %q", output.String(), want)
	}
	if _, err := os.Stat(filepath.Join(b.Dir, "made")); err != nil {
		t.Error(err)
	}
}

func TestFailedBuildsKeepTheEndOfTheirOutput(t *testing.T) {
	b := shell("base", `i=0; while [ $i -lt 20000 ]; do echo "line $i of the build"; i=$((i+1)); done; echo "error: no rule" >&2; exit 2`)
	err := b.Run(t.Context())
	var failed *BuildError
	if !errors.As(err, &failed) || failed.Error() != "build base: exit status 2" || failed.TimedOut {
		t.Fatalf("%v", err)
	}
	if want := []string{"line 19998 of the build", "line 19999 of the build", "error: no rule"}; !slices.Equal(failed.Tail(3), want) {
		t.Errorf("tail is %q", failed.Tail(3))
	}
	lines := failed.Tail(1 << 20)
	if len(failed.Output) > buildTail || len(failed.Output) < buildTail/2 || !strings.HasPrefix(lines[0], "line ") {
		t.Errorf("%d bytes are kept, from %q on", len(failed.Output), lines[0])
	}
	if !strings.Contains(hintOf(err), "the base has to build") {
		t.Errorf("hint %q", hintOf(err))
	}
	if err := shell("head", "exit 1").Run(t.Context()); hintOf(err) == hintOf(failed) || failed.Tail(0) != nil && len(failed.Tail(0)) != 0 {
		t.Errorf("head: %v, %q", err, hintOf(err))
	}
	err = Build{Side: "base", Args: []string{"/nonexistent/make"}}.Run(t.Context())
	if !errors.As(err, &failed) || !errors.Is(err, os.ErrNotExist) || failed.Tail(5) != nil {
		t.Errorf("no such program: %v", err)
	}
	if err := (Build{Side: "base"}).Run(t.Context()); err == nil {
		t.Error("no command: no error")
	}
}

// The processes of the build hold the other end of a fifo, whose reader sees
// the end of file when the last of them is gone.
func TestBuildsAreEndedWithAllTheirProcesses(t *testing.T) {
	for _, name := range []string{"timeout", "interrupt", "deaf"} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
				t.Fatalf("mkfifo: %v: %s", err, out)
			}
			b := shell("base", fmt.Sprintf("exec 3>%s; echo started >&3; sleep 1000 & wait", quoteShell(fifo)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "deaf" {
				b = shell("base", fmt.Sprintf("trap '' TERM; exec 3>%s; echo started >&3; sleep 1000 & wait", quoteShell(fifo)))
				b.grace = 10 * time.Millisecond
			}
			if name == "timeout" {
				b.Timeout = 300 * time.Millisecond
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				pipe, err := os.Open(fifo)
				if err != nil {
					t.Error(err)
					return
				}
				defer pipe.Close()
				var all bytes.Buffer
				one := make([]byte, 1)
				for {
					n, err := pipe.Read(one)
					all.Write(one[:n])
					if name != "timeout" && all.String() == "started\n" {
						cancel()
					}
					if err != nil {
						return
					}
				}
			}()
			err := b.Run(ctx)
			// A build that ended before it opened the fifo leaves the reader waiting for a writer.
			if writer, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				writer.Close()
			}
			<-ended
			var failed *BuildError
			switch {
			case name != "timeout" && !errors.Is(err, context.Canceled):
				t.Errorf("%v", err)
			case name == "timeout" && (!errors.As(err, &failed) || !failed.TimedOut || err.Error() != "build base: not done after 300ms"):
				t.Errorf("%v", err)
			}
		})
	}
}
