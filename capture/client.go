package capture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// DialOptions tell how to start the collector.
type DialOptions struct {
	Options
	// Command is the collector's command line, for example
	// ["sudo", "-n", "/usr/bin/tollgate", "_collector"].
	Command []string
	// Env is the collector's environment; nil inherits.
	Env []string
}

// Client is the unprivileged half: it owns the collector process. Its
// methods may be called from one goroutine at a time.
type Client struct {
	options DialOptions
	process *exec.Cmd
	stdin   io.WriteCloser
	stderr  *tail
	lastRun uint32

	replies chan received // closed when the collector's output ended
	gone    chan struct{} // closed when the collector ended
	exitErr error         // valid after gone: how it ended
}

type received struct {
	reply
	data []byte
	err  error
}

// Dial starts the collector and waits until it is ready to sample. When ctx
// ends before that, the collector is stopped.
func Dial(ctx context.Context, o DialOptions) (*Client, error) {
	if len(o.Command) == 0 {
		return nil, newError(CodeRequest, errors.New("start collector: no command line"), "")
	}
	if err := o.validate(); err != nil {
		return nil, newError(CodeRequest, err, "")
	}
	c := &Client{
		options: o,
		process: exec.Command(o.Command[0], o.Command[1:]...),
		stderr:  &tail{},
		replies: make(chan received),
		gone:    make(chan struct{}),
	}
	c.process.Env = o.Env
	c.process.Stderr = c.stderr
	// Descendants of sudo may keep stderr open; the wait must not depend on them.
	c.process.WaitDelay = time.Second
	// Its own process group keeps the terminal's Ctrl-C away from it and from
	// the sudo around it. Not its own session: sudo's tickets are per terminal.
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := c.process.StdinPipe()
	if err != nil {
		return nil, newError(CodeInternal, fmt.Errorf("start collector: %w", err), "")
	}
	c.stdin = stdin
	// Not StdoutPipe: Wait would close it before the last reply is read.
	stdout, childStdout, err := os.Pipe()
	if err != nil {
		return nil, newError(CodeInternal, fmt.Errorf("start collector: %w", err), "")
	}
	c.process.Stdout = childStdout
	if err := c.process.Start(); err != nil {
		stdout.Close()
		childStdout.Close()
		return nil, newError(CodeEnvironment, fmt.Errorf("start collector %s: %w", o.Command[0], err), "run as root, or install sudo")
	}
	childStdout.Close()
	go c.read(stdout)
	go func() {
		c.exitErr = c.process.Wait()
		close(c.gone)
	}()

	start := request{Op: opStart, Protocol: protocolVersion, Event: o.Event, Frequency: o.Frequency, DebugDirs: o.DebugDirs}
	if _, err := c.call(ctx, start); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// read delivers replies until the collector's output ends.
func (c *Client) read(stdout io.ReadCloser) {
	defer stdout.Close()
	defer close(c.replies)
	reader := bufio.NewReader(stdout)
	for {
		answer, data, err := readReply(reader)
		if err == nil && answer.Type == replyProgress {
			if c.options.Progress != nil {
				c.options.Progress(*answer.Progress)
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return
		}
		select {
		case c.replies <- received{answer, data, err}:
		case <-c.gone:
			// The collector ended. A caller may still be waiting for what it
			// wrote last; nobody comes when there is none.
			select {
			case c.replies <- received{answer, data, err}:
			case <-time.After(time.Second):
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// send writes one request.
func (c *Client) send(r request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return newError(CodeInternal, fmt.Errorf("encode request: %w", err), "")
	}
	if _, err := c.stdin.Write(append(line, '\n')); err != nil {
		return c.died(r.Op)
	}
	return nil
}

// call sends a request and waits for its reply.
func (c *Client) call(ctx context.Context, r request) (received, error) {
	if err := c.send(r); err != nil {
		return received{}, err
	}
	select {
	case answer, ok := <-c.replies:
		switch {
		case !ok:
			return received{}, c.died(r.Op)
		case answer.err != nil:
			err := newError(CodeCollector, fmt.Errorf("collector broke off its reply to %s: %w", r.Op, answer.err), "")
			c.stdin.Close()
			return received{}, err
		case answer.Type == replyError:
			return received{}, answer.Error
		}
		return answer, nil
	case <-ctx.Done():
		// The reply is still to come: the stream is out of step from here on.
		c.stdin.Close()
		return received{}, fmt.Errorf("wait for the collector: %w", context.Cause(ctx))
	}
}

// died describes the end of the collector; op is what was asked last.
func (c *Client) died(op string) error {
	c.stdin.Close()
	// Its output has ended, so its end is near, unless it hangs in exit.
	select {
	case <-c.gone:
	case <-time.After(2 * time.Second):
		return newError(CodeCollector, fmt.Errorf("collector closed its output during %s%s", op, c.stderr.suffix()), "")
	}
	how := "exit status 0"
	if c.exitErr != nil {
		how = c.exitErr.Error()
	}
	err := fmt.Errorf("collector ended during %s: %s%s", op, how, c.stderr.suffix())
	if op == opStart {
		// Before its first reply it is sudo, or nothing, that failed.
		hint := ""
		if strings.Contains(c.options.Command[0], "sudo") {
			hint = "run as root, or allow sudo without a password"
		}
		return newError(CodeEnvironment, err, hint)
	}
	return newError(CodeCollector, err, "")
}

// Close ends the collector and waits for it, at most five seconds.
func (c *Client) Close() error {
	c.stdin.Close()
	for patience := time.After(5 * time.Second); ; {
		select {
		case <-c.gone:
			return nil
		case _, ok := <-c.replies: // late replies nobody asked for
			if !ok {
				c.replies = nil
			}
		case <-patience:
			return newError(CodeCollector, fmt.Errorf("collector (process %d) does not end", c.process.Process.Pid), "")
		}
	}
}

// tail keeps the last bytes of a stream.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const maxTail = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if extra := len(t.data) - maxTail; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(p), nil
}

// suffix returns the last line that is not empty, as the end of a message.
// A panic starts where its first line is, not where the stack ends.
func (t *tail) suffix() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.data), []byte("\n"))
	line := lines[len(lines)-1]
	for _, candidate := range lines {
		if bytes.HasPrefix(candidate, []byte("panic: ")) || bytes.HasPrefix(candidate, []byte("fatal error: ")) {
			line = candidate
			break
		}
	}
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return ""
	}
	return ": " + string(line)
}
