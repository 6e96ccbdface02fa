package registry

import (
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// describeOptions reads the parameters from the fields of a Go struct.
func describeOptions[O any](kind meta.GroupVersionKind, of *Resource) (*Resource, error) {
	typ := reflect.TypeFor[O]()
	if typ.Kind() != reflect.Struct {
		return nil, fmt.Errorf("its options have Go type %s, which is no struct", typ)
	}
	kind = namedAfter(kind, typ, of)
	schema, err := openapi.FromType(typ, openapi.RequiredWhenTagged())
	if err != nil {
		return nil, fmt.Errorf("its options: %w", err)
	}
	for _, p := range schema.Properties {
		if !isEnvelope(p.Name) && !isParameter(p.Schema) {
			return nil, fmt.Errorf("its options: field %q of Go type %s is no text, boolean or whole number and no list of texts or whole numbers, which alone a query can hold", p.Name, typ)
		}
	}
	return &Resource{Group: kind.Group, Version: kind.Version, Names: Names{Kind: kind.Kind}, Schema: schema, Type: typ}, nil
}

// isEnvelope tells whether a field says what the document is.
func isEnvelope(name string) bool { return name == "apiVersion" || name == "kind" }

func isParameter(s *openapi.Schema) bool {
	switch s.Type {
	case openapi.String, openapi.Boolean, openapi.Integer:
		return true
	case openapi.Array:
		return s.Items != nil && (s.Items.Type == openapi.String || s.Items.Type == openapi.Integer)
	}
	return false
}
