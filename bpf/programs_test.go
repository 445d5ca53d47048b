package bpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/unwind"
)

// Programs that are installed on the machine. Those that are missing are
// skipped.
func TestInstalledProgramsAreComplete(t *testing.T) {
	s := load(t, Options{Frequency: 1999})
	r := newResolver(t, s)
	data := filepath.Join(t.TempDir(), "data")
	writeText(t, data)
	tests := []struct {
		name   string
		script string
		want   float64 // share of complete stacks among samples with a user stack
	}{
		{"zstd", "while :; do zstd -q -15 -c " + data + " >/dev/null; done", 0.97},
		{"xz", "while :; do xz -c " + data + " >/dev/null; done", 0.97},
		{"python3", `exec python3 -c "
import json
while True: json.loads(json.dumps({str(i): [i] * 10 for i in range(1000)}))"`, 0.97},
		{"git", "while :; do git -C / log --no-index 2>/dev/null; git --version; git hash-object " + data + "; done", 0.95},
		{"gcc", "while :; do echo 'int main(void){return 0;}' | gcc -O2 -x c -c -o /dev/null -; done", 0.95},
		{"openssl", "exec openssl speed -seconds 60 sha256", 0.5},
		{"node", `exec node -e "
function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) }
for (;;) f(25)"`, 0.9},
		{"go", "cd " + os.TempDir() + "; while :; do go vet fmt; done", 0.9},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := exec.LookPath(test.name); err != nil {
				t.Skipf("needs %s", test.name)
			}
			r.t = t
			_, run := start(t, s, "sh", "-c", test.script)
			total, complete := 0, 0
			others := make(map[string]int)
			var began time.Time
			sampleUntil(t, s, r, run, func(sample *Sample) bool {
				reason := unwind.StopReason(sample.Reason)
				switch reason {
				case unwind.StopTablePending, unwind.StopNoMM, unwind.StopInExec:
					return false
				}
				if began.IsZero() {
					began = time.Now()
				}
				total++
				if reason == unwind.StopComplete {
					complete++
				} else {
					names := strings.Fields(r.names(sample.UserFrames))
					last := names[max(0, len(names)-4):]
					others[fmt.Sprintf("%s: %s: %s", reason, sample.Comm, strings.Join(last, " "))]++
				}
				return total >= 1000
			})
			share := float64(complete) / float64(total)
			t.Logf("%.1f %% of %d stacks are complete", 100*share, total)
			if share < test.want || testing.Verbose() {
				t.Logf("others: %s", most(others, 6))
			}
			if share < test.want {
				t.Errorf("%.1f %% of stacks are complete, want %.1f %%", 100*share, 100*test.want)
			}
		})
	}
}

// writeText writes a megabyte that compresses like text.
func writeText(t *testing.T, path string) {
	t.Helper()
	var text strings.Builder
	for i := 0; text.Len() < 1<<20; i++ {
		fmt.Fprintf(&text, "line %d of a text in which %d words repeat\n", i, i*i%97)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// most lists the n most frequent keys.
func most(counts map[string]int, n int) string {
	var keys []string
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return counts[keys[i]] > counts[keys[j]] })
	var list strings.Builder
	for _, key := range keys[:min(n, len(keys))] {
		fmt.Fprintf(&list, "\n  %d %s", counts[key], key)
	}
	return list.String()
}
