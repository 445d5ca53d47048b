package baseline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadTakesWhatAUserNames(t *testing.T) {
	root := t.TempDir()
	recording := filepath.Join(root, "rec")
	writeRecording(t, recording, testHeader(), 2)
	profiles := filepath.Join(root, "profiles")
	if err := os.Mkdir(profiles, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.pb.gz", "b.pprof", "c,d.pb.gz"} {
		write(t, filepath.Join(profiles, name), gzippedProfile(t, 10, 0))
	}
	write(t, filepath.Join(profiles, "notes.txt"), []byte("not a profile"))
	plain, err := gunzip(gzippedProfile(t, 10, 0))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "plain"), plain)
	in := func(name string) string { return filepath.Join(profiles, name) }
	for _, test := range []struct {
		name    string
		paths   []string
		runs    int
		foreign bool
	}{
		{"recording", []string{recording}, 2, false},
		{"manifest", []string{filepath.Join(recording, ManifestName)}, 2, false},
		{"one profile", []string{in("a.pb.gz")}, 1, true},
		{"uncompressed profile", []string{filepath.Join(root, "plain")}, 1, true},
		{"directory of profiles", []string{profiles}, 3, true},
		{"pattern", []string{in("[ab].p*")}, 2, true},
		{"list", []string{in("a.pb.gz") + "," + in("b.pprof")}, 2, true},
		{"list with a directory and a pattern", []string{recording + "/run-*," + filepath.Join(root, "plain")}, 3, true},
		{"name with a comma", []string{in("c,d.pb.gz")}, 1, true},
		{"several arguments", []string{in("a.pb.gz"), in("b.pprof")}, 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Read(test.paths...)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Profiles) != test.runs || len(r.Runs) != test.runs || r.Foreign != test.foreign {
				t.Errorf("%d profiles, %d runs, foreign %v; want %d, %[4]d, %v", len(r.Profiles), len(r.Runs), r.Foreign, test.runs, test.foreign)
			}
		})
	}
}

func TestReadNamesWhatIsWrong(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	write(t, in("good.pb.gz"), gzippedProfile(t, 10, 0))
	write(t, in("text"), []byte("hello, world\n"))
	write(t, in("empty.pb.gz"), nil)
	write(t, in("cut.pb.gz"), gzippedProfile(t, 10, 0)[:60])
	write(t, in("garbage.pb.gz"), gzipped(t, []byte("\xff\xff\xff\xff garbage")))
	write(t, in("silent.pb.gz"), gzippedProfile(t, 0, 0))
	if err := os.Mkdir(in("void"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, want string
		is         error
	}{
		{in("absent"), "load profiles " + in("absent") + ": no such file or directory", os.ErrNotExist},
		{in("*.nothing"), "no file matches", nil},
		{in("[.pb.gz"), "syntax error in pattern", nil},
		{in("void"), "neither manifest.json nor profiles", nil},
		{in("good.pb.gz") + "," + in("absent"), in("absent") + ": no such file or directory", os.ErrNotExist},
		{in("good.pb.gz") + "," + in("good.pb.gz"), "is named twice", nil},
		{in("text"), "load profile " + in("text") + ": ", ErrCorrupt},
		{in("empty.pb.gz"), "the file is empty", ErrCorrupt},
		{in("cut.pb.gz"), "the gzip stream is cut short", ErrCorrupt},
		{in("garbage.pb.gz"), "load profile " + in("garbage.pb.gz") + ": ", ErrCorrupt},
		{in("silent.pb.gz"), "no samples", ErrNoSamples},
	} {
		t.Run(filepath.Base(test.path), func(t *testing.T) {
			_, err := Read(test.path)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %q is not %q", err, test.is)
			}
			if hintOf(err) == "" {
				t.Errorf("error %q has no hint", err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q has more than one line", err)
			}
		})
	}
}

func TestForeignRecordingsCannotBeSaved(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a.pb.gz"), gzippedProfile(t, 10, 0))
	r, err := LoadProfiles(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Save(filepath.Join(root, "out"), CreateOptions{}); err == nil || hintOf(err) == "" {
		t.Errorf("error %v with hint %q, want both", err, hintOf(err))
	}
}
