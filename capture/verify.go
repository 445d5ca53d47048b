package capture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/bpf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// verification compares the kernel's unwinder with unwind.Walk on live samples.
type verification struct {
	agreed      uint64
	frames      uint64 // of those that agreed
	disagreed   uint64
	undecided   map[string]uint64 // not compared, by why
	differences []string          // the first ones
}

const maxDifferences = 20

// verify unwinds a sample again that the kernel has unwound from the leaf.
func (s *Session) verify(r *bpf.Sample, frames []uint64) {
	v := s.verification
	if r.Resume != 0 {
		return
	}
	p := &pending{pid: r.PID, regs: registersOf(r.Registers), memory: stackCopy{base: r.StackBase, data: r.Stack, holes: r.StackHoles}}
	known := s.processes.get(r.PID)
	p.space, p.generated = known.space, known.generated
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	again, reason, waits := s.tables.unwind(nil, p)
	s.tables.endWalks()
	if reason == unwind.StopNoMapping && r.Reason == uint8(unwind.StopBadPC) {
		reason = unwind.StopBadPC // user space hears of executable mappings alone
	}
	switch {
	case waits != 0:
		v.undecided["table gone"]++
	case reason == unwind.StopTablePending && len(r.Stack) > 60<<10:
		v.undecided["stack deeper than is copied"]++
	case reason == unwind.StopTablePending:
		v.undecided["copy too short, or another stack"]++
		v.note(fmt.Sprintf("%s: SP %#x, copy of %#x bytes from %#x: kernel %s, user space %s",
			r.Comm, p.regs.SP, len(r.Stack), r.StackBase, s.tables.describe(frames), s.tables.describe(again)))
	case reason == unwind.StopReason(r.Reason) && slices.Equal(again, frames):
		v.agreed++
		v.frames += uint64(len(frames))
	default:
		v.disagreed++
		v.note(fmt.Sprintf("%s: kernel %s %s, user space %s %s",
			r.Comm, unwind.StopReason(r.Reason), s.tables.describe(frames), reason, s.tables.describe(again)))
	}
}

// note keeps what makes a sample different.
func (v *verification) note(text string) {
	if len(v.differences) < maxDifferences {
		v.differences = append(v.differences, text)
	}
}

// describe names the files and offsets of frames. The caller holds mu.
func (t *tables) describe(frames []uint64) string {
	var out strings.Builder
	for _, frame := range frames {
		name := "?"
		if f := t.file(uint16(frame >> fileShift)); f != nil {
			name = f.String()[strings.LastIndexByte(f.String(), '/')+1:]
		}
		fmt.Fprintf(&out, " %s+%#x", name, frame&offsetMask)
	}
	return out.String()
}
