package protobuf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
)

// Describe makes the descriptor of a Go struct or of a pointer to one. ok reports whether every
// JSON field, here and in all structs below, has a protobuf tag. An embedded TypeMeta does not need
// one, because the envelope carries it. Errors report invalid tags and fields that a message cannot
// contain. They name the Go type and the field.
//
// JSON names, omitempty and omitzero have the meaning that they have in encoding/json. An embedded
// struct with a number is a nested message on the wire, and its fields are members of the outer
// object in JSON.
//
// Types with a JSON form of their own are recognised by their names and methods, whichever package
// declares them: Time, MicroTime, Duration, Quantity, IntOrString, types with raw JSON (RawJSON,
// RawExtension, FieldsV1 and JSON), and the JSONSchemaPropsOr… types of custom resource
// definitions. A named slice with a Marshal method has a message of its own, and so do slices that
// are values of a map.
//
// Describe is expensive: about a millisecond for a Pod. Keep the result.
func Describe(t reflect.Type) (d *Descriptor, ok bool, err error) { return new(Types).Describe(t) }

// Types describes Go types and shares the descriptions of nested types. The zero value is ready for
// use. It is safe for concurrent use.
type Types struct {
	mu       sync.Mutex
	messages map[reflect.Type]*message
}

// Describe is like the function of the same name but reuses types that were described before.
func (all *Types) Describe(t reflect.Type) (d *Descriptor, ok bool, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, false, fmt.Errorf("protobuf: Go type %s is not a struct", t)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.messages == nil {
		all.messages = map[reflect.Type]*message{}
	}
	r := reader{messages: all.messages}
	root, err := r.message(t)
	if err != nil {
		for _, added := range r.added {
			delete(all.messages, added)
		}
	}
	switch {
	case errors.Is(err, errUntagged):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("protobuf: %w", err)
	}
	r.finish()
	return &Descriptor{root: root, typed: hasTypeMeta(t)}, true, nil
}

// errUntagged means that a field has no protobuf tag.
var errUntagged = errors.New("a field has no protobuf tag")

// typeMeta is the name of the embedded struct that does not need tags.
const typeMeta = "TypeMeta"

func hasTypeMeta(t reflect.Type) bool {
	f, ok := t.FieldByName(typeMeta)
	return ok && f.Anonymous && f.Tag.Get("protobuf") == ""
}

// reader reads Go types.
type reader struct {
	messages map[reflect.Type]*message
	added    []reflect.Type // keys added to messages, removed again on failure
}

// message reads a struct once. A struct that contains itself finds the incomplete message in the
// map.
func (r *reader) message(t reflect.Type) (*message, error) {
	if m, seen := r.messages[t]; seen {
		return m, nil
	}
	m := &message{members: make(map[string]place, t.NumField()), fields: make([]field, 0, t.NumField())}
	r.messages[t] = m
	r.added = append(r.added, t)
	for i := range t.NumField() {
		f, ok, err := r.field(t.Field(i))
		if err != nil {
			return nil, about(err, t, t.Field(i).Name)
		}
		if ok {
			m.fields = append(m.fields, f)
		}
	}
	slices.SortFunc(m.fields, func(a, b field) int { return cmp.Compare(a.number, b.number) })
	if err := m.index(); err != nil {
		return nil, fmt.Errorf("struct %s: %w", t, err)
	}
	return m, nil
}

// about adds the position to an error unless it already has one.
func about(err error, t reflect.Type, field string) error {
	if _, told := errors.AsType[*fieldError](err); told || errors.Is(err, errUntagged) {
		return err
	}
	return &fieldError{goType: t, field: field, err: err}
}

// fieldError is an error in a field of a Go type.
type fieldError struct {
	goType reflect.Type
	field  string
	err    error
}

func (e *fieldError) Error() string {
	return fmt.Sprintf("Go type %s, field %s: %s", e.goType, e.field, e.err)
}

func (e *fieldError) Unwrap() error { return e.err }

