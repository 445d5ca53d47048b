package baseline

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// DefaultStore is the store used where none is named.
const DefaultStore = ".tollgate"

// Store keeps recordings under names. Its methods are safe for concurrent use by several processes:
// a reader sees a baseline as it was before or after a Save, never between.
type Store interface {
	// Load returns the baseline of that name, or an error with ErrNotFound in its chain.
	Load(ctx context.Context, name string) (*Recording, error)
	// Save makes r the baseline of that name, replacing the one before.
	Save(ctx context.Context, name string, r *Recording) error
	// List returns all baselines by name. A damaged one is listed with its error.
	List(ctx context.Context) ([]Entry, error)
	// Delete removes the baseline of that name, or returns an error with ErrNotFound in its chain.
	Delete(ctx context.Context, name string) error
}

// Entry is one baseline in a list.
type Entry struct {
	Name     string
	Manifest Manifest // without profiles; zero if Err is set
	Bytes    int64    // on disk
	Saved    time.Time
	Err      error
}

// Open returns the store at a URL: a path or file: URL is a directory; an empty string is
// DefaultStore. Nothing is created before the first Save.
func Open(location string) (Store, error) {
	fail := func(err error) (Store, error) {
		return nil, &Error{
			Op: "open store", Object: location, Err: err,
			Advice: "name a directory; stores in a git branch or an object store are not supported by this version",
		}
	}
	if location == "" {
		return &dirStore{dir: DefaultStore}, nil
	}
	scheme, _, ok := strings.Cut(location, ":")
	if !ok || strings.ContainsAny(scheme, "/.") {
		return &dirStore{dir: location}, nil
	}
	if scheme != "file" {
		return fail(fmt.Errorf("unknown kind of store %q", scheme))
	}
	parsed, err := url.Parse(location)
	if err != nil {
		return fail(errors.Unwrap(err))
	}
	if parsed.Host != "" && parsed.Host != "localhost" {
		return fail(fmt.Errorf("host %q in a file: URL", parsed.Host))
	}
	path := parsed.Path
	if path == "" {
		path = parsed.Opaque // file:relative
	}
	if path == "" {
		return fail(errors.New("no path"))
	}
	return &dirStore{dir: path}, nil
}

// CheckName returns an error if name cannot name a baseline: it must be a letter or digit, then up
// to 99 of letters, digits, and . _ -, so that it is a file, a git path and an object key alike.
func CheckName(name string) error {
	fail := func(cause string) error {
		return &Error{
			Op: "use baseline name", Object: fmt.Sprintf("%q", name), Err: errors.New(cause),
			Advice: "a name starts with a letter or digit, followed by letters, digits, '.', '_' and '-'",
		}
	}
	if name == "" {
		return fail("it is empty")
	}
	if len(name) > 100 {
		return fail("it is longer than 100 characters")
	}
	for i, c := range []byte(name) {
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return fail(fmt.Sprintf("character %d is %q", i+1, c))
		}
	}
	return nil
}
