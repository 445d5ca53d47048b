package symbol

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
)

// ErrKernelAddressesHidden reports that the kernel shows its symbols to this
// process without addresses.
var ErrKernelAddressesHidden = errors.New("kernel symbol addresses are hidden: " +
	"/proc/kallsyms needs CAP_SYSLOG, or the sysctl kernel.kptr_restrict at 0")

// Kernel is the symbols of a running kernel and its modules. It is safe for
// concurrent use.
type Kernel struct {
	symbols []kernelSymbol // by addr
	names   []byte         // each ends with 0
	modules []string       // by kernelSymbol.module; "" is the kernel itself
}

// kernelSymbol covers the addresses up to the next one. There are a hundred
// thousand, so it holds no pointer.
type kernelSymbol struct {
	addr   uint64
	name   uint32 // where it starts in names; of code only
	module uint16
	rank   uint8 // the lowest is preferred among aliases
}

// rankData is the rank of what is no code.
const rankData = 3

func (s kernelSymbol) code() bool { return s.rank < rankData }

// Room for a kernel with the usual drivers. What stays empty is never touched,
// and so takes no memory, while growing would leave copies behind.
const (
	usualSymbols   = 1 << 17
	usualNameBytes = 3 << 20
)

// maxKernelSymbols bounds what ParseKallsyms keeps; kernels with all drivers
// built in have about 250,000.
const maxKernelSymbols = 1 << 22

// ParseKallsyms reads the format of /proc/kallsyms: address, type, name, and
// the module in brackets. Kernels that hide addresses give
// ErrKernelAddressesHidden.
func ParseKallsyms(r io.Reader) (*Kernel, error) {
	k := &Kernel{
		modules: []string{""},
		symbols: make([]kernelSymbol, 0, usualSymbols), names: make([]byte, 0, usualNameBytes),
	}
	modules := map[string]uint16{"": 0}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 64<<10), 1<<20)
	lines, hidden := 0, true
	for scanner.Scan() {
		line := scanner.Bytes()
		if len(line) == 0 {
			continue
		}
		lines++
		s, name, module, err := parseKernelSymbol(line)
		if err != nil {
			return nil, fmt.Errorf("parse kallsyms line %d: %w", lines, err)
		}
		if s.addr == 0 {
			continue // of this CPU's variables, or hidden
		}
		hidden = false
		// The kernel's own symbols come sorted: of the data between two
		// functions only the first matters.
		if last := len(k.symbols) - 1; last >= 0 && len(module) == 0 && !s.code() && !k.symbols[last].code() &&
			k.symbols[last].module == 0 && k.symbols[last].addr <= s.addr {
			continue
		}
		id, ok := modules[string(module)]
		if !ok {
			if len(k.modules) > 0xffff {
				return nil, fmt.Errorf("parse kallsyms line %d: too many modules", lines)
			}
			id = uint16(len(k.modules))
			k.modules = append(k.modules, string(module))
			modules[string(module)] = id
		}
		s.module = id
		if len(k.symbols) >= maxKernelSymbols {
			return nil, fmt.Errorf("parse kallsyms line %d: more than %d symbols", lines, maxKernelSymbols)
		}
		if s.code() {
			if len(k.names)+len(name) >= math.MaxUint32 {
				return nil, fmt.Errorf("parse kallsyms line %d: more than 4 GiB of names", lines)
			}
			s.name = uint32(len(k.names))
			k.names = append(append(k.names, name...), 0)
		}
		k.symbols = append(k.symbols, s)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read kallsyms: %w", err)
	}
	if lines == 0 {
		return nil, errors.New("read kallsyms: it is empty")
	}
	if hidden {
		return nil, fmt.Errorf("read kallsyms: %w", ErrKernelAddressesHidden)
	}
	k.prune()
	return k, nil
}

// parseKernelSymbol reads one line.
func parseKernelSymbol(line []byte) (s kernelSymbol, name, module []byte, err error) {
	field, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return s, nil, nil, fmt.Errorf("%.40q has no type", line)
	}
	if s.addr, ok = parseHex(field); !ok {
		return s, nil, nil, fmt.Errorf("%.40q has no address", line)
	}
	if len(rest) < 3 || rest[1] != ' ' {
		return s, nil, nil, fmt.Errorf("%.40q has no name", line)
	}
	name, tail, _ := bytes.Cut(rest[2:], []byte{'\t'})
	module = bytes.Trim(bytes.TrimSpace(tail), "[]")
	switch rest[0] {
	case 'T':
		s.rank = 0
	case 't':
		s.rank = 1
	case 'W', 'w':
		s.rank = 2
	default:
		s.rank = rankData
	}
	return s, name, module, nil
}

// parseHex reads a number of 1 to 16 hexadecimal digits.
func parseHex(digits []byte) (value uint64, ok bool) {
	if len(digits) == 0 || len(digits) > 16 {
		return 0, false
	}
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		value = value<<4 | uint64(c)
	}
	return value, true
}

// name returns the name of a symbol of code.
func (k *Kernel) name(s kernelSymbol) []byte {
	name, _, _ := bytes.Cut(k.names[s.name:], []byte{0})
	return name
}

// prune sorts the symbols, keeps one of each address, and of the data only
// where it ends code.
func (k *Kernel) prune() {
	slices.SortFunc(k.symbols, func(a, b kernelSymbol) int {
		if c := cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.rank, b.rank)); c != 0 || !a.code() {
			return c
		}
		x, y := k.name(a), k.name(b)
		return cmp.Or(cmp.Compare(underscores(x), underscores(y)), bytes.Compare(x, y))
	})
	n := 0
	for _, s := range k.symbols {
		if n > 0 && (k.symbols[n-1].addr == s.addr || !k.symbols[n-1].code() && !s.code()) {
			continue
		}
		k.symbols[n] = s
		n++
	}
	k.symbols = k.symbols[:n]
}

// Lookup returns the function at a kernel address and the module it belongs
// to, "" for the kernel itself.
func (k *Kernel) Lookup(addr uint64) (name, module string, ok bool) {
	i := sort.Search(len(k.symbols), func(i int) bool { return k.symbols[i].addr > addr })
	if i == 0 || !k.symbols[i-1].code() {
		return "", "", false
	}
	s := k.symbols[i-1]
	return string(k.name(s)), k.modules[s.module], true
}