// field reads a field. ok is false if neither JSON nor the wire has it.
func (r *reader) field(sf reflect.StructField) (f field, ok bool, err error) {
	tag, tagged := sf.Tag.Lookup("protobuf")
	jsonTag := sf.Tag.Get("json")
	name, options, _ := strings.Cut(jsonTag, ",")
	switch {
	case isPrivate(sf) || tag == "-" || !tagged && jsonTag == "-":
		return f, false, nil
	case !tagged && sf.Anonymous && name == "" && sf.Name == typeMeta:
		return f, false, nil
	case !tagged:
		return f, false, errUntagged
	}
	if f.number, err = parseTag(tag); err != nil {
		return f, false, err
	}
	f.hidden = jsonTag == "-"
	f.inline = sf.Anonymous && name == "" && !f.hidden
	if err = f.setValue(r, sf.Type); err != nil {
		return f, false, err
	}
	f.key = protowire.AppendKey(nil, f.number, f.wire())
	if f.inline {
		if f.shape.kind != kindMessage || f.cardinality > optional {
			return f, false, fmt.Errorf("embedded Go type %s is not a struct with fields: give the field a JSON name", sf.Type)
		}
		return f, true, nil
	}
	if f.hidden {
		return f, true, nil
	}
	f.name = cmp.Or(name, sf.Name)
	f.member = string(json.AppendString(nil, f.name)) + ":"
	return f, true, f.setOptions(jsonTag, options, sf.Type)
}

// isPrivate reports whether JSON ignores a field. JSON does not ignore an unexported embedded
// struct that has exported fields.
func isPrivate(sf reflect.StructField) bool {
	if sf.IsExported() {
		return false
	}
	return !sf.Anonymous || sf.Type.Kind() != reflect.Struct ||
		!slices.ContainsFunc(reflect.VisibleFields(sf.Type), func(f reflect.StructField) bool { return f.IsExported() })
}

// wire returns the wire type of the field's values. Entries of a map are messages.
func (f *field) wire() protowire.Type {
	if f.cardinality == mapping {
		return protowire.Bytes
	}
	return f.shape.wire()
}

func (f *field) setOptions(tag, options string, t reflect.Type) error {
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			f.omitEmpty = canBeEmpty(t)
		case "omitzero":
			f.omitZero = true
		case "string":
			return fmt.Errorf("tag json:%q: numbers in strings are not supported", tag)
		}
	}
	if f.shape.kind == kindRaw && t.Kind() == reflect.Slice && f.omitEmpty && f.cardinality == one {
		f.cardinality = optional
	}
	return nil
}

// canBeEmpty reports whether omitempty has an effect on a type.
func canBeEmpty(t reflect.Type) bool {
	return t.Kind() != reflect.Struct && (t.Kind() != reflect.Array || t.Len() == 0)
}

// parseTag returns the number in a tag such as `bytes,1,opt,name=metadata`.
func parseTag(tag string) (int32, error) {
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return 0, fmt.Errorf("tag protobuf:%q has no number", tag)
	}
	n, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || n < 1 || n > int64(protowire.MaxNumber) {
		return 0, fmt.Errorf("tag protobuf:%q: %q is not a valid field number", tag, parts[1])
	}
	return int32(n), nil
}

// setValue determines the shape and cardinality of a field of type t.
func (f *field) setValue(r *reader, t reflect.Type) (err error) {
	f.cardinality = one
	if t.Kind() == reflect.Pointer {
		f.cardinality = optional
		t = t.Elem()
	}
	s, known, err := r.wellKnown(t)
	switch {
	case err != nil:
		return err
	case known:
	case t.Kind() == reflect.Map && f.cardinality == one:
		f.cardinality = mapping
		s, err = r.mapValue(t)
	case t.Kind() == reflect.Slice && f.cardinality == one:
		f.cardinality = list
		s, err = r.value(pointed(t.Elem()))
	default:
		s, err = r.value(t)
	}
	if (s.kind == kindBytes || s.kind == kindList) && f.cardinality == one {
		f.cardinality = optional
	}
	f.shape, f.slice = &s, t.Kind() == reflect.Slice
	return err
}

// pointed returns the type that t points to, or t.
func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func (r *reader) mapValue(t reflect.Type) (shape, error) {
	if t.Key().Kind() != reflect.String || writesJSON(t.Key()) {
		return shape{}, fmt.Errorf("keys of %s must be strings", t)
	}
	value := pointed(t.Elem())
	if value.Kind() == reflect.Slice {
		if _, known, err := r.wellKnown(value); !known && err == nil {
			return r.listShape(value)
		}
	}
	return r.value(value)
}

// value returns the shape of a single value of type t.
func (r *reader) value(t reflect.Type) (s shape, err error) {
	if s, known, err := r.wellKnown(t); known || err != nil {
		return s, err
	}
	switch t.Kind() {
	case reflect.String:
		return shape{kind: kindText}, nil
	case reflect.Bool:
		return shape{kind: kindBool}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return shape{kind: kindInteger, bits: t.Bits()}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return shape{kind: kindUnsigned, bits: t.Bits()}, nil
	case reflect.Float32, reflect.Float64:
		return shape{kind: kindFloat, bits: t.Bits()}, nil
	case reflect.Struct:
		m, err := r.message(t)
		return shape{kind: kindMessage, message: m}, err
	}
	return s, fmt.Errorf("a message cannot contain Go type %s here", t)
}

