package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/tollgate-dev/tollgate/bpf"
)

// procWithMap adds process 60 to a /proc: in a PID namespace where it is 7, of
// the user uid, and with a perf map of the given contents.
func procWithMap(t *testing.T, uid int, contents string) (root, perfMap string) {
	t.Helper()
	root = fakeProc(t, "0")
	perfMap = filepath.Join(root, "60/root/tmp/perf-7.map")
	if err := os.MkdirAll(filepath.Dir(perfMap), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string]string{
		filepath.Join(root, "60/status"): fmt.Sprintf("Name:\tjit\nUid:\t99\t%d\t99\t99\nNSpid:\t60\t7\n", uid),
		perfMap:                          contents,
	} {
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, perfMap
}

// recordGenerated records one sample of process 60 in generated code; meanwhile
// is called before the end of the run.
func recordGenerated(t *testing.T, s *Session, f *fakeSampler, run uint32, meanwhile func()) (*profile.Profile, Stats) {
	t.Helper()
	if err := s.Begin(run, 7); err != nil {
		t.Fatal(err)
	}
	f.give(&bpf.Sample{Time: later(), PID: 60, TID: 60, Run: run, Comm: "jit", UserFrames: []bpf.Frame{0x1234, 0x9999}})
	s.mu.Lock()
	if err := s.drain(); err != nil {
		t.Fatal(err)
	}
	s.mu.Unlock()
	s.tables.openPerfMaps()
	meanwhile()
	p, stats, err := s.End(run)
	if err != nil {
		t.Fatal(err)
	}
	return p, stats
}

func TestGeneratedCodeIsNamedByItsPerfMap(t *testing.T) {
	root, perfMap := procWithMap(t, os.Getuid(), "1200 100 first\n")
	f := newFakeSampler()
	s := startFake(t, f, root)
	p, stats := recordGenerated(t, s, f, 1, func() {})
	if got := names(p.Sample[0]); got != "first < [anonymous]" || stats.Unsymbolized != 0 {
		t.Errorf("stack %s, %d unsymbolized", got, stats.Unsymbolized)
	}
	// The engine has compiled again by now, and then ends.
	p, _ = recordGenerated(t, s, f, 2, func() {
		if err := os.WriteFile(perfMap, []byte("1200 100 first\n1230 10 second, optimized\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(root, "60")); err != nil {
			t.Fatal(err)
		}
	})
	if got := names(p.Sample[0]); got != "second, optimized < [anonymous]" {
		t.Errorf("stack %s", got)
	}
	if len(s.tables.generated) != 0 {
		t.Errorf("%d perf maps are kept of processes that are gone", len(s.tables.generated))
	}
}

func TestForeignPerfMapsAreNotRead(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(elsewhere, []byte("1200 100 secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		uid    int
		change func(perfMap string) error
	}{
		{"of another user", os.Getuid() + 1, func(string) error { return nil }},
		{"a link", os.Getuid(), func(perfMap string) error { return os.Symlink(elsewhere, perfMap) }},
		{"a directory", os.Getuid(), func(perfMap string) error { return os.Mkdir(perfMap, 0o755) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			root, perfMap := procWithMap(t, test.uid, "1200 100 secret\n")
			if test.uid == os.Getuid() {
				if err := os.Remove(perfMap); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.change(perfMap); err != nil {
				t.Fatal(err)
			}
			f := newFakeSampler()
			s := startFake(t, f, root)
			p, _ := recordGenerated(t, s, f, 1, func() {})
			if got := names(p.Sample[0]); got != "[anonymous] < [anonymous]" {
				t.Errorf("stack %s", got)
			}
		})
	}
}

func TestNumbersOfGeneratedCodeAreBounded(t *testing.T) {
	tables, _ := newTestTables(t, 1)
	given := 0
	for pid := range uint32(maxGenerated + 10) {
		if tables.generate(pid+1) != 0 {
			given++
		}
	}
	if given != maxGenerated {
		t.Errorf("%d numbers given, want %d", given, maxGenerated)
	}
}

// generatingProgram runs a loop that it writes itself, with a frame pointer, and
// names it: push, mov, dec, jnz, pop, ret.
const generatingProgram = `
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
static unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};
#else
static unsigned code[] = {0xa9bf7bfd, 0x910003fd, 0xf1000400, 0x54ffffe1, 0xa8c17bfd, 0xd65f03c0};
#endif
int main(void) {
	void *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof code);
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache(p, (char *)p + sizeof code);
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	FILE *f = fopen(path, "w");
	fprintf(f, "%lx %lx generated_loop\n", (unsigned long)p, (unsigned long)sizeof code);
	fclose(f);
	((void (*)(long))p)(600000000);
	unlink(path);
	return 0;
}
`

func TestGeneratedCodeIsNamed(t *testing.T) {
	c := dialReal(t)
	program := compileC(t, generatingProgram)
	_, p := record(t, c, program)
	if got := share(p, leafIs("generated_loop")); got < 0.9 {
		t.Errorf("%.3f of the samples are named after the perf map, want nearly all", got)
	}
	if got := share(p, reaches("main")); got < 0.9 {
		t.Errorf("%.3f of the samples reach main, want nearly all", got)
	}
}
