package openapi

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The bounds of a schema. The largest custom resources in use have some 30,000 nodes, 40 deep.
const (
	maxSchemaNodes = 100_000
	maxSchemaDepth = 100
	maxEnum        = 10_000
	maxKeys        = 100   // of a keyed list
	maxBranches    = 1_000 // of allOf, anyOf, oneOf and not in one schema: each may look at the whole value again

	maxPatternsSize = 200_000 // instructions of all patterns that differ
	maxDefaultsSize = 4 << 20 // bytes of all defaults as JSON, with the defaults inside them
)

// costs are what the parts of one schema have cost so far, where each alone would pass.
type costs struct {
	patterns     map[string]*matcher // compiled
	patternSize  int
	defaultBytes int
}

// prepared is what the methods of a Schema need and its fields do not hold. It depends on the node and its children only.
type prepared struct {
	properties  map[string]*Schema
	defaulted   []Property          // the properties with a default at or below them
	hasDefaults bool                // at or below this node
	filled      any                 // DefaultValue with the defaults below it
	filledSize  int                 // its length as JSON
	enum        map[string]struct{} // canonical texts, for more than a few values
	pattern     *matcher
	size, depth int    // of the whole schema below, written out
	placed      bool   // there are selectable fields or columns below this node
	circular    bool   // the schema contains itself, or is on the way from such a one back to it
	meaning     uint64 // see Fingerprint
}

// A problem is something wrong with one keyword of one node.
type problem struct {
	keyword string
	value   any
	detail  string
}

// New returns a ready copy of a schema built by hand. The error is a [*Error] and tells of every problem.
func New(s *Schema) (*Schema, error) {
	b := builder{copies: map[*Schema]*Schema{}}
	out := b.build(s)
	if len(b.problems) > 0 {
		return nil, &Error{Problems: b.problems}
	}
	return out, nil
}

// Error says what is wrong with a schema. Fields are places in the schema, such as "properties.spec.properties.size.pattern".
type Error struct{ Problems []status.FieldError }

func (e *Error) Error() string {
	texts := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		texts = append(texts, p.String())
	}
	return "bad schema: " + strings.Join(texts, "; ")
}

// builder copies and prepares a schema from the leaves to the root.
type builder struct {
	copies   map[*Schema]*Schema // nil while a node is being built
	problems []status.FieldError
	path     []json.Step
	nodes    int
	branches int
	stopped  bool
	costs    costs
}

func (b *builder) fail(t meta.CauseType, keyword string, value any, detail string) {
	if len(b.problems) >= maxErrors {
		return
	}
	path := b.path
	if keyword != "" {
		path = append(path, json.Name(keyword))
	}
	b.problems = append(b.problems, status.FieldError{Type: t, Field: json.FormatPath(path), Value: value, Detail: detail})
}

// stop ends the building of a schema that is too large to go on with.
func (b *builder) stop(keyword, detail string) {
	if !b.stopped {
		b.stopped = true
		b.fail(meta.CauseFieldValueForbidden, keyword, nil, detail)
	}
}

// build returns the ready copy of a node; nil after problems that leave none.
func (b *builder) build(s *Schema) *Schema {
	if s == nil || b.stopped {
		return nil
	}
	if s.ready != nil && s.ready.circular {
		return s // it was made of a Go type, and nothing is to be done about it
	}
	if done, seen := b.copies[s]; seen {
		if done == nil {
			b.stop("", "the schema contains itself")
		}
		return done
	}
	if b.nodes++; b.nodes > maxSchemaNodes {
		b.stop("", fmt.Sprintf("the schema has more than %d nodes", maxSchemaNodes))
		return nil
	}
	if len(b.path) > 2*maxSchemaDepth {
		b.stop("", fmt.Sprintf("the schema is more than %d levels deep", maxSchemaDepth))
		return nil
	}
	b.copies[s] = nil
	out := *s
	b.children(&out)
	if !b.stopped {
		for _, p := range out.prepare(&b.costs) {
			b.fail(meta.CauseFieldValueInvalid, p.keyword, p.value, p.detail)
		}
	}
	b.copies[s] = &out
	return &out
}

