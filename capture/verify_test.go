package capture

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// deepProgram spins in a signal handler that interrupted a deep recursion, in a
// callback of libc, and in frames of variable size.
const deepProgram = `
#include <alloca.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static volatile unsigned sink;
__attribute__((noinline)) void spin(long n) { for (long i = 0; i < n; i++) sink = sink * 31 + i; }
static void handler(int s) { spin(300000); }
static int compare(const void *a, const void *b) { spin(2000); return *(int *)a - *(int *)b; }
__attribute__((noinline)) int deep(int n) {
	volatile char *p = alloca(16 + n % 64);
	p[0] = n;
	if (n == 0) { raise(SIGUSR1); spin(300000); return p[0]; }
	return deep(n - 1) + p[0];
}
int main(void) {
	signal(SIGUSR1, handler);
	time_t end = time(0) + 2;
	while (time(0) < end) {
		int a[64];
		for (int i = 0; i < 64; i++) a[i] = i * 7 % 64;
		qsort(a, 64, sizeof *a, compare);
		deep(100);
	}
}
`

// The same stack through both unwinders, on live samples of real programs.
func TestBothUnwindersAgreeOnLiveSamples(t *testing.T) {
	needPrivileges(t)
	deep := compileC(t, deepProgram)
	source := deep + ".c"
	if err := os.WriteFile(source, []byte(deepProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, script string
		least        uint64 // samples that must agree
		switches     bool   // the program changes stacks, of which one is copied
	}{
		{"deep", deep, 500, false},
		{"gcc", "for i in 1 2 3 4 5 6; do gcc -O1 -o " + deep + ".out " + source + "; done", 50, false},
		{"sh", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done", 20, false},
		{"python3", "for i in 1 2; do python3 -c 'import json; [json.loads(json.dumps({str(i): [i] * 10 for i in range(1000)})) for _ in range(150)]'; done", 100, false},
		{"go", "go vet errors", 20, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.name != "deep" {
				needProgram(t, test.name)
			}
			s, err := Start(t.Context(), Options{Frequency: 1999, verify: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for run := uint32(1); run <= 2; run++ { // the tables are known in the second
				if err := s.Begin(run, uint32(os.Getpid())); err != nil {
					t.Fatal(err)
				}
				command := exec.Command("sh", "-c", test.script)
				command.WaitDelay = 10 * time.Second
				if out, err := command.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", test.script, err, out)
				}
				if _, _, err := s.End(run); err != nil {
					t.Fatal(err)
				}
			}
			v := s.verification
			t.Logf("%d samples with %d frames agree, %d differ, undecided %v", v.agreed, v.frames, v.disagreed, v.undecided)
			if v.disagreed > 0 {
				t.Errorf("%d samples differ:\n%s", v.disagreed, strings.Join(v.differences, "\n"))
			}
			undecided := uint64(0)
			for _, n := range v.undecided {
				undecided += n
			}
			if undecided > 0 && !test.switches {
				t.Errorf("not compared: %v\n%s", v.undecided, strings.Join(v.differences, "\n"))
			}
			if v.agreed < test.least {
				t.Errorf("%d samples agree, want %d at least", v.agreed, test.least)
			}
		})
	}
}
