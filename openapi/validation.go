package openapi

import (
	"fmt"
	"maps"
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
	return s.problems(tree, earlier{}, nil, false)
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
	return s.judge(tree, old, false)
}

// JudgeStatus is [Schema.Judge] for a write of the status alone, or [Schema.JudgeWhole] if whole is set. As in
// Kubernetes, the rules of embedded objects do not apply to such a write.
//
// Source: CRD-15.
func (s *Schema) JudgeStatus(tree, old map[string]any, whole bool) (problems []status.FieldError, valid bool) {
	if whole {
		return s.judgeWhole(tree, old, true)
	}
	return s.judge(tree, old, true)
}

// judge is Judge. bare leaves out the rules of embedded objects.
func (s *Schema) judge(tree, old map[string]any, bare bool) (problems []status.FieldError, valid bool) {
	if s.ready == nil {
		return unready(), false
	}
	w := walk{first: true, bare: bare}
	w.path = w.room[:0]
	if s.validate(&w, tree, earlier{}); len(w.errs) == 0 {
		return nil, true // the common case needs no comparison with old
	}
	if old != nil { // what kind of object it is does not count as unchanged
		old = maps.Clone(old)
		delete(old, "apiVersion")
		delete(old, "kind")
	}
	return s.problems(tree, earlier{old, old != nil}, old, bare), false
}

// JudgeWhole is [Schema.Judge] of an update that has to be valid as a whole. As in Kubernetes, only the
// types of lists do not count if the object broke one of them before.
func (s *Schema) JudgeWhole(tree, old map[string]any) (problems []status.FieldError, valid bool) {
	return s.judgeWhole(tree, old, false)
}

func (s *Schema) judgeWhole(tree, old map[string]any, bare bool) (problems []status.FieldError, valid bool) {
	if s.ready == nil {
		return unready(), false
	}
	problems = s.problems(tree, earlier{}, old, bare)
	return problems, len(problems) == 0
}

// problems validates a second time, in sorted order, if the first pass finds a problem. Valid
// objects thus never pay for sorting.
//
// before is the object that an update replaces, or nil.
func (s *Schema) problems(tree map[string]any, old earlier, before map[string]any, bare bool) []status.FieldError {
	w := walk{first: true, bare: bare}
	if s.validate(&w, tree, old); len(w.errs) == 0 {
		return nil
	}
	w = walk{sorted: true, bare: bare}
	s.validate(&w, tree, old)
	if w.duplicate && s.fromDocument && before != nil && s.hasDuplicates(before) {
		w = walk{sorted: true, excused: true, bare: bare}
		s.validate(&w, tree, old)
	}
	return w.report()
}

// hasDuplicates reports whether a list anywhere in a value breaks the rules of its type. Kubernetes
// then ignores all such lists in an update.
//
// Source: CRD-13.
func (s *Schema) hasDuplicates(v any) bool {
	var w walk
	s.validate(&w, v, earlier{})
	return w.duplicate
}

