package diff

import (
	"regexp"
	"strings"
)

// cloneSuffix matches what compilers append to the linkage names of clones and
// parts of a function, as written (".part.0") and as demanglers print it
// (" [clone .part.0]").
var cloneSuffix = regexp.MustCompile(`(?:\.(?:llvm|part|__uniq|constprop|isra|cold)(?:\.[0-9]+)*|\.(?:cfi|cfi_jt|lto_priv(?:\.[0-9]+)?)| \[clone [^\]]*\])$`)

// goABISuffix matches the marks of Go's calling conventions.
var goABISuffix = regexp.MustCompile(`\.(?:abi0|abiinternal)$`)

// rustHash matches the hash that ends Rust's legacy-mangled names.
var rustHash = regexp.MustCompile(`::h[0-9a-f]{16}$`)

// Canonical returns the source-level name of a function: without the suffixes
// of compiler-made clones (.llvm.N, .part.N, .__uniq.N, .cfi, .constprop.N,
// .isra.N, .cold), Go's shape arguments and calling conventions, and Rust's
// hashes, all of which differ between builds of the same source.
func Canonical(name string) string {
	for {
		short := cloneSuffix.ReplaceAllString(name, "")
		short = goABISuffix.ReplaceAllString(short, "")
		short = rustHash.ReplaceAllString(short, "")
		if short == name || short == "" {
			break
		}
		name = short
	}
	return withoutShapes(name)
}

// withoutShapes removes Go's type arguments in the forms that symbol tables
// ("[go.shape.int]") and the runtime ("[...]") give them.
func withoutShapes(name string) string {
	for _, open := range []string{"[go.shape.", "[...]"} {
		for from := 0; ; {
			i := strings.Index(name[from:], open)
			if i < 0 {
				break
			}
			i += from
			end := closingBracket(name, i)
			if i == 0 || end < 0 {
				from = i + 1
				continue
			}
			name = name[:i] + name[end+1:]
			from = i
		}
	}
	return name
}

// closingBracket returns the index of the bracket that closes the one at
// name[open], -1 when there is none.
func closingBracket(name string, open int) int {
	depth := 0
	for i := open; i < len(name); i++ {
		switch name[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
