package openapi

import (
	"encoding/base64"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Canonical writes every value in the one way in which it is kept at rest, so that an object which a client read and sent
// back in other words has the same bytes: whole numbers are integers, floats have no more digits than they need, times
// and durations and quantities are as their Go types write them, and null is dropped from objects unless the schema
// allows it. Empty lists and objects stay: they differ from absent ones. What the schema does not describe is left alone.
//
// Values of a wrong type and texts that have no such form stay as they are and are reported, each with its path; Validate
// reports them too. Doing it twice changes nothing more.
func (s *Schema) Canonical(tree map[string]any) (map[string]any, []status.FieldError) {
	if s.ready == nil {
		return tree, unready()
	}
	var w walk
	out, _ := s.canonical(&w, tree)
	if len(w.errs) > 0 {
		w = walk{sorted: true}
		out, _ = s.canonical(&w, tree)
	}
	object, ok := out.(map[string]any)
	if !ok {
		return tree, w.report()
	}
	return object, w.report()
}

func unready() []status.FieldError {
	return []status.FieldError{{Type: meta.CauseInternalError, Detail: "the schema did not pass openapi.New"}}
}

// canonical returns the value in its canonical form and whether that is another value.
func (s *Schema) canonical(w *walk, v any) (any, bool) {
	if v == nil {
		if !s.allowsNull() {
			w.wrongType(s, v)
		}
		return v, false
	}
	if !s.hasType(v) {
		w.wrongType(s, v)
		return v, false
	}
	switch t := v.(type) {
	case map[string]any:
		return s.canonicalObject(w, t)
	case []any:
		if out, changed := s.canonicalArray(w, t); changed {
			return out, true
		}
		return v, false
	default:
		return s.canonicalScalar(w, v)
	}
}

// allowsNull is also true of values that may be anything.
func (s *Schema) allowsNull() bool {
	return s.Nullable || s.Type == "" && !s.IntOrString
}

func (s *Schema) canonicalObject(w *walk, object map[string]any) (any, bool) {
	out := object
	if w.sorted {
		for _, name := range sortedNames(object) {
			out = s.canonicalMember(w, object, out, name, object[name])
		}
	} else {
		for name, value := range object {
			out = s.canonicalMember(w, object, out, name, value)
		}
	}
	return out, !same(out, object)
}

// canonicalMember returns out with the member in canonical form; out is object itself until the first change.
func (s *Schema) canonicalMember(w *walk, object, out map[string]any, name string, value any) map[string]any {
	child := s.child(name)
	if child == nil {
		return out
	}
	if value == nil && !child.allowsNull() {
		out = copied(out, object)
		delete(out, name)
		return out
	}
	w.path = append(w.path, json.Name(name))
	canonical, other := child.canonical(w, value)
	w.path = w.path[:len(w.path)-1]
	if other {
		out = copied(out, object)
		out[name] = canonical
	}
	return out
}

// copied returns a copy of the object to change, unless out is one already.
func copied(out, object map[string]any) map[string]any {
	if same(out, object) {
		return maps.Clone(object)
	}
	return out
}

// child is the schema of a named field; nil when nothing is known of it.
func (s *Schema) child(name string) *Schema {
	if child, ok := s.ready.properties[name]; ok {
		return child
	}
	return s.AdditionalProperties
}

func (s *Schema) canonicalArray(w *walk, array []any) ([]any, bool) {
	if s.Items == nil {
		return array, false
	}
	out, changed := array, false
	for i, value := range array {
		w.path = append(w.path, json.Item(i))
		if canonical, other := s.Items.canonical(w, value); other {
			if !changed {
				out, changed = slices.Clone(array), true
			}
			out[i] = canonical
		}
		w.path = w.path[:len(w.path)-1]
	}
	return out, changed
}

func (s *Schema) canonicalScalar(w *walk, v any) (any, bool) {
	canonical, problem := s.scalarForm(v)
	if problem != "" {
		w.fail(meta.CauseFieldValueInvalid, v, problem)
		return v, false
	}
	return canonical, canonical != v
}

// scalarForm returns the form in which a scalar of the right type is kept, v itself if that is it, or what is wrong with
// the scalar.
func (s *Schema) scalarForm(v any) (form any, problem string) {
	if s.codec != nil {
		form, err := s.codec.canonical(v)
		if err != nil {
			return v, err.Error()
		}
		return form, ""
	}
	switch n := v.(type) {
	case string:
		if s.Form == "" {
			return v, ""
		}
		form, err := textForm(s.Form, n)
		if err != nil {
			return v, err.Error()
		}
		if form == n {
			return v, ""
		}
		return form, ""
	case float64:
		if s.Type == Integer || s.IntOrString {
			i, _ := integral(n)
			return i, s.checkInteger(i)
		}
	case int64:
		if s.Type == Integer {
			return v, s.checkInteger(n)
		}
	}
	if s.Type == Number {
		return s.numberForm(v)
	}
	return v, ""
}

func (s *Schema) checkInteger(i int64) (problem string) {
	if s.Format == "int32" && (i < math.MinInt32 || i > math.MaxInt32) {
		return "does not fit in 32 bits"
	}
	return ""
}

func (s *Schema) numberForm(v any) (form any, problem string) {
	single := s.Format == "float"
	form = canonicalNumber(v, single)
	if f, ok := form.(float64); ok && single && math.Abs(f) > math.MaxFloat32 {
		return v, "is beyond the range of a 32-bit float"
	}
	return form, ""
}

func textForm(form Form, text string) (string, error) {
	switch form {
	case FormTime:
		t, err := meta.ParseTime(text)
		return formatted(text, t.AppendFormatted), err
	case FormMicroTime:
		t, err := meta.ParseMicroTime(text)
		return formatted(text, t.AppendFormatted), err
	case FormDuration:
		d, err := meta.ParseDuration(text)
		return d.String(), err
	case FormBytes:
		return bytesForm(text)
	}
	return text, nil
}

// formatted returns the text it was given when that is the form already, to save the copy.
func formatted(text string, form func([]byte) []byte) string {
	var buf [64]byte
	if out := form(buf[:0]); string(out) != text {
		return string(out)
	}
	return text
}

var errBase64 = errors.New("must be standard base64 with padding")

// bytesForm drops the line breaks that Go's decoder skips; the alphabet and the padding have to be right.
func bytesForm(text string) (string, error) {
	if strings.ContainsAny(text, "\r\n") {
		text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(text); err != nil {
		return text, errBase64
	}
	return text, nil
}
