package dwarf

import (
	"slices"
	"sort"
	"strings"
)

// QualifiedName returns the name of a function with the namespaces and classes
// around its declaration when it is C++, else its plain name.
func (d *Data) QualifiedName(e *Entity) string {
	if e.qualified == "" && e.Name != "" {
		e.qualified = e.Name
		if e.CPlusPlus && e.owner != nil {
			if scopes := e.owner.scopes(int(e.declared)); len(scopes) > 0 {
				e.qualified = strings.Join(append(scopes, e.Name), "::")
				d.light += len(e.qualified)
			}
		}
	}
	return e.qualified
}

// isScope reports whether DIEs with a tag qualify the names in them.
func isScope(tag uint16) bool {
	switch tag {
	case tagNamespace, tagStructType, tagClassType, tagUnionType, tagSubprogram:
		return true
	}
	return false
}

// scope is the extent of a DIE that qualifies the names in it. Those of
// namespaces and of what is directly in them are indexed.
type scope struct {
	start, end uint32 // of its children in .debug_info
	parent     int32  // index of the scope around it, or -1
	form       uint16 // of the name
	passed     bool   // the scopes in it are not listed
	name       uint64
}

// scopes returns the names of the scopes around the DIE at off, outermost
// first. DIEs do not refer to their parents: the way down is searched.
func (d *Data) scopes(off int) []string {
	u := d.unitAt(uint64(off))
	if u == nil {
		return nil
	}
	if u.scopes == nil {
		u.scopes = d.scanScopes(u, u.dieOff, u.end, false)
		d.charge(u, 24*cap(u.scopes))
	}
	scopes := u.scopes
	at := enclosing(scopes, off)
	var names []string
	for n := at; n >= 0; n = scopes[n].parent {
		names = append(names, d.scopeName(u, scopes[n]))
	}
	slices.Reverse(names)
	if at >= 0 && scopes[at].passed {
		// Within a class or function there may be more.
		inner := d.scanScopes(u, int(scopes[at].start), int(scopes[at].end), true)
		depth := len(names)
		for n := enclosing(inner, off); n >= 0; n = inner[n].parent {
			names = slices.Insert(names, depth, d.scopeName(u, inner[n]))
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// enclosing returns the index of the innermost scope around off, or -1.
func enclosing(scopes []scope, off int) int32 {
	n := int32(sort.Search(len(scopes), func(i int) bool { return int(scopes[i].start) > off })) - 1
	for n >= 0 && int(scopes[n].end) <= off {
		n = scopes[n].parent
	}
	return n
}

func (d *Data) scopeName(u *unit, s scope) string {
	if s.form == unnamed {
		return "(anonymous namespace)"
	}
	text := d.text(u, value{form: s.form, u: s.name})
	if len(text) > maxName {
		return ""
	}
	return string(text)
}

// scanScopes lists the scopes among the DIEs of [start, end), by start. Unless
// all is set it passes over what is within classes and functions.
func (d *Data) scanScopes(u *unit, start, end int, all bool) []scope {
	scopes := []scope{}
	table := d.tableOf(u)
	if table == nil {
		return scopes
	}
	// open[depth] is the scope whose children have that depth; -1 is none.
	open := []int32{-1}
	c := cursor{data: d.sections.Info[:end], pos: start}
	for c.pos < len(c.data) {
		code := c.uleb()
		if code == 0 {
			last := len(open) - 1
			if last == 0 {
				break
			}
			if n := open[last]; n >= 0 && n != open[last-1] {
				scopes[n].end = uint32(c.pos)
			}
			open = open[:last]
			continue
		}
		a := table.find(code)
		if a == nil {
			break
		}
		if !a.children {
			c.skipDIE(a, u.enc)
			continue
		}
		around := open[len(open)-1]
		within := around
		var name value
		sibling := uint64(0)
		if isScope(a.tag) {
			name.form = unnamed
			for _, attr := range a.attrs {
				v := c.value(attr, u.enc)
				switch attr.name {
				case attrName:
					name = v
				case attrSibling:
					sibling = siblingOf(u, v)
				}
			}
			if name.form != unnamed || a.tag == tagNamespace {
				within = int32(len(scopes))
				scopes = append(scopes, scope{start: uint32(c.pos), end: uint32(end), parent: around, form: name.form, name: name.u})
			}
		} else if a.sibling >= 0 && a.tag != tagCompileUnit && a.tag != tagPartialUnit && a.tag != tagLexicalBlock {
			sibling = c.siblingDIE(a, u)
		} else {
			c.skipDIE(a, u.enc)
		}
		if c.failed {
			break
		}
		if sibling > uint64(c.pos) && sibling <= uint64(end) && (!all && a.tag != tagNamespace || !isScope(a.tag)) {
			if within != around {
				scopes[within].end, scopes[within].passed = uint32(sibling), true
			}
			c.pos = int(sibling)
			continue
		}
		if open = append(open, within); len(open) > maxNesting {
			break
		}
	}
	return scopes
}

// unnamed marks a namespace without a name.
const unnamed = 0xfffd

// isCPlusPlus reports whether a DW_AT_language is a version of C++ (DWARF 5,
// table 7.17, and the codes assigned since).
func isCPlusPlus(language uint64) bool {
	switch language {
	case 0x04, 0x1a, 0x21, 0x2b, 0x3a:
		return true
	}
	return false
}
