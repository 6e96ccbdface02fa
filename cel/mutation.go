package cel

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Names of what mutations are made of.
const (
	configurationName = "Object"
	patchName         = "JSONPatch"
)

// Configuration is the type of Object{...}, a part of an object.
// Source: POL-05.
func Configuration() Type { return Type{is: celgo.ObjectType(configurationName)} }

// Patches is the type of a list of JSONPatch{op, path, from, value}.
// Source: POL-05.
func Patches() Type { return Type{is: celgo.ListType(celgo.ObjectType(patchName))} }

// isMade reports whether values of the type are made with Object{} or JSONPatch{}.
func (t Type) isMade() bool {
	return isConfiguration(t.is) || isPatches(t.is)
}

func isConfiguration(t *types.Type) bool {
	return t.Kind() == types.StructKind && t.TypeName() == configurationName
}

func isPatches(t *types.Type) bool {
	if t.Kind() != types.ListKind {
		return false
	}
	item := t.Parameters()[0]
	return item.Kind() == types.StructKind && item.TypeName() == patchName
}

// builder is the type provider of the types Object, Object.spec, … and JSONPatch. Any name that
// begins with Object is a type, and each has any fields.
type builder struct{ types.Provider }

func isBuilt(name string) bool {
	return name == patchName || name == configurationName || strings.HasPrefix(name, configurationName+".")
}

// FindStructType returns the type of an object.
func (b *builder) FindStructType(name string) (*types.Type, bool) {
	if isBuilt(name) {
		return types.NewTypeTypeWithParam(celgo.ObjectType(name)), true
	}
	return b.Provider.FindStructType(name)
}

// FindStructFieldNames returns the names of the fields of an object. Those of Object are not known.
func (b *builder) FindStructFieldNames(name string) ([]string, bool) {
	switch {
	case name == patchName:
		return []string{"op", "from", "path", "value"}, true
	case isBuilt(name):
		return nil, true
	}
	return b.Provider.FindStructFieldNames(name)
}

// FindStructFieldType returns the type of a field, and the functions that read it.
func (b *builder) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if !isBuilt(name) {
		return b.Provider.FindStructFieldType(name, field)
	}
	out := &types.FieldType{
		Type: celgo.DynType,
		IsSet: func(target any) bool {
			o, ok := target.(*built)
			return ok && o.fields[field] != nil
		},
		GetFrom: func(target any) (any, error) {
			if o, ok := target.(*built); ok {
				if v := o.fields[field]; v != nil {
					return v, nil
				}
			}
			return types.NullValue, nil
		},
	}
	if name == patchName {
		switch field {
		case "op", "from", "path":
			out.Type = celgo.StringType
		case "value":
		default:
			return nil, false
		}
	}
	return out, true
}

// NewValue makes an object.
func (b *builder) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if !isBuilt(name) {
		return b.Provider.NewValue(name, fields)
	}
	if name == patchName {
		for _, field := range []string{"op", "from", "path"} {
			if v, given := fields[field]; given {
				if _, ok := v.(types.String); !ok {
					return types.NewErr("unexpected type %T for JSONPatchType '%s' field", v.Value(), field)
				}
			}
		}
	}
	return &built{is: celgo.ObjectType(name), fields: fields}
}

// built is an object that an expression makes.
type built struct {
	is     *types.Type
	fields map[string]ref.Val
}

