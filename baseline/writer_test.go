package baseline

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNothingIsVisibleBeforeCommit(t *testing.T) {
	parent := t.TempDir()
	w, err := Create(filepath.Join(parent, "out"), testHeader(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); err != nil {
		t.Fatal(err)
	}
	names := fileNames(t, parent)
	if len(names) != 1 || names[0][0] != '.' {
		t.Errorf("before the commit there are %q, want one hidden name", names)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if names := fileNames(t, parent); len(names) != 1 || names[0] != "out" {
		t.Errorf("after the commit there are %q, want only out", names)
	}
	if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Add after Commit: %v, want %v", err, os.ErrClosed)
	}
}

func TestCreateRefusesWhatIsThere(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"full", "empty", "rec"} {
		if err := os.Mkdir(in(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, in("full/notes"), []byte("mine"))
	write(t, in("file"), []byte("mine"))
	if err := os.Remove(in("rec")); err != nil {
		t.Fatal(err)
	}
	writeRecording(t, in("rec"), testHeader(), 1)
	t.Chdir(in("empty"))
	for _, test := range []struct {
		name    string
		dir     string
		replace bool
		want    string
	}{
		{"non-empty", in("full"), false, "already exists and is not empty"},
		{"non-empty and no recording", in("full"), true, "already exists and is not empty, and is no recording"},
		{"recording", in("rec"), false, "already exists and is not empty"},
		{"file", in("file"), false, "a file is there, want a directory"},
		{"below a file", in("file/out"), false, "not a directory"},
		{"current directory", ".", false, "it is the current directory"},
		{"nothing", "", false, "empty path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Create(test.dir, testHeader(), CreateOptions{Replace: test.replace})
			if err == nil || err.Error() != "create recording "+test.dir+": "+test.want && test.dir != "" {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if test.dir != "" && test.name != "below a file" && hintOf(err) == "" {
				t.Errorf("error %q has no hint", err)
			}
		})
	}
	if names := fileNames(t, root); strings.Join(names, " ") != "empty file full rec" {
		t.Errorf("the refused calls left %q", names)
	}
}

func TestCommitReplacesOnlyWhenAsked(t *testing.T) {
	for _, test := range []struct {
		name     string
		exchange func(a, b string) error
	}{
		{"exchange", exchange},
		{"file system without exchange", func(string, string) error { return unix.EINVAL }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			writeRecording(t, dir, testHeader(), 3)
			w, err := Create(dir, testHeader(), CreateOptions{Replace: true})
			if err != nil {
				t.Fatal(err)
			}
			w.exchange = test.exchange
			if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); err != nil {
				t.Fatal(err)
			}
			if r, err := Load(dir); err != nil || len(r.Runs) != 3 {
				t.Fatalf("before the commit: %v, want the old recording", err)
			}
			if err := w.Commit(); err != nil {
				t.Fatal(err)
			}
			r, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Runs) != 1 {
				t.Errorf("%d runs after the commit, want 1", len(r.Runs))
			}
			if names := fileNames(t, filepath.Dir(dir)); len(names) != 1 {
				t.Errorf("left behind: %q", names)
			}
		})
	}
}

// Somebody else may make the directory while the command runs, which can take hours.
func TestCommitKeepsTheRunsWhenTheDirectoryHasAppeared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	w, err := Create(dir, testHeader(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "notes"), []byte("mine"))
	err = w.Commit()
	if !errors.Is(err, ErrExists) {
		t.Fatalf("error %v, want %v", err, ErrExists)
	}
	_, kept, _ := strings.Cut(hintOf(err), "kept in ")
	if r, err := Load(kept); err != nil || len(r.Runs) != 1 {
		t.Errorf("load what the hint names, %q: %v", kept, err)
	}
}

func TestSalvageKeepsCompletedRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	w, err := Create(dir, testHeader(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); err != nil {
		t.Fatal(err)
	}
	n, err := w.Salvage("interrupted in run 2")
	if n != 1 || err != nil {
		t.Fatalf("kept %d, error %v; want 1 and none", n, err)
	}
	r, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Partial != "interrupted in run 2" || len(r.Runs) != 1 {
		t.Errorf("partial %q with %d runs", r.Partial, len(r.Runs))
	}
}

func TestSalvageOfNothingLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	w, err := Create(filepath.Join(parent, "out"), testHeader(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Salvage("interrupted"); n != 0 || err != nil {
		t.Errorf("kept %d, error %v; want 0 and none", n, err)
	}
	if names := fileNames(t, parent); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestFailedAddLeavesTheRunsBefore(t *testing.T) {
	for _, failing := range []string{"run-002.pb.gz", ManifestName} {
		t.Run(failing, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			w, err := Create(dir, testHeader(), CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); err != nil {
				t.Fatal(err)
			}
			w.write = func(path string, data []byte) error {
				if filepath.Base(path) == failing {
					return &os.PathError{Op: "write", Path: path, Err: unix.EIO}
				}
				return writeDurable(path, data)
			}
			err = w.Add(testRun(6, 1), gzippedProfile(t, 6, 1))
			if want := "write recording " + dir + ": run 2: input/output error"; err == nil || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
			if n, err := w.Salvage("input/output error"); n != 1 || err != nil {
				t.Fatalf("kept %d, error %v; want 1 and none", n, err)
			}
			r, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Runs) != 1 || r.Partial == "" || len(fileNames(t, dir)) != 2 {
				t.Errorf("%d runs, partial %q, files %q", len(r.Runs), r.Partial, fileNames(t, dir))
			}
		})
	}
}

