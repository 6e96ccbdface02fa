package openapi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Validate returns all problems of an object, sorted by field name. Beyond a thousand problems, the
// last entry states the total. Validate ignores unknown fields, since Prune has already removed
// them. Messages and cause types are those of Kubernetes.
func (s *Schema) Validate(tree map[string]any) []status.FieldError {
	if s.ready == nil {
		return unready()
	}
	return s.problems(tree, earlier{})
}

// ValidateUpdate returns the problems of an object that replaces old, except those that old already
// had. It skips each value that equals its previous value, with everything below. A rule that was
// added later thus does not block updates of other fields. Items of keyed lists are compared with
// the previous item that has the same keys. Other lists are compared as a whole.
//
// Source: KEP-4008.
func (s *Schema) ValidateUpdate(tree, old map[string]any) []status.FieldError {
	problems, _ := s.Judge(tree, old)
	return problems
}

// Judge is [Schema.ValidateUpdate], and reports whether the object is valid as a whole: without
// problems that old already had.
func (s *Schema) Judge(tree, old map[string]any) (problems []status.FieldError, valid bool) {
	if s.ready == nil {
		return unready(), false
	}
	w := walk{first: true}
	if s.validate(&w, tree, earlier{}); len(w.errs) == 0 {
		return nil, true // the common case needs no comparison with old
	}
	if old != nil { // what kind of object it is does not count as unchanged
		old = maps.Clone(old)
		delete(old, "apiVersion")
		delete(old, "kind")
	}
	return s.problems(tree, earlier{old, old != nil}), false
}

// problems validates a second time, in sorted order, if the first pass finds a problem. Valid
// objects thus never pay for sorting.
func (s *Schema) problems(tree map[string]any, old earlier) []status.FieldError {
	w := walk{first: true}
	if s.validate(&w, tree, old); len(w.errs) == 0 {
		return nil
	}
	w = walk{sorted: true}
	s.validate(&w, tree, old)
	return w.report()
}

// validate reports the problems of a value whose previous value was old.
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
	if len(s.Enum) > 0 && !s.advisory {
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
			w.fail(meta.CauseFieldValueInvalid, s.unformed(v), problem)
		}
	}
	if len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 || s.Not != nil {
		s.validateBranches(w, v, old)
	}
}

// checksForm reports whether a scalar of the right type can still be malformed.
func (s *Schema) checksForm() bool {
	return s.codec != nil || s.Form != "" || s.Type == Integer && s.Format == "int32" || s.Type == Number && s.Format == "float"
}

// validateEnum looks the value up in the index if there is one, and otherwise compares it with each
// allowed value.
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

// maxEnumShown limits how many allowed values an error lists.
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

// validateObject checks one object. Missing required names are reported before the problems of
// members.
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
			if w.done() || w.work > maxWork {
				break
			}
		}
	}
	if (s.ListType == ListSet || s.ListType == ListMap) && len(array) > 1 && !s.allowsDuplicates && !s.advisory {
		s.validateUnique(w, array)
	}
}

// fewItems is the length up to which list items are compared pairwise. For short lists this is
// faster than a map and does not allocate.
const fewItems = 12

// validateUnique reports duplicate items of a set and items of a keyed list with duplicate keys.
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

// identical reports whether two items have the same identity.
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

// identity returns what must be unique about an item of a list: the values of its keys, or the
// whole item. A missing key is reported elsewhere.
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

// validateText checks the length first. The pattern and the format are only applied to texts of
// acceptable length, which bounds their cost.
func (s *Schema) validateText(w *walk, text string) {
	if s.MinLength != nil || s.MaxLength != nil {
		n := int64(utf8.RuneCountInString(text))
		if s.MaxLength != nil && n > *s.MaxLength {
			w.fail(meta.CauseFieldValueTooLong, nil, "may not be more than "+plural(*s.MaxLength, "character"))
			return // do not match the pattern against a text that is too long
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
		w.fail(meta.CauseFieldValueInvalid, text, w.body("must be of type %s: %q", s.Format, clip.Text(text, maxShownText)))
	}
}

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
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

// validateBranches checks allOf, anyOf, oneOf and not. The branches of allOf report their own
// problems. For the others a single message is reported, because the problems of a branch that need
// not hold would only confuse.
func (s *Schema) validateBranches(w *walk, v any, old earlier) {
	for _, branch := range s.AllOf {
		branch.validate(w, v, old)
	}
	if len(s.AnyOf) > 0 && w.valid(s.AnyOf, v, old, 1) == 0 {
		w.fail(meta.CauseFieldValueInvalid, shown(v), w.body("must validate at least one schema (anyOf)"))
	}
	// A violation that old already had may help to satisfy a branch. It must not make an object
	// invalid by satisfying one branch too many, so both ways of counting have to fail.
	if len(s.OneOf) > 0 && w.valid(s.OneOf, v, earlier{}, 2) != 1 && (!old.known || w.valid(s.OneOf, v, old, 2) != 1) {
		w.fail(meta.CauseFieldValueInvalid, shown(v), w.body("must validate one and only one schema (oneOf)"))
	}
	if s.Not != nil && w.valid([]*Schema{s.Not}, v, earlier{}, 1) == 1 {
		w.fail(meta.CauseFieldValueInvalid, shown(v), w.body("must not validate the schema (not)"))
	}
}

// maxShownText limits the text from an object that an error repeats.
const maxShownText = 100

// maxShownNodes limits the size of the values that errors repeat. One large value can have many
// errors.
const maxShownNodes = 100

// shown returns a value as errors repeat it. Large objects and lists are replaced by their type.
func shown(v any) any {
	if nodes(v, maxShownNodes) < 0 {
		return typeName(v)
	}
	return v
}

// nodes subtracts the number of values in v from left. The result is negative if v has more. It
// stops counting at that point, so its cost is bounded by left.
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

// valid counts the branches that a value satisfies. It stops at enough, because callers only need
// to know whether the count is reached or exceeded.
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
