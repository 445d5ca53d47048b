package main

import (
	"fmt"

	"github.com/tollgate-dev/tollgate/baseline"
)

// recorder collects runs in memory for a comparison, and on disk where the user wants to keep them.
type recorder struct {
	recording *baseline.Recording
	progress  *progress
	dir       string
	writer    *baseline.Writer // nil: memory only
}

// create begins a recording on disk.
func (r *recorder) create(dir string) error {
	w, err := baseline.Create(dir, r.recording.Manifest, baseline.CreateOptions{})
	if err != nil {
		return recordingError(err)
	}
	r.progress.warnOfAbandoned(w)
	r.dir, r.writer = dir, w
	return nil
}

func (r *recorder) add(run measuredRun) error {
	if r.writer != nil {
		if err := r.writer.Add(run.info, run.profile); err != nil {
			return recordingError(err)
		}
	}
	decoded, err := decodeProfile(run.profile)
	if err != nil {
		return fail(exitEnvironment, fmt.Errorf("read profile of the run: %w", err), "")
	}
	run.info.File = fmt.Sprintf("%s, run %d", r.recording.Source, len(r.recording.Manifest.Runs)+1)
	r.recording.Manifest.Runs = append(r.recording.Manifest.Runs, run.info)
	r.recording.Profiles = append(r.recording.Profiles, baseline.Profile{Profile: decoded})
	return nil
}

// finish publishes what is on disk. cause is what ended the runs early, nil where nothing did; enough
// says why fewer runs than requested are all the same all that were needed.
func (r *recorder) finish(cause error, enough string) error {
	if r.writer == nil {
		return nil
	}
	if cause != nil {
		enough = cause.Error()
	}
	kept := r.writer.Runs()
	var err error
	if enough != "" {
		kept, err = r.writer.Salvage(enough)
	} else {
		err = r.writer.Commit()
	}
	if err != nil {
		return recordingError(err)
	}
	if kept > 0 {
		r.progress.note("%s kept in %s", plural(kept, "run"), r.dir)
	}
	return nil
}
