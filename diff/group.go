package diff

import (
	"regexp"
	"slices"
	"strings"
)

// GroupKind says what holds the functions of a group together.
type GroupKind string

const (
	// GroupPackage: a Go package, a Rust crate or a top-level C++ namespace.
	GroupPackage GroupKind = "package"
	// GroupObject: a mapped file, such as a shared library.
	GroupObject GroupKind = "object"
	// GroupGC: the garbage collector of the program's runtime.
	GroupGC GroupKind = "gc"
	// GroupKernel: everything that runs in the kernel.
	GroupKernel GroupKind = "kernel"
	// GroupCalls: a function with all that it calls.
	GroupCalls GroupKind = "calls"
)

// phrase returns how a sentence calls the group.
func (k GroupKind) phrase(name string) string {
	switch k {
	case GroupPackage, GroupObject:
		return string(k) + " " + name
	case GroupGC:
		return "the garbage collector"
	case GroupKernel:
		return "the kernel"
	case GroupCalls:
		return name + " with what it calls"
	}
	return name
}

// group is a set of functions whose self cost is tested as one.
type group struct {
	kind    GroupKind
	name    string
	members []int // indexes of functions, ascending
}

// groupsOf sorts functions into groups. A function may be in several; of groups
// with the same members only the first is kept, in the order of the kinds.
func groupsOf(functions []Function) []group {
	var list []group
	for _, kind := range []GroupKind{GroupGC, GroupKernel, GroupPackage, GroupObject} {
		index := make(map[string]int)
		first := len(list)
		for f, function := range functions {
			name := kind.of(function)
			if name == "" {
				continue
			}
			i, ok := index[name]
			if !ok {
				i = len(list)
				index[name] = i
				list = append(list, group{kind: kind, name: name})
			}
			list[i].members = append(list[i].members, f)
		}
		kept := list[:first]
		for _, g := range list[first:] {
			same := func(other group) bool { return slices.Equal(g.members, other.members) }
			if len(g.members) > 1 && !slices.ContainsFunc(kept[:first], same) {
				kept = append(kept, g)
			}
		}
		list = kept
	}
	return list
}

// of returns the name of the group of this kind that f belongs to, "" for
// none.
func (k GroupKind) of(f Function) string {
	switch {
	case k == GroupKernel && f.Kernel:
		return "kernel"
	case f.Kernel:
		return ""
	case k == GroupPackage:
		return packageOf(f.Name)
	case k == GroupObject:
		return f.Object
	case k == GroupGC && collector.MatchString(f.Name):
		return "garbage collector"
	}
	return ""
}

// collector matches the functions of garbage collectors by their names in the
// sources of Go's runtime, V8, HotSpot, CPython, Ruby and the Boehm collector.
// Allocation is not collection.
var collector = regexp.MustCompile(`^(?:` +
	`runtime\.(?:gc[A-Z]|\(\*gc[A-Z]|scan[a-z]|greyobject|markroot|findObject|bgsweep|bgscavenge|sweepone|shade$|wbBufFlush|bulkBarrier|tryDeferToSpanScan|spanScan|\(\*(?:mspan|sweepLocked|sweepLocker)\)\.(?:sweep|mark)|\(\*activeSweep\)|\(\*pageAlloc\)\.scavenge|\(\*spanInlineMarkBits\))` +
	`|v8::internal::(?:\w*(?:Marking|Sweeper|Scaveng|Evacuat|GarbageCollect)|Heap::Collect)` +
	`|(?:G1|PSPromotion|PSParallelCompact|PSScavenge|Shenandoah|ZMark|ZRelocate|GenMarkSweep)\w*::` +
	`|gc_collect_|deduce_unreachable|subtract_refs|visit_(?:decref|reachable)$|update_refs$` +
	`|gc_(?:mark|sweep)|rgengc_|GC_(?:mark|push|reclaim))`)

// packageOf returns the Go package, the Rust crate or the top-level C++
// namespace of a function by its name, "" where the name tells none, as in C.
func packageOf(name string) string {
	if strings.HasPrefix(name, "[") || strings.Contains(name, "+0x") || strings.HasSuffix(name, "[unsymbolized]") {
		return ""
	}
	// In "<alloc::vec::Vec<T> as core::ops::Index<I>>::index" the type says
	// where the function is.
	name = strings.TrimLeft(name, "<&*[ ")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "mut "), "dyn ")
	head := name
	if i := strings.IndexAny(head, "(<[{"); i >= 0 {
		head = head[:i]
	}
	if i := strings.Index(head, "::"); i > 0 {
		// A template's name starts with what it returns.
		return head[strings.LastIndex(head[:i], " ")+1 : i]
	}
	slash := strings.LastIndex(head, "/") + 1
	if dot := strings.Index(head[slash:], "."); dot > 0 && !strings.Contains(head, " ") {
		return head[:slash+dot]
	}
	return ""
}
