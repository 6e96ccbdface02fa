package openapi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// others are the parts of other servers, with names that do not clash.
type others struct {
	paths, definitions map[string]any
}

// maxRenaming is how often the definitions of a part are compared before all that clash get other
// names. Definitions that refer to each other in a long chain need one comparison a link.
const maxRenaming = 16

// others gives definitions that have the name of another one, and other contents, names of their own,
// such as Port_v2, as kube-aggregator does.
func (s Swagger) others() (*others, error) {
	if len(s.Others) == 0 {
		return &others{}, nil
	}
	own, err := s.draft(swaggerForm{})
	if err != nil {
		return nil, err
	}
	out := &others{paths: map[string]any{}, definitions: map[string]any{}}
	for _, part := range s.Others {
		out.add(part, own)
	}
	return out, nil
}

// has returns the definition with a name, whose it may be.
func (o *others) has(name string, own *draft) (map[string]any, bool) {
	if d, ok := own.definitions[name]; ok {
		tree, err := json.DecodeTree(d.encoded, json.TreeOptions{})
		if err != nil {
			return nil, true // it differs from all
		}
		return object(tree), true
	}
	d, ok := o.definitions[name]
	return object(d), ok
}

func (o *others) add(part *SwaggerPart, own *draft) {
	names := make(map[string]string, len(part.definitions)) // new ones by those of the part
	taken := make(map[string]bool, len(part.definitions))
	sorted := slices.Sorted(maps.Keys(part.definitions))
	for _, name := range sorted {
		names[name], taken[name] = name, true
	}
	for round, changed := 0, true; changed; round++ {
		changed = false
		for _, name := range sorted {
			have, clashes := o.has(names[name], own)
			if !clashes || round < maxRenaming && sameDefinition(have, refer(object(part.definitions[name]), names)) {
				continue
			}
			changed = true
			names[name] = o.free(name, own, taken)
			taken[names[name]] = true
		}
	}
	for name, to := range names {
		if _, ok := own.definitions[to]; !ok {
			o.definitions[to] = refer(object(part.definitions[name]), names)
		}
	}
	for path, item := range part.paths {
		if _, ok := o.paths[path]; !ok {
			o.paths[path] = referPath(object(item), names)
		}
	}
}

// free returns a name that nobody has.
func (o *others) free(name string, own *draft, taken map[string]bool) string {
	for n := 2; ; n++ {
		candidate := fmt.Sprintf("%s_v%d", name, n)
		_, ours := own.definitions[candidate]
		_, theirs := o.definitions[candidate]
		if !ours && !theirs && !taken[candidate] {
			return candidate
		}
	}
}

// sameDefinition compares two definitions. The kinds that one describes are no part of it: options of
// deletions are of each group version.
func sameDefinition(a, b map[string]any) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, gvkKey)
	delete(b, gvkKey)
	return json.Equal(a, b)
}

// appendTrees appends members of a JSON object, each with a comma.
func appendTrees(dst []byte, trees map[string]any) ([]byte, error) {
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		encoded, err := json.AppendTree(nil, trees[name])
		if err != nil {
			return nil, err
		}
		dst = appendMember(dst, name, encoded)
	}
	return dst, nil
}

// others adds the parts of other servers. A reader of protobuf joins messages that come twice.
func (m *message) others(o *others) {
	if len(o.paths) > 0 {
		m.nested(8, func() { m.otherPaths(o.paths) })
	}
	if len(o.definitions) > 0 {
		m.nested(9, func() {
			for _, name := range slices.Sorted(maps.Keys(o.definitions)) {
				m.nested(1, func() {
					m.text(1, name)
					m.nested(2, func() { m.tree(object(o.definitions[name])) })
				})
			}
		})
	}
}

func (m *message) otherPaths(paths map[string]any) {
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		m.nested(2, func() {
			m.text(1, path)
			m.nested(2, func() {
				item := object(paths[path])
				for _, known := range methodNumbers {
					if o := object(item[known.method]); o != nil {
						m.nested(known.number, func() { m.otherOperation(o) })
					}
				}
				m.otherParameters(9, item)
			})
		})
	}
}

