package openapi

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Type is the JSON type of a value. The empty Type allows any.
type Type string

// The types of values.
const (
	Object  Type = "object"
	Array   Type = "array"
	String  Type = "string"
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
)

// ListType says how lists merge (x-kubernetes-list-type). The empty ListType means atomic.
type ListType string

// The ways in which lists merge.
const (
	ListAtomic ListType = "atomic" // one value, replaced as a whole
	ListSet    ListType = "set"    // scalars, each once
	ListMap    ListType = "map"    // objects, identified by their ListMapKeys
)

// MapType says how objects merge (x-kubernetes-map-type). The empty MapType means granular.
type MapType string

// The ways in which objects merge.
const (
	MapGranular MapType = "granular" // field by field
	MapAtomic   MapType = "atomic"   // one value, replaced as a whole
)

// Form is how values that can be written in several ways are written at rest. Values of Go types that have JSON methods
// of their own are written as those methods write them; they need no Form.
type Form string

// The forms of strings.
const (
	FormTime      Form = "time"      // RFC 3339 in UTC to the second, see meta.Time
	FormMicroTime Form = "microtime" // RFC 3339 in UTC to the microsecond, see meta.MicroTime
	FormDuration  Form = "duration"  // as Go writes durations, see meta.Duration
	FormBytes     Form = "bytes"     // standard base64 with padding
)

// Property is one named field of an object.
type Property struct {
	Name   string
	Schema *Schema
}

// Rule is a validation expression (x-kubernetes-validations). Package cel compiles and runs it; here it is only carried.
type Rule struct {
	Rule, Message, MessageExpression, Reason, FieldPath string
	OptionalOldSelf                                     bool
}

// ColumnTag makes a field a column of tables.
type ColumnTag struct {
	Name     string
	Priority int32 // columns above 0 show in wide tables only
}

// Schema describes values. A Schema made by [FromType], [FromTree] or [New] is ready for use, shared and never changed; one
// written as a literal has to pass through New first: before, its methods change nothing and Validate reports an error.
//
// Numbers in DefaultValue, Enum, Minimum, Maximum and MultipleOf are int64 or float64, other values trees.
type Schema struct {
	Type        Type
	Format      string // of OpenAPI; formats that are known are checked, see Formats
	Form        Form
	Description string
	Deprecated  bool

	// DefaultValue is filled in where a field is missing; nil for none.
	DefaultValue any
	// Enum lists the only values allowed; nil for any.
	Enum []any
	// Nullable keeps null; otherwise null means absent.
	Nullable bool

	// For objects. AdditionalProperties describes the fields that Properties does not name; nil means that there are none,
	// unless PreserveUnknown keeps whatever there is.
	Properties                   []Property
	Required                     []string
	Expected                     []string // documents name them as required, too, and nobody insists on them
	AdditionalProperties         *Schema
	MinProperties, MaxProperties *int64
	PreserveUnknown              bool
	EmbeddedObject               bool // a whole object with apiVersion, kind and metadata
	MapType                      MapType

	// For lists.
	Items              *Schema
	MinItems, MaxItems *int64
	ListType           ListType
	ListMapKeys        []string

	// For numbers.
	Minimum, Maximum                   any
	ExclusiveMinimum, ExclusiveMaximum bool
	MultipleOf                         any

	// For strings. Lengths are in characters.
	MinLength, MaxLength *int64
	Pattern              string // RE2, not anchored
	IntOrString          bool   // an integer is allowed and stays one
	OrNumber             bool   // a number is allowed, as in quantities

	// Conditions on values beside all of the above; they add no fields.
	AllOf, AnyOf, OneOf []*Schema
	Not                 *Schema
	Rules               []Rule

	// What strategic merge patch and its clients read.
	PatchStrategy, PatchMergeKey string
	// PatchTagged lets strategic merge patches go by these two alone, not by ListType and MapType, as clients of Kubernetes' own
	// types do.
	PatchTagged bool

	// Selectable lets field selectors name the field.
	Selectable bool
	// Column shows the field in tables.
	Column *ColumnTag

	// Component is the name under which documents publish the schema once for all who refer to it; empty to write it out.
	Component string

	plain *Schema   // this schema but for its description, see Undocumented
	base  *Schema   // what documents publish as the component, when this is a copy of it with tags of its own
	codec *codec    // the Go type whose JSON methods write the value at rest
	ready *prepared // what the methods need; nil until New

	repeats bool // a set or keyed list of metadata, of which clients were never made to send each item once
	told    bool // Enum, and that items differ in their keys, are what documents say and nobody insists on
}

