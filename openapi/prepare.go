package openapi

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tables"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The limits of a schema. The largest custom resources in use have about 30,000 nodes in 40 levels.
const (
	maxSchemaNodes = 100_000
	maxSchemaDepth = 100
	maxEnum        = 10_000
	maxKeys        = 100 // of a keyed list
	// maxBranches counts allOf, anyOf, oneOf and not. Each may visit the whole value again.
	maxBranches = 1_000

	maxPatternsSize = 200_000   // instructions of all distinct patterns
	maxDefaultsSize = 256 << 10 // weights of all defaults, including nested defaults, see containerWeight
)

// costs accumulates the costs of the parts of one schema. It rejects a schema whose parts are
// acceptable one by one but too expensive in total.
type costs struct {
	// document is set for a schema from a document, which has been judged by the rules of documents.
	document     bool
	patterns     map[string]compiled
	patternSize  int
	tables       int // of characters in all patterns
	defaultBytes int

	patternsReported bool // errPatterns is reported once, and not for each pattern
}

var errPatterns = errors.New("all patterns of the schema together are too large")

// prepared holds what the methods of a Schema precompute. It depends only on the node and its
// descendants, so a node can be shared between schemas.
type prepared struct {
	properties   map[string]*Schema
	defaulted    []Property          // properties with a default at or below them
	hasDefaults  bool                // at or below this node
	filled       any                 // DefaultValue including the defaults below it
	filledSize   int                 // its length as JSON
	filledWeight int                 // what it counts in maxDefaultsSize
	enum         map[string]struct{} // values as canonical text; nil if there are only a few
	pattern      *matcher
	size, depth  int    // of the schema with shared parts expanded
	placed       bool   // a field below this node is selectable or a column
	circular     bool   // the schema contains itself, or lies on a cycle
	embeds       bool   // values can contain objects embedded by a document
	keyed        bool   // values can contain keyed lists, by a document
	ruled        bool   // there are rules at or below this node
	meaning      uint64 // see Fingerprint
}

// A problem is an error in one keyword of one node.
type problem struct {
	keyword string
	value   any
	detail  string
}

// New returns a ready copy of a schema that was built by hand. The error is an [*Error] with all
// problems.
func New(s *Schema) (*Schema, error) {
	out, problems := newSchema(s, costs{})
	if len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	return out, nil
}

// newFromDocument prepares a schema from a document whose keywords have been checked, in place. It
// checks limits alone: kube-apiserver accepts a minimum above the maximum, for example.
func newFromDocument(s *Schema, c costs) (*Schema, []status.FieldError) {
	c.document = true
	return newSchema(s, c)
}

func newSchema(s *Schema, c costs) (*Schema, []status.FieldError) {
	b := builder{copies: map[*Schema]*Schema{}, costs: c}
	out := b.build(s)
	if len(b.problems) > 0 {
		return nil, b.problems
	}
	return out, nil
}

// Error describes what is wrong with a schema. Each Field is a position in the schema, such as
// "properties[spec].properties[size].pattern".
type Error struct{ Problems []status.FieldError }

func (e *Error) Error() string {
	texts := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		texts = append(texts, p.String())
	}
	return "invalid schema: " + strings.Join(texts, "; ")
}

