package diff

import "strings"

// cloneWords are what compilers append to the linkage names of clones and parts
// of a function, with whether numbers follow.
var cloneWords = map[string]bool{
	"llvm": true, "part": true, "__uniq": true, "constprop": true, "isra": true, "cold": true, "lto_priv": true,
	"cfi": false, "cfi_jt": false, "abi0": false, "abiinternal": false, // the last two are Go's calling conventions
}

// withoutClone cuts one suffix of a clone or of a calling convention, as
// written (".part.0") or as demanglers print it (" [clone .part.0]").
func withoutClone(name string) string {
	if strings.HasSuffix(name, "]") {
		if i := strings.LastIndex(name, " [clone "); i > 0 && strings.Count(name[i:], "]") == 1 {
			return name[:i]
		}
		return name
	}
	short := name
	for numbers := false; ; numbers = true {
		dot := strings.LastIndexByte(short, '.')
		if dot < 0 {
			return name
		}
		word := short[dot+1:]
		short = short[:dot]
		if numbered, ok := cloneWords[word]; ok && (numbered || !numbers) {
			return short
		}
		if word == "" || strings.Trim(word, "0123456789") != "" {
			return name
		}
	}
}

// withoutHash cuts the hash that ends Rust's legacy-mangled names: "::h" and 16
// hexadecimal digits.
func withoutHash(name string) string {
	const length = len("::h") + 16
	at := len(name) - length
	if at < 0 || name[at:at+3] != "::h" || strings.Trim(name[at+3:], "0123456789abcdef") != "" {
		return name
	}
	return name[:at]
}

// Canonical returns the source-level name of a function: without the suffixes
// of compiler-made clones (.llvm.N, .part.N, .__uniq.N, .cfi, .constprop.N,
// .isra.N, .cold), Go's shape arguments and calling conventions, and Rust's
// hashes, all of which differ between builds of the same source.
func Canonical(name string) string {
	for {
		short := withoutHash(withoutClone(name))
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
