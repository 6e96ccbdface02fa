package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// tags are those of one field or type.
type tags map[string]string

// generator collects what the published schemas say and the Go types do not.
type generator struct {
	published map[string]*schema
	keys      map[string]bool            // fields that are keys of lists
	names     map[string]bool            // of the schemas that Go types have
	overlay   map[string]map[string]tags // by package, and in there by type or field
	enums     map[reflect.Type][]use
	problems  []error
}

// use is a place where a string type is used, with the values that are allowed there.
type use struct {
	owner  reflect.Type
	name   string
	whole  bool // the field is one such string, not many
	values string
}

func (g *generator) problem(format string, args ...any) {
	g.problems = append(g.problems, fmt.Errorf(format, args...))
}

// say adds to the overlay.
func (g *generator) say(t reflect.Type, field string, said tags) {
	if len(said) == 0 {
		return
	}
	entries := g.overlay[t.PkgPath()]
	if entries == nil {
		entries = map[string]tags{}
		g.overlay[t.PkgPath()] = entries
	}
	name := t.Name()
	if field != "" {
		name += "." + field
	}
	if earlier, twice := entries[name]; twice && !reflect.DeepEqual(earlier, said) {
		g.problem("%s.%s is published in two ways: %v and %v", t.PkgPath(), name, earlier, said)
	}
	entries[name] = said
}

// visit goes through a struct, and those in it, that are published.
func (g *generator) visit(t reflect.Type, isKind bool, seen map[reflect.Type]bool, look func(t reflect.Type, s *schema)) {
	if t.Kind() != reflect.Struct || seen[t] || t.Name() == "ObjectMeta" || !strings.HasPrefix(t.PkgPath(), "k8s.io/") {
		return
	}
	seen[t] = true
	s := g.published[named(t)]
	if s == nil {
		if named(t) != "" && !isKind {
			g.problem("%s is used by a type that is published, and is not", t)
		}
		return // a kind of a version of the API that the documents are not about
	}
	g.names[named(t)] = true
	look(t, s)
	for _, m := range members(t) {
		g.visit(element(m.field.Type), false, seen, look)
	}
}

// each calls a function for the fields of a struct that are published.
func each(t reflect.Type, s *schema, look func(m member, p *schema)) {
	for _, m := range members(t) {
		if p := s.Properties[m.name]; p != nil && m.owner.Name() != "TypeMeta" && m.name != "metadata" {
			look(m, p)
		}
	}
}

// findKeys notes the fields by which the items of lists are told apart.
func (g *generator) findKeys(t reflect.Type, s *schema) {
	each(t, s, func(m member, p *schema) {
		item := element(m.field.Type)
		if item.Kind() != reflect.Struct {
			return
		}
		for _, key := range members(item) {
			if slices.Contains(p.ListMapKeys, key.name) {
				g.keys[key.String()] = true
			}
		}
	})
}

// compare says what is published of a struct beyond what Go tells.
func (g *generator) compare(t reflect.Type, s *schema) {
	if s.MapType == "atomic" {
		g.say(t, "", tags{"map": "atomic"})
	}
	each(t, s, func(m member, p *schema) {
		g.say(m.owner, m.name, g.field(m, p, slices.Contains(s.Required, m.name)))
	})
}

// field says what is published of a field beyond what its Go type tells.
func (g *generator) field(m member, p *schema, required bool) tags {
	said := tags{}
	if p.ListType != "" {
		said["list"] = strings.Join(append([]string{p.ListType}, prefixed("key=", p.ListMapKeys)...), ",")
	}
	if p.MapType != "" {
		said["map"] = p.MapType
	}
	for keyword, value := range map[string]string{"patchStrategy": p.PatchStrategy, "patchMergeKey": p.PatchMergeKey} {
		if value != m.field.Tag.Get(keyword) {
			said[keyword] = value
		}
	}
	if !saysNothing(p.Default) {
		said["default"] = text(p.Default)
	}
	g.need(m, p, required, said)
	g.enum(m, p)
	bounds(p, said)
	return said
}

