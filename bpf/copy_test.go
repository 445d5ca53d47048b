package bpf

import (
	"encoding/binary"
	"testing"

	"github.com/tollgate-dev/tollgate/unwind"
)

// A sample in a file without a table brings what is needed to go on later.
func TestPendingSamplesBringTheirStack(t *testing.T) {
	s := load(t, Options{Frequency: 999})
	program := build(t, "stacks.c")
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	const depth = 200
	for _, test := range []struct {
		name string
		args []string
		most int // bytes that such a stack may take
	}{
		{"main thread", []string{"recurse", "200"}, 32 << 10},
		{"deeper than is copied", []string{"recurse", "20000"}, maxStack},
		{"thread", []string{"thread", "200"}, maxStack},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, run := start(t, s, append([]string{program}, test.args...)...)
			seen := 0
			handle := func(record Record) {
				sample, ok := record.(*Sample)
				if !ok || sample.Run != run || unwind.StopReason(sample.Reason) != unwind.StopTablePending || sample.Registers == nil {
					return
				}
				if sample.Resume != len(sample.UserFrames)-1 {
					t.Fatalf("registers of frame %d of %d", sample.Resume, len(sample.UserFrames))
				}
				if pc := sample.Registers[0]; sample.Miss == nil || pc < sample.Miss.Start || pc > sample.Miss.End {
					t.Fatalf("PC %#x is not in %+v", pc, sample.Miss)
				}
				if len(sample.Stack) > test.most {
					t.Fatalf("%d bytes of stack, want %d at most", len(sample.Stack), test.most)
				}
				// Until it spins, the stack is that of the dynamic linker.
				returns := 0
				for at := 0; at+8 <= len(sample.Stack); at += 8 {
					if word := binary.NativeEndian.Uint64(sample.Stack[at:]); word-sample.Miss.Start < sample.Miss.End-sample.Miss.Start {
						returns++
					}
				}
				if returns >= depth {
					seen++
				}
			}
			drainUntil(t, s, handle, func() bool { return seen >= 5 })
		})
	}
	counters, err := s.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if counters.Copies < 15 || counters.CopiedBytes < counters.Copies*8 {
		t.Errorf("%d copies of %d bytes are counted", counters.Copies, counters.CopiedBytes)
	}
}
