package openapi

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// maxErrors bounds what one walk reports: an object of a few MiB can have a million wrong items, and an answer tells of
// a thousand.
const maxErrors = 1000

// walk is one way through a tree beside its schema: where it is, and what it found.
type walk struct {
	path []json.Step
	errs []status.FieldError
	more int // problems beyond maxErrors
	work int // see maxWork
	// sorted goes through objects by name, so that reports are the same each time. It costs, so the first walk is not
	// sorted, and only one that found something is repeated.
	sorted bool
	first  bool // one problem is enough to know
}

// maxWork bounds how many steps one validation takes: a value is looked at once for each condition on it, so that a large
// object and a schema of many conditions, or of many required fields, could together keep a processor for minutes.
const maxWork = 10_000_000

// spend takes steps of work and tells whether the walk may go on. When it may not, that is a problem of the object.
func (w *walk) spend(steps int) bool {
	if w.work > maxWork {
		return false
	}
	if w.work += steps; w.work > maxWork {
		w.fail(meta.CauseFieldValueForbidden, nil, "the object takes too much work to validate")
		return false
	}
	return true
}

// done tells of a walk that has nothing more to find.
func (w *walk) done() bool { return w.first && len(w.errs) > 0 }

func (w *walk) fail(t meta.CauseType, value any, detail string) {
	if len(w.errs) == maxErrors {
		w.more++
		return
	}
	w.errs = append(w.errs, status.FieldError{Type: t, Field: json.FormatPath(w.path), Value: value, Detail: detail})
}

// report returns what was found; if that is too much, the last entry says how much there is.
func (w *walk) report() []status.FieldError {
	if w.more == 0 {
		return w.errs
	}
	told := len(w.errs) - 1
	return append(w.errs[:told], status.FieldError{
		Type: meta.CauseFieldValueTooMany, Value: int64(told + 1 + w.more), Detail: fmt.Sprintf("problems; the first %d are told", told),
	})
}

func (w *walk) failAt(step json.Step, t meta.CauseType, value any, detail string) {
	w.path = append(w.path, step)
	w.fail(t, value, detail)
	w.path = w.path[:len(w.path)-1]
}

// body words a problem as a sentence about the field in the body, as clients know it from custom resources.
func (w *walk) body(format string, args ...any) string {
	path := json.FormatPath(w.path)
	if path == "" {
		path = "<root>"
	}
	return path + " in body " + fmt.Sprintf(format, args...)
}

// wrongType reports a value that is not of the schema's type.
func (w *walk) wrongType(s *Schema, v any) {
	name := typeName(v)
	w.fail(meta.CauseFieldValueTypeInvalid, name, w.body("must be of type %s: %q", s.typeNames(), name))
}

// typeNames is the type for messages.
func (s *Schema) typeNames() string {
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.OrNumber:
		return "string or number"
	}
	return string(s.Type)
}

// hasType tells whether a value other than null is of the schema's type. An integer is a number too, and a float without
// a fraction is an integer.
func (s *Schema) hasType(v any) bool {
	switch v := v.(type) {
	case string:
		return s.Type == String || s.Type == "" || s.IntOrString
	case int64:
		return s.Type == Integer || s.Type == Number || s.Type == "" || s.IntOrString || s.OrNumber
	case float64:
		if s.Type == Integer || s.IntOrString {
			_, ok := integral(v)
			return ok
		}
		return s.Type == Number || s.Type == "" || s.OrNumber
	case bool:
		return s.Type == Boolean || s.Type == "" && !s.IntOrString
	case map[string]any:
		return s.Type == Object || s.Type == "" && !s.IntOrString
	case []any:
		return s.Type == Array || s.Type == "" && !s.IntOrString
	}
	return false
}

// typeName is the JSON type of a value.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return string(String)
	case int64:
		return string(Integer)
	case float64:
		if _, ok := integral(v); ok {
			return string(Integer)
		}
		return string(Number)
	case bool:
		return string(Boolean)
	case map[string]any:
		return string(Object)
	case []any:
		return string(Array)
	}
	return fmt.Sprintf("%T", v)
}
