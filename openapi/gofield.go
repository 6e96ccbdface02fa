package openapi

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// goField is a field of a struct as JSON sees it.
type goField struct {
	name     string
	field    reflect.StructField
	owner    reflect.Type // the struct that declares it, for overlays and SwaggerDoc
	index    []int
	named    bool // by its tag
	omitted  bool // when empty, or with an embedded pointer
	optional bool // pointer
}

// structFields returns the fields that JSON has of a struct, in the order of their declaration. Fields of embedded structs
// count as its own; of several with one name the outermost wins, then the one that a tag names, else none.
func structFields(t reflect.Type, at place) ([]goField, error) {
	all := make([]goField, 0, t.NumField())
	if err := collectFields(t, nil, false, map[reflect.Type]bool{}, &all, at); err != nil {
		return nil, err
	}
	if distinct(all) {
		return all, nil // they are in order
	}
	byName := map[string][]goField{}
	for _, f := range all {
		byName[f.name] = append(byName[f.name], f)
	}
	var out []goField
	for _, candidates := range byName {
		slices.SortStableFunc(candidates, func(a, b goField) int {
			return cmp.Or(cmp.Compare(len(a.index), len(b.index)), compareBool(b.named, a.named))
		})
		first := candidates[0]
		if len(candidates) > 1 && len(candidates[1].index) == len(first.index) && candidates[1].named == first.named {
			if len(first.index) == 1 {
				return nil, at.field(first.name).errorf("two fields have this name")
			}
			continue
		}
		out = append(out, first)
	}
	slices.SortFunc(out, func(a, b goField) int { return slices.Compare(a.index, b.index) })
	return out, nil
}

// distinct tells whether no two fields have the same name. Structs are small.
func distinct(fields []goField) bool {
	for i := range fields {
		for j := range fields[:i] {
			if fields[j].name == fields[i].name {
				return false
			}
		}
	}
	return true
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func collectFields(t reflect.Type, index []int, omitted bool, open map[reflect.Type]bool, all *[]goField, at place) error {
	if open[t] {
		return at.errorf("Go type %s embeds itself", t)
	}
	open[t] = true
	defer delete(open, t)
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || !sf.IsExported() && !sf.Anonymous {
			continue
		}
		path := append(slices.Clone(index), i)
		if sf.Anonymous && name == "" {
			inner, pointer := sf.Type, false
			if inner.Kind() == reflect.Pointer {
				inner, pointer = inner.Elem(), true
			}
			if inner.Kind() == reflect.Struct {
				if has(inner, jsonMarshaler) || has(inner, textMarshaler) {
					return at.field(sf.Name).errorf("embedded Go type %s writes its own JSON: give the field a name", inner)
				}
				if err := collectFields(inner, path, omitted || pointer, open, all, at); err != nil {
					return err
				}
				continue
			}
			if !sf.IsExported() {
				continue
			}
			return at.field(sf.Name).errorf("embedded Go type %s is no struct: give the field a name", inner)
		}
		if !sf.IsExported() {
			continue
		}
		f := goField{
			name: cmp.Or(name, sf.Name), field: sf, owner: t, index: path, named: name != "", omitted: omitted,
			optional: sf.Type.Kind() == reflect.Pointer,
		}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty", "omitzero":
				f.omitted = true
			case "string":
				return at.field(f.name).errorf("tag json:%q: numbers in strings are not supported", tag)
			}
		}
		*all = append(*all, f)
	}
	return nil
}

// field makes the property of a field and tells whether objects have to have it. Where the tags are wrong, the property is
// the one without them; where the type is, there is none.
func (r *goReader) field(f goField, at place) (Property, need, error) {
	root := at.root
	at = at.field(f.name)
	tags, err := r.tags(f, at)
	r.report(err)
	var s *Schema
	switch {
	case root && f.name == "metadata" && !isListMeta(f.field.Type):
		s, err = r.types.metadata, nil
	case tags.has("preserveUnknown") && r.closesCircle(f.field.Type, at):
		s, err = unreadSchema(f.field.Type), nil
		delete(tags.values, "preserveUnknown")
	default:
		s, err = r.schema(f.field.Type, at)
	}
	if err != nil {
		return Property{}, mayLack, err
	}
	suggested := mayLack
	switch {
	case f.omitted || root && isListMeta(f.field.Type):
	case r.onlyTagged:
		suggested = expected
	case !f.optional:
		suggested = required
	}
	tagged, err := r.tagged(s, tags, at)
	if err != nil {
		return Property{Name: f.name, Schema: s}, suggested, err
	}
	s = tagged
	if s.Type == "" && s.PreserveUnknown && suggested == required {
		suggested = mayLack // anything, absence included
	}
	said, err := tags.need(suggested, at)
	if err != nil {
		return Property{Name: f.name, Schema: s}, mayLack, err
	}
	if s.DefaultValue != nil && said == required {
		said = mayLack // it is never missing
	}
	return Property{Name: f.name, Schema: s}, said, nil
}

// closesCircle tells of a type that is, or holds, a struct which is being read.
func (r *goReader) closesCircle(t reflect.Type, at place) bool {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	key := r.key(t, at)
	_, open := r.open[key]
	key.root = true
	_, isRoot := r.open[key]
	return open || isRoot
}

// unreadSchema is the schema of a type of which only the JSON type is told.
func unreadSchema(t reflect.Type) *Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		return built(&Schema{Type: Array, Items: &Schema{PreserveUnknown: true}})
	}
	return built(&Schema{Type: Object, PreserveUnknown: true})
}

// tags are those of the overlay before those of the source, and what SwaggerDoc says where neither has a doc.
func (r *goReader) tags(f goField, at place) (fieldTags, error) {
	tags := fieldTags{}
	if docs, ok := as[swaggerDoc](f.owner); ok {
		tags.doc = docs.SwaggerDoc()[f.name]
	}
	err := tags.read(f.field.Tag, r.types.misspelt, at)
	tags.merge(r.overlay.of(f.owner).tagsOf(f.name))
	return tags, err
}

// isListMeta is about documents that are no objects, such as Status.
func isListMeta(t reflect.Type) bool { return t.Name() == "ListMeta" }
