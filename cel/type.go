package cel

import (
	"fmt"
	"maps"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// Type is the type of a variable, of a field, or of the result of an expression.
type Type struct {
	is      *celgo.Type
	objects map[string]map[string]Type // the types of fields, by the names of objects
}

// String returns the type as error messages of the language show it.
func (t Type) String() string { return t.is.String() }

// Dyn is a value whose type is only known when the expression is evaluated.
func Dyn() Type { return Type{is: celgo.DynType} }

// Bool is true or false.
func Bool() Type { return Type{is: celgo.BoolType} }

// String is text.
func String() Type { return Type{is: celgo.StringType} }

// List is a list of items of one type.
func List(items Type) Type {
	return Type{is: celgo.ListType(items.is), objects: items.objects}
}

// Map is a map from text to values of one type.
func Map(values Type) Type {
	return Type{is: celgo.MapType(celgo.StringType, values.is), objects: values.objects}
}

// Object is an object with fixed fields. An expression that uses another field does not compile. A
// value may leave fields out; has() tells whether it has one. Objects of the same name must have
// the same fields.
func Object(name string, fields map[string]Type) Type {
	t := Type{is: celgo.ObjectType(name), objects: map[string]map[string]Type{name: fields}}
	for _, f := range fields {
		maps.Copy(t.objects, f.objects)
	}
	return t
}

// accepts reports whether an expression of a type can have this result. Items of lists and values
// of maps may be dynamic, because the type of [] and of a list of claims is.
func (t Type) accepts(got *celgo.Type) bool {
	if t.is.Kind() != got.Kind() {
		return false
	}
	switch got.Kind() {
	case types.ListKind, types.MapKind:
		for i, p := range got.Parameters() {
			if p.Kind() != types.DynKind && !(Type{is: t.is.Parameters()[i]}).accepts(p) {
				return false
			}
		}
		return true
	}
	return t.is.IsExactType(got)
}

// provider tells cel-go the fields of objects.
type provider struct {
	types.Provider
	objects map[string]map[string]Type
}

// withObjects is the option that adds the objects to those of the language.
func withObjects(objects map[string]map[string]Type) celgo.EnvOption {
	return func(e *celgo.Env) (*celgo.Env, error) {
		return celgo.CustomTypeProvider(&provider{Provider: e.CELTypeProvider(), objects: objects})(e)
	}
}

// FindStructType returns the type of an object.
func (p *provider) FindStructType(name string) (*celgo.Type, bool) {
	if _, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(celgo.ObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames returns the names of the fields of an object.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := p.objects[name]; ok {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType returns the type of a field. It returns no functions to read the field,
// because values are maps.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields, ok := p.objects[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := fields[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{Type: t.is}, true
}

// merge adds objects to those that are known, and refuses two of one name that differ.
func merge(into, objects map[string]map[string]Type) error {
	for name, fields := range objects {
		known, twice := into[name]
		same := func(a, b Type) bool { return a.is.IsExactType(b.is) }
		if twice && !maps.EqualFunc(known, fields, same) {
			return fmt.Errorf("two types of the name %s", name)
		}
		into[name] = fields
	}
	return nil
}

// Null is the value null.
func Null() Type { return Type{is: celgo.NullType} }
