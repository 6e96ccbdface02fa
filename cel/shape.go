package cel

import (
	"math"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/kindwright/kindwright/openapi"
)

// form is what values of a schema are in expressions.
type form int

const (
	formHidden      form = iota // out of reach: nothing is known about the values
	formIntOrString             // type is known when the expression is evaluated
	formObject
	formMap
	formList
	formString
	formBytes
	formDuration
	formDate
	formTime
	formInt
	formDouble
	formBool
)

// formOf returns the form of the values of a schema.
// Source: CEL-14, CEL-15, CEL-16, CEL-17, CEL-18, CEL-19.
func formOf(s *openapi.Schema) form {
	if s.IntOrString {
		return formIntOrString
	}
	switch s.Type {
	case openapi.Object:
		if s.EmbeddedObject || s.AdditionalProperties == nil || isAnything(s.AdditionalProperties) {
			return formObject
		}
		return formMap
	case openapi.Array:
		if s.Items != nil {
			return formList
		}
	case openapi.String:
		return textForm(s)
	case openapi.Integer:
		return formInt
	case openapi.Number:
		return formDouble
	case openapi.Boolean:
		return formBool
	}
	return formHidden
}

// isAnything reports whether a schema says nothing about its values.
func isAnything(s *openapi.Schema) bool { return s.Type == "" && !s.IntOrString }

func textForm(s *openapi.Schema) form {
	switch s.Notation {
	case openapi.NotationTime, openapi.NotationMicroTime:
		return formTime
	case openapi.NotationDuration:
		return formDuration
	case openapi.NotationBytes:
		return formBytes
	}
	switch s.Format {
	case "date-time", "datetime":
		return formTime
	case "date":
		return formDate
	case "duration":
		return formDuration
	case "byte":
		return formBytes
	}
	return formString
}

// Sizes of JSON, in bytes. They bound how often a value can occur in a request.
const (
	maxRequestBytes = 3 << 20

	maxTimeBytes = 32 // 9999-12-31T23:59:59.999999999Z in quotes
	dateBytes    = 12 // 2006-01-02 in quotes

	maxListDepth = 100 // of lists in lists
)

// shapes answers what is declared about the values below a schema. It is the type provider of
// rules: the types are the schemas themselves. Names of types are positions below @self.
//
// It is safe for concurrent use. Not only the checker asks it: a program asks as it is made, which may be
// when its rule is first evaluated.
type shapes struct {
	types.Provider

	mu        sync.Mutex                 // guards everything below
	objects   map[string]*openapi.Schema // by the names of their types
	resources map[*openapi.Schema]*openapi.Schema
	sizes     map[*openapi.Schema]int64 // smallest JSON
}

func newShapes(base types.Provider) *shapes {
	return &shapes{
		Provider: base,
		objects:  map[string]*openapi.Schema{}, resources: map[*openapi.Schema]*openapi.Schema{},
		sizes: map[*openapi.Schema]int64{},
	}
}

// resource returns the schema of a complete object as expressions see it: of its metadata, only the
// name and generateName.
func (sh *shapes) resource(s *openapi.Schema) *openapi.Schema {
	if out, ok := sh.resources[s]; ok {
		return out
	}
	out := asResource(s)
	sh.resources[s] = out
	return out
}

func asResource(s *openapi.Schema) *openapi.Schema {
	out := &openapi.Schema{
		Type: openapi.Object, Required: s.Required, Nullable: s.Nullable, MapType: s.MapType, PreserveUnknown: s.PreserveUnknown,
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		field, _ := resourceProperty(s, name)
		out.Properties = append(out.Properties, openapi.Property{Name: name, Schema: field})
	}
	for _, p := range s.Properties {
		if p.Name != "apiVersion" && p.Name != "kind" && p.Name != "metadata" {
			out.Properties = append(out.Properties, p)
		}
	}
	return out
}

