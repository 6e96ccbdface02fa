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

// Canonical returns the tree with every value in the form in which it is stored. Two clients that
// write the same value differently therefore produce the same bytes: whole numbers become integers,
// floats use the fewest digits possible, and times, durations and quantities look as their Go types
// write them. Canonical removes null members unless the schema allows null. In a map of texts, null is
// the empty one, as Go decodes it. Canonical keeps empty lists and objects, because they differ from
// absent ones, and does not touch fields that the schema does not describe.
//
// Values of the wrong type and texts that cannot be parsed stay unchanged. Canonical reports each
// with its path; Validate reports them too. Canonical is idempotent. It does not modify tree: it
// copies the objects and lists that change and shares the rest.
func (s *Schema) Canonical(tree map[string]any) (map[string]any, []status.FieldError) {
	return s.canonicalTree(tree, false)
}

// CanonicalPatched is [Schema.Canonical] for a canonical tree in which a policy or a webhook has changed
// something. A null that a document of a schema does not allow is a problem here, and stays: a client that
// sends null leaves the field out, while whoever patches an object could have removed it.
func (s *Schema) CanonicalPatched(tree map[string]any) (map[string]any, []status.FieldError) {
	return s.canonicalTree(tree, true)
}

func (s *Schema) canonicalTree(tree map[string]any, patched bool) (map[string]any, []status.FieldError) {
	if s.ready == nil {
		return tree, unready()
	}
	w := walk{patched: patched}
	w.path = w.room[:0]
	out, _ := s.canonical(&w, tree)
	// Sorting names on every request is expensive and only matters for the order of errors, so the
	// walk is repeated with sorted names only if there is something to report.
	if len(w.errs) > 0 {
		w = walk{sorted: true, patched: patched}
		out, _ = s.canonical(&w, tree)
	}
	object, ok := out.(map[string]any)
	if !ok {
		return tree, w.report()
	}
	return object, w.report()
}

// unready is the error of methods that are called before New. Staying silent would let invalid
// objects pass.
func unready() []status.FieldError {
	return []status.FieldError{{Type: meta.CauseInternalError, Detail: "the schema did not pass openapi.New"}}
}

