package capture

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRequestsThatNoClientSendsAreRejected(t *testing.T) {
	for name, line := range map[string]string{
		"not JSON":                   `begin`,
		"unknown field":              `{"op":"end","run":1,"path":"/etc/shadow"}`,
		"two values":                 `{"op":"end","run":1}{"op":"end","run":1}`,
		"unknown operation":          `{"op":"exec","run":1}`,
		"no operation":               `{}`,
		"other protocol":             `{"op":"start","protocol":99}`,
		"no protocol":                `{"op":"start"}`,
		"unknown event":              `{"op":"start","protocol":1,"event":"page-faults"}`,
		"frequency over the limit":   `{"op":"start","protocol":1,"frequency":1000000}`,
		"negative frequency":         `{"op":"start","protocol":1,"frequency":-1}`,
		"relative debug directory":   `{"op":"start","protocol":1,"debug_dirs":["debug"]}`,
		"NUL in a debug directory":   `{"op":"start","protocol":1,"debug_dirs":["/a\u0000b"]}`,
		"run number of start":        `{"op":"start","protocol":1,"run":1}`,
		"begin without a process":    `{"op":"begin","run":1}`,
		"begin without a run":        `{"op":"begin","tgid":7}`,
		"process over PID_MAX_LIMIT": `{"op":"begin","run":1,"tgid":4194305}`,
		"negative run":               `{"op":"end","run":-1}`,
		"run over 32 bits":           `{"op":"end","run":4294967296}`,
		"process of end":             `{"op":"end","run":1,"tgid":7}`,
		"options of begin":           `{"op":"begin","run":1,"tgid":7,"frequency":99}`,
		"string for a number":        `{"op":"end","run":"1"}`,
	} {
		if r, err := parseRequest([]byte(line)); err == nil {
			t.Errorf("%s: accepted as %+v", name, r)
		}
	}
	for _, line := range []string{
		`{"op":"start","protocol":1,"event":"cycles","frequency":4999,"debug_dirs":["/usr/lib/debug"]}`,
		`{"op":"begin","run":1,"tgid":7}`,
		`{"op":"end","run":4294967295}`,
	} {
		if _, err := parseRequest([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestLinesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		input string
		limit int
		want  string
		err   error
	}{
		{"abc\nrest", 10, "abc", nil},
		{"\n", 10, "", nil},
		{strings.Repeat("x", 9000) + "\n", 10000, strings.Repeat("x", 9000), nil},
		{strings.Repeat("x", 9000) + "\n", 8000, "", errLineTooLong},
		{strings.Repeat("x", 1<<20), 8000, "", errLineTooLong},
		{"half a line", 100, "", io.ErrUnexpectedEOF},
		{"", 100, "", io.EOF},
	} {
		line, err := readLine(bufio.NewReader(strings.NewReader(tt.input)), tt.limit)
		if !errors.Is(err, tt.err) || string(line) != tt.want {
			t.Errorf("%.20q: %.20q, %v; want %.20q, %v", tt.input, line, err, tt.want, tt.err)
		}
	}
}

func TestProfileFollowsItsReply(t *testing.T) {
	var stream bytes.Buffer
	profile := []byte("\x1f\x8bprofile\nwith a newline")
	if err := writeReply(&stream, reply{Type: replyProfile, Stats: &Stats{CPUSeconds: 1.5}}, profile); err != nil {
		t.Fatal(err)
	}
	if err := writeReply(&stream, reply{Type: replyOK}, nil); err != nil {
		t.Fatal(err)
	}
	whole := stream.String()
	reader := bufio.NewReader(&stream)
	answer, data, err := readReply(reader)
	if err != nil || !bytes.Equal(data, profile) || answer.Stats.CPUSeconds != 1.5 {
		t.Fatalf("got %+v, %q, %v", answer, data, err)
	}
	if answer, _, err = readReply(reader); err != nil || answer.Type != replyOK {
		t.Fatalf("second reply: %+v, %v", answer, err)
	}
	end := strings.Index(whole, "newline") + len("newline")
	for cut := 1; cut < end; cut++ {
		_, _, err := readReply(bufio.NewReader(strings.NewReader(whole[:cut])))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("reply cut after %d of %d bytes: %v, want %v", cut, end, err, io.ErrUnexpectedEOF)
		}
	}
}

func TestMalformedRepliesAreErrors(t *testing.T) {
	for name, line := range map[string]string{
		"unknown field":         `{"type":"ok","extra":1}`,
		"error without one":     `{"type":"error"}`,
		"progress without one":  `{"type":"progress"}`,
		"profile without stats": `{"type":"profile","size":3}`,
		"profile without size":  `{"type":"profile","stats":{"event":"","frequency":0}}`,
		"size of another reply": `{"type":"ok","size":3}`,
		"negative size":         `{"type":"profile","stats":{},"size":-3}`,
		"size over the limit":   `{"type":"profile","stats":{},"size":9999999999}`,
	} {
		if answer, _, err := readReply(bufio.NewReader(strings.NewReader(line + "\nxxx"))); err == nil {
			t.Errorf("%s: accepted as %+v", name, answer)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"op":"begin","run":1,"tgid":7}`))
	f.Add([]byte(`{"op":"start","protocol":1,"debug_dirs":["/a"]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseRequest(line)
		if err == nil && r.TGID > maxPID {
			t.Errorf("accepted process %d", r.TGID)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add([]byte("{\"type\":\"profile\",\"stats\":{},\"size\":3}\nabc"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		answer, data, err := readReply(bufio.NewReader(bytes.NewReader(stream)))
		if err == nil && answer.Size != len(data) {
			t.Errorf("reply of %d bytes came with %d", answer.Size, len(data))
		}
	})
}
