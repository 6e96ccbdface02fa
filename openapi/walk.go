package openapi

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// maxErrors limits the errors of one walk. An object of a few MiB can have a million invalid items,
// and a response with an error for each would be far larger than the object.
const maxErrors = 1000

// walk is one pass over a tree and its schema. It holds the current position and the problems
// found.
type walk struct {
	path []json.Step
	room [8]json.Step // of path; most objects are not deeper
	errs []status.FieldError
	more int // problems beyond maxErrors, only counted
	work int // see maxWork
	// sorted visits the members of objects in the order of their names, so that reports are
	// reproducible. Sorting is expensive, so the first walk is unsorted and is repeated only if it
	// finds a problem.
	sorted bool
	first  bool // stop at the first problem
	// patched reports null where a schema from a document does not allow it, and does not drop it.
	patched bool
	// duplicate is set when a list has the same item twice, or items without identity. excused
	// ignores such lists.
	duplicate, excused bool
	// bare leaves out the rules of embedded objects.
	bare bool
}

// maxWork limits the steps of one validation. Each condition visits a value again, so a large
// object combined with a schema of many conditions or required fields could keep a processor busy
// for minutes.
const maxWork = 10_000_000

// spend accounts for steps of work and reports whether the walk may continue. Exceeding the limit
// is reported as a problem of the object.
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

// done reports whether the walk can stop.
func (w *walk) done() bool { return w.first && len(w.errs) > 0 }

// fail records a problem at the current position. It formats the path only for problems that are
// kept, since formatting dominates the cost.
func (w *walk) fail(t meta.CauseType, value any, detail string) {
	if w.isFull() {
		w.more++
		return
	}
	w.errs = append(w.errs, status.FieldError{Type: t, Field: json.FormatPath(w.path), Value: value, Detail: detail})
}

// isFull reports whether further problems are only counted.
func (w *walk) isFull() bool { return len(w.errs) == maxErrors }

// report returns the problems found. If some were dropped, the last entry states the total.
func (w *walk) report() []status.FieldError {
	if w.more == 0 {
		return w.errs
	}
	listed := len(w.errs) - 1
	return append(w.errs[:listed], status.FieldError{
		Type: meta.CauseFieldValueTooMany, Value: int64(listed + 1 + w.more), Detail: fmt.Sprintf("problems; only the first %d are listed", listed),
	})
}

func (w *walk) failAt(step json.Step, t meta.CauseType, value any, detail string) {
	w.path = append(w.path, step)
	w.fail(t, value, detail)
	w.path = w.path[:len(w.path)-1]
}

// body starts a message with the field's position, in the wording that clients know from custom
// resources.
func (w *walk) body(format string, args ...any) string {
	if w.isFull() {
		return "" // fail drops it; a message takes more memory than the value that it is about
	}
	path := json.FormatPath(w.path)
	if path == "" {
		path = "<root>"
	}
	return path + " in body " + fmt.Sprintf(format, args...)
}

// wrongType reports a value that does not have the schema's type.
func (w *walk) wrongType(s *Schema, v any) {
	name := typeName(v)
	w.fail(meta.CauseFieldValueTypeInvalid, name, w.body("must be of type %s: %q", s.typeNames(), name))
}

// typeNames returns the type as messages name it.
func (s *Schema) typeNames() string {
	switch {
	case s.IntOrString && s.fromDocument:
		return "integer,string"
	case s.IntOrString:
		return "integer or string"
	case s.OrNumber:
		return "string or number"
	case s.Type == "":
		return s.Format
	}
	return string(s.Type)
}

// hasType reports whether a value other than null has the schema's type. An integer is also a
// number, and a float without a fraction is also an integer.
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

// typeName returns the JSON type of a value.
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
