package suite

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// ErrEdit says that a file cannot be changed without rewriting it.
var ErrEdit = errors.New("cannot be edited in place")

// Set returns the file with whole numbers of a suite set: runs, warmup and
// frequency, by key. Everything else, comments and layout included, stays as
// it is. The file must be right before. It is ErrEdit when the suite is
// written on one line, {like: this}, and lacks a key.
func Set(name string, data []byte, suite string, values map[string]int) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		return nil, &hinted{fmt.Errorf("edit suite %q of %s: %w", suite, name, err), "write it by hand"}
	}
	config, err := Parse(name, data)
	if err != nil {
		return nil, err
	}
	if _, err := config.Suite(suite); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key != "runs" && key != "warmup" && key != "frequency" {
			return fail(fmt.Errorf("%w: %s is no whole number", ErrEdit, key))
		}
		if data, err = setOne(data, suite, key, values[key]); err != nil {
			return fail(err)
		}
	}
	// What was written has to read as meant.
	config, err = Parse(name, data)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", ErrEdit, err))
	}
	s, err := config.Suite(suite)
	if err != nil {
		return fail(err)
	}
	for key, is := range map[string]int{"runs": s.Runs, "warmup": s.Warmup, "frequency": s.Frequency} {
		if want, set := values[key]; set && is != want {
			return fail(ErrEdit)
		}
	}
	return data, nil
}

// setOne sets one key of a suite.
func setOne(data []byte, suite, key string, value int) ([]byte, error) {
	mapping := suiteNode(data, suite)
	if mapping == nil {
		return nil, ErrEdit
	}
	lines := strings.SplitAfter(string(data), "\n")
	var name *ast.MappingValueNode
	for _, entry := range mapping.Values {
		switch entry.Key.GetToken().Value {
		case key:
			at, text := positionOf(entry.Value), entry.Value.GetToken().Value
			if at.line > len(lines) {
				return nil, ErrEdit
			}
			line := []rune(lines[at.line-1])
			before, after := string(line[:min(at.column-1, len(line))]), string(line[min(at.column-1, len(line)):])
			rest, ok := strings.CutPrefix(after, text)
			if !ok {
				return nil, ErrEdit
			}
			lines[at.line-1] = before + strconv.Itoa(value) + rest
			return []byte(strings.Join(lines, "")), nil
		case "name":
			name = entry
		}
	}
	if name == nil || mapping.IsFlowStyle {
		return nil, ErrEdit
	}
	at := positionOf(name.Key)
	if _, scalar := name.Value.(*ast.StringNode); !scalar || positionOf(name.Value).line != at.line || at.line > len(lines) {
		return nil, ErrEdit
	}
	end := "\n"
	switch line := lines[at.line-1]; {
	case strings.HasSuffix(line, "\r\n"):
		end = "\r\n"
	case !strings.HasSuffix(line, "\n"):
		lines[at.line-1] += end
	}
	added := strings.Repeat(" ", at.column-1) + key + ": " + strconv.Itoa(value) + end
	return []byte(strings.Join(slices.Insert(lines, at.line, added), "")), nil
}

// suiteNode finds the mapping of a suite in a file that is right.
func suiteNode(data []byte, suite string) *ast.MappingNode {
	d := &decoder{at: make(map[string]position)}
	root, ok := d.parse(data)
	if !ok {
		return nil
	}
	entries, _ := d.entries("", root)
	for _, entry := range entries {
		list, ok := entry.Value.(*ast.SequenceNode)
		if !ok || entry.Key.GetToken().Value != "suites" {
			continue
		}
		for _, item := range list.Values {
			mapping, ok := item.(*ast.MappingNode)
			if !ok {
				continue
			}
			for _, pair := range mapping.Values {
				if value, ok := pair.Value.(*ast.StringNode); ok && pair.Key.GetToken().Value == "name" && (value.Value == suite || suite == "" && len(list.Values) == 1) {
					return mapping
				}
			}
		}
	}
	return nil
}
