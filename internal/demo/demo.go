// Package demo builds the two versions of a small program that `tollgate
// demo` compares. The second has a planted regression.
package demo

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// sources is the program. Its files for one version have build tags here, so
// that both can stand in one directory; a written tree has no tags.
//
//go:embed program/*.go
var sources embed.FS

const (
	programModule = "tollgate.demo/accesslog"
	programName   = "accesslog"
	// plantedFile is the file that the versions differ by.
	plantedFile = "urls.go"
)

// Planted is the regression in the second version.
type Planted struct {
	Function string  // as in a profile
	File     string  // as in a profile of the second version: its path below dir
	Line     int     // of the func keyword
	Cost     float64 // CPU time added, as a fraction of the first version's, measured on amd64
	Change   string  // what was done, for people
}

// Build writes the sources of both versions below dir and compiles them with
// the go command, without a network. base and head are the programs' paths;
// they take the number of rounds as an optional argument. An error wraps
// exec.ErrNotFound where there is no go command.
func Build(ctx context.Context, dir string) (base, head string, planted Planted, err error) {
	base, head = filepath.Join(dir, "base", programName), filepath.Join(dir, "head", programName)
	for _, version := range []struct{ program, file, other string }{
		{base, "urls_base.go", "urls_regression.go"},
		{head, "urls_regression.go", "urls_base.go"},
	} {
		tree := filepath.Dir(version.program)
		if err := writeTree(tree, version.file, version.other); err != nil {
			return "", "", Planted{}, fmt.Errorf("write demo sources: %w", err)
		}
		if err := compile(ctx, tree); err != nil {
			return "", "", Planted{}, fmt.Errorf("build demo: %w", err)
		}
	}
	planted = Planted{
		Function: "main.pathKey",
		File:     filepath.Join(filepath.Dir(head), plantedFile),
		Cost:     0.04,
		Change:   "pathKey reads each segment of a path a second time, to recognize UUIDs",
	}
	planted.Line, err = lineOf(planted.File, "func pathKey(")
	return base, head, planted, err
}

// writeTree writes one version to dir: with file, which is renamed to
// plantedFile, and without other.
func writeTree(dir, file, other string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := sources.ReadDir("program")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == other || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := sources.ReadFile(path.Join("program", name))
		if err != nil {
			return err
		}
		if name == file {
			name = plantedFile
			_, text, _ = bytes.Cut(text, []byte("\n\n")) // the build tag
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	mod := fmt.Sprintf("module %s\n\ngo 1.21\n", programModule)
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644)
}

// compile builds the program in dir.
func compile(ctx context.Context, dir string) error {
	// No -trimpath: it would build the standard library anew.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", programName, ".")
	cmd.Dir = dir
	// The user's settings must not change what is built, nor for which machine.
	cmd.Env = append(cmd.Environ(), "GOENV=off", "GOFLAGS=", "GO111MODULE=on", "GOWORK=off", "GOTOOLCHAIN=local",
		"GOPROXY=off", "GOOS=", "GOARCH=", "GOEXPERIMENT=", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && len(out) > 0 {
		return fmt.Errorf("go build: %w: %s", err, bytes.TrimSpace(out))
	}
	if err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// lineOf returns the number of the line that starts with text.
func lineOf(file, text string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for i, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, text) {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("%s: no line starts with %q", file, text)
}
