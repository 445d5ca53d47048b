package bpf

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/unwind"
)

func TestStacksAreCompleteAndNamed(t *testing.T) {
	s := load(t, Options{Frequency: 999})
	r := newResolver(t, s)
	dynamic := build(t, "stacks.c")
	static := build(t, "stacks.c", "-static")
	tests := []struct {
		name    string
		program string
		args    []string
		want    string // of the frames' names
		reason  unwind.StopReason
	}{
		{"recursion of 200 frames", dynamic, []string{"recurse", "200"}, `^spin_here( recurse){200} main`, 0},
		{"static", static, []string{"recurse", "50"}, `^spin_here( recurse){50} main( \S+)? \S+ _start$`, 0},
		{"position-dependent", build(t, "stacks.c", "-no-pie"), []string{"recurse", "3"}, `^spin_here( recurse){3} main`, 0},
		{"static and position-independent", build(t, "stacks.c", "-static-pie"), []string{"recurse", "3"}, `^spin_here( recurse){3} main`, 0},
		{"1,000 frames", dynamic, []string{"recurse", "1000"}, `^spin_here( recurse){1000} main`, 0},
		{"more frames than are recorded", dynamic, []string{"recurse", "2000"}, `^spin_here( recurse){1000}( recurse){23}$`, unwind.StopTooManyFrames},
		{"frame size by alloca", dynamic, []string{"dynamic", "40"}, `^spin_here( dynamic){40} main`, 0},
		{"realigned frames", dynamic, []string{"aligned", "40"}, `^spin_here( aligned){40} main`, 0},
		{"signal handler", dynamic, []string{"signal"}, `^spin_here handler( \S+)* (gsignal|raise) main`, 0},
		{"signal handler, static", static, []string{"signal"}, `^spin_here handler( \S+)* (gsignal|raise) main`, 0},
		{"callback from libc", dynamic, []string{"qsort"}, `^spin_here compare( \S+)+ main`, 0},
		{"thread", dynamic, []string{"thread", "5"}, `^spin_here( recurse){5} thread_main`, 0},
		{"generated code with frame pointer", dynamic, []string{"generated"}, `^spin_here 0x\S+ call_generated main`, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r.t = t
			command, run := start(t, s, append([]string{test.program}, test.args...)...)
			want := regexp.MustCompile(test.want)
			matched := 0
			sampleUntil(t, s, r, run, func(sample *Sample) bool {
				names := r.names(sample.UserFrames)
				// Before the program spins, and before the tables are there.
				if unwind.StopReason(sample.Reason) == unwind.StopTablePending || !strings.HasPrefix(names, "spin_here ") || sample.Kernel {
					return false
				}
				if !want.MatchString(names) || unwind.StopReason(sample.Reason) != test.reason {
					t.Fatalf("stack of process %d stops with %s, want %s\n got %s\nwant %s",
						command.Process.Pid, unwind.StopReason(sample.Reason), test.reason, names, test.want)
				}
				matched++
				return matched == 20
			})
		})
	}
}

// In these programs the leaf moves, so every sample is a different stack.
func TestMovingStacksAreComplete(t *testing.T) {
	s := load(t, Options{Frequency: 1999})
	r := newResolver(t, s)
	dynamic := build(t, "stacks.c", "-Wl,-z,lazy", "-fplt")
	tests := []struct {
		name string
		args []string
		want string // matches some stack
	}{
		{"vDSO", []string{"clock"}, `^\S*(vdso|clock_gettime)\S*( \S+)* clock_loop main`},
		{"procedure linkage table", []string{"plt"}, `plt_loop main`},
		{"system calls", []string{"syscall"}, `^\S*read syscall_loop main`},
		{"mapping memory", []string{"mappings"}, `^(__)?(mmap|munmap)\S*( \S+)* mapping_loop main`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r.t = t
			_, run := start(t, s, append([]string{dynamic}, test.args...)...)
			want := regexp.MustCompile(test.want)
			complete, total, matched := 0, 0, 0
			reasons := make(map[string]int)
			sampleUntil(t, s, r, run, func(sample *Sample) bool {
				names := r.names(sample.UserFrames)
				if sample.Class != ClassNormal || unwind.StopReason(sample.Reason) == unwind.StopTablePending || !strings.Contains(names, " main") && total == 0 {
					return false
				}
				total++
				if sample.Reason == 0 {
					complete++
				} else {
					reasons[unwind.StopReason(sample.Reason).String()+": "+names]++
				}
				if want.MatchString(names) {
					matched++
				}
				if sample.Kernel && len(sample.KernelFrames) == 0 {
					t.Errorf("sample in the kernel without kernel stack: %s", names)
				}
				return total >= 400 && matched > 0
			})
			if complete < total*99/100 {
				t.Errorf("%d of %d stacks are complete, want 99 %%; others: %v", complete, total, reasons)
			}
		})
	}
}

// A library that comes to lie where another one was must not be taken for it.
func TestMappingsThatAreReplaced(t *testing.T) {
	s := load(t, Options{Frequency: 4999})
	r := newResolver(t, s)
	program := build(t, "stacks.c", "-ldl")
	var libraries []string
	for i := range 2 {
		libraries = append(libraries, build(t, "library.c", "-shared", "-fPIC", fmt.Sprintf("-DFRAME=%d", 64<<i), fmt.Sprintf("-DNAME=only_in_%d", i+1)))
	}
	_, run := start(t, s, append([]string{program, "reload"}, libraries...)...)
	seen := make(map[string]int)
	sampleUntil(t, s, r, run, func(sample *Sample) bool {
		names := r.names(sample.UserFrames)
		if !strings.HasPrefix(names, "only_in_") || unwind.StopReason(sample.Reason) == unwind.StopTablePending {
			return false
		}
		if sample.Reason != 0 {
			t.Fatalf("stack stops with %s: %s", unwind.StopReason(sample.Reason), names)
		}
		fields := strings.Fields(names)
		wantPath := libraries[fields[0][len("only_in_")]-'1']
		id, _ := sample.UserFrames[0].File()
		if got := r.files[id-1].path; got != wantPath {
			t.Fatalf("%s: found in %s, want %s", names, got, wantPath)
		}
		if want := regexp.MustCompile(`^only_in_[12] library_spin reload main`); !want.MatchString(names) {
			t.Fatalf("stack %s, want %s", names, want)
		}
		seen[fields[0]]++
		return seen["only_in_1"] >= 100 && seen["only_in_2"] >= 100
	})
}
