package suite

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/tollgate-dev/tollgate/internal/spelling"
)

const (
	// maxFile bounds the size of a file, in bytes.
	maxFile = 256 << 10
	// maxProblems is the number of problems after which reading ends.
	maxProblems = 20
)

// position is a place in a file, 1-based.
type position struct{ line, column int }

// decoder fills structs from a document and collects what is wrong with it.
//
// Fields are named by the tag `yaml`; the tags `min` and `max` bound numbers.
// Unknown keys, repeated keys, empty values, anchors, tags and merge keys are
// problems.
type decoder struct {
	problems []Problem
	at       map[string]position // of every value, by path
}

// parse reads the document in data. ok is false when there is none to decode.
func (d *decoder) parse(data []byte) (node ast.Node, ok bool) {
	if len(data) > maxFile {
		d.report(position{1, 1}, "", fmt.Sprintf("the file has %d bytes, at most %d are read", len(data), maxFile), "")
		return nil, false
	}
	file, err := parseYAML(data)
	if err != nil {
		d.syntax(err)
		return nil, false
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		d.report(position{1, 1}, "", "the file is empty", "tollgate init writes one to start from")
		return nil, false
	case 1:
		return bodies[0], true
	}
	d.report(positionOf(bodies[1]), "", "a second document, must be one", "remove the line ---")
	return nil, false
}

// parseYAML turns a panic of the parser, which has met less odd input than a
// fuzzer finds, into an error.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("not YAML that can be read")
		}
	}()
	return parser.ParseBytes(data, 0)
}

// syntax reports an error of the YAML parser.
func (d *decoder) syntax(err error) {
	at, text := position{1, 1}, err.Error()
	var known yaml.Error
	if errors.As(err, &known) {
		text = known.GetMessage()
		if t := known.GetToken(); t != nil && t.Position != nil {
			at = position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
		}
	}
	text = strings.ReplaceAll(text, "\t", `\t`)
	hint := ""
	if strings.Contains(text, `'\t'`) {
		hint = "YAML is indented by spaces"
	}
	d.report(at, "", text, hint)
}

func (d *decoder) report(at position, path, text, hint string) {
	d.problems = append(d.problems, Problem{Line: at.line, Column: at.column, Path: path, Text: text, Hint: hint})
}

// reject reports a problem with the value at path, or the nearest one above.
func (d *decoder) reject(path, hint, format string, args ...any) {
	d.report(d.place(path), path, fmt.Sprintf(format, args...), hint)
}

func (d *decoder) place(path string) position {
	for at := path; ; {
		if found, ok := d.at[at]; ok {
			return found
		}
		i := strings.LastIndexAny(at, ".[")
		if i < 0 {
			break
		}
		at = at[:i]
	}
	if found, ok := d.at[""]; ok {
		return found
	}
	return position{1, 1}
}

// full reports whether enough problems have been collected.
func (d *decoder) full() bool { return len(d.problems) >= maxProblems }

// value decodes node into a variable.
func (d *decoder) value(path string, node ast.Node, into reflect.Value) {
	if d.full() {
		return
	}
	d.at[path] = positionOf(node)
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if special, ok := into.Addr().Interface().(interface {
		decode(*decoder, string, ast.Node)
	}); ok {
		special.decode(d, path, node)
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		d.object(path, node, into)
	case reflect.Slice:
		d.list(path, node, into)
	case reflect.Int:
		if n, ok := d.integer(path, node); ok {
			into.SetInt(int64(n))
		}
	case reflect.Float64:
		if x, ok := d.number(path, node); ok {
			into.SetFloat(x)
		}
	case reflect.String:
		if s, ok := d.text(path, node); ok {
			into.SetString(s)
		}
	case reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			d.wrong(path, node, "true or false")
			return
		}
		into.SetBool(b.Value)
	}
}

// object decodes a mapping into a struct.
func (d *decoder) object(path string, node ast.Node, into reflect.Value) {
	entries, ok := d.entries(path, node)
	if !ok {
		return
	}
	fields, names := fieldsOf(into.Type())
	for _, entry := range entries {
		name, ok := d.key(path, entry)
		if !ok || d.full() {
			continue
		}
		field, known := fields[name]
		if !known {
			text, hint := fmt.Sprintf("unknown key %q", name), "the keys here are "+strings.Join(names, ", ")
			if near := spelling.Nearest(name, names); near != "" {
				text += fmt.Sprintf(", did you mean %q?", near)
				hint = ""
			}
			d.report(positionOf(entry.Key), path, text, hint)
			continue
		}
		below := join(path, name)
		value := into.FieldByIndex(field.Index)
		before := len(d.problems)
		d.value(below, entry.Value, value)
		if len(d.problems) == before {
			d.bounds(below, value, field.Tag)
		}
	}
}