func (m *message) otherOperation(o map[string]any) {
	m.texts(1, o["tags"])
	m.member(3, o, "description")
	m.member(5, o, "operationId")
	m.texts(6, o["produces"])
	m.texts(7, o["consumes"])
	m.otherParameters(8, o)
	m.nested(9, func() {
		responses := object(o["responses"])
		for _, code := range slices.Sorted(maps.Keys(responses)) {
			response := object(responses[code])
			description, _ := response["description"].(string)
			m.response(code, description, func() {
				if schema := object(response["schema"]); schema != nil {
					m.nested(2, func() { m.nested(1, func() { m.tree(schema) }) })
				}
			})
		}
	})
	m.otherExtensions(13, o)
}

func (m *message) otherParameters(number int32, of map[string]any) {
	list, _ := of["parameters"].([]any)
	for _, v := range list {
		p := object(v)
		if p["in"] != "body" {
			if encoded, err := (gnosticForm{}).parameter(p); err == nil {
				m.raw(number, encoded)
			}
			continue
		}
		m.nested(number, func() {
			m.nested(1, func() {
				m.nested(1, func() {
					m.member(1, p, "description")
					m.member(2, p, "name")
					m.member(3, p, "in")
					m.flag(4, p["required"] == true)
					m.nested(5, func() { m.tree(object(p["schema"])) })
				})
			})
		})
	}
}

// member adds a text of a tree.
func (m *message) member(number int32, of map[string]any, name string) {
	text, _ := of[name].(string)
	m.text(number, text)
}

func (m *message) texts(number int32, list any) {
	all, _ := list.([]any)
	for _, v := range all {
		text, _ := v.(string)
		m.text(number, text)
	}
}

func (m *message) otherExtensions(number int32, of map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if len(name) < 2 || name[:2] != "x-" {
			continue
		}
		if encoded, err := json.AppendTree(nil, of[name]); err == nil {
			m.extension(number, name, encoded)
		}
	}
}

// tree adds the fields of a schema of a part.
func (m *message) tree(s map[string]any) {
	m.member(1, s, "$ref")
	m.member(2, s, "format")
	m.member(3, s, "title")
	m.member(4, s, "description")
	if v, ok := s["default"]; ok {
		m.any(5, v)
	}
	m.treeBounds(s)
	m.texts(19, s["required"])
	values, _ := s["enum"].([]any)
	for _, v := range values {
		m.any(20, v)
	}
	switch more := s["additionalProperties"].(type) {
	case bool:
		m.nested(21, func() { m.choice(2, more) })
	case map[string]any:
		m.nested(21, func() { m.nested(1, func() { m.tree(more) }) })
	}
	if typ, ok := s["type"].(string); ok {
		m.nested(22, func() { m.text(1, typ) })
	}
	if items := object(s["items"]); items != nil {
		m.nested(23, func() { m.nested(1, func() { m.tree(items) }) })
	}
	branches, _ := s["allOf"].([]any)
	for _, branch := range branches {
		m.nested(24, func() { m.tree(object(branch)) })
	}
	if properties := object(s["properties"]); len(properties) > 0 {
		m.nested(25, func() {
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				m.nested(1, func() {
					m.text(1, name)
					m.nested(2, func() { m.tree(object(properties[name])) })
				})
			}
		})
	}
	m.flag(27, s["readOnly"] == true)
	if v, ok := s["example"]; ok {
		m.any(30, v)
	}
	m.otherExtensions(31, s)
}

func (m *message) treeBounds(s map[string]any) {
	count := func(number int32, name string) {
		if n, ok := s[name].(int64); ok {
			m.count(number, &n)
		}
	}
	m.float(6, s["multipleOf"])
	m.float(7, s["maximum"])
	m.flag(8, s["exclusiveMaximum"] == true)
	m.float(9, s["minimum"])
	m.flag(10, s["exclusiveMinimum"] == true)
	count(11, "maxLength")
	count(12, "minLength")
	m.member(13, s, "pattern")
	count(14, "maxItems")
	count(15, "minItems")
	m.flag(16, s["uniqueItems"] == true)
	count(17, "maxProperties")
	count(18, "minProperties")
}