func (o *built) ConvertToNative(t reflect.Type) (any, error) {
	if t == reflect.TypeFor[*built]() {
		return o, nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", o.is, t)
}

func (o *built) ConvertToType(t ref.Type) ref.Val {
	switch t.TypeName() {
	case o.is.TypeName():
		return o
	case types.TypeType.TypeName():
		return o.is
	}
	return types.NewErr("unsupported conversion into %v", t.TypeName())
}

// Equal reports whether both have one type and equal fields.
func (o *built) Equal(other ref.Val) ref.Val {
	b, ok := other.(*built)
	if !ok || b.is.TypeName() != o.is.TypeName() || len(b.fields) != len(o.fields) {
		return types.False
	}
	for name, v := range o.fields {
		w, there := b.fields[name]
		if !there || v.Equal(w) != types.True {
			return types.False
		}
	}
	return types.True
}

func (o *built) Type() ref.Type    { return o.is }
func (o *built) Value() any        { return o }
func (o *built) IsZeroValue() bool { return len(o.fields) == 0 }

// mismatches returns the objects below a value whose type is not named after their path: what
// stands in the field spec of an Object is an Object.spec. Lists and maps do not count as a step.
func mismatches(v ref.Val, path string) []error {
	var errs []error
	switch v := v.(type) {
	case *built:
		if name := v.is.TypeName(); name != path {
			errs = append(errs, fmt.Errorf("unexpected type name %q, expected %q, which matches field name path from root Object type", name, path))
		}
		for _, field := range slices.Sorted(maps.Keys(v.fields)) {
			errs = append(errs, mismatches(v.fields[field], path+"."+field)...)
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			errs = append(errs, mismatches(it.Next(), path)...)
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			errs = append(errs, mismatches(v.Get(it.Next()), path)...)
		}
	}
	return errs
}

// checkNames returns the mismatches below a value as one error.
func checkNames(o *built) error {
	if errs := mismatches(o, o.is.TypeName()); len(errs) > 0 {
		return fmt.Errorf("type mismatch: %w", errors.Join(errs...))
	}
	return nil
}

// Patch is one operation of a JSON patch.
type Patch struct {
	Op, Path, From string
	Value          any // decoded JSON
	HasValue       bool
}

// configuration returns the part of an object that an expression made.
func configuration(v ref.Val, parts int) (map[string]any, error) {
	o, ok := v.(*built)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", v.Type())
	}
	if err := checkNames(o); err != nil {
		return nil, err
	}
	object, err := (&decoder{parts: parts, rich: true}).decode(o)
	if err != nil {
		return nil, err
	}
	out, _ := object.(map[string]any)
	return out, nil
}

// patches returns the operations that an expression made.
func patches(v ref.Val, parts int) ([]Patch, error) {
	list, ok := v.(traits.Lister)
	if !ok {
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	d := &decoder{parts: parts, rich: true}
	var out []Patch
	for it := list.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		o, ok := item.(*built)
		if !ok || o.is.TypeName() != patchName {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %s", item.Type().TypeName())
		}
		p, err := d.patch(o)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (d *decoder) patch(o *built) (Patch, error) {
	text := func(field string) string {
		s, _ := o.fields[field].(types.String)
		return string(s)
	}
	p := Patch{Op: text("op"), Path: text("path"), From: text("from")}
	value, given := o.fields["value"]
	if !given {
		return p, nil
	}
	if inner, ok := value.(*built); ok {
		if err := checkNames(inner); err != nil {
			return p, err
		}
	}
	var err error
	if p.Value, err = d.decode(value); err != nil {
		return p, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	p.HasValue = true
	return p, nil
}

// pointerEscapes replaces what means something in the paths of JSON patches.
var pointerEscapes = strings.NewReplacer("/", "~1", "~", "~0")

// patchLibrary has jsonpatch.escapeKey.
// Source: CEL-27.
func patchLibrary() []celgo.EnvOption {
	return []celgo.EnvOption{
		celgo.Function("jsonpatch.escapeKey", celgo.Overload("string_jsonpatch_escapeKey_string", signature(celgo.StringType), celgo.StringType,
			unary(func(key types.String) ref.Val { return types.String(pointerEscapes.Replace(string(key))) }))),
		func(e *celgo.Env) (*celgo.Env, error) {
			return celgo.CustomTypeProvider(&builder{e.CELTypeProvider()})(e)
		},
	}
}
