package openapi

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Type is the JSON type of a value. The empty Type allows values of any type.
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

// ListType specifies how lists merge (x-kubernetes-list-type). The empty ListType means atomic.
type ListType string

// The list types.
const (
	ListAtomic ListType = "atomic" // replaced as a whole
	ListSet    ListType = "set"    // scalars without duplicates
	ListMap    ListType = "map"    // objects identified by their ListMapKeys
)

// MapType specifies how objects merge (x-kubernetes-map-type). The empty MapType means granular.
type MapType string

// The map types.
const (
	MapGranular MapType = "granular" // merged field by field
	MapAtomic   MapType = "atomic"   // replaced as a whole
)

// Notation selects the stored form of a string that can be written in several ways. Go types with their
// own JSON methods do not need a Notation: values are stored as those methods write them.
type Notation string

// The forms of strings.
const (
	NotationTime      Notation = "time"      // RFC 3339 in UTC to the second, see meta.Time
	NotationMicroTime Notation = "microtime" // RFC 3339 in UTC to the microsecond, see meta.MicroTime
	NotationDuration  Notation = "duration"  // as Go writes durations, see meta.Duration
	NotationBytes     Notation = "bytes"     // standard base64 with padding
)

// Property is a named field of an object.
type Property struct {
	Name   string
	Schema *Schema
}

// Rule is a validation expression (x-kubernetes-validations). This package only carries it; package
// cel compiles and evaluates it.
type Rule struct {
	Rule, Message, MessageExpression, Reason, FieldPath string
	OptionalOldSelf                                     bool

	notOptional bool // a document says that optionalOldSelf is false
}

// SaysOptionalOldSelf reports whether the rule says anything about optionalOldSelf, as a document can that says false. It
// may only do so if the expression uses oldSelf.
func (r Rule) SaysOptionalOldSelf() bool { return r.OptionalOldSelf || r.notOptional }

// ColumnTag makes a field a column of the tables that kubectl get prints.
type ColumnTag struct {
	Name     string
	Priority int32 // columns above 0 only appear in wide output
}

// Schema describes values. A Schema made by [FromType], [FromTree] or [New] is ready for use and
// immutable, and may be shared between goroutines. A Schema written as a literal must pass through
// New first. Until then, its methods change nothing and Validate returns an error.
//
// Numbers in DefaultValue, Enum, Minimum, Maximum and MultipleOf are int64 or float64. Other values
// are trees, as package internal/json decodes them.
type Schema struct {
	Type        Type
	Format      string // an OpenAPI format; see Formats for those that are checked
	Notation    Notation
	Description string
	Deprecated  bool

	// DefaultValue is the value of the field if it is missing. Nil means no default.
	DefaultValue any
	// Enum lists the allowed values. Nil allows any value.
	Enum []any
	// Nullable keeps null as a value. Otherwise null means that the field is absent.
	Nullable bool

	// The fields below apply to objects. AdditionalProperties describes fields that are not listed
	// in Properties. If it is nil, other fields are unknown: they are pruned unless PreserveUnknown
	// is set.
	Properties []Property
	Required   []string
	// Expected fields are listed as required in published documents but not enforced.
	Expected                     []string
	AdditionalProperties         *Schema
	MinProperties, MaxProperties *int64
	PreserveUnknown              bool
	EmbeddedObject               bool // a complete object with apiVersion, kind and metadata
	MapType                      MapType

	// The fields below apply to lists.
	Items              *Schema
	MinItems, MaxItems *int64
	ListType           ListType
	ListMapKeys        []string

	// The fields below apply to numbers.
	Minimum, Maximum                   any
	ExclusiveMinimum, ExclusiveMaximum bool
	MultipleOf                         any

	// The fields below apply to strings. Lengths count characters, not bytes.
	MinLength, MaxLength *int64
	Pattern              string // RE2, not anchored
	IntOrString          bool   // an integer is also allowed and is stored as one
	OrNumber             bool   // a number is also allowed, as in quantities

	// The branches below add conditions on the value. They do not add fields.
	AllOf, AnyOf, OneOf []*Schema
	Not                 *Schema
	Rules               []Rule

	// PatchStrategy and PatchMergeKey control strategic merge patches. Clients read them from the
	// published documents.
	PatchStrategy, PatchMergeKey string
	// PatchTagged makes strategic merge patches follow PatchStrategy and PatchMergeKey only and
	// ignore ListType and MapType. Clients handle the built-in types of Kubernetes this way.
	PatchTagged bool

	// Selectable allows the field in field selectors.
	Selectable bool
	// Column shows the field as a column of tables.
	Column *ColumnTag

	// Component is the name under which documents publish the schema once. Other schemas then refer
	// to it. If Component is empty, the schema is written out at each place that uses it.
	Component string

	plain *Schema   // the same schema without its description, see Undocumented
	base  *Schema   // the published component, if this is a copy with tags of its own
	codec *codec    // the Go type whose JSON methods define the stored form
	ready *prepared // compiled by New; nil before

	fromDocument bool // the schema comes from a document, see FromTree
	int32OrText  bool // the Go type of an IntOrString holds 32 bits
	ownMetadata  bool // an embedded object whose metadata the document does not describe
	ownVersion   bool // the same for apiVersion
	ownKind      bool // the same for kind
	written      *written

	// allowsDuplicates permits duplicates in a set or keyed list. Metadata needs this: Kubernetes
	// never required clients to send each owner reference or finalizer only once.
	allowsDuplicates bool
	// nullIsZero makes an item that is null the zero value of its type, as Go decodes it. Metadata needs
	// this: kube-apiserver says then that a finalizer is empty, or which parts of an owner are missing.
	nullIsZero bool
	// advisory means that Enum and the uniqueness of list keys are published but not enforced.
	advisory bool
}