func (b *builder) children(s *Schema) {
	s.Properties = slices.Clone(s.Properties)
	for i, p := range s.Properties {
		s.Properties[i].Schema = b.child(p.Schema, json.Name("properties"), json.Name(p.Name))
		if p.Schema == nil {
			b.fail(meta.CauseFieldValueRequired, "properties", p.Name, fmt.Sprintf("property %q needs a schema", p.Name))
		}
	}
	s.AdditionalProperties = b.child(s.AdditionalProperties, json.Name("additionalProperties"))
	s.Items = b.child(s.Items, json.Name("items"))
	s.AllOf = b.all("allOf", s.AllOf)
	s.AnyOf = b.all("anyOf", s.AnyOf)
	s.OneOf = b.all("oneOf", s.OneOf)
	if s.Not != nil {
		b.branch()
		s.Not = b.child(s.Not, json.Name("not"))
	}
}

func (b *builder) child(s *Schema, steps ...json.Step) *Schema {
	depth := len(b.path)
	b.path = append(b.path, steps...)
	out := b.build(s)
	b.path = b.path[:depth]
	return out
}

func (b *builder) all(keyword string, branches []*Schema) []*Schema {
	out := make([]*Schema, 0, len(branches))
	for i, s := range branches {
		b.branch()
		if built := b.child(s, json.Name(keyword), json.Item(i)); built != nil {
			out = append(out, built)
		}
	}
	return out
}

func (b *builder) branch() {
	if b.branches++; b.branches > maxBranches {
		b.stop("", fmt.Sprintf("the schema has more than %d branches of allOf, anyOf, oneOf and not", maxBranches))
	}
}

// prepare makes a node ready whose children are, and tells what is wrong with it.
func (s *Schema) prepare(c *costs) []problem {
	s.ready = &prepared{}
	problems := s.prepareProperties()
	s.inherit()
	s.listDefaulted()
	problems = append(problems, s.measure()...)
	problems = append(problems, s.check(c)...)
	s.ready.meaning = s.ownMeaning()
	return problems
}

// prepareCircle makes schemas ready that lead to each other, and tells what is wrong with each.
func prepareCircle(circle []*Schema) [][]problem {
	problems := make([][]problem, len(circle))
	for i, s := range circle {
		s.ready = &prepared{circular: true}
		problems[i] = s.prepareProperties()
	}
	for changed := true; changed; {
		changed = false
		for _, s := range circle {
			changed = s.inherit() || changed
		}
	}
	for i, s := range circle {
		s.listDefaulted()
		problems[i] = append(problems[i], s.measure()...)
	}
	for i, s := range circle {
		problems[i] = append(problems[i], s.check(&costs{})...)
	}
	for _, s := range circle {
		s.ready.meaning = s.circularMeaning()
	}
	return problems
}

func (s *Schema) prepareProperties() (problems []problem) {
	switch s.Type {
	case "", Object, Array, String, Integer, Number, Boolean:
	default:
		problems = append(problems, problem{"type", string(s.Type), "not a type"})
	}
	if len(s.Properties) == 0 {
		return problems
	}
	s.ready.properties = make(map[string]*Schema, len(s.Properties))
	for _, p := range s.Properties {
		if _, dup := s.ready.properties[p.Name]; dup {
			problems = append(problems, problem{"properties", p.Name, "the name occurs twice"})
		}
		s.ready.properties[p.Name] = p.Schema
	}
	return problems
}

// inherit notes what the children are known to have, and tells whether that was news.
func (s *Schema) inherit() (changed bool) {
	r := s.ready
	hasDefaults := r.hasDefaults || s.DefaultValue != nil || below(s.Items) || below(s.AdditionalProperties)
	placed := r.placed
	for _, p := range s.Properties {
		if p.Schema != nil {
			hasDefaults = hasDefaults || p.Schema.ready.hasDefaults
			placed = placed || p.Schema.ready.placed || p.Schema.isPlaced()
		}
	}
	changed = hasDefaults != r.hasDefaults || placed != r.placed
	r.hasDefaults, r.placed = hasDefaults, placed
	return changed
}

func (s *Schema) listDefaulted() {
	for _, p := range s.Properties {
		if p.Schema != nil && p.Schema.ready.hasDefaults {
			s.ready.defaulted = append(s.ready.defaulted, p)
		}
	}
}

// check looks at everything that a node says itself.
func (s *Schema) check(c *costs) (problems []problem) {
	problems = append(problems, s.checkBounds()...)
	problems = append(problems, s.checkList()...)
	if s.Pattern != "" {
		m, err := c.pattern(s.Pattern)
		if err != nil {
			problems = append(problems, problem{"pattern", s.Pattern, err.Error()})
		}
		s.ready.pattern = m
	}
	problems = append(problems, s.prepareEnum(s.ready)...)
	if len(problems) == 0 {
		problems = append(problems, s.prepareDefault(s.ready, c)...)
	}
	return problems
}

