package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// Fields collects the problems of an object, so that its author sees all of them at once:
//
//	f.At("spec", "size").Invalid(size, "must be even")
//
// The zero value is ready to use. A Fields must not be used concurrently. Of more problems than an
// answer shows by far, only the type is kept: a body of a few MiB can have a hundred thousand.
type Fields struct{ errs []FieldError }

// maxWhole is how many problems are kept as a whole.
const maxWhole = 4 * maxCauses

// At returns the field with these names from the root of the object. Without names it is the object
// itself.
func (f *Fields) At(names ...string) Field { return Field{to: f, path: At(names...)} }

// In returns the field at path.
func (f *Fields) In(path *Path) Field { return Field{to: f, path: path} }

// Add appends problems found elsewhere.
func (f *Fields) Add(errs ...FieldError) { f.errs = append(f.errs, errs...) }

// Errors returns a copy of the collected problems, in order.
func (f *Fields) Errors() []FieldError { return slices.Clone(f.errs) }

// Len returns the number of collected problems.
func (f *Fields) Len() int { return len(f.errs) }

// Field is a field of the object. Report problems with it, or descend from it.
type Field struct {
	to   *Fields
	path *Path
}

// Child returns the field of this name.
func (f Field) Child(name string) Field { return Field{to: f.to, path: f.path.Child(name)} }

// Index returns the i-th item of a list.
func (f Field) Index(i int) Field { return Field{to: f.to, path: f.path.Index(i)} }

// Key returns an entry of a map, or an item of a keyed list.
func (f Field) Key(s string) Field { return Field{to: f.to, path: f.path.Key(s)} }

// Path returns the path of the field.
func (f Field) Path() *Path { return f.path }

// Invalid reports a value that is malformed or out of range.
func (f Field) Invalid(v any, detail string) { f.add(meta.CauseFieldValueInvalid, v, detail) }

// Required reports a missing value; detail may be empty.
func (f Field) Required(detail string) { f.add(meta.CauseFieldValueRequired, nil, detail) }

// NotSupported reports a value outside a known set, and lists the set.
func (f Field) NotSupported(v any, supported ...string) {
	quoted := make([]string, len(supported))
	for i, s := range supported {
		quoted[i] = strconv.Quote(s)
	}
	detail := ""
	if len(quoted) > 0 {
		detail = "supported values: " + strings.Join(quoted, ", ")
	}
	f.add(meta.CauseFieldValueNotSupported, v, detail)
}

// Duplicate reports a value that must be unique and is not.
func (f Field) Duplicate(v any) { f.add(meta.CauseFieldValueDuplicate, v, "") }

// Forbidden reports a value that must not be set here or now.
func (f Field) Forbidden(detail string) { f.add(meta.CauseFieldValueForbidden, nil, detail) }

// TooLong reports a text of more than limit bytes. The message does not repeat the text.
func (f Field) TooLong(limit int) {
	f.add(meta.CauseFieldValueTooLong, nil, "may not be more than "+count(limit, "byte"))
}

// TooMany reports a collection of actual items where at most limit are allowed.
func (f Field) TooMany(actual, limit int) {
	f.add(meta.CauseFieldValueTooMany, int64(actual), "must have at most "+count(limit, "item"))
}

// TypeInvalid reports a value of the wrong type.
func (f Field) TypeInvalid(v any, detail string) { f.add(meta.CauseFieldValueTypeInvalid, v, detail) }

// NotFound reports a reference to something that does not exist.
func (f Field) NotFound(v any) { f.add(meta.CauseFieldValueNotFound, v, "") }

// Internal reports that a field could not be checked, and why. Clients see the reason.
func (f Field) Internal(detail string) { f.add(meta.CauseInternalError, nil, detail) }

func (f Field) add(t meta.CauseType, v any, detail string) {
	if len(f.to.errs) >= maxWhole {
		f.to.Add(FieldError{Type: t})
		return
	}
	f.to.Add(FieldError{Type: t, Field: f.path.String(), Value: v, Detail: detail})
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
