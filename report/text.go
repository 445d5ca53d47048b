package report

import (
	"io"

	"github.com/tollgate-dev/tollgate/diff"
)

// TextOptions fit the text to where it is read.
type TextOptions struct {
	Color bool
	Width int    // columns; 0 means that nobody looks, as in a file or a pipe
	Root  string // files below this directory are named relative to it
}

// Text writes the report for a person, the verdict first.
func Text(w io.Writer, r *diff.Result, m Meta, o TextOptions) error {
	_, err := io.WriteString(w, r.Verdict.String()+"\n")
	return err
}
