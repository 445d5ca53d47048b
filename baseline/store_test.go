package baseline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func openStore(t *testing.T) (Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// recordingOf returns a recording of n runs of a suite.
func recordingOf(t *testing.T, suite string, n int) *Recording {
	t.Helper()
	header := testHeader()
	header.Suite = suite
	header.RequestedRuns = n
	dir := filepath.Join(t.TempDir(), "rec")
	writeRecording(t, dir, header, n)
	r, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStoreRoundTrip(t *testing.T) {
	s, dir := openStore(t)
	ctx := t.Context()
	if entries, err := s.List(ctx); err != nil || len(entries) != 0 {
		t.Errorf("empty store lists %v, %v", entries, err)
	}
	if _, err := s.Load(ctx, "main"); !errors.Is(err, ErrNotFound) || hintOf(err) == "" {
		t.Errorf("load from an empty store: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("reading has created the store")
	}
	if err := s.Save(ctx, "main", recordingOf(t, "parse", 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(ctx, "a.b_c-d", recordingOf(t, "format", 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(ctx, "main", recordingOf(t, "parse", 3)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Load(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 3 || r.Suite != "parse" {
		t.Errorf("loaded %d runs of %q, want 3 of parse", len(r.Runs), r.Suite)
	}
	entries, err := s.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.Err != nil || e.Bytes < 1000 || e.Saved.IsZero() {
			t.Errorf("entry %+v", e)
		}
		got = append(got, fmt.Sprintf("%s %s %d", e.Name, e.Manifest.Suite, len(e.Manifest.Runs)))
	}
	if want := "a.b_c-d format 1, main parse 3"; strings.Join(got, ", ") != want {
		t.Errorf("list %q, want %q", got, want)
	}
	if err := s.Delete(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{s.Delete(ctx, "main"), func() error { _, err := s.Load(ctx, "main"); return err }()} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("after deletion: %v", err)
		}
	}
	if names := fileNames(t, filepath.Join(dir, baselinesName)); len(names) != 1 {
		t.Errorf("left in the store: %q", names)
	}
}

func TestStoreKeepsPartialMark(t *testing.T) {
	s, _ := openStore(t)
	r := recordingOf(t, "parse", 2)
	r.Partial = "interrupted"
	if err := s.Save(t.Context(), "main", r); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(t.Context(), "main")
	if err != nil || got.Partial != "interrupted" {
		t.Errorf("partial %q, error %v", got.Partial, err)
	}
}

func TestStoreRejectsNamesThatLeadElsewhere(t *testing.T) {
	s, dir := openStore(t)
	ctx := t.Context()
	r := recordingOf(t, "parse", 1)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc", ".hidden", "-flag", "a b", "a\nb", "a\x00b", "ä", strings.Repeat("a", 101)} {
		_, loadErr := s.Load(ctx, name)
		for what, err := range map[string]error{"save": s.Save(ctx, name, r), "load": loadErr, "delete": s.Delete(ctx, name)} {
			if err == nil || errors.Is(err, ErrNotFound) || !strings.HasPrefix(err.Error(), "use baseline name ") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a bad name has created the store")
	}
}

// Readers and writers race on one name; every reader must see one of the recordings whole.
func TestStoreReadersNeverSeeAMixture(t *testing.T) {
	s, dir := openStore(t)
	ctx := t.Context()
	recordings := []*Recording{recordingOf(t, "one", 1), recordingOf(t, "four", 4)}
	if err := s.Save(ctx, "main", recordings[0]); err != nil {
		t.Fatal(err)
	}
	writing, done := context.WithCancel(ctx)
	var readers, writers sync.WaitGroup
	for _, r := range recordings {
		writers.Go(func() {
			for range 10 {
				if err := s.Save(ctx, "main", r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var loads int
	readers.Go(func() {
		for writing.Err() == nil || loads == 0 {
			r, err := s.Load(ctx, "main")
			if err != nil {
				t.Error(err)
				return
			}
			if want := map[string]int{"one": 1, "four": 4}[r.Suite]; len(r.Runs) != want {
				t.Errorf("%d runs of suite %q", len(r.Runs), r.Suite)
			}
			loads++
		}
	})
	readers.Go(func() {
		for writing.Err() == nil {
			entries, err := s.List(ctx)
			if err != nil || len(entries) != 1 || entries[0].Err != nil {
				t.Errorf("list: %+v, %v", entries, err)
				return
			}
		}
	})
	writers.Wait()
	done()
	readers.Wait()
	if names := fileNames(t, filepath.Join(dir, baselinesName)); len(names) != 1 {
		t.Errorf("left in the store: %q", names)
	}
}

func TestListShowsDamagedBaselinesWithTheirError(t *testing.T) {
	s, dir := openStore(t)
	ctx := t.Context()
	for _, name := range []string{"bad", "good", "hollow"} {
		if err := s.Save(ctx, name, recordingOf(t, "parse", 1)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, baselinesName, "bad", ManifestName), []byte("{"))
	remove(t, filepath.Join(dir, baselinesName, "hollow", ManifestName))
	write(t, filepath.Join(dir, baselinesName, "stray-file"), nil)
	entries, err := s.List(ctx)
	if err != nil || len(entries) != 3 {
		t.Fatalf("list %+v, %v", entries, err)
	}
	for _, e := range entries {
		if damaged := e.Name != "good"; damaged != errors.Is(e.Err, ErrCorrupt) {
			t.Errorf("%s: %v", e.Name, e.Err)
		}
	}
}

func TestStoreOfANewerVersionIsLeftAlone(t *testing.T) {
	s, dir := openStore(t)
	ctx := t.Context()
	r := recordingOf(t, "parse", 1)
	if err := s.Save(ctx, "main", r); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, layoutName), []byte("2\n"))
	_, loadErr := s.Load(ctx, "main")
	_, listErr := s.List(ctx)
	for what, err := range map[string]error{"save": s.Save(ctx, "main", r), "load": loadErr, "list": listErr, "delete": s.Delete(ctx, "main")} {
		var version *VersionError
		if !errors.As(err, &version) || hintOf(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	write(t, filepath.Join(dir, layoutName), []byte("hello"))
	if err := s.Save(ctx, "main", r); err == nil || !strings.Contains(err.Error(), `version holds "hello", want a number`) {
		t.Errorf("foreign directory: %v", err)
	}
}

func TestOpenUnderstandsLocations(t *testing.T) {
	for location, want := range map[string]string{
		"": DefaultStore, "store": "store", "/a/b": "/a/b", "./c:d": "./c:d", "file:///a/b": "/a/b", "file:a": "a",
	} {
		s, err := Open(location)
		if err != nil {
			t.Errorf("%q: %v", location, err)
			continue
		}
		if got := s.(*dirStore).dir; got != want {
			t.Errorf("%q opens %q, want %q", location, got, want)
		}
	}
	for _, location := range []string{"s3://bucket/x", "git:refs/heads/x", "file://host/x", "file:"} {
		if _, err := Open(location); err == nil || hintOf(err) == "" {
			t.Errorf("%q: error %v with hint %q, want both", location, err, hintOf(err))
		}
	}
}