// resourceProperty returns the schema of a field of a complete object as expressions see it.
func resourceProperty(s *openapi.Schema, name string) (*openapi.Schema, bool) {
	given, ok := s.Property(name)
	switch name {
	case "apiVersion", "kind":
		return ownText(s, name), true
	case "metadata":
		return &openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
			{Name: "name", Schema: ownText(given, "name")}, {Name: "generateName", Schema: ownText(given, "generateName")},
		}}, true
	}
	return given, ok
}

// ownText returns the schema of a field that is a text, whatever else is declared. of may be nil.
func ownText(of *openapi.Schema, name string) *openapi.Schema {
	if of != nil {
		if own, ok := of.Property(name); ok && own.Type == openapi.String {
			return own
		}
	}
	return &openapi.Schema{Type: openapi.String}
}

// seen returns the schema that expressions see in the place of a part of another schema.
func (sh *shapes) seen(s *openapi.Schema) *openapi.Schema {
	if s.EmbeddedObject {
		return sh.resource(s)
	}
	return s
}

// isReachable reports whether expressions can use the values of a schema.
func (sh *shapes) isReachable(s *openapi.Schema) bool { return sh.reaches(s, maxListDepth) }

func (sh *shapes) reaches(s *openapi.Schema, depth int) bool {
	switch formOf(s) {
	case formHidden:
		return false
	case formList:
		return depth > 0 && sh.reaches(s.Items, depth-1)
	case formMap:
		return depth > 0 && sh.reaches(s.AdditionalProperties, depth-1)
	}
	return true
}

// typeOf returns the type of the values of a schema that is reachable. An object gets a name.
func (sh *shapes) typeOf(s *openapi.Schema, name string) *types.Type {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.typed(s, name)
}

// typed is typeOf with the lock held.
func (sh *shapes) typed(s *openapi.Schema, name string) *types.Type {
	switch formOf(s) {
	case formObject:
		sh.objects[name] = sh.seen(s)
		return celgo.ObjectType(name)
	case formMap:
		return celgo.MapType(celgo.StringType, sh.typed(s.AdditionalProperties, name+".@elem"))
	case formList:
		return celgo.ListType(sh.typed(s.Items, name+".@idx"))
	case formString:
		return celgo.StringType
	case formBytes:
		return celgo.BytesType
	case formDuration:
		return celgo.DurationType
	case formDate, formTime:
		return celgo.TimestampType
	case formInt:
		return celgo.IntType
	case formDouble:
		return celgo.DoubleType
	case formBool:
		return celgo.BoolType
	}
	return celgo.DynType
}

// field returns the schema of the field that an identifier of an expression stands for.
func (sh *shapes) field(object *openapi.Schema, identifier string) (*openapi.Schema, bool) {
	name, ok := unescape(identifier)
	if !ok {
		return nil, false
	}
	if right, ok := escape(name); !ok || right != identifier && !isReserved(identifier) {
		return nil, false
	}
	child, ok := object.Property(name)
	if !ok || !sh.isReachable(child) {
		return nil, false
	}
	return child, true
}

// FindStructType returns the type of an object.
func (sh *shapes) FindStructType(name string) (*types.Type, bool) {
	sh.mu.Lock()
	_, ok := sh.objects[name]
	sh.mu.Unlock()
	if ok {
		return types.NewTypeTypeWithParam(celgo.ObjectType(name)), true
	}
	return sh.Provider.FindStructType(name)
}

// FindStructFieldNames returns no names: expressions cannot build objects.
func (sh *shapes) FindStructFieldNames(string) ([]string, bool) { return nil, false }

// FindStructFieldType returns the type of a field.
func (sh *shapes) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	object, ok := sh.objects[name]
	if !ok {
		return sh.Provider.FindStructFieldType(name, field)
	}
	child, ok := sh.field(object, field)
	if !ok {
		return nil, false
	}
	return &types.FieldType{Type: sh.typed(child, name+"."+field)}, true
}

