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
// function. A Go name holds dots too, but not these.
func trimClone(name string) string {
	dot := strings.IndexByte(name, '.')
	if dot <= 0 {
		return name
	}
	base, suffix := name[:dot], name[dot:]
	for suffix != "" {
		rest := suffix[1:]
		end := strings.IndexByte(rest, '.')
		word := rest
		if end >= 0 {
			word = rest[:end]
		}
		switch {
		case cloneWord(word), isNumber(word) && suffix != name[dot:]:
		default:
			return name
		}
		suffix = rest[len(word):]
	}
	return base
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

// maxDemangled bounds the names a demangler remembers.
const maxDemangled = 1 << 17

// demangler remembers readable names: the same functions are inlined in many
// places.
type demangler struct {
	names map[string]string
}

func (d *demangler) name(system string) string {
	if name, ok := d.names[system]; ok {
		return name
	}
	if d.names == nil || len(d.names) >= maxDemangled {
		d.names = make(map[string]string)
	}
	name := Demangle(system)
	d.names[system] = name
	return name
}
