package symbol

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// FuzzBinary looks addresses up in a file that is not what it seems. The seeds
// are made by testdata/seed.sh.
func FuzzBinary(f *testing.F) {
	seeds, err := filepath.Glob("testdata/seed*.elf")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		data, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	dirs := []string{f.TempDir()}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := safeelf.New(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		b, err := New(file, Options{Name: "fuzz", DebugDirs: dirs})
		if err != nil {
			return
		}
		defer b.Close()
		low, high := codeBounds(file)
		for i := range uint64(16) {
			addr := low + (high-low)/16*i
			for _, line := range b.Lines(addr) {
				if line.Function == "" || line.System == "" {
					t.Errorf("%#x: a line without a function: %+v", addr, line)
				}
			}
		}
		b.Lines(0)
		b.Lines(^uint64(0))
	})
}
