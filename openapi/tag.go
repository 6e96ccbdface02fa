package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/nearly"
)

// keywords are the struct tags that affect the schema, in the order in which they are applied.
var keywords = []string{
	"doc", "preserveUnknown", "embedded", "nullable", "format", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties", "list", "map",
	"default", "selectable", "column", "required", "optional", "expected", "patchStrategy", "patchMergeKey", "rule", "message",
}

// fieldTags holds the schema tags of one field.
type fieldTags struct {
	doc    string // used if there is no doc tag
	values map[string]string
}

// read adds the tags of a field. A tag that looks like a misspelt keyword is an error, because it
// would otherwise be ignored silently.
func (f *fieldTags) read(tag reflect.StructTag, misspelt func(string) string, at place) error {
	names, err := tagNames(tag)
	if err != nil {
		return at.errorf("tags `%s`: %w", tag, err)
	}
	var errs []error
	for _, name := range names {
		if slices.Contains(foreignRules, name) && !slices.ContainsFunc(names, isRule) {
			errs = append(errs, at.errorf("tag %s:%q has no effect here: write the rule with the tags of openapi.FromType, such as required:\"\" or minLength:\"1\"", name, tag.Get(name)))
		}
		if slices.Contains(keywords, name) {
			if f.values == nil {
				f.values = map[string]string{}
			}
			f.values[name] = tag.Get(name)
		} else if meant := misspelt(name); meant != "" {
			errs = append(errs, at.errorf("tag %s:%q: did you mean %s?", name, tag.Get(name), meant))
		}
	}
	return errors.Join(errs...)
}

// foreignRules are tags of other libraries that say which values are valid. Somebody who relies on
// them would find out too late that they have no effect.
var foreignRules = []string{"validate", "binding", "valid", "kubebuilder"}

// isRule reports whether a tag is a keyword that may stand in for a foreign rule.
func isRule(name string) bool {
	switch name {
	case "doc", "column", "selectable", "patchStrategy", "patchMergeKey":
		return false
	}
	return slices.Contains(keywords, name)
}

// foreignTags are tags of other libraries that differ from a keyword by one letter.
var foreignTags = []string{"enums", "form", "max", "min"}

// misspelt returns the keyword that name was probably meant to be, or "". Keywords of three letters
// must match except for case, since too many other words are similar to them.
func misspelt(name string) string {
	if slices.Contains(foreignTags, name) {
		return ""
	}
	for _, keyword := range keywords {
		allowed := 0
		switch {
		case len(keyword) > 6:
			allowed = 2
		case len(keyword) > 3:
			allowed = 1
		}
		if strings.EqualFold(keyword, name) || nearly.Distance(keyword, strings.ToLower(name[:1])+name[1:]) <= allowed {
			return keyword
		}
	}
	return ""
}

// tagNames lists the keys of a struct tag, which package reflect cannot do. It returns an error for
// a malformed tag, which reflect would ignore.
func tagNames(tag reflect.StructTag) ([]string, error) {
	var names []string
	rest := strings.TrimLeft(string(tag), " ")
	for rest != "" {
		name, after, found := strings.Cut(rest, ":")
		if !found || name == "" || strings.ContainsAny(name, " \"") {
			return nil, errors.New(`not in the form key:"value"`)
		}
		value, err := strconv.QuotedPrefix(after)
		if err != nil || value[0] != '"' {
			return nil, fmt.Errorf("the value of %s is not in quotes", name)
		}
		names = append(names, name)
		rest = strings.TrimLeft(after[len(value):], " ")
	}
	return names, nil
}

// merge adds other tags. They replace existing tags of the same name.
func (f *fieldTags) merge(other *fieldTags) {
	if other == nil {
		return
	}
	merged := make(map[string]string, len(f.values)+len(other.values))
	maps.Copy(merged, f.values)
	maps.Copy(merged, other.values)
	f.values = merged
}

func (f *fieldTags) empty() bool { return len(f.values) == 0 && f.doc == "" }

// besideValues are the tags that do not affect which values are valid.
var besideValues = []string{"doc", "selectable", "column", "required", "optional", "expected", "patchStrategy", "patchMergeKey", "rule", "message"}