// measure bounds the schema as it would be written out: where parts are shared, a small one can stand for a huge one. Where it
// contains itself, that counts once.
func (s *Schema) measure() []problem {
	r := s.ready
	r.size, r.depth = 1, 1
	for child := range s.parts() {
		if child != nil {
			r.size += max(child.ready.size, 1)
			r.depth = max(r.depth, child.ready.depth+1)
		}
	}
	switch {
	case r.size > maxSchemaNodes:
		r.size = maxSchemaNodes + 1
		return []problem{{"", nil, fmt.Sprintf("the schema has more than %d nodes", maxSchemaNodes)}}
	case r.depth > maxSchemaDepth:
		return []problem{{"", nil, fmt.Sprintf("the schema is more than %d levels deep", maxSchemaDepth)}}
	}
	return nil
}

// parts are the schemas that a schema consists of.
func (s *Schema) parts() iter.Seq[*Schema] {
	return func(yield func(*Schema) bool) {
		for _, p := range s.Properties {
			if !yield(p.Schema) {
				return
			}
		}
		for _, list := range [][]*Schema{{s.AdditionalProperties, s.Items, s.Not}, s.AllOf, s.AnyOf, s.OneOf} {
			for _, child := range list {
				if !yield(child) {
					return
				}
			}
		}
	}
}

func below(s *Schema) bool { return s != nil && s.ready.hasDefaults }

func (s *Schema) checkBounds() (problems []problem) {
	for _, n := range []struct {
		keyword string
		value   any
	}{{"minimum", s.Minimum}, {"maximum", s.Maximum}, {"multipleOf", s.MultipleOf}} {
		switch n.value.(type) {
		case nil, int64, float64:
		default:
			return []problem{{n.keyword, fmt.Sprint(n.value), "not a number"}}
		}
	}
	if s.Minimum != nil && s.Maximum != nil && compareNumbers(s.Minimum, s.Maximum) > 0 {
		problems = append(problems, problem{"minimum", s.Minimum, fmt.Sprintf("must not be above maximum %v", s.Maximum)})
	}
	if s.MultipleOf != nil && compareNumbers(s.MultipleOf, int64(0)) <= 0 {
		problems = append(problems, problem{"multipleOf", s.MultipleOf, "must be above 0"})
	}
	for _, c := range []struct {
		low, high   string
		least, most *int64
	}{
		{"minLength", "maxLength", s.MinLength, s.MaxLength},
		{"minItems", "maxItems", s.MinItems, s.MaxItems},
		{"minProperties", "maxProperties", s.MinProperties, s.MaxProperties},
	} {
		switch {
		case c.least != nil && *c.least < 0:
			problems = append(problems, problem{c.low, *c.least, "must not be negative"})
		case c.most != nil && *c.most < 0:
			problems = append(problems, problem{c.high, *c.most, "must not be negative"})
		case c.least != nil && c.most != nil && *c.least > *c.most:
			problems = append(problems, problem{c.low, *c.least, fmt.Sprintf("must not be above %s %d", c.high, *c.most)})
		}
	}
	return problems
}

func (s *Schema) checkList() []problem {
	switch s.MapType {
	case "", MapGranular, MapAtomic:
	default:
		return []problem{{"x-kubernetes-map-type", string(s.MapType), `must be "granular" or "atomic"`}}
	}
	if len(s.ListMapKeys) > 0 && s.ListType != ListMap {
		return []problem{{"x-kubernetes-list-type", string(s.ListType), `keys need the list type "map"`}}
	}
	switch s.ListType {
	case "", ListAtomic:
		return nil
	case ListSet:
		if s.Items != nil && !s.Items.atomicItem() {
			return []problem{{"x-kubernetes-list-type", "set", "the items of a set are scalars or atomic"}}
		}
		return nil
	case ListMap:
		return s.checkKeys()
	}
	return []problem{{"x-kubernetes-list-type", string(s.ListType), `must be "atomic", "set" or "map"`}}
}

func (s *Schema) atomicItem() bool {
	switch s.Type {
	case Object:
		return s.MapType == MapAtomic
	case Array:
		return s.ListType == "" || s.ListType == ListAtomic
	}
	return true
}