// listShape returns the shape of a list that has a message of its own.
func (r *reader) listShape(t reflect.Type) (shape, error) {
	items, err := r.value(pointed(t.Elem()))
	return shape{kind: kindList, items: &items}, err
}

// index builds the look-up of fields by number and of members by name.
func (m *message) index() error {
	for i := range m.fields {
		f := &m.fields[i]
		if i > 0 && m.fields[i-1].number == f.number {
			return fmt.Errorf("two fields have number %d", f.number)
		}
		if f.number < maxIndexed {
			m.byNumber = append(m.byNumber, make([]int16, int(f.number)+1-len(m.byNumber))...)
			m.byNumber[f.number] = int16(i + 1)
		}
		f.slot = m.slots
		switch {
		case f.hidden:
		case f.inline:
			for name, p := range f.shape.message.members {
				if err := m.place(name, place{p.field, m.slots + p.slot}); err != nil {
					return err
				}
			}
			m.slots += f.shape.message.slots
		default:
			if err := m.place(f.name, place{f, m.slots}); err != nil {
				return err
			}
			m.slots++
		}
		if m.slots > math.MaxInt16 {
			return errors.New("too many fields")
		}
	}
	m.sorted = make([]named, 0, len(m.members))
	for name, p := range m.members {
		m.sorted = append(m.sorted, named{name, p})
	}
	slices.SortFunc(m.sorted, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return nil
}

func (m *message) place(name string, p place) error {
	if _, taken := m.members[name]; taken {
		return fmt.Errorf("two fields have the JSON name %q", name)
	}
	m.members[name] = p
	return nil
}

// finish computes the encodings of absent values. The first loop handles structs that contain each
// other by value, which cannot be recursive. The second loop handles pointers, lists and maps,
// which may refer back to a struct that is not finished in the first loop.
func (r *reader) finish() {
	for _, t := range r.added {
		r.messages[t].finish()
	}
	for _, t := range r.added {
		m := r.messages[t]
		for i := range m.fields {
			s := m.fields[i].shape
			s.finish()
			if s.items != nil {
				s.items.finish()
			}
		}
	}
}

func (m *message) finish() {
	if m.finished {
		return
	}
	m.finished = true
	var members []string
	for i := range m.fields {
		f := &m.fields[i]
		if f.cardinality == one {
			f.shape.finish()
		}
		f.finish()
		m.zero = append(m.zero, f.absent...)
		if f.absentJSON != "" {
			members = append(members, f.absentJSON)
		}
	}
	m.zeroJSON = strings.Join(members, ",")
}

func (f *field) finish() {
	if f.cardinality == one {
		f.absent = slices.Concat(f.key, f.shape.zero)
	}
	switch {
	case f.hidden:
	case f.inline:
		if f.cardinality == one {
			f.absentJSON = f.shape.message.zeroJSON
		}
	case f.omitEmpty || f.omitZero:
	case f.cardinality == one:
		f.absentJSON = f.member + f.shape.zeroJSON
	default:
		f.absentJSON = f.member + "null"
	}
}

// finish sets the encodings of the zero value.
func (s *shape) finish() {
	switch s.kind {
	case kindText:
		s.zero, s.zeroJSON = []byte{0}, `""`
	case kindBool:
		s.zero, s.zeroJSON = []byte{0}, "false"
	case kindInteger, kindUnsigned:
		s.zero, s.zeroJSON = []byte{0}, "0"
	case kindFloat:
		s.zero, s.zeroJSON = make([]byte, s.bits/8), "0"
	case kindBytes:
		s.zero, s.zeroJSON = []byte{0}, `""`
	case kindTime, kindMicroTime, kindRaw, kindOrList:
		s.zero, s.zeroJSON = []byte{0}, "null"
	case kindList:
		s.zero, s.zeroJSON = []byte{0}, "[]"
	case kindDuration:
		s.zero, s.zeroJSON = []byte{2, numberRaw << 3, 0}, `"0s"`
	case kindQuantity:
		s.zero, s.zeroJSON = []byte{3, numberRaw<<3 | byte(protowire.Bytes), 1, '0'}, `"0"`
	case kindIntOrString:
		s.zero, s.zeroJSON = []byte{6, numberChoice << 3, 0, numberNumber << 3, 0, numberText<<3 | byte(protowire.Bytes), 0}, "0"
	case kindOrBool:
		s.zero, s.zeroJSON = []byte{2, numberAllows << 3, 0}, "false"
	case kindMessage:
		s.message.finish()
		s.zero, s.zeroJSON = protowire.AppendBytes(nil, s.message.zero), "{"+s.message.zeroJSON+"}"
	}
}
