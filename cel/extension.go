package cel

import (
	"fmt"
	"reflect"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// extension is a value of a type that the libraries add: a URL, a quantity, an address.
type extension[T any] struct {
	is    *types.Type
	data  T
	equal func(a, b T) bool // nil if no values are equal
}

func (e *extension[T]) ConvertToNative(t reflect.Type) (any, error) {
	if reflect.TypeFor[T]().AssignableTo(t) {
		return e.data, nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", e.is, t)
}

func (e *extension[T]) ConvertToType(t ref.Type) ref.Val {
	switch t.TypeName() {
	case e.is.TypeName():
		return e
	case types.TypeType.TypeName():
		return e.is
	}
	return types.NewErr("type conversion error from '%s' to '%s'", e.is, t.TypeName())
}

func (e *extension[T]) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*extension[T]); ok && e.equal != nil {
		return types.Bool(e.equal(e.data, o.data))
	}
	return types.MaybeNoSuchOverloadErr(other)
}

func (e *extension[T]) Type() ref.Type { return e.is }
func (e *extension[T]) Value() any     { return e.data }

// sized is a value whose size counts when it is compared.
type sized interface{ bytes() int }

// Size returns the number of bytes.
func (e *extension[T]) Size() ref.Val {
	if s, ok := any(e.data).(sized); ok {
		return types.Int(s.bytes())
	}
	return types.IntOne
}

// isExtension reports whether a value is of a type that the libraries add. All of them are small:
// to compare two costs as much as to compare two numbers.
func isExtension(v ref.Val) bool {
	e, ok := v.(interface{ isExtension() bool })
	return ok && e.isExtension()
}

func (e *extension[T]) isExtension() bool { return e != nil }

// unary and binary are implementations of functions on values of some types. The checker has
// verified the types, except those of dynamic values.
func unary[A ref.Val](f func(A) ref.Val) celgo.OverloadOpt {
	return celgo.UnaryBinding(func(v ref.Val) ref.Val {
		a, ok := v.(A)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return f(a)
	})
}

func binary[A, B ref.Val](f func(A, B) ref.Val) celgo.OverloadOpt {
	return celgo.BinaryBinding(func(v, w ref.Val) ref.Val {
		a, ok := v.(A)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		b, ok := w.(B)
		if !ok {
			return types.MaybeNoSuchOverloadErr(w)
		}
		return f(a, b)
	})
}

// signature lists the types of the arguments of a function.
func signature(arguments ...*types.Type) []*types.Type { return arguments }
