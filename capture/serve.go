package capture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

// recorder is what Serve needs of a Session.
type recorder interface {
	Begin(run, tgid uint32) error
	Disarm(run uint32) error
	Members(run uint32) ([]uint32, error)
	End(run uint32) (*profile.Profile, Stats, error)
	Discard(run uint32) error
	Close() error
}

// Serve is the privileged half: it answers the requests of one Client until
// in ends, which also happens when the client was killed. Signals of the
// terminal and of a job's supervisor are ignored, so that the collector
// outlives the wrapped command and its client by design, not by luck.
//
// The process should exit when Serve returns; the kernel then drops every
// program, map and perf event, because none of them is pinned.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	signal.Ignore(unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
	s := &server{
		out:     out,
		allowed: isAncestor,
		start: func(ctx context.Context, o Options) (recorder, error) {
			// Loading leaves some 10 MB of garbage, most of it the kernel's
			// types. To collect it meanwhile would take a tenth of the time.
			debug.SetGCPercent(-1)
			session, err := Start(ctx, o)
			debug.SetGCPercent(collectorGCPercent)
			if err != nil {
				return nil, err
			}
			return session, nil
		},
	}
	return s.serve(ctx, in)
}

// collectorGCPercent keeps the heap close to what is in use. Little is
// allocated while a run is sampled, so that collecting more often costs next
// to nothing.
const collectorGCPercent = 40

// server answers requests in order.
type server struct {
	start func(context.Context, Options) (recorder, error)
	// allowed tells whether a process may be armed: only the client, which
	// is an ancestor of the collector, has business with being a target.
	allowed func(pid uint32) error

	session recorder

	mu  sync.Mutex // guards out
	out io.Writer
}

type requestLine struct {
	line []byte
	err  error
}

func (s *server) serve(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// Lines are read beside the work, so that the end of the input cuts a
	// long symbolization short.
	lines := make(chan requestLine)
	go func() {
		defer cancel()
		reader := bufio.NewReader(in)
		for {
			line, err := readLine(reader, maxRequest)
			select {
			case lines <- requestLine{bytes.Clone(line), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		if s.session != nil {
			s.session.Close()
		}
	}()
	for {
		var next requestLine
		select {
		case next = <-lines:
		case <-ctx.Done():
			return nil
		}
		switch {
		case errors.Is(next.err, io.EOF):
			return nil
		case next.err != nil:
			// The stream is out of step: nothing after it can be trusted.
			err := fmt.Errorf("read request: %w", next.err)
			return both(err, s.fail(newError(CodeRequest, err, "")))
		}
		if err := s.answer(ctx, next.line); err != nil {
			return err
		}
	}
}

// answer handles one request. The error it returns ends the service; a
// failed request does not.
func (s *server) answer(ctx context.Context, line []byte) error {
	r, err := parseRequest(line)
	if err != nil {
		return s.fail(newError(CodeRequest, err, ""))
	}
	if (r.Op == opStart) == (s.session != nil) {
		return s.fail(newError(CodeRequest, fmt.Errorf("request %q: the session must be started once, first", r.Op), ""))
	}
	switch r.Op {
	case opStart:
		options := r.options()
		options.Progress = func(p Progress) {
			_ = s.reply(reply{Type: replyProgress, Progress: &p}, nil) // the next reply fails likewise
		}
		s.session, err = s.start(ctx, options)
	case opBegin:
		if err = s.allowed(r.TGID); err == nil {
			err = s.session.Begin(r.Run, r.TGID)
		}
	case opDisarm:
		err = s.session.Disarm(r.Run)
	case opDiscard:
		err = s.session.Discard(r.Run)
	case opMembers:
		var pids []uint32
		if pids, err = s.session.Members(r.Run); err == nil {
			return s.reply(reply{Type: replyMembers, Members: pids}, nil)
		}
	case opEnd:
		return s.end(r.Run)
	}
	if err != nil {
		return s.fail(asError(err, CodeInternal))
	}
	return s.reply(reply{Type: replyOK}, nil)
}

func (s *server) end(run uint32) error {
	prof, stats, err := s.session.End(run)
	if err != nil {
		return s.fail(asError(err, CodeInternal))
	}
	encoding := time.Now()
	var data bytes.Buffer
	if err := prof.Write(&data); err != nil {
		return s.fail(newError(CodeInternal, fmt.Errorf("encode profile of run %d: %w", run, err), ""))
	}
	if data.Len() > maxProfile {
		return s.fail(newError(CodeInternal, fmt.Errorf("profile of run %d takes %d bytes, over the limit of %d", run, data.Len(), maxProfile), "lower the frequency"))
	}
	stats.FinishSeconds += time.Since(encoding).Seconds()
	return s.reply(reply{Type: replyProfile, Stats: &stats}, data.Bytes())
}

func (s *server) fail(err *Error) error { return s.reply(reply{Type: replyError, Error: err}, nil) }

func (s *server) reply(answer reply, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return writeReply(s.out, answer, data)
}

// isAncestor returns nil when pid is a direct or indirect parent of this
// process.
func isAncestor(pid uint32) error {
	if slices.Contains(ancestors("/proc"), pid) {
		return nil
	}
	return newError(CodeRequest, fmt.Errorf("process %d did not start this collector", pid), "")
}

// errNoRun reports a run number that is not the active one.
var errNoRun = errors.New("no such run is active")

// monotonic returns the time of CLOCK_MONOTONIC in nanoseconds, the clock of
// the records of package bpf.
func monotonic() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return uint64(time.Now().UnixNano()) // cannot happen on Linux
	}
	return uint64(now.Nano())
}