// bounds checks a number against the tags of its field.
func (d *decoder) bounds(path string, value reflect.Value, tag reflect.StructTag) {
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	low, high := tag.Get("min"), tag.Get("max")
	if low == "" && high == "" {
		return
	}
	x, show := 0.0, func(bound string) string { return bound }
	switch v := value.Interface().(type) {
	case int:
		x = float64(v)
	case float64:
		x = v
	case Fraction:
		x = float64(v)
	case Percent:
		x = float64(v)
		show = func(bound string) string { return trimFloat(parseBound(bound)*100) + "%" }
	}
	switch {
	case low != "" && high != "" && (x < parseBound(low) || x > parseBound(high)):
		d.reject(path, "", "%s is not within %s to %s", show(trimFloat(x)), show(low), show(high))
	case low != "" && x < parseBound(low):
		d.reject(path, "", "%s is not at least %s", show(trimFloat(x)), show(low))
	case high != "" && x > parseBound(high):
		d.reject(path, "", "%s is not at most %s", show(trimFloat(x)), show(high))
	}
}

// parseBound reads a bound in a tag, which a test has checked.
func parseBound(text string) float64 {
	x, _ := strconv.ParseFloat(text, 64)
	return x
}

func trimFloat(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// list decodes a sequence into a slice.
func (d *decoder) list(path string, node ast.Node, into reflect.Value) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.wrong(path, node, "a list")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(sequence.Values), len(sequence.Values)))
	for i, entry := range sequence.Values {
		d.value(fmt.Sprintf("%s[%d]", path, i), entry, into.Index(i))
	}
}

// entries returns the keys and values of a mapping.
func (d *decoder) entries(path string, node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch node := node.(type) {
	case *ast.MappingNode:
		return node.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, true
	}
	d.wrong(path, node, "keys and values")
	return nil, false
}

// key returns the name of an entry.
func (d *decoder) key(path string, entry *ast.MappingValueNode) (string, bool) {
	name, ok := entry.Key.(*ast.StringNode)
	if !ok {
		d.wrongAt(positionOf(entry.Key), path, entry.Key, "a plain key")
		return "", false
	}
	return name.Value, true
}

// text returns a string. A number or a truth value is refused, since what it
// looks like as text is not clear.
func (d *decoder) text(path string, node ast.Node) (string, bool) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		if node.Value != nil {
			return node.Value.Value, true
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		d.reject(path, "put it in quotes", "%s is %s, must be text", node.GetToken().Value, kindOf(node))
		return "", false
	}
	d.wrong(path, node, "text")
	return "", false
}

func (d *decoder) integer(path string, node ast.Node) (int, bool) {
	if _, ok := node.(*ast.IntegerNode); ok {
		// The token, since YAML reads 010 as eight.
		text := node.GetToken().Value
		if n, err := strconv.Atoi(text); err == nil && (text == "0" || strings.TrimLeft(text, "-+")[0] != '0') {
			return n, true
		}
	}
	d.wrong(path, node, "a whole number")
	return 0, false
}

func (d *decoder) number(path string, node ast.Node) (float64, bool) {
	if isNumber(node) {
		if x, err := parseDecimal(node.GetToken().Value); err == nil {
			return x, true
		}
	}
	d.wrong(path, node, "a number")
	return 0, false
}

// isNumber reports whether a scalar is meant as a number. The parser takes
// 1e-4, a number in YAML 1.2, for text.
func isNumber(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	case *ast.StringNode:
		_, err := parseDecimal(node.Value)
		return err == nil && node.Token.Type == token.StringType
	}
	return false
}

// wrong reports a value of another kind than the one wanted.
func (d *decoder) wrong(path string, node ast.Node, want string) {
	d.wrongAt(positionOf(node), path, node, want)
}

func (d *decoder) wrongAt(at position, path string, node ast.Node, want string) {
	hint := ""
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		hint = "what several suites share goes to defaults"
	}
	if node == nil || node.Type() == ast.NullType {
		d.report(at, path, "is empty, must be "+want, "write a value, or remove the key")
		return
	}
	d.report(at, path, fmt.Sprintf("is %s, must be %s", kindOf(node), want), hint)
}

// kindOf names what a node is, with an article.
func kindOf(node ast.Node) string {
	switch node := node.(type) {
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", abbreviate(node.Value))
	case *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + abbreviate(node.GetToken().Value)
	case *ast.BoolNode:
		return "a truth value"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.AnchorNode:
		return "an anchor"
	case *ast.AliasNode:
		return "an alias"
	case *ast.MergeKeyNode:
		return "a merge key"
	case *ast.TagNode:
		return "a tag"
	case *ast.MappingKeyNode:
		return "a complex key"
	}
	return "of another kind"
}

func abbreviate(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// positionOf returns where a node begins. A mapping's own token is the colon
// behind its first key.
func positionOf(node ast.Node) position {
	var t *token.Token
	switch n := node.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			return positionOf(n.Values[0])
		}
		t = n.GetToken()
	case *ast.MappingValueNode:
		if n.Key != nil {
			return positionOf(n.Key)
		}
	case nil:
	default:
		t = n.GetToken()
	}
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// fieldsOf returns the fields of a struct by key, and the keys in order.
func fieldsOf(t reflect.Type) (map[string]reflect.StructField, []string) {
	fields := make(map[string]reflect.StructField)
	var names []string
	for _, field := range reflect.VisibleFields(t) {
		if name := field.Tag.Get("yaml"); name != "" {
			fields[name] = field
			names = append(names, name)
		}
	}
	return fields, names
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// sorted returns the problems in the order of the file.
func (d *decoder) sorted() []Problem {
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return d.problems
}