// builder copies and prepares a schema, leaves first: preparing a node needs the results of its
// children.
type builder struct {
	copies   map[*Schema]*Schema // nil while a node is being built, which detects cycles
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

// stop aborts the build of a schema that is too large.
func (b *builder) stop(keyword, detail string) {
	if !b.stopped {
		b.stopped = true
		b.fail(meta.CauseFieldValueForbidden, keyword, nil, detail)
	}
}

// build returns the ready copy of a node, or nil if problems prevent it.
func (b *builder) build(s *Schema) *Schema {
	if s == nil || b.stopped {
		return nil
	}
	if s.ready != nil && (s.ready.circular || b.costs.document) {
		return s // from a Go type, or shared by all kinds: immutable and already prepared
	}
	if b.costs.document {
		return b.own(s)
	}
	if done, seen := b.copies[s]; seen {
		if done == nil {
			b.stop("", "the schema contains itself")
		}
		return done
	}
	b.copies[s] = nil
	out := *s
	if b.own(&out) == nil {
		return nil
	}
	b.copies[s] = &out
	return &out
}

// own prepares a node that belongs to the builder, after those below it. Nodes of a document do, and
// none of them is in two places.
func (b *builder) own(s *Schema) *Schema {
	if b.nodes++; b.nodes > maxSchemaNodes {
		b.stop("", fmt.Sprintf("the schema has more than %d nodes", maxSchemaNodes))
		return nil
	}
	if len(b.path) > 2*maxSchemaDepth {
		b.stop("", fmt.Sprintf("the schema is more than %d levels deep", maxSchemaDepth))
		return nil
	}
	b.children(s)
	if !b.stopped {
		for _, p := range s.prepare(&b.costs) {
			b.fail(meta.CauseFieldValueInvalid, p.keyword, p.value, p.detail)
		}
	}
	return s
}

// children replaces the children of a copied node by their ready copies. It clones Properties
// first if the caller still owns the original slice.
func (b *builder) children(s *Schema) {
	if !b.costs.document {
		s.Properties = slices.Clone(s.Properties)
	}
	for i, p := range s.Properties {
		s.Properties[i].Schema = b.child(p.Schema, json.Name("properties"), json.Key(p.Name))
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
	if len(branches) == 0 {
		return nil
	}
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

// prepare makes a node ready whose children are ready, and returns what is wrong with it.
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

// prepareCircle makes schemas ready that refer to each other, and returns the problems of each. No
// schema of a cycle can be prepared before the others. So each step runs for all of them before the
// next one begins, and flags are propagated until they no longer change.
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

// prepareProperties builds the look-up of properties. It must run before everything else in prepare
// that looks up a child by name.
func (s *Schema) prepareProperties() (problems []problem) {
	if len(s.Properties) == 0 {
		return nil
	}
	s.ready.properties = make(map[string]*Schema, len(s.Properties))
	for _, p := range s.Properties {
		if _, dup := s.ready.properties[p.Name]; dup {
			problems = append(problems, problem{"properties", p.Name, "duplicate name"})
		}
		s.ready.properties[p.Name] = p.Schema
	}
	return problems
}

// inherit copies flags from the children and reports whether that changed any.
func (s *Schema) inherit() (changed bool) {
	r := s.ready
	hasDefaults := r.hasDefaults || s.DefaultValue != nil || below(s.Items) || below(s.AdditionalProperties)
	placed := r.placed
	r.embeds = r.embeds || s.EmbeddedObject && s.fromDocument ||
		s.Items != nil && s.Items.ready.embeds || s.AdditionalProperties != nil && s.AdditionalProperties.ready.embeds
	r.keyed = r.keyed || s.ListType == ListMap && s.fromDocument ||
		s.Items != nil && s.Items.ready.keyed || s.AdditionalProperties != nil && s.AdditionalProperties.ready.keyed
	ruled := r.ruled || len(s.Rules) > 0 || s.Items.isRuled() || s.AdditionalProperties.isRuled() || slices.ContainsFunc(s.AllOf, (*Schema).isRuled)
	for _, p := range s.Properties {
		ruled = ruled || p.Schema.isRuled()
		if p.Schema != nil {
			r.keyed = r.keyed || p.Schema.ready.keyed
			r.embeds = r.embeds || p.Schema.ready.embeds // never in a circle, which documents cannot describe
			hasDefaults = hasDefaults || p.Schema.ready.hasDefaults
			placed = placed || p.Schema.ready.placed || p.Schema.isPlaced()
		}
	}
	changed = hasDefaults != r.hasDefaults || placed != r.placed || ruled != r.ruled
	r.hasDefaults, r.placed, r.ruled = hasDefaults, placed, ruled
	return changed
}

// isRuled reports whether a ready node has rules at or below it. The node's own are looked at here,
// because a field that only adds rules to the schema of its type is not prepared again.
func (s *Schema) isRuled() bool { return s != nil && (len(s.Rules) > 0 || s.ready.ruled) }

// HasRules reports whether the schema has rules, or one that describes a part of its values. One that is not
// ready may have some.
func (s *Schema) HasRules() bool {
	return s != nil && (len(s.Rules) > 0 || s.ready == nil || s.ready.ruled)
}

// listDefaulted collects the properties that defaulting must visit. Most fields have no defaults
// below them, so Default skips most of the schema.
func (s *Schema) listDefaulted() {
	for _, p := range s.Properties {
		if p.Schema != nil && p.Schema.ready.hasDefaults {
			s.ready.defaulted = append(s.ready.defaulted, p)
		}
	}
}

// check validates the keywords of the node itself. A default is checked last and only if the rest
// is valid, because checking it uses the node's other keywords.
func (s *Schema) check(c *costs) (problems []problem) {
	if !c.document {
		if !validType(string(s.Type)) {
			problems = append(problems, problem{"type", string(s.Type), "unknown type"})
		}
		problems = append(problems, s.checkBounds()...)
		problems = append(problems, s.checkList()...)
	}
	if s.Pattern != "" {
		m, err := c.pattern(s.Pattern)
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			problems = append(problems, problem{"pattern", s.Pattern, string(bad.Code)})
		} else if err != nil && !(c.patternsReported && errors.Is(err, errPatterns)) {
			problems = append(problems, problem{"pattern", s.Pattern, err.Error()})
			c.patternsReported = errors.Is(err, errPatterns)
		}
		s.ready.pattern = m
	}
	problems = append(problems, s.prepareEnum(s.ready, c.document)...)
	if len(problems) == 0 {
		problems = append(problems, s.prepareDefault(s.ready, c)...)
	}
	return problems
}

// measure limits the size of the schema with shared parts expanded. A small document could
// otherwise describe a huge schema by sharing. A cycle counts once.
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

// parts yields the direct children of a schema; some may be nil.
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
		problems = append(problems, problem{"multipleOf", s.MultipleOf, "must be greater than 0"})
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

// checkList checks the merge types of lists and maps. Server-side apply relies on them: an item
// without identity could be neither merged nor owned.
func (s *Schema) checkList() []problem {
	switch s.MapType {
	case "", MapGranular, MapAtomic:
	default:
		return []problem{{"x-kubernetes-map-type", string(s.MapType), `must be "granular" or "atomic"`}}
	}
	if len(s.ListMapKeys) > 0 && s.ListType != ListMap {
		return []problem{{"x-kubernetes-list-type", string(s.ListType), `must be "map" if keys are given`}}
	}
	switch s.ListType {
	case "", ListAtomic:
		return nil
	case ListSet:
		if s.Items != nil && !s.Items.atomicItem() {
			return []problem{{"x-kubernetes-list-type", "set", "items of a set must be scalars or atomic"}}
		}
		return nil
	case ListMap:
		return s.checkKeys()
	}
	return []problem{{"x-kubernetes-list-type", string(s.ListType), `must be "atomic", "set" or "map"`}}
}

// atomicItem reports whether the value is merged as a whole. Items of a set must be, because a set
// identifies an item by its complete value.
func (s *Schema) atomicItem() bool {
	switch s.Type {
	case Object:
		return s.MapType == MapAtomic
	case Array:
		return s.ListType == "" || s.ListType == ListAtomic
	}
	return true
}

// checkKeys ensures that every item of a keyed list has its keys and that they can be compared.
func (s *Schema) checkKeys() (problems []problem) {
	if s.Items == nil || s.Items.Type != Object {
		return []problem{{"x-kubernetes-list-type", "map", "items of a keyed list must be objects"}}
	}
	if len(s.ListMapKeys) == 0 {
		return []problem{{"x-kubernetes-list-type", "map", "a keyed list needs at least one key"}}
	}
	if len(s.ListMapKeys) > maxKeys {
		return []problem{{"x-kubernetes-list-map-keys", int64(len(s.ListMapKeys)), fmt.Sprintf("must have at most %d keys", maxKeys)}}
	}
	for i, name := range s.ListMapKeys {
		if slices.Contains(s.ListMapKeys[:i], name) {
			problems = append(problems, problem{"x-kubernetes-list-map-keys", name, "duplicate key"})
		}
		key, ok := s.Items.Property(name)
		switch {
		case !ok:
			problems = append(problems, problem{"x-kubernetes-list-map-keys", name, "items do not have this field"})
		case key.Type == Object || key.Type == Array || key.Type == "":
			problems = append(problems, problem{"x-kubernetes-list-map-keys", name, "a key must be a scalar"})
		case key.DefaultValue == nil && !slices.Contains(s.Items.Required, name):
			problems = append(problems, problem{"x-kubernetes-list-map-keys", name, "a key must be required or have a default"})
		}
	}
	return problems
}

// fewEnum is the number of enum values up to which they are compared one by one.
const fewEnum = 8

// prepareEnum checks the enum values and indexes long enums by their canonical text.
func (s *Schema) prepareEnum(r *prepared, anyType bool) (problems []problem) {
	if len(s.Enum) > maxEnum {
		return []problem{{"enum", int64(len(s.Enum)), fmt.Sprintf("must have at most %d values", maxEnum)}}
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
		if v != nil && !anyType && !s.hasType(v) {
			problems = append(problems, problem{"enum", v, "must be of type " + string(s.Type)})
		}
		if r.enum != nil {
			r.enum[string(text)] = struct{}{}
		}
	}
	return problems
}

// compiled is the result of compiling a pattern.
type compiled struct {
	matcher *matcher
	err     error
}

// pattern compiles a pattern. Each distinct pattern is compiled and counted once. Patterns that are
// too large count as well, because reading them is expensive.
func (c *costs) pattern(text string) (*matcher, error) {
	if done, ok := c.patterns[text]; ok {
		return done.matcher, done.err
	}
	if c.tables += tables.In(text); c.patternSize > maxPatternsSize || c.tables > maxAllTables {
		return nil, errPatterns
	}
	size, err := measurePattern(text)
	var m *matcher
	if c.patternSize += size; err == nil && c.patternSize > maxPatternsSize {
		return nil, errPatterns
	} else if err == nil {
		m, err = compilePattern(text, size)
	}
	if c.patterns == nil {
		c.patterns = map[string]compiled{}
	}
	c.patterns[text] = compiled{m, err}
	return m, err
}

// prepareDefault converts the default to its stored form, fills in the defaults below it, and
// validates the result. An invalid default is thus an error in the schema, not in the objects that
// use it.
func (s *Schema) prepareDefault(r *prepared, c *costs) []problem {
	if s.DefaultValue == nil {
		return nil
	}
	bad := func(detail string) []problem { return []problem{{"default", s.DefaultValue, detail}} }
	var w walk
	value, _ := s.canonical(&w, json.Clone(s.DefaultValue))
	d := defaulter{budget: maxDefaultsSize - c.defaultBytes, weighs: true}
	value, _ = d.below(s, value)
	switch {
	case d.endless:
		return bad("filling in the default requires the default itself")
	case d.exhausted:
		return bad("all defaults of the schema together are too large")
	}
	if c.document {
		// Its defaults are judged as they are written. Those that are accepted although they have unknown
		// fields lose them.
		value, _ = prune(s, value)
	} else {
		if s.validate(&w, value, earlier{}); len(w.errs) > 0 {
			return bad(w.errs[0].String())
		}
		if _, changed := prune(s, value); changed {
			return bad("contains fields that are not in the schema")
		}
	}
	text, err := json.AppendTree(nil, value)
	if err != nil {
		return bad(err.Error())
	}
	r.filledWeight = len(text) + containerWeight*containers(value)
	if c.defaultBytes += r.filledWeight; c.defaultBytes > maxDefaultsSize {
		return bad("all defaults of the schema together are too large")
	}
	s.DefaultValue, r.filled, r.filledSize = value, value, len(text)
	return nil
}

// containerWeight is what an object or a list counts in maxDefaultsSize besides its JSON, which may
// be as short as {}.
const containerWeight = 128

// containers returns the number of objects and lists in a tree.
func containers(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = 1
		for _, below := range v {
			n += containers(below)
		}
	case []any:
		n = 1
		for _, below := range v {
			n += containers(below)
		}
	}
	return n
}

// sortedNames returns the member names of an object in the order in which reports visit them.
func sortedNames(object map[string]any) []string {
	out := slices.AppendSeq(make([]string, 0, len(object)), maps.Keys(object))
	slices.Sort(out)
	return out
}