// apply returns the schema with the tags added, ready for use. It does not modify shared.
func (f *fieldTags) apply(shared *Schema, at place) (*Schema, error) {
	if f.empty() {
		return shared, nil
	}
	s, err := f.on(shared, at)
	if err != nil {
		return nil, err
	}
	// If the tags do not affect values, the results of preparing shared remain valid. Most fields
	// only have a description, so this saves most of the work.
	if s.ready = shared.ready; f.only(besideValues) && s.ready != nil {
		return s, nil
	}
	if err := f.explain(s.prepare(&costs{}), at); err != nil {
		return nil, err
	}
	return s, nil
}

// only reports whether all tags are among some.
func (f *fieldTags) only(some []string) bool {
	for keyword := range f.values {
		if !slices.Contains(some, keyword) {
			return false
		}
	}
	return true
}

// on returns a copy of a schema with the tags added. The copy is not ready.
func (f *fieldTags) on(shared *Schema, at place) (*Schema, error) {
	s := *shared
	s.ready, s.base = nil, cmp.Or(shared.base, shared)
	s.plain = nil
	if len(f.values) == 0 || f.only([]string{"doc", "required", "optional", "expected"}) {
		s.plain = shared.Undocumented()
	}
	return &s, f.set(&s, at)
}

// set applies the tags to a schema.
func (f *fieldTags) set(s *Schema, at place) error {
	if f.doc != "" {
		s.Description = f.doc
	}
	var errs []error
	if value, present := f.values["message"]; present && !f.has("rule") {
		errs = append(errs, at.errorf("tag message:%q: has no effect without the tag rule", value))
	}
	for keyword, other := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if value, present := f.values[keyword]; present && f.has(other) {
			errs = append(errs, at.errorf("tag %s:%q: cannot be combined with the tag %s", keyword, value, other))
		}
	}
	for _, keyword := range keywords {
		value, present := f.values[keyword]
		if !present {
			continue
		}
		if err := setters[keyword](s, value, at); err != nil {
			errs = append(errs, at.errorf("tag %s:%q: %w", keyword, value, err))
		}
	}
	return errors.Join(errs...)
}

// explain converts problems to errors. A problem that a tag caused is reported with the tag.
func (f *fieldTags) explain(problems []problem, at place) error {
	var errs []error
	for _, p := range problems {
		keyword := cmp.Or(tagOfExtension[p.keyword], p.keyword)
		if value, present := f.values[keyword]; present {
			errs = append(errs, at.errorf("tag %s:%q: %s", keyword, value, p.detail))
		} else {
			errs = append(errs, at.errorf("%s: %s", p.keyword, p.detail))
		}
	}
	return errors.Join(errs...)
}

func (f *fieldTags) has(keyword string) bool {
	_, present := f.values[keyword]
	return present
}

// tagOfExtension maps the keywords of documents to tags with shorter names.
var tagOfExtension = map[string]string{
	"x-kubernetes-list-type": "list", "x-kubernetes-list-map-keys": "list", "x-kubernetes-map-type": "map",
}

// need states whether a field must be present.
type need int

const (
	mayLack  need = iota
	expected      // published as required, not enforced
	required
)

// need returns what the tags say, or untagged if they say nothing.
func (f *fieldTags) need(untagged need, at place) (need, error) {
	said := untagged
	count := 0
	for keyword, meaning := range map[string]need{"required": required, "optional": mayLack, "expected": expected} {
		if f.has(keyword) {
			said = meaning
			count++
		}
	}
	if count > 1 {
		return untagged, at.errorf("tags required, optional and expected contradict each other")
	}
	return said, nil
}

