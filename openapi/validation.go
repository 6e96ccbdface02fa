package openapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Validate returns every problem of an object at once, in the order of its names. Beyond a thousand problems, the last
// entry says how many there are. Unknown fields are not a problem here: Prune has removed them. Texts and cause types are
// those of Kubernetes.
func (s *Schema) Validate(tree map[string]any) []status.FieldError {
	if s.ready == nil {
		return unready()
	}
	return s.problems(tree, earlier{})
}

// ValidateUpdate returns the problems of an object that are to replace old, leaving out what was as wrong before: nothing
// is said about a value that equals its earlier one, nor about anything below it. So a rule that was added since stands in
// the way of nobody who changes something else (KEP-4008). Items of keyed lists are compared by their keys; other lists
// are as a whole the same or not.
func (s *Schema) ValidateUpdate(tree, old map[string]any) []status.FieldError {
	if s.ready == nil {
		return unready()
	}
	var w walk
	if s.validate(&w, tree, earlier{}); len(w.errs) == 0 {
		return nil // as nearly always, and nothing had to be compared
	}
	return s.problems(tree, earlier{old, old != nil})
}

// problems looks twice when there are any, so that only those who are told of problems pay for their order.
func (s *Schema) problems(tree map[string]any, old earlier) []status.FieldError {
	var w walk
	if s.validate(&w, tree, old); len(w.errs) == 0 {
		return nil
	}
	w = walk{sorted: true}
	s.validate(&w, tree, old)
	return w.report()
}

// validate reports what is wrong with a value that was old before.
func (s *Schema) validate(w *walk, v any, old earlier) {
	if w.done() || !w.spend(1+len(s.Required)) || old.known && json.Equal(v, old.value) {
		return
	}
	if v == nil {
		if !s.allowsNull() {
			w.wrongType(s, v)
		}
		return
	}
	if !s.hasType(v) {
		w.wrongType(s, v)
		return
	}
	if len(s.Enum) > 0 && !s.told {
		s.validateEnum(w, v)
	}
	switch t := v.(type) {
	case map[string]any:
		s.validateObject(w, t, old)
	case []any:
		s.validateArray(w, t, old)
	case string:
		s.validateText(w, t)
	case int64, float64:
		s.validateNumber(w, v)
	}
	if s.checksForm() {
		if _, problem := s.scalarForm(v); problem != "" {
			w.fail(meta.CauseFieldValueInvalid, v, problem)
		}
	}
	if len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 || s.Not != nil {
		s.validateBranches(w, v, old)
	}
}

// checksForm tells whether scalars of the right type can still be wrong in how they are written.
func (s *Schema) checksForm() bool {
	return s.codec != nil || s.Form != "" || s.Type == Integer && s.Format == "int32" || s.Type == Number && s.Format == "float"
}

func (s *Schema) validateEnum(w *walk, v any) {
	if s.ready.enum != nil {
		text, err := json.AppendTree(nil, v)
		if _, known := s.ready.enum[string(text)]; known && err == nil {
			return
		}
	} else {
		for _, allowed := range s.Enum {
			if json.Equal(v, allowed) {
				return
			}
		}
	}
	w.fail(meta.CauseFieldValueNotSupported, shown(v), "supported values: "+s.enumText())
}

// maxEnumShown bounds how many allowed values an error repeats.
const maxEnumShown = 50

func (s *Schema) enumText() string {
	var b strings.Builder
	for i, v := range s.Enum {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == maxEnumShown {
			fmt.Fprintf(&b, "and %d more", len(s.Enum)-i)
			break
		}
		if text, ok := v.(string); ok {
			b.WriteString(strconv.Quote(text))
		} else if text, err := json.AppendTree(nil, v); err == nil {
			b.Write(text)
		}
	}
	return b.String()
}

