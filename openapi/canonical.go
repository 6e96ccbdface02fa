package openapi

import (
	"encoding/base64"
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
		return tree, w.errs
	}
	return object, w.errs
}

func unready() []status.FieldError {
	return []status.FieldError{{Type: meta.CauseInternalError, Detail: "the schema did not pass openapi.New"}}
}

// canonical returns the value in its canonical form and whether that is another value.
func (s *Schema) canonical(w *walk, v any) (any, bool) {
	if w.full() {
		return v, false
	}
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
	switch v := v.(type) {
	case map[string]any:
		return s.canonicalObject(w, v)
	case []any:
		return s.canonicalArray(w, v)
	default:
		return s.canonicalScalar(w, v)
	}
}

// allowsNull is also true of values that may be anything.
func (s *Schema) allowsNull() bool {
	return s.Nullable || s.Type == "" && !s.IntOrString
}

func (s *Schema) canonicalObject(w *walk, object map[string]any) (any, bool) {
	out, changed := object, false
	set := func(name string, value any, keep bool) {
		if !changed {
			out, changed = maps.Clone(object), true
		}
		if keep {
			out[name] = value
		} else {
			delete(out, name)
		}
	}
	visit := func(name string, value any) {
		child := s.child(name)
		switch {
		case child == nil:
		case value == nil && !child.allowsNull():
			set(name, nil, false)
		default:
			w.path = append(w.path, json.Name(name))
			if canonical, other := child.canonical(w, value); other {
				set(name, canonical, true)
			}
			w.path = w.path[:len(w.path)-1]
		}
	}
	if w.sorted {
		for _, name := range sortedNames(object) {
			visit(name, object[name])
		}
	} else {
		for name, value := range object {
			visit(name, value)
		}
	}
	return out, changed
}

// child is the schema of a named field; nil when nothing is known of it.
func (s *Schema) child(name string) *Schema {
	if child, ok := s.ready.properties[name]; ok {
		return child
	}
	return s.AdditionalProperties
}

func (s *Schema) canonicalArray(w *walk, array []any) (any, bool) {
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

// scalarForm returns the form in which a scalar of the right type is kept, or what is wrong with it.
func (s *Schema) scalarForm(v any) (form any, problem string) {
	if s.codec != nil {
		form, err := s.codec.canonical(v)
		if err != nil {
			return v, err.Error()
		}
		return form, ""
	}
	switch v := v.(type) {
	case string:
		return s.textForm(v)
	case float64:
		if s.Type == Integer || s.IntOrString {
			i, _ := integral(v)
			return s.integerForm(i)
		}
	case int64:
		if s.Type == Integer {
			return s.integerForm(v)
		}
	}
	if s.Type == Number {
		single := s.Format == "float"
		form = canonicalNumber(v, single)
		if f, ok := form.(float64); ok && single && math.Abs(f) > math.MaxFloat32 {
			return v, "is beyond the range of a 32-bit float"
		}
		return form, ""
	}
	return v, ""
}

func (s *Schema) integerForm(i int64) (any, string) {
	if s.Format == "int32" && (i < math.MinInt32 || i > math.MaxInt32) {
		return i, "does not fit in 32 bits"
	}
	return i, ""
}

func (s *Schema) textForm(text string) (any, string) {
	switch s.Form {
	case FormTime:
		t, err := meta.ParseTime(text)
		if err != nil {
			return text, err.Error()
		}
		return formatted(text, t.AppendFormatted), ""
	case FormMicroTime:
		t, err := meta.ParseMicroTime(text)
		if err != nil {
			return text, err.Error()
		}
		return formatted(text, t.AppendFormatted), ""
	case FormDuration:
		d, err := meta.ParseDuration(text)
		if err != nil {
			return text, err.Error()
		}
		return d.String(), ""
	case FormBytes:
		return bytesForm(text)
	}
	return text, ""
}

// formatted keeps the text it was given when that is the form already, to save the copy.
func formatted(text string, form func([]byte) []byte) any {
	var buf [64]byte
	if out := form(buf[:0]); string(out) != text {
		return string(out)
	}
	return text
}

// bytesForm drops the line breaks that Go's decoder skips; the alphabet and the padding have to be right.
func bytesForm(text string) (any, string) {
	if strings.ContainsAny(text, "\r\n") {
		text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(text); err != nil {
		return text, "must be standard base64 with padding"
	}
	return text, ""
}
