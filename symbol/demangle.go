package symbol

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// maxMangled bounds the names that are demangled, in bytes: the demangler
// recurses as deep as a name nests.
const maxMangled = 1 << 14

// Demangle returns the readable form of a linkage name: C++ and Rust names
// with template arguments but without parameters, return types, clone suffixes
// (.constprop.0, .cold) and the hash of Rust symbols; other names unchanged
// but for the clone suffix. Clones of a function are one function to who reads
// a profile; the linkage name keeps them apart.
func Demangle(system string) string {
	if len(system) > maxMangled {
		return system
	}
	base := trimClone(system)
	if !strings.HasPrefix(base, "_Z") && !strings.HasPrefix(base, "_R") && !strings.HasPrefix(base, "___Z") {
		return base
	}
	name, err := demangleName(base)
	if err != nil || name == "" {
		return base
	}
	return name
}

// demangleName returns an error also where the demangler panics.
func demangleName(name string) (readable string, err error) {
	defer func() {
		if recover() != nil {
			readable, err = "", demangle.ErrNotMangledName
		}
	}()
	const maxReadable = 15 // as a power of two: 32 KiB
	return demangle.ToString(name, demangle.NoParams, demangle.MaxLength(maxReadable))
}

// trimClone cuts the suffixes that GCC and LLVM give to copies and parts of a
// function, as .constprop.0 and .llvm.1234.
func trimClone(name string) string {
	base := name
	for {
		dot := strings.LastIndexByte(name, '.')
		if dot <= 0 {
			return base
		}
		switch word := name[dot+1:]; {
		case cloneWord(word):
			base = name[:dot]
		case !isNumber(word):
			return base
		}
		name = name[:dot]
	}
}

func cloneWord(word string) bool {
	switch word {
	case "constprop", "isra", "part", "cold", "lto_priv", "localalias", "llvm", "clone", "simdclone":
		return true
	}
	return false
}

func isNumber(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

// maxDemangled bounds the bytes that a demangler remembers, twice.
const maxDemangled = 8 << 20

// demangler remembers readable names: the same functions are inlined in many
// places. Names not asked for since older was the newer half are forgotten.
type demangler struct {
	names, older map[string]string
	bytes        int // in names
}

func (d *demangler) name(system string) string {
	if name, ok := d.names[system]; ok {
		return name
	}
	name, ok := d.older[system]
	if !ok {
		name = Demangle(system)
	}
	if d.names == nil || d.bytes > maxDemangled {
		d.names, d.older, d.bytes = make(map[string]string), d.names, 0
	}
	d.names[system] = name
	d.bytes += 64 + len(system) + len(name)
	return name
}
