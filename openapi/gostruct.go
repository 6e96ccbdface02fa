package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Types makes schemas of Go types and shares their parts: a type that many kinds use is read once.
// The zero value is ready for use. All methods are safe for concurrent use.
type Types struct {
	mu   sync.Mutex
	done map[typeKey]*Schema
	met  map[*Overlay]map[goTypeName]bool // the types of each overlay that have occurred

	metadata *Schema    // shared by all objects
	typeMeta []Property // shared by all objects
	// foreign maps tags that are not keywords to the keyword that was probably meant.
	foreign map[string]string
}

// typeKey holds everything that determines the schema of a type.
type typeKey struct {
	goType     reflect.Type
	overlay    *Overlay
	onlyTagged bool
	root       bool // the type is read as a whole object
}

// Schema makes the schema of a Go struct, as [FromType] does. It does not report types of an
// overlay that do not occur; call Unused once all types are known.
func (t *Types) Schema(goType reflect.Type, options ...Option) (*Schema, error) {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if goType.Kind() != reflect.Struct {
		return nil, fmt.Errorf("openapi: Go type %s is not a struct", goType)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil {
		t.done, t.met = map[typeKey]*Schema{}, map[*Overlay]map[goTypeName]bool{}
		t.metadata, t.typeMeta, t.foreign = ObjectMeta(), typeMeta(), map[string]string{}
	}
	r := goReader{types: t, open: map[typeKey]int{}, outermost: math.MaxInt}
	for _, option := range options {
		if option != nil {
			option(&r)
		}
	}
	if r.overlay != nil && t.met[r.overlay] == nil {
		t.met[r.overlay] = map[goTypeName]bool{}
	}
	s, err := r.schema(goType, place{text: goType.Name(), root: true})
	if r.report(err); len(r.problems) > 0 {
		// Remove what was added: a later call must not find incomplete schemas.
		for _, key := range r.added {
			delete(t.done, key)
		}
		return nil, fmt.Errorf("openapi: %s", strings.Join(r.problems, "; "))
	}
	return s, nil
}

// Unused reports the types that an overlay describes but no schema has used so far. It skips
// overlays marked as shared.
func (t *Types) Unused() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for o, met := range t.met {
		errs = append(errs, o.unused(met))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("openapi: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// goReader reads one Go type and the types it contains. It holds Types.mu throughout.
type goReader struct {
	types      *Types
	overlay    *Overlay
	onlyTagged bool
	advisory   bool      // see Overlay.advisory
	added      []typeKey // keys added to types.done, removed again on failure
	problems   []string

	// A struct that contains itself is encountered again while it is being read. At that point its
	// schema exists but is incomplete, and so are all schemas that lead to it. They are completed
	// once the outermost struct of the cycle has been read.
	open      map[typeKey]int // the structs being read, by depth
	outermost int             // depth of the outermost open struct that was encountered again
	late      []lateSchema    // innermost first
}

// lateSchema is a schema that contains a struct which is still being read.
type lateSchema struct {
	schema *Schema
	of     *Schema // the schema that this one copies and adds tags to; nil for none
	tags   fieldTags
	at     place
}

func (r *goReader) key(t reflect.Type, at place) typeKey {
	return typeKey{t, r.overlay, r.onlyTagged, at.root}
}

// schema returns the schema of a type. The result is shared, so a caller that adds tags must copy
// it first. It is ready unless it contains an open struct.
func (r *goReader) schema(t reflect.Type, at place) (*Schema, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	key := r.key(t, at)
	if i, open := r.open[key]; open {
		r.outermost = min(r.outermost, i)
		return r.types.done[key], nil
	}
	// selectable and column depend on the position: inside lists and maps they are an error. A
	// cached schema that has such fields must therefore be read again here.
	if s, done := r.types.done[key]; done && (!at.repeated || !s.hasPlaced()) {
		return s, nil
	}
	if t.Kind() == reflect.Struct && !r.hasOwnForm(t) {
		return r.structSchema(t, at)
	}
	s, err := r.plainSchema(t, at)
	if err != nil {
		return nil, err
	}
	if s, err = r.overlaid(s, t, at); err != nil {
		return nil, err
	}
	r.add(key, s)
	return s, nil
}

// misspelt caches the function of the same name. The same few foreign tags occur in every kind.
func (t *Types) misspelt(name string) string {
	meant, known := t.foreign[name]
	if !known {
		meant = misspelt(name)
		t.foreign[name] = meant
	}
	return meant
}

// add caches the schema of a type and remembers the key, so that a failed read can be undone.
func (r *goReader) add(key typeKey, s *Schema) {
	r.types.done[key] = s
	r.added = append(r.added, key)
}

// meet records that a type has occurred and returns its overlay.
func (r *goReader) meet(t reflect.Type) *typeOverlay {
	o := r.overlay.of(t)
	if o != nil {
		r.types.met[r.overlay][goTypeName{t.PkgPath(), t.Name()}] = true
	}
	return o
}

// hasOwnForm reports whether a struct is not encoded as an object with its fields.
func (r *goReader) hasOwnForm(t reflect.Type) bool {
	return knownType(t) != nil || has(t, jsonMarshaler) || has(t, textMarshaler) || has(t, reflect.TypeFor[openAPITyped]())
}

// plainSchema handles all types except structs with fields.
func (r *goReader) plainSchema(t reflect.Type, at place) (s *Schema, err error) {
	known := knownType(t)
	switch {
	case known != nil:
		s = known
	case r.hasOwnForm(t):
		s, err = describedType(t, at)
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		s, err = r.listSchema(t, at)
	case t.Kind() == reflect.Map:
		s, err = r.mapSchema(t, at)
	case t == reflect.TypeFor[time.Duration]():
		err = at.errorf(`time.Duration would be a number of nanoseconds: use meta.Duration, which is text such as "5m"`)
	default:
		s, err = scalarType(t), wideType(t, at)
	}
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, at.errorf("Go type %s has no JSON form", t)
	}
	s.Component = cmp.Or(s.Component, modelName(t))
	if s.ready != nil {
		return s, nil
	}
	return r.ready(s, at)
}

// modelName returns the name under which a type asks to be published.
func modelName(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	if m, ok := as[modelNamed](t); ok {
		return m.OpenAPIModelName()
	}
	return ""
}

// overlaid applies the overlay of the type itself.
func (r *goReader) overlaid(s *Schema, t reflect.Type, at place) (*Schema, error) {
	o := r.meet(t)
	if o == nil {
		return s, nil
	}
	for _, field := range slices.Sorted(maps.Keys(o.fields)) {
		return nil, fmt.Errorf("overlay: %s.%s.%s: the type has no JSON fields", t.PkgPath(), t.Name(), field)
	}
	out, err := r.tagged(s, *o.own, at)
	if err == nil {
		out.base = nil // all uses of the type share these tags
	}
	return out, err
}

// ready prepares a schema whose parts are ready. Otherwise it defers the work to closeCircle.
func (r *goReader) ready(s *Schema, at place) (*Schema, error) {
	if !s.waits() {
		return s.mustReady(at)
	}
	r.late = append(r.late, lateSchema{schema: s, at: at})
	return s, nil
}

// waits reports whether a part of the schema is not ready.
func (s *Schema) waits() bool {
	for part := range s.parts() {
		if part != nil && part.ready == nil {
			return true
		}
	}
	return false
}

// tagged returns a copy of a schema with tags applied. If the schema is still incomplete,
// closeCircle copies and tags it again later.
func (r *goReader) tagged(s *Schema, tags fieldTags, at place) (*Schema, error) {
	if s.ready != nil || tags.empty() {
		out, err := tags.apply(s, at)
		if out != s && out != nil {
			out.advisory = r.advisory
		}
		return out, err
	}
	copied, err := tags.on(s, at)
	if err != nil {
		return nil, err
	}
	r.late = append(r.late, lateSchema{schema: copied, of: s, tags: tags, at: at})
	return copied, nil
}

// listSchema handles slices and arrays. A slice of bytes is a base64 string unless its items have
// JSON methods, as in encoding/json.
func (r *goReader) listSchema(t reflect.Type, at place) (*Schema, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !has(t.Elem(), jsonMarshaler) && !has(t.Elem(), textMarshaler) {
		return &Schema{Type: String, Format: "byte", Notation: NotationBytes}, nil
	}
	items, err := r.schema(t.Elem(), at.item())
	if err != nil {
		return nil, err
	}
	s := &Schema{Type: Array, Items: items, PatchTagged: r.onlyTagged, advisory: r.advisory}
	if t.Kind() == reflect.Array {
		n := int64(t.Len())
		s.MinItems, s.MaxItems = &n, &n
	}
	return s, nil
}

// mapSchema handles maps. encoding/json also accepts keys with text methods, but a schema cannot
// state the form of keys, so they are rejected.
func (r *goReader) mapSchema(t reflect.Type, at place) (*Schema, error) {
	if t.Key().Kind() != reflect.String || has(t.Key(), jsonMarshaler) || has(t.Key(), textMarshaler) {
		return nil, at.errorf("map keys must be strings, not %s", t.Key())
	}
	values, err := r.schema(t.Elem(), at.item())
	if err != nil {
		return nil, err
	}
	return &Schema{Type: Object, AdditionalProperties: values, PatchTagged: r.onlyTagged}, nil
}

// structSchema reads a struct. It registers the incomplete schema before it descends, so that a
// recursive reference finds it.
func (r *goReader) structSchema(t reflect.Type, at place) (*Schema, error) {
	key := r.key(t, at)
	s := &Schema{Type: Object, Component: modelName(t), PatchTagged: r.onlyTagged}
	index, inner := len(r.open), len(r.late)
	r.open[key] = index
	r.add(key, s)
	err := r.readStruct(s, t, at)
	delete(r.open, key)
	switch {
	case err != nil:
	case !s.waits():
		_, err = s.mustReady(at)
	default:
		if s.Component == "" {
			s.Component = goComponent(t) // documents need a reference to end a cycle
		}
		r.late = append(r.late, lateSchema{schema: s, at: at})
		if r.outermost >= index {
			err = r.closeCircle(inner)
		}
	}
	if err != nil {
		delete(r.types.done, key)
		return nil, err
	}
	return s, nil
}

// readStruct fills in the schema of a struct.
func (r *goReader) readStruct(s *Schema, t reflect.Type, at place) error {
	if docs, ok := as[swaggerDoc](t); ok {
		s.Description = docs.SwaggerDoc()[""]
	}
	fields, err := structFields(t, at)
	if err != nil {
		return err
	}
	r.report(r.missing(t, fields))
	for _, f := range fields {
		property, need, err := r.field(f, at)
		r.report(err) // continue, to report all problems at once
		if property.Schema == nil {
			continue
		}
		s.Properties = append(s.Properties, property)
		switch need {
		case required:
			s.Required = append(s.Required, property.Name)
		case expected:
			s.Expected = append(s.Expected, property.Name)
		}
	}
	if at.root {
		s.makeObject(r.types.typeMeta)
	}
	if err := r.structRules(s, t, at); err != nil {
		return err
	}
	if o := r.meet(t); o != nil && o.own != nil {
		return o.own.set(s, at)
	}
	return nil
}

// structRules reads the rules for a struct as a whole. They are the tags of its blank fields.
func (r *goReader) structRules(s *Schema, t reflect.Type, at place) error {
	for i := range t.NumField() {
		if f := t.Field(i); f.Name == "_" && f.Tag != "" {
			var tags fieldTags
			if err := tags.read(f.Tag, r.types.misspelt, at); err != nil {
				return err
			}
			if !tags.only([]string{"rule", "message"}) {
				return at.errorf("tags `%s`: a blank field can only have the tags rule and message", f.Tag)
			}
			if err := tags.set(s, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing reports overlay entries for fields that neither the struct nor a struct it embeds has.
func (r *goReader) missing(t reflect.Type, fields []goField) error {
	owners := []reflect.Type{t}
	for _, f := range fields {
		if !slices.Contains(owners, f.owner) {
			owners = append(owners, f.owner)
		}
	}
	var errs []error
	for _, owner := range owners {
		if o := r.meet(owner); o != nil {
			errs = append(errs, o.missing(owner))
		}
	}
	return errors.Join(errs...)
}

// closeCircle completes the schemas that waited for a struct, now that it has been read. Copies
// come first, because they copied a schema that was still empty; then the whole cycle is prepared
// together, because no member is ready before the others.
func (r *goReader) closeCircle(from int) error {
	late := slices.Clone(r.late[from:])
	r.late, r.outermost = r.late[:from], math.MaxInt
	var errs []error
	for _, l := range late {
		if l.of != nil {
			complete, err := l.tags.on(l.of, l.at)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			*l.schema = *complete
		}
	}
	circle := make([]*Schema, len(late))
	for i, l := range late {
		circle[i] = l.schema
	}
	for i, problems := range prepareCircle(circle) {
		if circle[i].ready.placed {
			errs = append(errs, late[i].at.errorf("a type that contains itself cannot have selectable fields or columns: one object could contain many of them"))
		}
		errs = append(errs, late[i].tags.explain(problems, late[i].at))
	}
	return errors.Join(errs...)
}

// goComponent returns the name under which a Go type is published: the package path with its domain
// reversed, followed by the type.
func goComponent(t reflect.Type) string {
	domain, rest, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(domain, ".")
	slices.Reverse(labels)
	words := append(labels, strings.FieldsFunc(rest, func(c rune) bool { return c == '/' })...)
	plain := func(c rune) rune {
		if strings.ContainsRune("[]*,/· ", c) {
			return '_' // these characters occur in the names of generic types
		}
		return c
	}
	return strings.Map(plain, strings.Join(append(words, t.Name()), "."))
}

// hasPlaced reports whether the schema has fields that are only allowed outside lists and maps.
func (s *Schema) hasPlaced() bool { return s.ready != nil && s.ready.placed }

// makeObject gives a struct with metadata the fields that every object has. A description from the
// struct's own field is kept.
func (s *Schema) makeObject(typeMeta []Property) {
	metadata, ok := s.Property("metadata")
	if !ok || metadata.Component != objectMetaComponent {
		return
	}
	head := slices.Clone(typeMeta)
	s.Properties = slices.DeleteFunc(s.Properties, func(p Property) bool {
		i := slices.IndexFunc(head, func(of Property) bool { return of.Name == p.Name })
		if i >= 0 && p.Schema.Description != "" { // keep the struct's description
			described := *head[i].Schema
			described.Description = p.Schema.Description
			head[i].Schema = &described
		}
		return i >= 0
	})
	named := func(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }
	s.Properties = slices.Concat(head, s.Properties)
	s.Required = slices.DeleteFunc(s.Required, named)
	s.Expected = slices.DeleteFunc(s.Expected, named)
}
