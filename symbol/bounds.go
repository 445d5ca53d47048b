package symbol

import (
	"debug/elf"
	"fmt"
	"sort"

	"github.com/tollgate-dev/tollgate/internal/safeelf"
	"github.com/tollgate-dev/tollgate/unwind"
)

// functionLines names an address after the function boundaries that unwind
// information gives: the name is the same in every run of one build.
func (b *Binary) functionLines(vaddr uint64) []Line {
	if !b.loaded.functions {
		b.loaded.functions = true
		b.functions, _ = unwind.Functions(b.file)
	}
	i := sort.Search(len(b.functions), func(i int) bool { return b.functions[i].Start > vaddr })
	if i == 0 || b.functions[i-1].End <= vaddr {
		return nil
	}
	name := b.synthetic(b.functions[i-1].Start)
	return []Line{{Function: name, System: name}}
}

// synthetic is the name of code that has none: liblzma.so.5+0x16900.
func (b *Binary) synthetic(start uint64) string {
	return fmt.Sprintf("%s+%#x", b.options.Name, start)
}

// hasFunctionBounds reports whether a file has unwind information.
func hasFunctionBounds(file *safeelf.File) bool {
	if file.Section(".eh_frame") != nil || file.Section(".debug_frame") != nil {
		return true
	}
	for _, prog := range file.Progs {
		if prog.Type == elf.PT_GNU_EH_FRAME {
			return true
		}
	}
	return false
}