// setters apply the value of each tag to a schema.
var setters = map[string]func(s *Schema, value string, at place) error{
	"doc":           func(s *Schema, v string, _ place) error { s.Description = v; return nil },
	"patchStrategy": func(s *Schema, v string, _ place) error { s.PatchStrategy = v; return nil },
	"patchMergeKey": func(s *Schema, v string, _ place) error { s.PatchMergeKey = v; return nil },
	"required":      flag,
	"optional":      flag,
	"expected":      flag,
	"format":        setFormat,
	"enum":          setEnum,
	"default":       setDefault,
	"minimum":       func(s *Schema, v string, _ place) (err error) { s.Minimum, err = s.bound(v); return err },
	"maximum":       func(s *Schema, v string, _ place) (err error) { s.Maximum, err = s.bound(v); return err },
	"minLength":     func(s *Schema, v string, _ place) (err error) { s.MinLength, err = s.count(v, String); return err },
	"maxLength":     func(s *Schema, v string, _ place) (err error) { s.MaxLength, err = s.count(v, String); return err },
	"minItems":      func(s *Schema, v string, _ place) (err error) { s.MinItems, err = s.count(v, Array); return err },
	"maxItems":      func(s *Schema, v string, _ place) (err error) { s.MaxItems, err = s.count(v, Array); return err },
	"pattern": func(s *Schema, v string, _ place) error {
		s.Pattern = v
		return s.only(String)
	},
	"exclusiveMinimum": func(s *Schema, v string, _ place) error {
		bound, err := s.bound(v)
		s.Minimum, s.ExclusiveMinimum = bound, true
		return err
	},
	"exclusiveMaximum": func(s *Schema, v string, _ place) error {
		bound, err := s.bound(v)
		s.Maximum, s.ExclusiveMaximum = bound, true
		return err
	},
	"multipleOf": func(s *Schema, v string, _ place) (err error) {
		s.MultipleOf, err = s.bound(v)
		return err
	},
	"minProperties": func(s *Schema, v string, _ place) (err error) {
		s.MinProperties, err = s.count(v, Object)
		return err
	},
	"maxProperties": func(s *Schema, v string, _ place) (err error) {
		s.MaxProperties, err = s.count(v, Object)
		return err
	},
	"nullable": func(s *Schema, v string, at place) error {
		s.Nullable = true
		return flag(s, v, at)
	},
	"preserveUnknown": setPreserveUnknown,
	"embedded":        setEmbedded,
	"list":            setList,
	"map": func(s *Schema, v string, _ place) error {
		s.MapType = MapType(v)
		return s.only(Object)
	},
	"selectable": func(s *Schema, v string, at place) error {
		s.Selectable = true
		return errors.Join(flag(s, v, at), s.oneScalar(at))
	},
	"column": setColumn,
	"rule": func(s *Schema, v string, _ place) error {
		s.Rules = append(slices.Clone(s.Rules), Rule{Rule: v}) // the type of the field can have rules too
		return nil
	},
	"message": func(s *Schema, v string, _ place) error {
		if len(s.Rules) > 0 {
			s.Rules[len(s.Rules)-1].Message = v
		}
		return nil
	},
}

// flag checks a tag without a value. It accepts "true", which reads naturally in a struct tag.
func flag(_ *Schema, value string, _ place) error {
	if value != "" && value != "true" {
		return errors.New("the tag does not take a value")
	}
	return nil
}

// only returns an error if the tag does not apply to the schema's type.
func (s *Schema) only(types ...Type) error {
	if slices.Contains(types, s.Type) {
		return nil
	}
	has := string(s.Type)
	switch {
	case s.IntOrString:
		has = "integer or string"
	case has == "":
		has = "anything"
	}
	return fmt.Errorf("the tag applies to type %s, but the field has type %s", types[0], has)
}

// oneScalar rejects fields that are not scalars or that one object can contain several times. A
// field selector and a column need exactly one value.
func (s *Schema) oneScalar(at place) error {
	if at.repeated {
		return errors.New("one object can contain this field several times")
	}
	if s.Type == Object || s.Type == Array || s.Type == "" && !s.IntOrString {
		return errors.New("the field is not a scalar")
	}
	return nil
}

// setPreserveUnknown keeps fields that the Go type does not declare. They are not visible in the
// typed view of an object but survive writes through it.
func setPreserveUnknown(s *Schema, value string, at place) error {
	s.PreserveUnknown = true
	if s.Type == "" && !s.IntOrString {
		return flag(s, value, at)
	}
	return errors.Join(flag(s, value, at), s.only(Object))
}

// setEmbedded makes a field a complete object of any kind. Its apiVersion, kind and metadata are
// validated.
func setEmbedded(s *Schema, value string, at place) error {
	if s.Type == "" && s.PreserveUnknown {
		s.Type = Object
	}
	if err := s.only(Object); err != nil {
		return err
	}
	s.EmbeddedObject, s.Properties, s.Required = true, slices.Clone(s.Properties), slices.Clone(s.Required)
	asObject(s)
	return flag(s, value, at)
}