// validate reports the problems of a value whose previous value was old.
func (s *Schema) validate(w *walk, v any, old earlier) {
	if w.done() || !w.spend(1+len(s.Required)) {
		return
	}
	if old.known && s.unchanged(v, old) {
		s.validateEmbeds(w, v)
		return
	}
	if v == nil {
		s.validateNull(w)
		return
	}
	typed := s.hasType(v) && !s.isForTexts(v)
	if !typed {
		w.wrongType(s, v)
		if !s.fromDocument { // Kubernetes goes on, and reports what else is wrong
			return
		}
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
	if typed && s.checksForm() {
		if _, problem := s.scalarForm(v); problem != "" {
			w.fail(meta.CauseFieldValueInvalid, s.unformed(v), problem)
		}
	}
	if len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 || s.Not != nil {
		s.validateBranches(w, v, old)
	}
}

// isForTexts reports whether a schema has no type and a format of texts, which a value cannot have. As in
// Kubernetes, a branch of that kind does not take a number for a text without that format. Lists have no
// format there.
func (s *Schema) isForTexts(v any) bool {
	if s.Type != "" || s.Format == "" || s.IntOrString || !s.fromDocument || !isTextFormat(s.Format) {
		return false
	}
	switch v.(type) {
	case int64, float64, bool, map[string]any:
		return true
	}
	return false
}

// validateNull validates null. Kubernetes does not find it among the values of an enum, even if it is
// listed there.
func (s *Schema) validateNull(w *walk) {
	if !s.validNull() {
		w.wrongType(s, nil)
	}
	if s.fromDocument && len(s.Enum) > 0 {
		w.fail(meta.CauseFieldValueNotSupported, nil, "supported values: "+s.enumText())
	}
}

// validateEmbeds validates the embedded objects in a value that did not change. In a schema from a
// document, their rules apply to every update.
//
// Source: CRD-12.
func (s *Schema) validateEmbeds(w *walk, v any) {
	if !s.ready.embeds || w.bare || w.done() {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if s.EmbeddedObject && s.fromDocument {
			validateEmbedded(w, v, earlier{})
		}
		for _, name := range sortedNames(v) {
			if child := s.child(name); child != nil {
				w.path = append(w.path, json.Name(name))
				child.validateEmbeds(w, v[name])
				w.path = w.path[:len(w.path)-1]
			}
		}
	case []any:
		for i, item := range v {
			if s.Items != nil {
				w.path = append(w.path, json.Item(i))
				s.Items.validateEmbeds(w, item)
				w.path = w.path[:len(w.path)-1]
			}
		}
	}
}

// checksForm reports whether a scalar of the right type can still be malformed.
func (s *Schema) checksForm() bool {
	return s.codec != nil || s.Notation != "" || s.Type == Integer && s.Format == "int32" || s.Type == Number && s.Format == "float"
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
			b.WriteString(strconv.Quote(string(text)))
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
	if s.EmbeddedObject && !w.bare {
		before := old
		if s.fromDocument {
			before = earlier{}
		}
		validateEmbedded(w, object, before)
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
	if (s.ListType == ListSet || s.ListType == ListMap) && !s.allowsDuplicates && !s.advisory && !w.excused {
		s.validateUnique(w, array)
	}
}

// fewItems is the length up to which list items are compared pairwise. For short lists this is
// faster than a map and does not allocate.
const fewItems = 12

// validateUnique reports duplicate items of a set and items of a keyed list with duplicate keys. Only
// the second of equal items is reported.
func (s *Schema) validateUnique(w *walk, array []any) {
	if s.ListType == ListMap && s.fromDocument {
		for i, item := range array {
			if _, ok := item.(map[string]any); !ok && item != nil {
				w.duplicate = true
				w.failAt(json.Item(i), meta.CauseFieldValueInvalid, shown(item), "must be an object for an array of list-type map")
				return
			}
		}
	}
	if len(array) <= fewItems {
		for i, item := range array {
			equal := 0
			for _, other := range array[:i] {
				if s.identical(item, other) {
					equal++
				}
			}
			if equal == 1 {
				s.duplicate(w, i, item)
			}
		}
		return
	}
	seen := make(map[string]int, len(array))
	var text []byte
	for i, item := range array {
		var err error
		if text, err = s.appendIdentity(text[:0], item); err != nil {
			continue
		}
		seen[string(text)]++
		if seen[string(text)] == 2 {
			s.duplicate(w, i, item)
		}
	}
}

func (s *Schema) duplicate(w *walk, i int, item any) {
	w.duplicate = true
	w.failAt(json.Item(i), meta.CauseFieldValueDuplicate, shown(s.identity(item)), "")
}

// identical reports whether two items have the same identity.
func (s *Schema) identical(a, b any) bool {
	x, okX := s.object(a)
	y, okY := s.object(b)
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
	object, ok := s.object(item)
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

// appendIdentity appends what tells an item from others. Two items with the same text have the same
// identity.
func (s *Schema) appendIdentity(text []byte, item any) (_ []byte, err error) {
	object, ok := s.object(item)
	if s.ListType == ListSet || !ok {
		return json.AppendTree(text, item)
	}
	text = append(text, '{') // no item that is not an object has this beginning
	for i, name := range s.ListMapKeys {
		if value, present := object[name]; present && err == nil {
			text = append(strconv.AppendInt(text, int64(i), 10), ':')
			text, err = json.AppendTree(text, value)
			text = append(text, ',')
		}
	}
	return text, err
}

// object returns an item of a keyed list. Kubernetes takes null for an object without keys.
func (s *Schema) object(item any) (map[string]any, bool) {
	object, ok := item.(map[string]any)
	return object, ok || item == nil && s.fromDocument
}

// validateText checks the length first. The pattern is only matched against texts of acceptable
// length, which bounds its cost, as Kubernetes does. It checks the format of every text.
func (s *Schema) validateText(w *walk, text string) {
	if s.fits(w, text) && s.ready.pattern != nil {
		switch matches, err := s.ready.pattern.match(text); {
		case err != nil:
			w.fail(meta.CauseFieldValueTooLong, nil, err.Error())
		case !matches:
			w.fail(meta.CauseFieldValueInvalid, text, w.body("should match '%s'", s.Pattern))
		}
	}
	if s.Format == "" || s.Type != String && s.Type != "" || s.checksForm() {
		return
	}
	if check := checkOfFormat(s.Format); check != nil && !check(text) {
		w.fail(meta.CauseFieldValueTypeInvalid, text, w.body("must be of type %s: %q", s.Format, clip.Text(text, maxShownText)))
	}
}

// fits reports whether a text has an acceptable length.
func (s *Schema) fits(w *walk, text string) bool {
	if s.MinLength == nil && s.MaxLength == nil {
		return true
	}
	n := int64(utf8.RuneCountInString(text))
	if s.MaxLength != nil && n > *s.MaxLength {
		w.fail(meta.CauseFieldValueTooLong, nil, "may not be more than "+plural(*s.MaxLength, "character"))
		return false
	}
	if s.MinLength != nil && n < *s.MinLength {
		w.fail(meta.CauseFieldValueInvalid, text, w.body("should be at least %d chars long", *s.MinLength))
		return false
	}
	return true
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
			w.fail(meta.CauseFieldValueInvalid, v, w.body("should be greater than %v", shownBound(v, s.Minimum)))
		case c < 0:
			w.fail(meta.CauseFieldValueInvalid, v, w.body("should be greater than or equal to %v", shownBound(v, s.Minimum)))
		}
	}
	if s.Maximum != nil {
		switch c := compareNumbers(v, s.Maximum); {
		case s.ExclusiveMaximum && c >= 0:
			w.fail(meta.CauseFieldValueInvalid, v, w.body("should be less than %v", shownBound(v, s.Maximum)))
		case c > 0:
			w.fail(meta.CauseFieldValueInvalid, v, w.body("should be less than or equal to %v", shownBound(v, s.Maximum)))
		}
	}
	if s.MultipleOf != nil && !multipleOf(v, s.MultipleOf) {
		w.fail(meta.CauseFieldValueInvalid, v, w.body("should be a multiple of %v", shownBound(v, s.MultipleOf)))
	}
}

// shownBound returns a bound in the form of the number that is compared with it, as Kubernetes does.
func shownBound(v, bound any) any {
	if i, ok := bound.(int64); ok {
		if _, ok := v.(float64); ok {
			return float64(i)
		}
	}
	return bound
}

// validateBranches checks allOf, anyOf, oneOf and not. The branches of allOf report their own
// problems. Where none of the others holds, the problems of the nearest are reported beside that.
func (s *Schema) validateBranches(w *walk, v any, old earlier) {
	for _, branch := range s.AllOf {
		branch.validate(w, v, old)
	}
	if len(s.AnyOf) > 0 && w.valid(s.AnyOf, v, old, 1) == 0 {
		w.fail(meta.CauseFieldValueInvalid, shown(v), w.body("must validate at least one schema (anyOf)"))
		w.explain(s.AnyOf, v, old)
	}
	// A violation that old already had may help to satisfy a branch. It must not make an object
	// invalid by satisfying one branch too many, so both ways of counting have to fail.
	if len(s.OneOf) > 0 && w.valid(s.OneOf, v, earlier{}, 2) != 1 && (!old.known || w.valid(s.OneOf, v, old, 2) != 1) {
		w.fail(meta.CauseFieldValueInvalid, shown(v), w.body("must validate one and only one schema (oneOf)"))
		if w.valid(s.OneOf, v, old, 1) == 0 {
			w.explain(s.OneOf, v, old)
		}
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
