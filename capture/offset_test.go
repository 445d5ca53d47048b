package capture

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// fileOffset returns where the code of function lies in the file of this
// program.
func fileOffset(t *testing.T, function any) uint64 {
	t.Helper()
	pc := uint64(reflect.ValueOf(function).Pointer())
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var start, end, off uint64
		var prot string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &prot, &off); n == 4 && pc >= start && pc < end {
			return pc - start + off
		}
	}
	t.Fatalf("no mapping holds %#x", pc)
	return 0
}
