package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// jsonFile is the --json flag of the comparing commands.
type jsonFile struct {
	path string // "-" is stdout, empty is none
}

func (j *jsonFile) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&j.path, "json", "", "also write the result as JSON to `FILE`; - is standard output, and the text goes to standard error")
}

func (j *jsonFile) toStdout() bool { return j.path == "-" }

// check tells before a long measurement that its result could not be written.
func (j *jsonFile) check() error {
	if j.path == "" || j.toStdout() {
		return nil
	}
	if info, err := os.Stat(j.path); err == nil && info.IsDir() {
		return usageError("name a file", "write %s: it is a directory", j.path)
	}
	dir := filepath.Dir(j.path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usageError("create it first", "write %s: there is no directory %s", j.path, dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fail(exitEnvironment, fmt.Errorf("write %s: %w", j.path, err), "name a file in a directory you can write to")
	}
	return nil
}

// write renders the result and puts it where the user wants it, whole or not at all.
func (j *jsonFile) write(stdout io.Writer, render func(io.Writer) error) error {
	if j.path == "" {
		return nil
	}
	var buffer bytes.Buffer
	if err := render(&buffer); err != nil {
		return fail(exitEnvironment, fmt.Errorf("render result as JSON: %w", err), "")
	}
	if j.toStdout() {
		if _, err := stdout.Write(buffer.Bytes()); err != nil {
			return fail(exitEnvironment, fmt.Errorf("write result: %w", err), "")
		}
		return nil
	}
	if err := replaceFile(j.path, buffer.Bytes()); err != nil {
		return fail(exitEnvironment, fmt.Errorf("write %s: %w", j.path, err), "free some space, or name another file")
	}
	return nil
}

// replaceFile writes data to a temporary sibling of path and renames it, so that path never holds a
// part of it. What is not a regular file, such as /dev/stderr or a pipe, is written to as it is.
func replaceFile(path string, data []byte) (err error) {
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o666)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		// CreateTemp makes files for their owner only; a result is made to be shared.
		err = file.Chmod(0o644)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