func (s *Schema) validateObject(w *walk, object map[string]any, old earlier) {
	for _, name := range s.Required {
		if _, present := object[name]; !present {
			w.failAt(json.Name(name), meta.CauseFieldValueRequired, nil, "")
		}
	}
	if n := int64(len(object)); s.MaxProperties != nil && n > *s.MaxProperties {
		w.fail(meta.CauseFieldValueTooMany, n, "must have at most "+plural(*s.MaxProperties, "item"))
	} else if s.MinProperties != nil && n < *s.MinProperties {
		w.fail(meta.CauseFieldValueInvalid, n, w.body("should have at least %d properties", *s.MinProperties))
	}
	if s.EmbeddedObject {
		validateEmbedded(w, object, old)
	}
	if len(s.ready.properties) == 0 && s.AdditionalProperties == nil {
		return
	}
	if w.sorted {
		for _, name := range sortedNames(object) {
			s.validateMember(w, name, object[name], old)
		}
		return
	}
	for name, value := range object {
		s.validateMember(w, name, value, old)
	}
}

func (s *Schema) validateMember(w *walk, name string, value any, object earlier) {
	child := s.child(name)
	if child == nil {
		return
	}
	w.path = append(w.path, json.Name(name))
	child.validate(w, value, object.member(name))
	w.path = w.path[:len(w.path)-1]
}

func (s *Schema) validateArray(w *walk, array []any, old earlier) {
	if n := int64(len(array)); s.MaxItems != nil && n > *s.MaxItems {
		w.fail(meta.CauseFieldValueTooMany, n, "must have at most "+plural(*s.MaxItems, "item"))
	} else if s.MinItems != nil && n < *s.MinItems {
		w.fail(meta.CauseFieldValueInvalid, n, w.body("should have at least %d items", *s.MinItems))
	}
	if s.Items != nil {
		before := s.earlierItems(old)
		for i, value := range array {
			w.path = append(w.path, json.Item(i))
			s.Items.validate(w, value, before.item(value))
			w.path = w.path[:len(w.path)-1]
		}
	}
	if (s.ListType == ListSet || s.ListType == ListMap) && len(array) > 1 && !s.repeats && !s.told {
		s.validateUnique(w, array)
	}
}

// fewItems are compared with each other, which is cheaper than a table and needs no memory.
const fewItems = 12

// validateUnique reports items of a set that are equal, and items of a keyed list that have equal keys.
func (s *Schema) validateUnique(w *walk, array []any) {
	if len(array) <= fewItems {
		for i, item := range array {
			if slices.ContainsFunc(array[:i], func(other any) bool { return s.identical(item, other) }) {
				w.failAt(json.Item(i), meta.CauseFieldValueDuplicate, shown(s.identity(item)), "")
			}
		}
		return
	}
	seen := make(map[string]struct{}, len(array))
	var text []byte
	for i, item := range array {
		var err error
		if text, err = json.AppendTree(text[:0], s.identity(item)); err != nil {
			continue
		}
		if _, dup := seen[string(text)]; dup {
			w.failAt(json.Item(i), meta.CauseFieldValueDuplicate, shown(s.identity(item)), "")
			continue
		}
		seen[string(text)] = struct{}{}
	}
}

// identical is whether two items have the same identity.
func (s *Schema) identical(a, b any) bool {
	x, okX := a.(map[string]any)
	y, okY := b.(map[string]any)
	if s.ListType == ListSet || !okX || !okY {
		return json.Equal(a, b)
	}
	for _, name := range s.ListMapKeys {
		v, okV := x[name]
		u, okU := y[name]
		if okV != okU || !json.Equal(v, u) {
			return false
		}
	}
	return true
}

// identity is what makes an item of a list unique: its keys, or all of it. An item without a key is reported for that
// elsewhere.
func (s *Schema) identity(item any) any {
	object, ok := item.(map[string]any)
	if s.ListType == ListSet || !ok {
		return item
	}
	keys := make(map[string]any, len(s.ListMapKeys))
	for _, name := range s.ListMapKeys {
		if value, present := object[name]; present {
			keys[name] = value
		}
	}
	return keys
}

