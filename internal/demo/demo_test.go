package demo

import (
	"context"
	"debug/elf"
	"debug/gosym"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBuildPlantsOneChange(t *testing.T) {
	dir := t.TempDir()
	base, head, planted, err := Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(base))
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		before, err := os.ReadFile(filepath.Join(filepath.Dir(base), entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(filepath.Join(filepath.Dir(head), entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(after), "go:build") {
			t.Errorf("%s has a build tag", entry.Name())
		}
		if string(before) != string(after) {
			changed = append(changed, entry.Name())
		}
	}
	if len(changed) != 1 || filepath.Join(filepath.Dir(head), changed[0]) != planted.File {
		t.Errorf("%v differ, want %s alone", changed, planted.File)
	}

	// Both do the same work, so that the difference is a regression.
	outputs := make([]string, 2)
	for i, program := range []string{base, head} {
		out, err := exec.Command(program, "2").Output()
		if err != nil {
			t.Fatal(err)
		}
		outputs[i] = string(out)
	}
	if outputs[0] != outputs[1] {
		t.Error("the versions print different reports")
	}
	var report struct{ Requests int }
	if err := json.Unmarshal([]byte(outputs[0]), &report); err != nil || report.Requests != 40000 {
		t.Errorf("%d requests of 40000: %v", report.Requests, err)
	}
}

// TestPlantedFunctionIsAFunction would fail if the compiler inlined it.
func TestPlantedFunctionIsAFunction(t *testing.T) {
	base, head, planted, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(map[string]uint64)
	for _, program := range []string{base, head} {
		file, err := elf.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		section := file.Section(".gopclntab")
		data, err := section.Data()
		if err != nil {
			t.Fatal(err)
		}
		table, err := gosym.NewTable(nil, gosym.NewLineTable(data, file.Section(".text").Addr))
		if err != nil {
			t.Fatal(err)
		}
		f := table.LookupFunc(planted.Function)
		if f == nil {
			t.Fatalf("%s has no function %s", program, planted.Function)
		}
		sizes[program] = f.End - f.Entry
		name, line, _ := table.PCToLine(f.Entry)
		// The prologue belongs to the line of the func keyword.
		if filepath.Base(name) != filepath.Base(planted.File) || program == head && (name != planted.File || line != planted.Line) {
			t.Errorf("%s is at %s:%d, want %s:%d", planted.Function, name, line, planted.File, planted.Line)
		}
	}
	if sizes[head] <= sizes[base] {
		t.Errorf("the function has %d bytes in base and %d in head, want more", sizes[base], sizes[head])
	}
}

func TestBuildIgnoresTheUsersGoSettings(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=vendor -tags=regression")
	t.Setenv("GOARCH", "arm")
	t.Setenv("GOWORK", "/nonexistent/go.work")
	base, head, _, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{base, head} {
		if out, err := exec.Command(program, "1").CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", program, err, out)
		}
	}
}

func TestBuildWithoutGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, _, _, err := Build(t.Context(), t.TempDir()); !errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("error is %v, want exec.ErrNotFound", err)
	}
}

func TestBuildStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, _, _, err := Build(ctx, t.TempDir()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error is %v, want context.DeadlineExceeded", err)
	}
}
