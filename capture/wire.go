package capture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// The protocol between Client and Serve: a request is one line of JSON, a
// reply is one line of JSON, and the reply to opEnd is followed by the bytes
// of the profile. Progress may precede any reply. Requests are answered in
// order. Both sides bound what they read.
const protocolVersion = 1

const (
	maxRequest = 64 << 10
	maxReply   = 1 << 20
	maxProfile = 512 << 20
)

// The operations of a request.
const (
	opStart   = "start"   // open the session
	opBegin   = "begin"   // the next process that tgid forks is the root of run
	opDisarm  = "disarm"  // what tgid forks from now on is not part of the run
	opMembers = "members" // the live processes of the run
	opEnd     = "end"     // finish the run, reply with its profile
	opDiscard = "discard" // forget the run
)

// request is what the unprivileged half may ask for.
type request struct {
	Op        string   `json:"op"`
	Protocol  int      `json:"protocol,omitempty"`
	Event     string   `json:"event,omitempty"`
	Frequency int      `json:"frequency,omitempty"`
	DebugDirs []string `json:"debug_dirs,omitempty"`
	Run       uint32   `json:"run,omitempty"`
	TGID      uint32   `json:"tgid,omitempty"`
}

// The kinds of a reply.
const (
	replyOK       = "ok"
	replyError    = "error"
	replyProgress = "progress"
	replyMembers  = "members"
	replyProfile  = "profile"
)

type reply struct {
	Type     string    `json:"type"`
	Error    *Error    `json:"error,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
	Members  []uint32  `json:"members,omitempty"`
	Stats    *Stats    `json:"stats,omitempty"`
	Size     int       `json:"size,omitempty"` // bytes of the profile that follow
}

// parseRequest decodes one line and rejects what no Client sends.
func parseRequest(line []byte) (request, error) {
	var r request
	if err := decodeStrict(line, &r); err != nil {
		return r, fmt.Errorf("parse request: %w", err)
	}
	if err := r.validate(); err != nil {
		return r, fmt.Errorf("request %.20q: %w", r.Op, err)
	}
	return r, nil
}

func (r request) validate() error {
	isStart := r.Op == opStart
	if !isStart && (r.Protocol != 0 || r.Event != "" || r.Frequency != 0 || r.DebugDirs != nil) {
		return errors.New("options belong to start")
	}
	if (r.TGID != 0) != (r.Op == opBegin) {
		return errors.New("a process belongs to begin, and to nothing else")
	}
	if (r.Run != 0) == isStart {
		return errors.New("a run number belongs to every request but start")
	}
	switch r.Op {
	case opStart:
		if r.Protocol != protocolVersion {
			return fmt.Errorf("protocol %d, this collector speaks %d", r.Protocol, protocolVersion)
		}
		return r.options().validate()
	case opBegin:
		if r.TGID > maxPID {
			return fmt.Errorf("process %d is out of range", r.TGID)
		}
	case opDisarm, opMembers, opEnd, opDiscard:
	default:
		return errors.New("no such operation")
	}
	return nil
}

// maxPID is PID_MAX_LIMIT of the kernel (include/linux/threads.h).
const maxPID = 4 << 20

func (r request) options() Options {
	return Options{Event: r.Event, Frequency: r.Frequency, DebugDirs: r.DebugDirs}
}

// The events that can be sampled.
const (
	EventCPUClock = "cpu-clock"
	EventCycles   = "cycles"
)

func (o Options) validate() error {
	switch o.Event {
	case "", EventCPUClock, EventCycles:
	default:
		return fmt.Errorf("no event %.40q: it is %s or %s", o.Event, EventCPUClock, EventCycles)
	}
	if o.Frequency < 0 || o.Frequency > MaxFrequency {
		return fmt.Errorf("frequency %d Hz is not within 1 to %d", o.Frequency, MaxFrequency)
	}
	const maxDirs = 64
	if len(o.DebugDirs) > maxDirs {
		return fmt.Errorf("%d debug directories are over the limit of %d", len(o.DebugDirs), maxDirs)
	}
	for _, dir := range o.DebugDirs {
		if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
			return fmt.Errorf("debug directory %.100q is not an absolute path", dir)
		}
	}
	return nil
}

// decodeStrict decodes exactly one JSON object without unknown fields.
func decodeStrict(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more than one value on the line")
	}
	return nil
}

var errLineTooLong = errors.New("line is too long")

// readLine returns the next line without its end, of at most limit bytes.
// The slice is valid until the next read. A last line without an end is
// io.ErrUnexpectedEOF: its sender died while writing.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errLineTooLong
		}
		switch {
		case err == nil && line == nil:
			return part[:len(part)-1], nil
		case err == nil:
			line = append(line, part...)
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			line = append(line, part...)
		case err == io.EOF && len(line)+len(part) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// readReply reads one reply and the profile behind it.
func readReply(r *bufio.Reader) (reply, []byte, error) {
	var answer reply
	line, err := readLine(r, maxReply)
	if err != nil {
		return answer, nil, err
	}
	if err := decodeStrict(line, &answer); err != nil {
		return answer, nil, fmt.Errorf("parse reply: %w", err)
	}
	switch {
	case answer.Type == replyError && answer.Error == nil,
		answer.Type == replyProgress && answer.Progress == nil,
		answer.Type == replyProfile && answer.Stats == nil,
		(answer.Size != 0) != (answer.Type == replyProfile),
		answer.Size < 0 || answer.Size > maxProfile:
		return answer, nil, fmt.Errorf("reply of type %.20q is malformed", answer.Type)
	}
	if answer.Size == 0 {
		return answer, nil, nil
	}
	// The size is the collector's word: memory is taken as bytes arrive.
	var data bytes.Buffer
	if _, err := io.CopyN(&data, r, int64(answer.Size)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return answer, nil, fmt.Errorf("read profile of %d bytes: %w", answer.Size, err)
	}
	return answer, data.Bytes(), nil
}

// writeReply writes a reply and the profile behind it in one go.
func writeReply(w io.Writer, answer reply, data []byte) error {
	answer.Size = len(data)
	line, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode reply: %w", err)
	}
	line = append(line, '\n')
	if _, err := w.Write(append(line, data...)); err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	return nil
}