// Property returns the schema of a named field, if Properties names it.
func (s *Schema) Property(name string) (*Schema, bool) {
	if s.ready != nil {
		child, ok := s.ready.properties[name]
		return child, ok
	}
	for _, p := range s.Properties {
		if p.Name == name {
			return p.Schema, true
		}
	}
	return nil, false
}

// Lookup follows a path of field names. A name that Properties does not know leads to AdditionalProperties; "[]" leads to
// the items of a list.
func (s *Schema) Lookup(path ...string) (*Schema, bool) {
	for _, name := range path {
		if s = s.step(name); s == nil {
			return nil, false
		}
	}
	return s, true
}

func (s *Schema) step(name string) *Schema {
	if s.Items != nil {
		if name == "[]" {
			return s.Items
		}
		return nil
	}
	if child, ok := s.Property(name); ok {
		return child
	}
	return s.AdditionalProperties
}

// Column is one column of a table.
type Column struct {
	Name, Type, Format, Description string
	Priority                        int32
	Path                            []string // the names that lead to the value

	// Cell, when set, makes the cell of the values at Paths, and Path is not used. A value is what JSON makes of it: nil
	// where there is none, string, bool, int64, float64, map[string]any or []any; so is the cell. now is the time that ages
	// are counted from. It is called concurrently, must not change the values, and must be ready for values of every kind.
	Cell  func(now time.Time, values []any) any
	Paths [][]string
}

// Columns returns the fields that are columns, in the order of their declaration. Type is one that tables know: integer,
// number, string, boolean or date.
func (s *Schema) Columns() []Column {
	var columns []Column
	s.eachPlaced(nil, func(path []string, field *Schema) {
		if field.Column == nil {
			return
		}
		c := Column{
			Name: field.Column.Name, Type: string(field.Type), Format: field.Format, Description: field.Description,
			Priority: field.Column.Priority, Path: slices.Clone(path),
		}
		switch {
		case field.Form == FormTime || field.Form == FormMicroTime || field.Format == "date-time":
			c.Type, c.Format = "date", ""
		case c.Type == "":
			c.Type = string(String)
		}
		columns = append(columns, c)
	})
	return columns
}

// SelectableFields returns the paths of the fields that field selectors may name beside metadata.name and
// metadata.namespace, such as "spec.owner", sorted.
func (s *Schema) SelectableFields() []string {
	var fields []string
	s.eachPlaced(nil, func(path []string, field *Schema) {
		if field.Selectable {
			fields = append(fields, strings.Join(path, "."))
		}
	})
	slices.Sort(fields)
	return fields
}

// eachPlaced visits the fields of an object that are selectable or columns.
func (s *Schema) eachPlaced(path []string, visit func(path []string, field *Schema)) {
	if s.ready == nil || !s.ready.placed {
		return
	}
	for _, p := range s.Properties {
		child := append(path, p.Name)
		if p.Schema.isPlaced() {
			visit(child, p.Schema)
		}
		p.Schema.eachPlaced(child, visit)
	}
}

func (s *Schema) isPlaced() bool { return s.Selectable || s.Column != nil }

// Undocumented returns a schema of the same values that more fields may share: of fields that have a Go type and nothing
// but a description, that of the type. Else it is the schema itself.
func (s *Schema) Undocumented() *Schema { return cmp.Or(s.plain, s) }