// TestKilledWriter is also the process that is killed.
func TestKilledWriterLosesNoCompletedRun(t *testing.T) {
	if dir := os.Getenv("TOLLGATE_TEST_WRITE"); dir != "" {
		w, err := Create(dir, testHeader(), CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Println("written")
		select {}
	}
	dir := filepath.Join(t.TempDir(), "out")
	child := exec.Command(os.Args[0], "-test.run=^TestKilledWriterLosesNoCompletedRun$")
	child.Env = append(os.Environ(), "TOLLGATE_TEST_WRITE="+dir)
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "written\n" {
		t.Fatalf("the writer said %q, %v", line, err)
	}
	// While it lives nobody else may take its runs for abandoned.
	w, err := Create(dir, testHeader(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Abandoned) != 0 {
		t.Errorf("abandoned while the writer lives: %q", w.Abandoned)
	}
	if err := w.Discard(); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // reports the kill
	if w, err = Create(dir, testHeader(), CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	if len(w.Abandoned) != 1 {
		t.Fatalf("abandoned: %q, want one", w.Abandoned)
	}
	r, err := Load(w.Abandoned[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 2 || r.Partial != unfinished {
		t.Errorf("%d runs, partial %q; want 2 and %q", len(r.Runs), r.Partial, unfinished)
	}
}

// TestFullDisk fills a real file system, which is the only way to see what the kernel reports when.
func TestFullDiskKeepsCompletedRuns(t *testing.T) {
	disk := mountTmpfs(t, 512<<10)
	dir := filepath.Join(disk, "out")
	w, err := Create(dir, testHeader(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var added int
	for {
		profile := paddedProfile(t, random, 50<<10)
		if err = w.Add(testRun(5, 1), profile); err != nil {
			break
		}
		added++
		if added > 100 {
			t.Fatal("the disk does not fill")
		}
	}
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(hintOf(err), "free some space") {
		t.Errorf("error %v with hint %q, want no space", err, hintOf(err))
	}
	fill(t, filepath.Join(disk, "filler"))
	// All space but the reserve was used: 512 KiB hold 9 runs of 50 KiB and their manifests.
	if added < 9 {
		t.Errorf("only %d runs fit", added)
	}
	if n, err := w.Salvage("disk full"); n != added || err != nil {
		t.Fatalf("kept %d, error %v; want %d and none", n, err, added)
	}
	r, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != added || r.Partial == "" {
		t.Errorf("%d runs, partial %q; want %d", len(r.Runs), r.Partial, added)
	}
	if names := fileNames(t, disk); strings.Join(names, " ") != "filler out" {
		t.Errorf("left on the disk: %q", names)
	}
}

// A run whose profile still fits must not be lost because its manifest does not.
func TestFullDiskHasRoomForTheManifest(t *testing.T) {
	disk := mountTmpfs(t, 512<<10)
	dir := filepath.Join(disk, "out")
	w, err := Create(dir, testHeader(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// One page is left, which the profile takes.
	filler := filepath.Join(disk, "filler")
	size := fill(t, filler)
	if err := os.Truncate(filler, size-int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err != nil {
		t.Error(err)
	}
}

func TestFullDiskRefusesToBegin(t *testing.T) {
	disk := mountTmpfs(t, 256<<10)
	fill(t, filepath.Join(disk, "filler"))
	_, err := Create(filepath.Join(disk, "out"), testHeader(), CreateOptions{})
	if !errors.Is(err, unix.ENOSPC) || hintOf(err) == "" {
		t.Errorf("error %v with hint %q, want no space", err, hintOf(err))
	}
	if names := fileNames(t, disk); len(names) != 1 {
		t.Errorf("left on the disk: %q", names)
	}
}

// A container's image may hold the baseline that is replaced.
func TestCommitReplacesWhatAnOverlayHasBelow(t *testing.T) {
	disk := mountTmpfs(t, 1<<20) // an overlay's upper directory must not be on another overlay
	in := func(name string) string { return filepath.Join(disk, name) }
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(in(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeRecording(t, in("lower/out"), testHeader(), 3)
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=off", in("lower"), in("upper"), in("work"))
	if err := unix.Mount("tollgate-test", in("merged"), "overlay", 0, options); err != nil {
		t.Skipf("the kernel has no overlayfs that can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(in("merged"), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w, err := Create(in("merged/out"), testHeader(), CreateOptions{Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(testRun(5, 1), gzippedProfile(t, 5, 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	r, err := Load(in("merged/out"))
	if err != nil {
		t.Fatal(err)
	}
	if names := fileNames(t, in("merged")); len(r.Runs) != 1 || len(names) != 1 {
		t.Errorf("%d runs; directory holds %q", len(r.Runs), names)
	}
}

// mountTmpfs mounts a file system of that many bytes for the time of the test.
func mountTmpfs(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tollgate-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		message := fmt.Sprintf("mounting a tmpfs needs CAP_SYS_ADMIN: %v", err)
		if os.Getenv("TOLLGATE_REQUIRE_PRIVILEGED") == "1" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until the disk is full and returns its size.
func fill(t *testing.T, path string) int64 {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page := make([]byte, os.Getpagesize())
	var size int64
	for {
		n, err := file.Write(page)
		size += int64(n)
		if errors.Is(err, unix.ENOSPC) {
			return size
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// paddedProfile returns a profile of 5 target samples and 1 other with a random comment, so that it
// does not compress below size bytes.
func paddedProfile(t *testing.T, random *rand.Rand, size int) []byte {
	t.Helper()
	p := decode(t, gzippedProfile(t, 5, 1))
	noise := make([]byte, size)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	p.Comments = []string{string(noise)}
	var buf bytes.Buffer
	if err := p.Write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