func (s *Schema) validateText(w *walk, text string) {
	if s.MinLength != nil || s.MaxLength != nil {
		n := int64(utf8.RuneCountInString(text))
		if s.MaxLength != nil && n > *s.MaxLength {
			w.fail(meta.CauseFieldValueTooLong, nil, "may not be more than "+plural(*s.MaxLength, "character"))
			return // a pattern need not look at what is too long
		}
		if s.MinLength != nil && n < *s.MinLength {
			w.fail(meta.CauseFieldValueInvalid, text, w.body("should be at least %d chars long", *s.MinLength))
		}
	}
	if s.ready.pattern != nil {
		switch matches, err := s.ready.pattern.match(text); {
		case err != nil:
			w.fail(meta.CauseFieldValueTooLong, nil, err.Error())
		case !matches:
			w.fail(meta.CauseFieldValueInvalid, text, w.body("should match '%s'", s.Pattern))
		}
	}
	if s.Format == "" || s.checksForm() {
		return
	}
	if check := checkOfFormat(s.Format); check != nil && !check(text) {
		w.fail(meta.CauseFieldValueInvalid, text, w.body("must be of type %s: %q", s.Format, cut(text)))
	}
}

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// cut keeps messages short.
func cut(text string) string {
	const limit = 100
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

func (s *Schema) validateNumber(w *walk, v any) {
	if s.Minimum != nil {
		switch c := compareNumbers(v, s.Minimum); {
		case s.ExclusiveMinimum && c <= 0:
			w.fail(meta.CauseFieldValueInvalid, v, w.body("should be greater than %v", s.Minimum))
		case c < 0:
			w.fail(meta.CauseFieldValueInvalid, v, w.body("should be greater than or equal to %v", s.Minimum))
		}
	}
	if s.Maximum != nil {
		switch c := compareNumbers(v, s.Maximum); {
		case s.ExclusiveMaximum && c >= 0:
			w.fail(meta.CauseFieldValueInvalid, v, w.body("should be less than %v", s.Maximum))
		case c > 0:
			w.fail(meta.CauseFieldValueInvalid, v, w.body("should be less than or equal to %v", s.Maximum))
		}
	}
	if s.MultipleOf != nil && !multipleOf(v, s.MultipleOf) {
		w.fail(meta.CauseFieldValueInvalid, v, w.body("should be a multiple of %v", s.MultipleOf))
	}
}

func (s *Schema) validateBranches(w *walk, v any, old earlier) {
	for _, branch := range s.AllOf {
		branch.validate(w, v, old)
	}
	if len(s.AnyOf) > 0 && w.valid(s.AnyOf, v, old, 1) == 0 {
		w.fail(meta.CauseFieldValueInvalid, shown(v), w.body("must validate at least one schema (anyOf)"))
	}
	// What is overlooked because it was so before may satisfy a branch, but not one too many.
	if len(s.OneOf) > 0 && w.valid(s.OneOf, v, earlier{}, 2) != 1 && (!old.known || w.valid(s.OneOf, v, old, 2) != 1) {
		w.fail(meta.CauseFieldValueInvalid, shown(v), w.body("must validate one and only one schema (oneOf)"))
	}
	if s.Not != nil && w.valid([]*Schema{s.Not}, v, earlier{}, 1) == 1 {
		w.fail(meta.CauseFieldValueInvalid, shown(v), w.body("must not validate the schema (not)"))
	}
}

// maxShownNodes bounds the objects and lists that an error repeats: there can be many errors about one large value.
const maxShownNodes = 100

// shown is a value as an error repeats it: large ones by their type alone.
func shown(v any) any {
	if nodes(v, maxShownNodes) < 0 {
		return typeName(v)
	}
	return v
}

// nodes takes the number of values in v off left; the result is negative when there are more.
func nodes(v any, left int) int {
	left--
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if left < 0 {
				break
			}
			left = nodes(member, left)
		}
	case []any:
		for _, item := range v {
			if left < 0 {
				break
			}
			left = nodes(item, left)
		}
	}
	return left
}

// valid counts the branches that a value satisfies, up to enough.
func (w *walk) valid(branches []*Schema, v any, old earlier, enough int) (n int) {
	for _, branch := range branches {
		inner := walk{first: true, work: w.work}
		if branch.validate(&inner, v, old); len(inner.errs) == 0 {
			n++
		}
		if w.work > maxWork || !w.spend(inner.work-w.work) {
			break
		}
		if n == enough {
			break
		}
	}
	return n
}