// shortest returns the length of the shortest JSON of a value.
func (sh *shapes) shortest(s *openapi.Schema) int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.minSize(s)
}

// most returns how many characters, items or members there can be at a path below a schema. It is false where
// nothing is declared.
func (sh *shapes) most(below *openapi.Schema, path []string) (uint64, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.at(below, path)
	if s == nil {
		return 0, false
	}
	return sh.maxElements(s), true
}

// at follows a path of fields, @items, @values and @keys. It returns nil where nothing is declared.
func (sh *shapes) at(s *openapi.Schema, path []string) *openapi.Schema {
	for _, step := range path {
		switch form := formOf(s); {
		case step == "@items" && form == formList:
			s = sh.seen(s.Items)
		case step == "@values" && form == formMap:
			s = sh.seen(s.AdditionalProperties)
		case step == "@keys" && form == formMap:
			s = &openapi.Schema{Type: openapi.String, MaxLength: new(int64)} // Kubernetes takes keys to cost nothing
		case form == formObject:
			child, ok := sh.field(s, step)
			if !ok {
				return nil
			}
			s = sh.seen(child)
		default:
			return nil
		}
	}
	return s
}

// minSize returns the length of the shortest JSON of a value.
func (sh *shapes) minSize(s *openapi.Schema) int64 {
	switch formOf(s) {
	case formObject:
		return sh.minObject(s)
	case formDuration:
		return 3
	case formDate:
		return dateBytes
	case formTime:
		return 21
	case formBool:
		return 4
	case formInt, formDouble, formIntOrString:
		return 1
	}
	return 2
}

// minObject counts the required fields without default. An object in itself counts as an empty one.
func (sh *shapes) minObject(s *openapi.Schema) int64 {
	if n, ok := sh.sizes[s]; ok {
		return n
	}
	sh.sizes[s] = 2
	size := int64(2)
	for _, name := range s.Required {
		child, ok := s.Property(name)
		if ok && child.DefaultValue == nil && sh.isReachable(child) {
			size += int64(len(name)) + sh.minSize(sh.seen(child)) + 4
		}
	}
	sh.sizes[s] = size
	return size
}

// maxElements returns how many characters, items or members a value can have.
func (sh *shapes) maxElements(s *openapi.Schema) uint64 {
	switch formOf(s) {
	case formList:
		if s.MaxItems != nil {
			return atLeastZero(*s.MaxItems)
		}
		return uint64((maxRequestBytes - 2) / (sh.minSize(sh.seen(s.Items)) + 1)) //nolint:gosec // positive
	case formMap:
		if s.MaxProperties != nil {
			return atLeastZero(*s.MaxProperties)
		}
		return uint64((maxRequestBytes - 2) / (sh.minSize(sh.seen(s.AdditionalProperties)) + 6)) //nolint:gosec // positive
	case formBytes:
		if s.MaxLength != nil {
			return atLeastZero(*s.MaxLength)
		}
		return maxRequestBytes - 2
	case formString, formIntOrString:
		return maxText(s)
	case formDuration, formTime:
		return maxTimeBytes
	case formDate:
		return dateBytes
	}
	return 0
}

// maxText returns how many bytes a text can have. A character has at most four.
func maxText(s *openapi.Schema) uint64 {
	if s.MaxLength != nil {
		if n := atLeastZero(*s.MaxLength); n < math.MaxUint64/4 {
			return n * 4
		}
		return math.MaxUint64
	}
	if len(s.Enum) == 0 || s.IntOrString {
		return maxRequestBytes - 2
	}
	longest := 0
	for _, v := range s.Enum {
		if text, ok := v.(string); ok {
			longest = max(longest, len(text))
		}
	}
	return uint64(longest)
}

func atLeastZero(n int64) uint64 { return uint64(max(n, 0)) } //nolint:gosec // not negative
