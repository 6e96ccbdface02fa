package openapi

import (
	"cmp"
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
	// sorted goes through objects by name, so that reports are the same each time. It costs, so the first walk is not
	// sorted, and only one that found something is repeated.
	sorted bool
	limit  int // of errors; zero means maxErrors
}

func (w *walk) full() bool { return len(w.errs) >= cmp.Or(w.limit, maxErrors) }

func (w *walk) fail(t meta.CauseType, value any, detail string) {
	if !w.full() {
		w.errs = append(w.errs, status.FieldError{Type: t, Field: json.FormatPath(w.path), Value: value, Detail: detail})
	}
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
