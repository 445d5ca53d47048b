package symbol

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"unicode"
	"unicode/utf8"
)

// PerfMap names code that a process has generated, as it told in its
// /tmp/perf-PID.map. It is safe for concurrent use.
type PerfMap struct {
	ranges []perfRange // sorted, not overlapping
}

// perfRange is code of one name.
type perfRange struct {
	start, end uint64
	name       string
}

// Bounds of a perf map. The largest of real engines have some 100,000 lines.
const (
	maxPerfEntries = 1 << 20
	maxPerfName    = 512      // bytes, longer names are cut
	maxPerfBytes   = 64 << 20 // of all names
	maxPerfLine    = 64 << 10
)

// ParsePerfMap reads lines of start, size (both hexadecimal) and name. Where
// lines overlap, the later one holds: engines use memory again. What is not
// well-formed is left out, and so is a last line without end, which is being
// written. The error is one of reading.
func ParsePerfMap(r io.Reader) (*PerfMap, error) {
	reader := bufio.NewReaderSize(r, maxPerfLine)
	var entries []perfRange
	for room := maxPerfBytes; len(entries) < maxPerfEntries && room > 0; {
		line, err := reader.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			line = nil // too long to be one
			_, err = reader.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read perf map: %w", err)
		}
		if entry, ok := parsePerfLine(line); ok {
			room -= len(entry.name)
			entries = append(entries, entry)
		}
	}
	return &PerfMap{ranges: flattenPerf(entries)}, nil
}

// Lookup returns the name of the code at addr.
func (m *PerfMap) Lookup(addr uint64) (name string, ok bool) {
	i := sort.Search(len(m.ranges), func(i int) bool { return m.ranges[i].end > addr })
	if i == len(m.ranges) || addr < m.ranges[i].start {
		return "", false
	}
	return m.ranges[i].name, true
}

// Len returns the number of ranges.
func (m *PerfMap) Len() int { return len(m.ranges) }

func parsePerfLine(line []byte) (entry perfRange, ok bool) {
	number := func() (uint64, bool) {
		field, rest, found := bytes.Cut(line, []byte{' '})
		line = rest
		field = bytes.TrimPrefix(bytes.TrimPrefix(field, []byte("0x")), []byte("0X"))
		value, valid := parseHex(field)
		return value, found && valid
	}
	start, ok1 := number()
	size, ok2 := number()
	name := cleanName(line)
	if !ok1 || !ok2 || size == 0 || start+size < start || name == "" {
		return entry, false
	}
	return perfRange{start, start + size, name}, true
}

// cleanName returns a name that can be printed, of bounded length.
func cleanName(line []byte) string {
	line = bytes.TrimSpace(line)
	if len(line) > maxPerfName {
		line = line[:maxPerfName]
		for len(line) > 0 && !utf8.RuneStart(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		if last := len(line) - 1; last >= 0 && line[last] >= utf8.RuneSelf {
			line = line[:last]
		}
	}
	return string(bytes.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, line))
}

// flattenPerf cuts the entries so that none overlap and the latest holds.
func flattenPerf(entries []perfRange) []perfRange {
	order := make([]int, len(entries)) // by start
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if entries[a].start < entries[b].start {
			return -1
		}
		if entries[a].start > entries[b].start {
			return 1
		}
		return a - b
	})
	var out []perfRange
	var active latestFirst
	emit := func(from, to uint64) {
		for from < to && len(active) > 0 {
			top := entries[active[0]]
			if top.end <= from {
				heap.Pop(&active)
				continue
			}
			end := min(top.end, to)
			if last := len(out) - 1; last >= 0 && out[last].end == from && out[last].name == top.name {
				out[last].end = end
			} else {
				out = append(out, perfRange{from, end, top.name})
			}
			from = end
		}
	}
	at := uint64(0)
	for _, i := range order {
		emit(at, entries[i].start)
		at = entries[i].start
		heap.Push(&active, i)
	}
	emit(at, ^uint64(0))
	return out
}

// latestFirst is a heap of indices whose top is the largest.
type latestFirst []int

func (h latestFirst) Len() int           { return len(h) }
func (h latestFirst) Less(i, j int) bool { return h[i] > h[j] }
func (h latestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *latestFirst) Push(x any) {
	if i, ok := x.(int); ok {
		*h = append(*h, i)
	}
}

// Pop implements heap.Interface.
func (h *latestFirst) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
