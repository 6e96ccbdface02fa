package guard

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
)

// Panic is the error of a function that panicked. Its text does not have the stack, because clients
// may see it. [WithStack] adds it to the log.
type Panic struct {
	What  string // what panicked, such as "the conversion"
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("%s panicked: %v", p.What, p.Value) }

// Recover turns a panic into a [*Panic]. A function defers it before it calls what may
// panic:
//
//	defer guard.Recover(&err, "the conversion")
func Recover(err *error, what string) {
	if v := recover(); v != nil {
		*err = &Panic{what, v, debug.Stack()}
	}
}

// RecoverAs is [Recover] for an error that contains the panic, such as status.Internal, which hides
// it from clients.
func RecoverAs[E error](err *error, what string, as func(error) E) {
	if v := recover(); v != nil {
		*err = as(&Panic{what, v, debug.Stack()})
	}
}

// WithStack returns the keys and values of a log entry about an error. If a panic is its cause, they
// have the stack.
func WithStack(err error, keysAndValues ...any) []any {
	if p, ok := errors.AsType[*Panic](err); ok {
		return append(keysAndValues, "stack", string(p.Stack))
	}
	return keysAndValues
}

// IsNil reports whether an interface holds nothing, or a nil pointer, function, map, channel or
// slice. Such a value fails only when somebody calls it.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Slice:
		return r.IsNil()
	}
	return false
}