// Property returns the schema of a field that is listed in Properties.
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

// Lookup follows a path of field names. A name that is not listed in Properties leads to
// AdditionalProperties. The name "[]" leads to the items of a list.
func (s *Schema) Lookup(path ...string) (*Schema, bool) {
	for _, name := range path {
		if s = s.step(name); s == nil {
			return nil, false
		}
	}
	return s, true
}

// step returns the schema of one path element, or nil.
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

// Column describes one column of a table.
type Column struct {
	Name, Type, Format, Description string
	Priority                        int32
	Path                            []string // field names that lead to the value

	// Cell, if set, computes the cell from the values at Paths; Path is then ignored. A path without
	// names is that of the whole object. Values and the cell are trees: nil for a missing value,
	// string, bool, int64, float64, map[string]any or []any. Ages are relative to now. Cell may be
	// called concurrently. It must not modify the values and must accept values of any type, since
	// stored objects may violate the schema.
	//
	// A cell may also be an [Aged] text. A Cell that panics makes an empty cell.
	Cell  func(now time.Time, values []any) any
	Paths [][]string

	// Lasting says that Cell does not use now: what it returns depends on the values alone. The rows
	// of lists are then kept until their objects change. A Cell that shows an age returns an [Aged].
	Lasting bool
}

// Aged is a cell with an age, such as "3 (5m ago)". The age is that of the moment at which the cell
// is sent.
type Aged struct {
	Before string
	Since  time.Time
	After  string
}

// Columns returns the columns in the order in which the fields are declared. Type is one of the
// table types: integer, number, string, boolean or date.
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
		case field.Notation == NotationTime || field.Notation == NotationMicroTime || field.Format == "date-time":
			c.Type, c.Format = "date", ""
		case c.Type == "":
			c.Type = string(String)
		}
		columns = append(columns, c)
	})
	return columns
}

// SelectableFields returns the sorted paths of the fields that field selectors may use in addition
// to metadata.name and metadata.namespace, such as "spec.owner".
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

// eachPlaced calls visit for every field of an object that is selectable or a column. path is
// reused between calls: visit must clone it to keep it.
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

// Undocumented returns a schema for the same values that more fields can share. For a field that
// has a Go type and adds only a description, it is the schema of the type. Otherwise it is s
// itself. Callers use it as a key when they cache work per schema.
func (s *Schema) Undocumented() *Schema { return cmp.Or(s.plain, s) }