// canonical returns the canonical form of v and reports whether it differs from v.
func (s *Schema) canonical(w *walk, v any) (any, bool) {
	if v == nil {
		if !s.validNull() && s.DefaultValue == nil {
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

// validNull reports whether null is a valid value. It is one for a schema without a type, which
// allows any value.
func (s *Schema) validNull() bool {
	return s.Nullable || s.Type == "" && !s.IntOrString
}

// keepsNull reports whether a member stays if it is null. In documents, this has to be said even of
// members without a type.
func (s *Schema) keepsNull() bool {
	return s.Nullable || s.Type == "" && !s.IntOrString && !s.fromDocument
}

// canonicalObject is copy-on-write: it returns object itself as long as no member changes.
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
	if s.EmbeddedObject && s.fromDocument {
		if metadata, ok := out["metadata"].(map[string]any); ok {
			if full := withoutEmpty(metadata); !same(full, metadata) {
				out = copied(out, object)
				out["metadata"] = full
			}
		}
	}
	return out, !same(out, object)
}

// canonicalMember stores the canonical form of one member in out and returns out. While nothing has
// changed, out is object itself; the first change clones it.
func (s *Schema) canonicalMember(w *walk, object, out map[string]any, name string, value any) map[string]any {
	child := s.child(name)
	if child == nil {
		return out
	}
	if value == nil && !child.keepsNull() {
		refused := w.patched && child.fromDocument && child.DefaultValue == nil && !child.validNull()
		if refused || s.undescribedText(name) { // Validate reports it
			w.path = append(w.path, json.Name(name))
			w.wrongType(child, value)
			w.path = w.path[:len(w.path)-1]
			return out
		}
		if zero := s.zeroItem(name); zero != nil {
			out = copied(out, object)
			out[name] = zero
			return out
		}
		if child.DefaultValue == nil || !child.fromDocument { // otherwise Default replaces it
			out = copied(out, object)
			if delete(out, name); s.ownMetadata && name == "metadata" {
				out[name] = map[string]any{} // as a struct of metadata is written that was read from null
			}
		}
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

// undescribedText reports whether a field is the apiVersion or kind of an embedded object, and the
// document does not describe it. Kubernetes does not drop null there, and refuses it.
func (s *Schema) undescribedText(name string) bool {
	return name == "apiVersion" && s.ownVersion || name == "kind" && s.ownKind
}

// zeroItem returns what null stands for as the value of a name in a map of texts, bytes or scalars
// with JSON methods, which Kubernetes' clients write: Go decodes it as the zero value, and keeps the
// name. It returns nil for a map of anything else, and if name is a field.
func (s *Schema) zeroItem(name string) any {
	values := s.AdditionalProperties
	if values == nil || values.fromDocument || values.DefaultValue != nil {
		return nil
	}
	if _, field := s.ready.properties[name]; field {
		return nil
	}
	if values.codec != nil {
		zero, err := values.codec.canonical(nil)
		if err != nil {
			return nil
		}
		return zero
	}
	if values.Type == String && (values.Notation == "" || values.Notation == NotationBytes) {
		return ""
	}
	return nil
}

// copied returns a copy of object that may be modified. If out is already a copy, it returns out.
func copied(out, object map[string]any) map[string]any {
	if same(out, object) {
		return maps.Clone(object)
	}
	return out
}

// child returns the schema of a field, or nil if the schema does not describe that field.
func (s *Schema) child(name string) *Schema {
	if child, ok := s.ready.properties[name]; ok {
		return child
	}
	return s.AdditionalProperties
}

// canonicalArray is copy-on-write, like canonicalObject. Null items stay, or become the zero value:
// removing them would shift the indexes of all later items.
func (s *Schema) canonicalArray(w *walk, array []any) ([]any, bool) {
	if s.Items == nil {
		return array, false
	}
	out, changed := array, false
	for i, value := range array {
		w.path = append(w.path, json.Item(i))
		canonical, other := s.Items.canonical(w, s.decoded(value))
		if other || value == nil && canonical != nil {
			if !changed {
				out, changed = slices.Clone(array), true
			}
			out[i] = canonical
		}
		w.path = w.path[:len(w.path)-1]
	}
	return out, changed
}

// decoded returns an item of a list as Go decodes it.
func (s *Schema) decoded(item any) any {
	switch {
	case item != nil || !s.nullIsZero:
		return item
	case s.Items.Type == Object:
		return map[string]any{}
	}
	return ""
}

// redacted stands for a value that messages do not repeat. Bytes are the data of secrets, and a
// message gets into audit records, whatever their level is (A5, D2).
const redacted = "<redacted>"

// unformed returns a scalar without a stored form as messages show it.
func (s *Schema) unformed(v any) any {
	if s.Notation == NotationBytes {
		return redacted
	}
	return v
}

// canonicalScalar reports a scalar without a stored form and leaves it unchanged.
func (s *Schema) canonicalScalar(w *walk, v any) (any, bool) {
	canonical, problem := s.scalarForm(v)
	if problem != "" {
		w.fail(meta.CauseFieldValueInvalid, s.unformed(v), problem)
		return v, false
	}
	return canonical, canonical != v
}

// scalarForm returns the stored form of a scalar that has the right type; this may be v itself. If
// the scalar has no stored form, problem says why.
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
		if s.Notation == "" {
			return v, ""
		}
		form, err := textForm(s.Notation, n)
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
		if s.Type == Integer || s.IntOrString {
			return v, s.checkInteger(n)
		}
	}
	if s.Type == Number && !s.fromDocument {
		return s.numberForm(v)
	}
	return v, ""
}

func (s *Schema) checkInteger(i int64) (problem string) {
	if (s.Format == "int32" || s.int32OrText) && (i < math.MinInt32 || i > math.MaxInt32) {
		return "does not fit in 32 bits"
	}
	return ""
}

// numberForm rejects numbers that a 32-bit float cannot hold: a Go client could not decode them.
func (s *Schema) numberForm(v any) (form any, problem string) {
	single := s.Format == "float"
	form = canonicalNumber(v, single)
	if f, ok := form.(float64); ok && single && math.Abs(f) > math.MaxFloat32 {
		return v, "is beyond the range of a 32-bit float"
	}
	return form, ""
}

func textForm(form Notation, text string) (string, error) {
	switch form {
	case NotationTime:
		t, err := meta.ParseTime(text)
		var room [64]byte
		return formatted(text, t.AppendFormatted(room[:0])), err
	case NotationMicroTime:
		t, err := meta.ParseMicroTime(text)
		var room [64]byte
		return formatted(text, t.AppendFormatted(room[:0])), err
	case NotationDuration:
		d, err := meta.ParseDuration(text)
		return d.String(), err
	case NotationBytes:
		return bytesForm(text)
	}
	return text, nil
}

// formatted returns text itself if it already has the given form. This avoids allocating a copy in
// the common case.
func formatted(text string, form []byte) string {
	if string(form) != text {
		return string(form)
	}
	return text
}

var errBase64 = errors.New("must be standard base64 with padding")

// bytesForm removes the line breaks that Go's decoder ignores. Alphabet and padding must be valid.
func bytesForm(text string) (string, error) {
	if strings.ContainsAny(text, "\r\n") {
		text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(text); err != nil {
		return text, errBase64
	}
	return text, nil
}
