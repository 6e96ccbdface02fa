package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// Fields collects what is wrong with an object, so that its author hears of everything at once:
//
//	f.At("spec", "size").Invalid(size, "must be even")
//
// The zero value is ready. A Fields belongs to one goroutine.
type Fields struct{ errs []FieldError }

// At is the field of these names from the root of the object; without names it is the object
// itself.
func (f *Fields) At(names ...string) Field { return Field{to: f, path: At(names...)} }

// In is the field that path leads to.
func (f *Fields) In(path *Path) Field { return Field{to: f, path: path} }

// Add collects problems found elsewhere.
func (f *Fields) Add(errs ...FieldError) { f.errs = append(f.errs, errs...) }

// Errors returns what was collected, in order. The caller may change what it gets.
func (f *Fields) Errors() []FieldError { return slices.Clone(f.errs) }

// Len is the number of problems collected.
func (f *Fields) Len() int { return len(f.errs) }

// Field is a place of the object to report problems about, or to go on from.
type Field struct {
	to   *Fields
	path *Path
}

// Child goes on to a named field.
func (f Field) Child(name string) Field { return Field{to: f.to, path: f.path.Child(name)} }

// Index goes on to an item of a list.
func (f Field) Index(i int) Field { return Field{to: f.to, path: f.path.Index(i)} }

// Key goes on to an entry of a map, or to the item of a keyed list.
func (f Field) Key(s string) Field { return Field{to: f.to, path: f.path.Key(s)} }

// Path is where the field is.
func (f Field) Path() *Path { return f.path }

// Invalid reports a value that is malformed or out of range.
func (f Field) Invalid(v any, detail string) { f.add(meta.CauseFieldValueInvalid, v, detail) }

// Required reports a missing value; detail may be empty.
func (f Field) Required(detail string) { f.add(meta.CauseFieldValueRequired, nil, detail) }

// NotSupported reports a value outside a known set, and tells the set.
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

// TooLong reports a text of more than limit bytes; the text is not repeated.
func (f Field) TooLong(limit int) {
	f.add(meta.CauseFieldValueTooLong, nil, "may not be more than "+count(limit, "byte"))
}

// TooMany reports a collection of actual items where at most limit may be.
func (f Field) TooMany(actual, limit int) {
	f.add(meta.CauseFieldValueTooMany, int64(actual), "must have at most "+count(limit, "item"))
}

// TypeInvalid reports a value of the wrong type.
func (f Field) TypeInvalid(v any, detail string) { f.add(meta.CauseFieldValueTypeInvalid, v, detail) }

// NotFound reports a reference that names nothing.
func (f Field) NotFound(v any) { f.add(meta.CauseFieldValueNotFound, v, "") }

func (f Field) add(t meta.CauseType, v any, detail string) {
	f.to.Add(FieldError{Type: t, Field: f.path.String(), Value: v, Detail: detail})
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