// need returns whether a field is required. Only list keys are enforced, because nothing merges
// without them: they are required or have a default.
func (g *generator) need(m member, p *schema, required bool, said tags) {
	options := m.field.Tag.Get("json")
	omitted := strings.Contains(options, ",omitempty") || strings.Contains(options, ",omitzero")
	switch {
	case g.keys[m.String()] && required:
		said["required"] = ""
	case g.keys[m.String()] && said["default"] == "":
		said["default"] = text(zero(p))
		if !omitted {
			said["optional"] = ""
		}
	case required && omitted:
		said["expected"] = ""
	case !required && !omitted:
		said["optional"] = ""
	}
}

func prefixed(prefix string, words []string) (out []string) {
	for _, word := range words {
		out = append(out, prefix+word)
	}
	return out
}

// text writes a value as a tag does.
func text(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	out, err := json.Marshal(value)
	if err != nil {
		return err.Error() // which no tag takes
	}
	return string(out)
}

// zero is what Go has where nothing is said.
func zero(p *schema) any {
	if p.Type == "string" {
		return ""
	}
	return 0
}

// enum notes the values of a string.
func (g *generator) enum(m member, p *schema) {
	t := element(m.field.Type)
	if t.Kind() != reflect.String {
		return
	}
	at := p
	for at.Items != nil || at.AdditionalProperties != nil {
		if at.Items != nil {
			at = at.Items
		} else {
			at = at.AdditionalProperties
		}
	}
	values := slices.Clone(at.Enum)
	slices.Sort(values)
	u := use{m.owner, m.name, at == p, strings.Join(values, ",")}
	if !slices.Contains(g.enums[t], u) {
		g.enums[t] = append(g.enums[t], u)
	}
}

// enumTypes says of a string type what its values are where that is so wherever it is used, else of the fields.
func (g *generator) enumTypes() {
	for t, uses := range g.enums {
		same := !slices.ContainsFunc(uses, func(u use) bool { return u.values != uses[0].values })
		if same && t.PkgPath() != "" {
			if uses[0].values != "" {
				g.say(t, "", tags{"enum": uses[0].values})
			}
			continue
		}
		for _, u := range uses {
			if u.values == "" {
				continue
			}
			if !u.whole {
				g.problem("%s.%s: an overlay cannot say which values the items have", u.owner, u.name)
				continue
			}
			entries := g.overlay[u.owner.PkgPath()]
			said := entries[u.owner.Name()+"."+u.name]
			if said == nil {
				g.say(u.owner, u.name, tags{"enum": u.values})
			} else {
				said["enum"] = u.values
			}
		}
	}
}

// bounds says what values there may be.
func bounds(p *schema, said tags) {
	for keyword, n := range map[string]*float64{"minimum": p.Minimum, "maximum": p.Maximum} {
		if n != nil {
			said[keyword] = strconv.FormatFloat(*n, 'f', -1, 64)
		}
	}
	for keyword, n := range map[string]*int64{"minLength": p.MinLength, "maxLength": p.MaxLength, "minItems": p.MinItems, "maxItems": p.MaxItems} {
		if n != nil {
			said[keyword] = strconv.FormatInt(*n, 10)
		}
	}
	if p.Pattern != "" {
		said["pattern"] = p.Pattern
	}
	if p.Nullable {
		said["nullable"] = ""
	}
}

// write writes the overlay, an entry a line.
func (g *generator) write(out io.Writer) error {
	var b bytes.Buffer
	b.WriteString("{\n\"shared\": true,\n\"required\": \"tagged\",\n\"values\": \"told\",\n\"types\": {")
	for i, path := range slices.Sorted(maps.Keys(g.overlay)) {
		fmt.Fprintf(&b, "%s\n%q: {", separator(i), path)
		for i, name := range slices.Sorted(maps.Keys(g.overlay[path])) {
			said, err := json.Marshal(g.overlay[path][name])
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s\n%q: %s", separator(i), name, said)
		}
		b.WriteString("\n}")
	}
	b.WriteString("\n}\n}\n")
	_, err := out.Write(b.Bytes())
	return err
}

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}
