package dwarf

// Entity is a function as its declaration describes it.
type Entity struct {
	Name        string // DW_AT_name: unqualified in C++ and Rust
	LinkageName string // DW_AT_linkage_name; "" where the name is the symbol
	StartLine   int    // DW_AT_decl_line; 0 when unknown
	CPlusPlus   bool   // the language of the unit that declares it

	qualified string // filled by Data.QualifiedName
	owner     *Data  // of declared
	declared  dieRef // the DIE that has the name
}

// maxName bounds the bytes kept of one name.
const maxName = 1 << 16

// entity resolves the function that a DIE is an instance of, following
// DW_AT_abstract_origin and DW_AT_specification.
func (d *Data) entity(ref dieRef) *Entity {
	if e, ok := d.entities[ref]; ok {
		return e
	}
	e := &Entity{}
	at, owner := ref, d
	for range maxReferenceChain {
		if at&inSup != 0 {
			owner, at = d.sup, at&^inSup
		}
		off := uint64(at)
		next, ok := owner.describe(off, e)
		if !ok || e.LinkageName != "" && e.Name != "" && e.StartLine != 0 {
			break
		}
		at = next
	}
	if d.entities == nil {
		d.entities = make(map[dieRef]*Entity)
	}
	d.entities[ref] = e
	d.light += 160 + len(e.LinkageName)
	return e
}

// describe fills what e lacks from the DIE at off and returns the DIE it
// refers to.
func (d *Data) describe(off uint64, e *Entity) (next dieRef, ok bool) {
	u := d.unitAt(off)
	if u == nil {
		return 0, false
	}
	table := d.tableOf(u)
	if table == nil {
		return 0, false
	}
	// The last DIE of the chain is the declaration, within its scopes.
	e.owner, e.declared, e.CPlusPlus = d, dieRef(off), u.cPlusPlus
	c := cursor{data: d.sections.Info[:u.end], pos: int(off)}
	a := table.find(c.uleb())
	if a == nil {
		return 0, false
	}
	for _, attr := range a.attrs {
		switch attr.name {
		case attrName:
			v := c.value(attr, u.enc)
			if e.Name == "" {
				e.Name = d.internText(u, v)
			}
		case attrLinkageName, attrMIPSLinkageName:
			if v := c.value(attr, u.enc); e.LinkageName == "" {
				e.LinkageName = d.internText(u, v)
			}
		case attrDeclLine:
			if v := c.value(attr, u.enc); e.StartLine == 0 {
				e.StartLine = int(uint32(v.u))
			}
		case attrAbstractOrigin:
			// It wins over a specification: it is closer to the source.
			if ref, valid := d.reference(u, c.value(attr, u.enc)); valid {
				next, ok = ref, true
			}
		case attrSpecification:
			ref, valid := d.reference(u, c.value(attr, u.enc))
			if valid && !ok {
				next, ok = ref, true
			}
		default:
			c.skipForm(attr.form, u.enc)
		}
		if c.failed {
			return 0, false
		}
	}
	return next, ok
}

// internText returns a string attribute, sharing the memory of names that
// many units take from the same place in .debug_str.
func (d *Data) internText(u *unit, v value) string {
	s := d.text(u, v)
	if len(s) > maxName {
		s = s[:maxName]
	}
	if v.form != formStrp {
		return string(s)
	}
	if name, ok := d.strings[v.u]; ok {
		return name
	}
	if d.strings == nil {
		d.strings = make(map[uint64]string)
	}
	name := string(s)
	d.strings[v.u] = name
	d.light += 48 + len(name)
	return name
}
