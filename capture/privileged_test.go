package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

// needPrivileges skips a test that needs to load BPF programs, or fails where
// it must run.
func needPrivileges(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("TOLLGATE_REQUIRE_PRIVILEGED") == "1" {
		t.Fatal("needs root, and TOLLGATE_REQUIRE_PRIVILEGED=1 demands that it runs")
	}
	t.Skip("needs root to load BPF programs")
}

func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
}

// compile builds a C program in a temporary directory.
func compileC(t *testing.T, source string, flags ...string) string {
	t.Helper()
	needProgram(t, "gcc")
	dir := t.TempDir()
	file := filepath.Join(dir, "program.c")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "program")
	args := append([]string{"-O2", "-fomit-frame-pointer", "-o", out, file}, flags...)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, text)
	}
	return out
}

func dialReal(t *testing.T) *Client {
	t.Helper()
	needPrivileges(t)
	c, err := dialMode(t, "real", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// record runs a command and returns its target samples.
func record(t *testing.T, c *Client, args ...string) (RunResult, *profile.Profile) {
	t.Helper()
	result, err := c.Run(t.Context(), Command{Args: args, Stderr: os.Stderr})
	if err != nil {
		t.Fatalf("run %v: %v", args, err)
	}
	p, err := profile.ParseData(result.Profile)
	if err != nil {
		t.Fatalf("profile of %v: %v", args, err)
	}
	return result, p
}

// shares returns the share of the target's samples in which f is true.
func share(p *profile.Profile, f func(s *profile.Sample) bool) float64 {
	var all, hit int64
	for _, s := range labelled(p, "target", "1") {
		all += s.Value[0]
		if f(s) {
			hit += s.Value[0]
		}
	}
	return float64(hit) / float64(max(all, 1))
}

// leafIs tells whether the innermost function is name, inlined or not.
func leafIs(name string) func(*profile.Sample) bool {
	return func(s *profile.Sample) bool {
		return len(s.Location) > 0 && len(s.Location[0].Line) > 0 && s.Location[0].Line[0].Function.Name == name
	}
}

func reaches(name string) func(*profile.Sample) bool {
	return func(s *profile.Sample) bool {
		for _, l := range s.Location {
			for _, line := range l.Line {
				if line.Function.Name == name {
					return true
				}
			}
		}
		return false
	}
}

// split spends three parts in heavy and one part in light, both called
// through middle, without frame pointers.
const splitProgram = `
#include <stdlib.h>
static volatile unsigned sink;
__attribute__((noinline)) void heavy(long n) { for (long i = 0; i < 3 * n; i++) sink = sink * 31 + i; }
__attribute__((noinline)) void light(long n) { for (long i = 0; i < n; i++) sink = sink * 31 + i; }
__attribute__((noinline)) int middle(long n) { heavy(n); light(n); return sink; }
int main(int argc, char **argv) {
	int x = 0;
	for (int i = 0; i < 50; i++) x += middle(atol(argv[1]));
	return x == 12345;
}
`

func TestProgramWithoutFramePointersIsUnwoundAndNamed(t *testing.T) {
	c := dialReal(t)
	program := compileC(t, splitProgram, "-g")
	record(t, c, program, "1000") // builds the tables
	result, p := record(t, c, program, "1500000")

	if got := share(p, leafIs("heavy")); math.Abs(got-0.75) > 0.1 {
		t.Errorf("share of heavy is %.3f, want about 0.75", got)
	}
	if got := share(p, leafIs("light")); math.Abs(got-0.25) > 0.1 {
		t.Errorf("share of light is %.3f, want about 0.25", got)
	}
	if got := share(p, func(s *profile.Sample) bool {
		return reaches("middle")(s) && reaches("main")(s) && names(s) != "" && strings.HasSuffix(names(s), "_start")
	}); got < 0.95 {
		t.Errorf("%.3f of the samples lead through middle and main to _start, want nearly all", got)
	}
	for _, s := range p.Sample {
		if !leafIs("heavy")(s) {
			continue
		}
		line := s.Location[0].Line[0]
		if filepath.Base(line.Function.Filename) != "program.c" || line.Line != 4 {
			t.Errorf("heavy is at %s:%d, want program.c:4", line.Function.Filename, line.Line)
		}
		if m := s.Location[0].Mapping; m.File != program || m.BuildID == "" || m != p.Mapping[0] {
			t.Errorf("mapping %+v, want %s as the main program", m, program)
		}
		break
	}
	s := result.Stats
	if s.CPUSeconds <= 0.1 || s.Lost != 0 || s.OutstandingThreads != 0 || s.UserSeconds < 0.8*s.CPUSeconds {
		t.Errorf("statistics %+v", s)
	}
	// 1 % for the accounting, three standard deviations for the counting on a
	// machine that others use, too.
	n := float64(s.TargetSamples)
	if diff := math.Abs(s.SampledSeconds-s.CPUSeconds) / s.CPUSeconds; diff > 0.01+3/math.Sqrt(n) {
		t.Errorf("%d samples are %.3f s of CPU, the kernel says %.3f s", s.TargetSamples, s.SampledSeconds, s.CPUSeconds)
	}
}

func TestPipelineIsAllTarget(t *testing.T) {
	c := dialReal(t)
	program := compileC(t, splitProgram)
	script := fmt.Sprintf("(%[1]s 300000; setsid %[1]s 300000 &) | cat; (exec -a other %[1]s 300000) & wait; (%[1]s 300000 >/dev/null &)", program)
	needProgram(t, "bash")
	done := filepath.Join(t.TempDir(), "done")
	result, p := record(t, c, "bash", "-c", script+"; sleep 0.3; : >"+done)
	if !exists(done) {
		t.Fatal("the script did not finish")
	}
	pids := map[int64]bool{}
	for _, s := range labelled(p, "target", "1") {
		if leafIs("heavy")(s) {
			pids[s.NumLabel["pid"][0]] = true
		}
	}
	if len(pids) != 4 {
		t.Errorf("%d processes ran the program within the target, want 4", len(pids))
	}
	if result.Stats.ContextSwitches.Voluntary == 0 {
		t.Errorf("statistics %+v", result.Stats)
	}
	for _, s := range p.Sample {
		if s.Label["target"] == nil && leafIs("heavy")(s) {
			t.Errorf("sample outside the target in %s", names(s))
		}
	}
}

const threadProgram = `
#include <pthread.h>
static volatile unsigned sink;
__attribute__((noinline)) void spinning(long n) { for (long i = 0; i < n; i++) sink = sink * 31 + i; }
static void *work(void *n) { spinning((long)n); return 0; }
int main(void) {
	pthread_t t[3];
	for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, (void *)100000000L);
	for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
	return 0;
}
`

func TestThreadsAreUnwoundToTheirStartAndAccounted(t *testing.T) {
	c := dialReal(t)
	program := compileC(t, threadProgram, "-pthread")
	record(t, c, program) // builds the tables
	result, p := record(t, c, program)
	// Where a thread starts has no caller: every stack that is complete ends
	// below the C library's start function, whatever its name is.
	if got := float64(result.Stats.Complete) / float64(result.Stats.TargetSamples); got < 0.95 {
		t.Errorf("%.3f of the stacks are complete: %v", got, result.Stats.Truncated)
	}
	tids := map[int64]bool{}
	for _, s := range labelled(p, "target", "1") {
		if leafIs("spinning")(s) {
			tids[s.NumLabel["tid"][0]] = true
			if s.NumLabel["tid"][0] == s.NumLabel["pid"][0] {
				t.Errorf("the main thread is in %s", names(s))
			}
		}
	}
	if len(tids) != 3 {
		t.Errorf("%d threads in spinning, want 3", len(tids))
	}
	if s := result.Stats; math.Abs(s.SampledSeconds-s.CPUSeconds) > s.CPUSeconds*(0.01+3/math.Sqrt(float64(s.TargetSamples))) {
		t.Errorf("%d samples are %.3f s of CPU, the kernel says %.3f s", s.TargetSamples, s.SampledSeconds, s.CPUSeconds)
	}
}

func TestTestBinaryThatIsDeletedIsNamed(t *testing.T) {
	c := dialReal(t)
	needProgram(t, "go")
	dir := t.TempDir()
	for name, data := range map[string]string{
		"go.mod": "module example.com/burn\n\ngo 1.24\n",
		"burn_test.go": `package burn

import "testing"

var sink uint64

//go:noinline
func spinning(n uint64) { for i := range n { sink = sink*31 + i } }

func TestSpin(t *testing.T) { for range 100 { spinning(5_000_000) } }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var result RunResult
	for range 2 { // the first builds the tables; the second has another file of the same build
		var err error
		result, err = c.Run(t.Context(), Command{
			Args: []string{"go", "test", "-count=1", "."}, Dir: dir, Stderr: os.Stderr,
			Env: append(os.Environ(), "GOFLAGS=", "GOWORK=off"),
		})
		if err != nil || result.ExitCode != 0 {
			t.Fatalf("go test: %+v, %v", result, err)
		}
	}
	p, err := profile.ParseData(result.Profile)
	if err != nil {
		t.Fatal(err)
	}
	const function = "example.com/burn.spinning"
	if share(p, leafIs(function)) == 0 {
		t.Fatalf("no sample in %s", function)
	}
	for _, s := range p.Sample {
		if !leafIs(function)(s) {
			continue
		}
		l := s.Location[0]
		if exists(l.Mapping.File) {
			t.Errorf("%s still exists", l.Mapping.File)
		}
		if filepath.Base(l.Line[0].Function.Filename) != "burn_test.go" || l.Line[0].Line != 8 {
			t.Errorf("at %s:%d, want burn_test.go:8", l.Line[0].Function.Filename, l.Line[0].Line)
		}
		break
	}
	complete := func(s *profile.Sample) bool {
		return leafIs(function)(s) && strings.Contains(names(s), "runtime.goexit")
	}
	if got := share(p, complete) / share(p, leafIs(function)); got < 0.9 {
		t.Errorf("%.3f of the samples in %s reach runtime.goexit", got, function)
	}
}

func TestTimeoutEndsOrphansOfTheTree(t *testing.T) {
	c := dialReal(t)
	file := filepath.Join(t.TempDir(), "pid")
	script := `(setsid sh -c 'trap "" TERM; echo $$ >"$0"; while :; do sleep 1; done' "$0" &) ; sleep 100`
	result, err := c.Run(t.Context(), Command{
		Args: []string{"sh", "-c", script, file}, Timeout: 500 * time.Millisecond, Grace: 200 * time.Millisecond,
	})
	if err != nil || !result.TimedOut {
		t.Fatalf("got %+v, %v", result, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := readStat("/proc/" + strings.TrimSpace(string(data)) + "/stat"); err == nil && stat.state != 'Z' {
		t.Errorf("process %s is alive: %+v", bytes.TrimSpace(data), stat)
	}
}

func TestNothingIsSampledBetweenRuns(t *testing.T) {
	needPrivileges(t)
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	taken := func() uint64 {
		counters, err := s.sampler.Counters()
		if err != nil {
			t.Fatal(err)
		}
		return counters.Taken
	}
	burn := func() {
		for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
		}
	}
	burn()
	if n := taken(); n != 0 {
		t.Errorf("%d samples before the first run", n)
	}
	if err := s.Begin(1, uint32(os.Getpid())); err != nil {
		t.Fatal(err)
	}
	burn()
	if _, _, err := s.End(1); err != nil {
		t.Fatal(err)
	}
	n := taken()
	if n == 0 {
		t.Error("no samples during the run")
	}
	burn()
	if after := taken(); after != n {
		t.Errorf("%d samples after the run", after-n)
	}
}

// kernelObjects returns the IDs of all BPF programs and maps.
func kernelObjects(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		id = next
		out[fmt.Sprintf("program %d", id)] = true
	}
	for id := ebpf.MapID(0); ; {
		next, err := ebpf.MapGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		id = next
		out[fmt.Sprintf("map %d", id)] = true
	}
	return out
}

func TestNothingIsLeftWhenTheClientIsKilled(t *testing.T) {
	needPrivileges(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	client := exec.Command(self, "sh", "-c", `echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 100`, pidFile)
	client.Env = append(os.Environ(), collectorEnv+"=client")
	var stderr bytes.Buffer
	client.Stderr = &stderr
	client.WaitDelay = time.Second // the command inherits stderr and goes on
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the command's start", func() bool { return exists(pidFile) })
	collectors := slices.DeleteFunc(descendants("/proc", client.Process.Pid), func(pid int) bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		return pid == client.Process.Pid || err != nil || exe != self
	})
	if len(collectors) != 1 {
		t.Fatalf("collectors %v, want one\n%s", collectors, stderr.Bytes())
	}
	collector := collectors[0]
	mine := map[string]bool{}
	for _, kind := range []string{"prog", "map"} {
		for _, id := range descriptorIDs(t, collector, kind+"_id:") {
			mine[map[string]string{"prog": "program", "map": "map"}[kind]+" "+id] = true
		}
	}
	if len(mine) < 2 || perfEvents(collector) == 0 {
		t.Fatalf("the collector holds BPF objects %v and %d perf events", mine, perfEvents(collector))
	}
	if err := client.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	client.Wait()
	waitFor(t, "the collector's end", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/fd", collector))
		return err != nil
	})
	waitFor(t, "the end of its BPF objects", func() bool {
		left := kernelObjects(t)
		for object := range mine {
			if left[object] {
				return false
			}
		}
		return true
	})
	// The wrapped command is the user's: it goes on, as under time(1).
	if data, err := os.ReadFile(pidFile); err == nil {
		var pid int
		fmt.Sscan(string(data), &pid)
		unix.Kill(pid, unix.SIGKILL)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// descriptorIDs returns the values of a key in the descriptors of a process.
func descriptorIDs(t *testing.T, pid int, key string) (ids []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, key); ok {
				ids = append(ids, strings.TrimSpace(rest))
			}
		}
	}
	return ids
}

func perfEvents(pid int) (n int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if target, _ := os.Readlink(file); strings.Contains(target, "perf_event") {
			n++
		}
	}
	return n
}

func TestAccountingAgreesWithSamplesAndTheKernel(t *testing.T) {
	c := dialReal(t)
	needProgram(t, "gzip")
	input := filepath.Join(t.TempDir(), "input")
	data, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(input, data, 0o644); err != nil {
		t.Fatal(err)
	}
	// 20 processes whose CPU time is also summed up by wait4.
	script := `for i in 1 2 3 4 5 6 7 8 9 10; do gzip -6 -c "$0" >/dev/null; gzip -1 -c "$0" | cat >/dev/null; done; times`
	out, err := os.Create(filepath.Join(t.TempDir(), "times"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	result, err := c.Run(t.Context(), Command{Args: []string{"sh", "-c", script, input}, Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	s := result.Stats
	n := float64(s.TargetSamples)
	if diff := math.Abs(s.SampledSeconds-s.CPUSeconds) / s.CPUSeconds; diff > 0.01+3/math.Sqrt(n) {
		t.Errorf("%d samples are %.3f s of CPU, the kernel says %.3f s", s.TargetSamples, s.SampledSeconds, s.CPUSeconds)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	waited := 0.0
	for _, field := range strings.Fields(string(text)) { // "0m0.01s 0m0.02s", own and children's
		var minutes, seconds float64
		if _, err := fmt.Sscanf(field, "%fm%fs", &minutes, &seconds); err != nil {
			t.Fatalf("times printed %q", text)
		}
		waited += 60*minutes + seconds
	}
	if math.Abs(waited-s.CPUSeconds) > 0.05*waited+0.05 {
		t.Errorf("accounted %.3f s, the shell waited for %.3f s", s.CPUSeconds, waited)
	}
	var truncated uint64
	for _, n := range s.Truncated {
		truncated += n
	}
	if s.Complete+truncated != s.TargetSamples {
		t.Errorf("%d complete and %d truncated of %d samples", s.Complete, truncated, s.TargetSamples)
	}
	line, _ := json.Marshal(s)
	t.Logf("%s", line)
}
