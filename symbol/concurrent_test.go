package symbol

import (
	"reflect"
	"sync"
	"testing"
)

func TestConcurrentLookups(t *testing.T) {
	_, program := buildSort(t, "")
	addrs := sampleVaddrs(t, program, 200)
	reference := open(t, program, Options{DebugDirs: noDebugDirs(t)})
	var want [][]Line
	for _, addr := range addrs {
		want = append(want, reference.Lines(addr))
	}
	shared := open(t, program, Options{DebugDirs: noDebugDirs(t)})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i, addr := range addrs {
				if got := shared.Lines(addr); !reflect.DeepEqual(got, want[i]) {
					t.Errorf("%#x: %s, want %s", addr, frames(got), frames(want[i]))
				}
			}
		})
	}
	group.Wait()
}