// checkKeys sees to it that the items of a keyed list always have their keys, and that those can be compared.
func (s *Schema) checkKeys() (problems []problem) {
	if s.Items == nil || s.Items.Type != Object {
		return []problem{{"x-kubernetes-list-type", "map", "the items of a keyed list are objects"}}
	}
	if len(s.ListMapKeys) == 0 {
		return []problem{{"x-kubernetes-list-type", "map", "a keyed list needs a key"}}
	}
	if len(s.ListMapKeys) > maxKeys {
		return []problem{{"x-kubernetes-list-map-keys", int64(len(s.ListMapKeys)), fmt.Sprintf("more than %d keys", maxKeys)}}
	}
	for i, name := range s.ListMapKeys {
		if slices.Contains(s.ListMapKeys[:i], name) {
			problems = append(problems, problem{"x-kubernetes-list-map-keys", name, "the key occurs twice"})
		}
		key, ok := s.Items.Property(name)
		switch {
		case !ok:
			problems = append(problems, problem{"x-kubernetes-list-map-keys", name, "the items have no such field to be the key"})
		case key.Type == Object || key.Type == Array || key.Type == "":
			problems = append(problems, problem{"x-kubernetes-list-map-keys", name, "a key is a scalar"})
		case key.DefaultValue == nil && !slices.Contains(s.Items.Required, name):
			problems = append(problems, problem{"x-kubernetes-list-map-keys", name, "a key is required or has a default"})
		}
	}
	return problems
}

// fewEnum values are compared one by one.
const fewEnum = 8

func (s *Schema) prepareEnum(r *prepared) (problems []problem) {
	if len(s.Enum) > maxEnum {
		return []problem{{"enum", int64(len(s.Enum)), fmt.Sprintf("more than %d values", maxEnum)}}
	}
	if len(s.Enum) > fewEnum {
		r.enum = make(map[string]struct{}, len(s.Enum))
	}
	for _, v := range s.Enum {
		text, err := json.AppendTree(nil, v)
		if err != nil {
			problems = append(problems, problem{"enum", fmt.Sprint(v), err.Error()})
			continue
		}
		if v != nil && !s.hasType(v) {
			problems = append(problems, problem{"enum", v, "not of type " + string(s.Type)})
		}
		if r.enum != nil {
			r.enum[string(text)] = struct{}{}
		}
	}
	return problems
}

// pattern compiles a pattern, once for each text.
func (c *costs) pattern(text string) (*matcher, error) {
	if m, done := c.patterns[text]; done {
		return m, nil
	}
	size, err := measurePattern(text)
	if err != nil {
		return nil, err
	}
	if c.patternSize += size; c.patternSize > maxPatternsSize {
		return nil, errors.New("the patterns of the schema together are too large")
	}
	m, err := compilePattern(text, size)
	if err != nil {
		return nil, err
	}
	if c.patterns == nil {
		c.patterns = map[string]*matcher{}
	}
	c.patterns[text] = m
	return m, nil
}

// prepareDefault makes the default canonical and complete, and sees to it that it is valid itself.
func (s *Schema) prepareDefault(r *prepared, c *costs) []problem {
	if s.DefaultValue == nil {
		return nil
	}
	bad := func(detail string) []problem { return []problem{{"default", s.DefaultValue, detail}} }
	var w walk
	value, _ := s.canonical(&w, json.Clone(s.DefaultValue))
	d := defaulter{budget: maxDefaultsSize - c.defaultBytes}
	value, _ = d.below(s, value)
	switch {
	case d.endless:
		return bad("the default, with the defaults in it, would contain itself")
	case d.exhausted:
		return bad("the defaults of the schema together are too large")
	}
	if s.validate(&w, value, earlier{}); len(w.errs) > 0 {
		return bad(w.errs[0].String())
	}
	if _, changed := prune(s, value); changed {
		return bad("has fields that the schema does not know")
	}
	text, err := json.AppendTree(nil, value)
	if err != nil {
		return bad(err.Error())
	}
	if c.defaultBytes += len(text); c.defaultBytes > maxDefaultsSize {
		return bad("the defaults of the schema together are too large")
	}
	s.DefaultValue, r.filled, r.filledSize = value, value, len(text)
	return nil
}

// sortedNames returns the names of an object in the order in which reports go through it.
func sortedNames(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }
