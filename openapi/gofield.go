package openapi

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/nearly"
)

// goField is a field of a struct as encoding/json sees it.
type goField struct {
	name     string
	field    reflect.StructField
	owner    reflect.Type // the struct that declares it, for overlays and SwaggerDoc
	index    []int
	named    bool // the tag gives the name
	omitted  bool // may be absent: omitempty, omitzero or below an embedded pointer
	optional bool // is a pointer
}

// structFields returns the fields that encoding/json writes, in declaration order. Fields of
// embedded structs are included. If several fields have the same name, the least nested one wins,
// then the one named by a tag; if that is still ambiguous, all are dropped.
func structFields(t reflect.Type, at place) ([]goField, error) {
	all := make([]goField, 0, t.NumField())
	if err := collectFields(t, nil, false, map[reflect.Type]bool{}, &all, at); err != nil {
		return nil, err
	}
	if distinct(all) {
		return all, nil // already in declaration order
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

// distinct reports whether all names differ. Structs are small, so comparing pairs is cheaper than
// a map.
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

// collectFields appends the fields of a struct and of the structs that it embeds, depth first, so
// that the result is in declaration order. omitted is set below an embedded pointer, since all its
// fields are absent if it is nil. open contains the structs on the current path and detects a
// struct that embeds itself.
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
			if err := checkLeftOut(sf, at); err != nil {
				return err
			}
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
			return at.field(sf.Name).errorf("embedded Go type %s is not a struct: give the field a name", inner)
		}
		if !sf.IsExported() {
			continue
		}
		f := goField{
			name: cmp.Or(name, sf.Name), field: sf, owner: t, index: path, named: name != "", omitted: omitted,
			optional: sf.Type.Kind() == reflect.Pointer,
		}
		if err := f.readOptions(options, at.field(f.name)); err != nil {
			return err
		}
		*all = append(*all, f)
	}
	return nil
}

// jsonOptions are the options of json tags that the JSON of an object can depend on.
var jsonOptions = []string{"omitempty", "omitzero", "string", "inline", "embed"}

// readOptions reads what a json tag says beside the name.
func (f *goField) readOptions(options string, at place) error {
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			f.omitted = true
		case "string":
			return at.errorf("tag json:%q: numbers in strings are not supported", f.field.Tag.Get("json"))
		case "inline", "embed", "unknown":
			if !f.named {
				return at.errorf("tag json:%q: encoding/json writes such a field under its own name: embed the type, or name the field",
					f.field.Tag.Get("json"))
			}
		default:
			if meant := nearly.Name(option, jsonOptions); meant != "" {
				return at.errorf("tag json:%q: did you mean %s?", f.field.Tag.Get("json"), meant)
			}
		}
	}
	return nil
}

// checkLeftOut refuses tags at a field that encoding/json leaves out, since they have no effect. Blank
// fields have the rules of their struct.
func checkLeftOut(sf reflect.StructField, at place) error {
	why := "encoding/json leaves the field out"
	if !sf.IsExported() {
		why = "the field is not exported, so encoding/json leaves it out"
	}
	if name := sf.Tag.Get("json"); name != "" && name != "-" {
		return at.field(sf.Name).errorf("tag json:%q has no effect: %s", name, why)
	}
	if sf.Name == "_" {
		return nil
	}
	for _, name := range keywords {
		if text, given := sf.Tag.Lookup(name); given && name != "doc" {
			return at.field(sf.Name).errorf("tag %s:%q has no effect: %s", name, text, why)
		}
	}
	return nil
}

// field returns the property of a struct field and whether it is required. If the tags are invalid,
// it returns the property without them, so that checking continues. If the type is invalid, the
// property has no schema.
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
		suggested = mayLack // any value is allowed, including none
	}
	said, err := tags.need(suggested, at)
	if err != nil {
		return Property{Name: f.name, Schema: s}, mayLack, err
	}
	if s.DefaultValue != nil && said == required {
		said = mayLack // defaulting fills it in before validation
	}
	return Property{Name: f.name, Schema: s}, said, nil
}

// closesCircle reports whether a type is a struct that is being read, or a pointer, list or map of
// one.
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

// unreadSchema returns a schema with only the JSON type of a Go type.
func unreadSchema(t reflect.Type) *Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		return built(&Schema{Type: Array, Items: &Schema{PreserveUnknown: true}})
	}
	return built(&Schema{Type: Object, PreserveUnknown: true})
}

// tags returns the tags of a field. Those of the overlay take precedence over those in the source.
// SwaggerDoc supplies the description if neither has one.
func (r *goReader) tags(f goField, at place) (fieldTags, error) {
	tags := fieldTags{}
	if docs, ok := as[swaggerDoc](f.owner); ok {
		tags.doc = docs.SwaggerDoc()[f.name]
	}
	err := tags.read(f.field.Tag, r.types.misspelt, at)
	tags.merge(r.overlay.of(f.owner).tagsOf(f.name))
	return tags, err
}

// isListMeta recognises the metadata of documents that are not objects, such as Status.
func isListMeta(t reflect.Type) bool { return t.Name() == "ListMeta" }
