package unwind

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
)

// Range is the code of a function, in ELF addresses.
type Range struct {
	Start, End uint64 // vaddr, End excluded
}

// Functions returns the boundaries of the functions of f that have an FDE in
// .eh_frame or .debug_frame, sorted and without overlap. They survive
// stripping, so they tell functions apart where there are no symbols. A file
// without call frame information has none, which is not an error.
func Functions(f *safeelf.File) (functions []Range, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := faultOf(recover()); fault != nil {
			functions, err = nil, fmt.Errorf("list functions: %w", fault)
		}
	}()
	arch, err := archOf(f)
	if err != nil {
		return nil, fmt.Errorf("list functions: %w", err)
	}
	segments := executableSegments(f)
	var ranges []Range
	for _, read := range []func(*safeelf.File) (frameSection, bool, error){ehFrame, debugFrame} {
		section, ok, err := read(f)
		if err != nil {
			return nil, fmt.Errorf("list functions: %w", err)
		}
		if !ok {
			continue
		}
		reader := newFrameReader(section, arch)
		for entry, ok := reader.next(); ok; entry, ok = reader.next() {
			if entry.size != 0 && entry.size <= maxCode && inSegments(segments, entry.start) {
				ranges = append(ranges, Range{Start: entry.start, End: entry.start + entry.size})
			}
		}
	}
	slices.SortFunc(ranges, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	kept := ranges[:0]
	for _, r := range ranges {
		if n := len(kept); n > 0 && r.Start < kept[n-1].End {
			if r.Start == kept[n-1].Start {
				continue
			}
			kept[n-1].End = r.Start
		}
		kept = append(kept, r)
	}
	return slices.Clip(kept), nil
}

// inSegments reports whether vaddr is code that the file holds.
func inSegments(segments []segment, vaddr uint64) bool {
	for _, s := range segments {
		if vaddr >= s.vaddr && vaddr-s.vaddr < s.size {
			return true
		}
	}
	return false
}
