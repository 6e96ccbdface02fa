package main

import (
	"cmp"
	"reflect"
	"strings"
)

// schema is what overlaygen reads of a published schema.
type schema struct {
	Ref                  string `json:"$ref"`
	Type, Format         string
	Default              any
	Enum                 []string
	Required             []string
	Properties           map[string]*schema
	Items                *schema
	AdditionalProperties *schema
	AllOf                []*schema
	Nullable             bool
	Pattern              string
	Minimum, Maximum     *float64
	MinLength, MaxLength *int64
	MinItems, MaxItems   *int64

	ListType      string   `json:"x-kubernetes-list-type"`
	ListMapKeys   []string `json:"x-kubernetes-list-map-keys"`
	MapType       string   `json:"x-kubernetes-map-type"`
	PatchStrategy string   `json:"x-kubernetes-patch-strategy"`
	PatchMergeKey string   `json:"x-kubernetes-patch-merge-key"`
}

// saysNothing tells of a default that Go has anyway.
func saysNothing(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	}
	return reflect.ValueOf(value).IsZero()
}

// member is a field of a struct as JSON has it, with the struct that declares it.
type member struct {
	owner reflect.Type
	name  string
	field reflect.StructField
}

func (m member) String() string { return m.owner.PkgPath() + "." + m.owner.Name() + "." + m.name }

// members are the fields of a struct and of those that it embeds.
func members(t reflect.Type) (out []member) {
	for i := range t.NumField() {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case name == "-" || !sf.IsExported():
		case sf.Anonymous && name == "" && bare(sf.Type).Kind() == reflect.Struct:
			out = append(out, members(bare(sf.Type))...)
		default:
			out = append(out, member{t, cmp.Or(name, sf.Name), sf})
		}
	}
	return out
}

// bare is the type that a pointer points to.
func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// element is the type of which a field has one or many.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// named is what a Go type calls itself in documents.
func named(t reflect.Type) string {
	if m, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return m.OpenAPIModelName()
	}
	return ""
}
