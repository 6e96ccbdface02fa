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

// Describe makes the descriptor of a Go struct, or of what a pointer points to. It is ok when every field that JSON has,
// here and in all structs below, has a protobuf tag; an embedded TypeMeta needs none, since the envelope carries it. The
// error is about tags that cannot be, and fields that no message can hold; it names the Go type and the field.
//
// JSON names and the meaning of omitempty and omitzero are those of encoding/json. Fields of an embedded struct that has
// a number form a message on the wire and belong to the object around it in JSON.
//
// Types with a JSON form of their own are known by their names and methods, whoever declares them: Time, MicroTime,
// Duration, Quantity, IntOrString, the raw JSON of RawJSON, RawExtension, FieldsV1 and JSON, and the JSONSchemaPropsOr…
// of custom resource definitions. A named slice with a method Marshal stands in a message of its own, as do slices that
// are values of a map.
//
// The cost is that of the Go type: a Pod takes about a millisecond. Keep what it returns.
func Describe(t reflect.Type) (d *Descriptor, ok bool, err error) { return new(Types).Describe(t) }

// Types describes Go types and shares what they have in common. The zero value is ready for use. It is safe for concurrent
// use.
type Types struct {
	mu       sync.Mutex
	messages map[reflect.Type]*message
}

// Describe does as the function of this name does, for less where parts of the type were described before.
func (all *Types) Describe(t reflect.Type) (d *Descriptor, ok bool, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, false, fmt.Errorf("protobuf: Go type %s is no struct", t)
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

// errUntagged says that a field has no protobuf tag.
var errUntagged = errors.New("a field has no protobuf tag")

// typeMeta is the embedded struct that needs no tags of its own.
const typeMeta = "TypeMeta"

func hasTypeMeta(t reflect.Type) bool {
	f, ok := t.FieldByName(typeMeta)
	return ok && f.Anonymous && f.Tag.Get("protobuf") == ""
}

// reader reads Go types.
type reader struct {
	messages map[reflect.Type]*message
	added    []reflect.Type // to the messages
}

// message reads a struct, once: one that contains itself finds itself here.
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

// about says where an error is, unless somebody has already.
func about(err error, t reflect.Type, field string) error {
	if _, told := errors.AsType[*fieldError](err); told || errors.Is(err, errUntagged) {
		return err
	}
	return &fieldError{goType: t, field: field, err: err}
}

// fieldError is what is wrong with a field.
type fieldError struct {
	goType reflect.Type
	field  string
	err    error
}

func (e *fieldError) Error() string {
	return fmt.Sprintf("Go type %s, field %s: %s", e.goType, e.field, e.err)
}

func (e *fieldError) Unwrap() error { return e.err }

// field reads a field. It is not ok when neither JSON nor the wire has it.
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
			return f, false, fmt.Errorf("embedded Go type %s is no struct of fields: give it a name in JSON", sf.Type)
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

// isPrivate tells fields that JSON does not see. It sees those of an embedded struct whose own name is private.
func isPrivate(sf reflect.StructField) bool {
	if sf.IsExported() {
		return false
	}
	return !sf.Anonymous || sf.Type.Kind() != reflect.Struct ||
		!slices.ContainsFunc(reflect.VisibleFields(sf.Type), func(f reflect.StructField) bool { return f.IsExported() })
}

// wire is how the field's values are written; entries of a map are messages.
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

// canBeEmpty tells the types on which omitempty has an effect.
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
		return 0, fmt.Errorf("tag protobuf:%q: %q is no number of a field", tag, parts[1])
	}
	return int32(n), nil
}

// setValue finds out what a field of type t holds, and how often.
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

// pointed is the type that t points to, or t.
func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func (r *reader) mapValue(t reflect.Type) (shape, error) {
	if t.Key().Kind() != reflect.String || writesJSON(t.Key()) {
		return shape{}, fmt.Errorf("keys of %s are no strings", t)
	}
	value := pointed(t.Elem())
	if value.Kind() == reflect.Slice {
		if _, known, err := r.wellKnown(value); !known && err == nil {
			return r.listShape(value)
		}
	}
	return r.value(value)
}

// value returns what a single value of type t looks like.
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
	return s, fmt.Errorf("no message can hold Go type %s here", t)
}

// listShape is a list in a message of its own.
func (r *reader) listShape(t reflect.Type) (shape, error) {
	items, err := r.value(pointed(t.Elem()))
	return shape{kind: kindList, items: &items}, err
}

// index prepares the look-up of fields by their number and of members by their name.
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
		return fmt.Errorf("two fields are called %q in JSON", name)
	}
	m.members[name] = p
	return nil
}

// finish prepares what stands for absent values, first in structs that hold each other by value, which end somewhere, and
// then where pointers, lists and maps could lead back to a struct that is not finished.
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

// finish sets the zero values.
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
