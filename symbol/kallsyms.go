package symbol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
)

// ErrKernelAddressesHidden reports that the kernel shows its symbols to this
// process without addresses.
var ErrKernelAddressesHidden = errors.New("kernel symbol addresses are hidden: " +
	"/proc/kallsyms needs CAP_SYSLOG, or the sysctl kernel.kptr_restrict at 0")

// Kernel is the symbols of a running kernel and its modules. It is safe for
// concurrent use.
type Kernel struct {
	symbols []kernelSymbol // by addr
	modules []string       // by kernelSymbol.module; "" is the kernel itself
}

// kernelSymbol covers the addresses up to the next one.
type kernelSymbol struct {
	addr   uint64
	name   string
	module uint16
	code   bool // false: what follows is data
	rank   uint8
}

// maxKernelSymbols bounds what ParseKallsyms keeps; kernels with all drivers
// built in have about 250,000.
const maxKernelSymbols = 1 << 22

// ParseKallsyms reads the format of /proc/kallsyms: address, type, name, and
// the module in brackets. Kernels that hide addresses give
// ErrKernelAddressesHidden.
func ParseKallsyms(r io.Reader) (*Kernel, error) {
	k := &Kernel{modules: []string{""}}
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
		s, module, err := parseKernelSymbol(line)
		if err != nil {
			return nil, fmt.Errorf("parse kallsyms line %d: %w", lines, err)
		}
		if s.addr == 0 {
			continue // of this CPU's variables, or hidden
		}
		hidden = false
		id, ok := modules[module]
		if !ok {
			if len(k.modules) > 0xffff {
				return nil, fmt.Errorf("parse kallsyms line %d: too many modules", lines)
			}
			id = uint16(len(k.modules))
			k.modules = append(k.modules, module)
			modules[module] = id
		}
		s.module = id
		if len(k.symbols) >= maxKernelSymbols {
			return nil, fmt.Errorf("parse kallsyms line %d: more than %d symbols", lines, maxKernelSymbols)
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
func parseKernelSymbol(line []byte) (s kernelSymbol, module string, err error) {
	field, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return s, "", fmt.Errorf("%.40q has no type", line)
	}
	s.addr, err = strconv.ParseUint(string(field), 16, 64)
	if err != nil {
		return s, "", fmt.Errorf("%.40q has no address", line)
	}
	if len(rest) < 3 || rest[1] != ' ' {
		return s, "", fmt.Errorf("%.40q has no name", line)
	}
	kind := rest[0]
	name, tail, _ := bytes.Cut(rest[2:], []byte{'\t'})
	s.name = string(name)
	module = strings.Trim(string(bytes.TrimSpace(tail)), "[]")
	// A lower rank is preferred among aliases.
	switch kind {
	case 'T':
		s.code, s.rank = true, 0
	case 't':
		s.code, s.rank = true, 1
	case 'W', 'w':
		s.code, s.rank = true, 2
	default:
		s.rank = 3
	}
	return s, module, nil
}

// prune sorts the symbols, keeps one of each address, and of the data only
// where it ends code.
func (k *Kernel) prune() {
	sort.Slice(k.symbols, func(i, j int) bool {
		a, b := &k.symbols[i], &k.symbols[j]
		if a.addr != b.addr {
			return a.addr < b.addr
		}
		if a.rank != b.rank {
			return a.rank < b.rank
		}
		if x, y := underscores([]byte(a.name)), underscores([]byte(b.name)); x != y {
			return x < y
		}
		return a.name < b.name
	})
	n := 0
	for _, s := range k.symbols {
		if n > 0 && (k.symbols[n-1].addr == s.addr || !k.symbols[n-1].code && !s.code) {
			continue
		}
		k.symbols[n] = s
		n++
	}
	clear(k.symbols[n:])
	k.symbols = k.symbols[:n:n]
}

// Lookup returns the function at a kernel address and the module it belongs
// to, "" for the kernel itself.
func (k *Kernel) Lookup(addr uint64) (name, module string, ok bool) {
	i := sort.Search(len(k.symbols), func(i int) bool { return k.symbols[i].addr > addr })
	if i == 0 || !k.symbols[i-1].code {
		return "", "", false
	}
	s := &k.symbols[i-1]
	return s.name, k.modules[s.module], true
}