// setFormat only accepts formats that are checked. An unknown format in a Go tag is most likely a
// typo; in a document it is ignored.
func setFormat(s *Schema, value string, _ place) error {
	if err := s.only(String, Integer, Number); err != nil {
		return err
	}
	if !slices.Contains(Formats(), value) {
		return fmt.Errorf("the format is not one of %s", strings.Join(Formats(), ", "))
	}
	if numeric := slices.Contains([]string{"int32", "int64", "float", "double"}, value); numeric == (s.Type == String) {
		return fmt.Errorf("the format does not apply to type %s", s.Type)
	}
	s.Format = value
	return nil
}

func setEnum(s *Schema, value string, _ place) error {
	s.Enum = nil
	for text := range strings.SplitSeq(value, ",") {
		v, err := s.scalar(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.Enum, func(other any) bool { return json.Equal(v, other) }) {
			return fmt.Errorf("%q occurs twice", text)
		}
		s.Enum = append(s.Enum, v)
	}
	return nil
}

// setDefault parses a default. Only lists, objects and untyped fields are written as JSON, so that
// strings need no second pair of quotes.
func setDefault(s *Schema, value string, _ place) (err error) {
	if s.Type == Object || s.Type == Array || s.Type == "" && !s.IntOrString {
		s.DefaultValue, err = json.DecodeTree([]byte(value), json.TreeOptions{})
	} else {
		s.DefaultValue, err = s.scalar(value)
	}
	if err == nil && s.DefaultValue == nil {
		err = errors.New("null cannot be a default")
	}
	return err
}

// scalar parses a value of the schema's type from a tag, where strings are written without quotes.
func (s *Schema) scalar(text string) (any, error) {
	switch {
	case s.IntOrString:
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
		return text, nil
	case s.Type == String:
		return text, nil
	case s.Type == Boolean:
		if text == "true" || text == "false" {
			return text == "true", nil
		}
		return nil, fmt.Errorf("%q is neither true nor false", text)
	case s.Type == Integer || s.Type == Number:
		return s.bound(text)
	}
	return nil, s.only(String, Integer, Number, Boolean)
}

// bound parses a number of the schema's type.
func (s *Schema) bound(text string) (any, error) {
	if err := s.only(Integer, Number); err != nil {
		return nil, err
	}
	v, err := json.DecodeTree([]byte(text), json.TreeOptions{})
	switch n := v.(type) {
	case int64:
		return n, nil
	case float64:
		if s.Type == Number {
			return n, nil
		}
		return nil, fmt.Errorf("%q is not an integer", text)
	}
	if err == nil || s.Type == Number {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return nil, fmt.Errorf("%q is not a 64-bit integer", text)
}

func (s *Schema) count(text string, t Type) (*int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%q is not a non-negative integer", text)
	}
	return &n, s.only(t)
}

// setList parses the list type and its keys, such as "map,key=name". Whether the keys exist is
// checked when the schema is prepared.
func setList(s *Schema, value string, _ place) error {
	words := strings.Split(value, ",")
	s.ListType, s.ListMapKeys = ListType(words[0]), nil
	for _, word := range words[1:] {
		if word == "repeats" {
			s.allowsDuplicates = true
			continue
		}
		key, found := strings.CutPrefix(word, "key=")
		if !found || key == "" {
			return fmt.Errorf("%q is not in the form key=name", word)
		}
		s.ListMapKeys = append(s.ListMapKeys, key)
	}
	if err := s.only(Array); err != nil {
		return err
	}
	if s.ListType == "" {
		return errors.New(`must be "atomic", "set" or "map,key=…"`)
	}
	return nil
}

func setColumn(s *Schema, value string, at place) error {
	name, option, found := strings.Cut(value, ",")
	if name == "" {
		return errors.New("a column needs a name")
	}
	column := &ColumnTag{Name: name}
	if found {
		text, ok := strings.CutPrefix(option, "priority=")
		priority, err := strconv.ParseInt(text, 10, 32)
		if !ok || err != nil || priority < 0 {
			return fmt.Errorf("%q is not in the form priority=1", option)
		}
		column.Priority = int32(priority)
	}
	s.Column = column
	return s.oneScalar(at)
}
