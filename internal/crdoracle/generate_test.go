package crdoracle

import (
	"math"
	"math/rand/v2"
	"slices"
)

// generator makes schemas and objects. What it makes depends on its source alone.
type generator struct{ *rand.Rand }

func newGenerator(seed, stream uint64) generator {
	return generator{rand.New(rand.NewPCG(seed, stream))}
}

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

var fieldNames = []string{"a", "b", "c", "spec", "status", "x-y", "apiVersion", "kind", "metadata"}

// document returns a schema that is structural, most of the time acceptable.
func (g generator) document() map[string]any {
	n := 1 + g.IntN(4)
	properties := map[string]any{}
	for range n {
		properties[pick(g, "spec", "status", "a", "b", "c")] = g.schema(3)
	}
	s := map[string]any{"type": "object", "properties": properties}
	g.object(s)
	delete(s, "default")
	if g.chance(10) {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	return s
}

// schema returns a schema with at most depth levels below it.
func (g generator) schema(depth int) map[string]any {
	s := map[string]any{}
	kinds := []string{"string", "string", "integer", "number", "boolean", "int-or-string", "any"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "object", "map", "array", "array", "list map", "set", "embedded")
	}
	switch kind := pick(g, kinds...); kind {
	case "string":
		s["type"] = kind
		g.text(s)
	case "integer", "number":
		s["type"] = kind
		g.number(s)
	case "boolean":
		s["type"] = kind
	case "int-or-string":
		s["x-kubernetes-int-or-string"] = true
		if g.chance(30) {
			s["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
		}
		if g.chance(20) {
			g.text(s)
		}
		if g.chance(20) {
			g.number(s)
		}
	case "any":
		s["x-kubernetes-preserve-unknown-fields"] = true
		if g.chance(50) {
			s["type"] = "object"
		}
	case "object":
		s["type"] = "object"
		s["properties"] = g.properties(depth)
		g.object(s)
		if g.chance(15) {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	case "map":
		s["type"] = "object"
		if s["additionalProperties"] = any(g.schema(depth - 1)); g.chance(10) {
			s["additionalProperties"] = true
		}
		g.object(s)
	case "embedded":
		s["type"], s["x-kubernetes-embedded-resource"] = "object", true
		if s["properties"] = g.properties(depth); g.chance(50) {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	default:
		g.list(s, kind, depth)
		if g.chance(15) { // which is about the fields of the items
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	}
	g.common(s)
	return s
}

func (g generator) properties(depth int) map[string]any {
	out := map[string]any{}
	for range 1 + g.IntN(3) {
		out[pick(g, fieldNames...)] = g.schema(depth - 1)
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if _, has := out[name]; has {
			out[name] = map[string]any{"type": "string"}
		}
	}
	if _, has := out["metadata"]; has {
		out["metadata"] = map[string]any{"type": "object"}
	}
	return out
}

func (g generator) list(s map[string]any, kind string, depth int) {
	s["type"] = "array"
	items := g.schema(depth - 1)
	switch kind {
	case "list map":
		s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = "map", []any{"k"}
		properties := g.properties(depth)
		properties["k"] = map[string]any{"type": pick(g, "string", "integer")}
		items = map[string]any{"type": "object", "properties": properties, "required": []any{"k"}}
		if g.chance(30) {
			s["x-kubernetes-list-map-keys"] = []any{"k", "l"}
			properties["l"] = map[string]any{"type": "string", "default": "x"}
		}
	case "set":
		s["x-kubernetes-list-type"] = "set"
		items = map[string]any{"type": pick(g, "string", "integer", "number", "boolean")}
	}
	s["items"] = items
	if g.chance(15) {
		s["minItems"] = g.IntN(2)
	}
	if g.chance(15) {
		s["maxItems"] = g.IntN(3)
	}
}

func (g generator) object(s map[string]any) {
	if g.chance(15) {
		s["minProperties"] = g.IntN(3)
	}
	if g.chance(15) {
		s["maxProperties"] = 1 + g.IntN(4)
	}
	if g.chance(30) {
		s["required"] = []any{pick(g, "a", "b", "spec")}
	}
}

var formats = []string{
	"byte", "date", "date-time", "datetime", "duration", "cidr", "ipv4", "ipv6", "mac", "hostname", "email", "uri", "uuid", "uuid3", "uuid4", "uuid5",
	"bsonobjectid", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "password", "k8s-short-name", "k8s-long-name", "int32", "odd",
}

func (g generator) text(s map[string]any) {
	if g.chance(25) {
		s["format"] = pick(g, formats...)
	}
	if g.chance(15) {
		s["minLength"] = g.IntN(4)
	}
	if g.chance(15) {
		s["maxLength"] = g.IntN(6)
	}
	if g.chance(15) {
		s["pattern"] = pick(g, "^a", "[0-9]+", "^$", "a|b", "^[a-z]{2,3}$")
	}
}

func (g generator) number(s map[string]any) {
	if g.chance(25) {
		s["format"] = pick(g, "int32", "int64", "float", "double", "odd")
	}
	// Kubernetes mistakes bounds that are not in the range of the type, see TestIntended.
	limit := func() any { return pick(g, -1, 0, 1, 2, 100, 2147483647) }
	if g.chance(15) {
		s["minimum"] = limit()
		if g.chance(30) {
			s["exclusiveMinimum"] = true
		}
	}
	if g.chance(15) {
		s["maximum"] = limit()
		if g.chance(30) {
			s["exclusiveMaximum"] = true
		}
	}
	if g.chance(10) {
		s["multipleOf"] = pick(g, 1, 2, 3, 10)
	}
}

// common adds the keywords that schemas of every type can have.
func (g generator) common(s map[string]any) {
	if g.chance(15) {
		s["nullable"] = true
	}
	if g.chance(8) {
		var values []any
		for range 1 + g.IntN(3) {
			values = append(values, g.value(s, 0))
		}
		if g.chance(20) {
			values = append(values, nil)
		}
		s["enum"] = values
	}
	if g.chance(6) {
		keyword := pick(g, "allOf", "anyOf", "oneOf", "not")
		if _, taken := s[keyword]; !taken {
			if s[keyword] = any(g.condition(s)); keyword != "not" {
				s[keyword] = []any{g.condition(s), g.condition(s)}
			}
		}
	}
	if g.chance(20) {
		if s["default"] = g.value(s, 0); s["default"] == nil {
			delete(s, "default")
		} else if s["x-kubernetes-int-or-string"] == true {
			delete(s, "format") // which Kubernetes takes for a type of defaults
		}
	}
}

// condition returns a schema that may be below allOf, anyOf, oneOf or not of another one.
func (g generator) condition(s map[string]any) map[string]any {
	out := map[string]any{}
	switch s["type"] {
	case "string":
		g.text(out)
	case "integer", "number":
		g.number(out)
		delete(out, "format") // which Kubernetes takes for a type there
	case "object":
		g.object(out)
		if properties, _ := s["properties"].(map[string]any); len(properties) > 0 {
			name := slices.Sorted(keys(properties))[0]
			if name != "metadata" {
				out["properties"] = map[string]any{name: g.condition(properties[name].(map[string]any))}
			}
		}
	case "array":
		out["maxItems"] = g.IntN(3)
	}
	if g.chance(10) {
		out["enum"] = []any{g.value(s, 0)}
	}
	return out
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// texts has at least one text of each format, and some that nearly have it.
var texts = []string{
	"", "a", "b", "ab", "abc", "abcdef", "0", "1", "12", "-1", "1.5", "ä", "é€😀", "a b", "A", "true", "null",
	"YQ==", "YQ=", "YQ", "Y\nQ==", "2024-02-29", "2023-02-29", "2024-1-1", "2024-02-29T12:00:00Z", "2024-02-29T12:00:00.123456+01:00", "2024-02-29t12:00:00z",
	"2024-02-29 12:00:00Z", "2024-02-29T25:00:00Z", "1h30m", "1 day", "3 days 2 hours", "1.5h", "-1h", "1 fortnight", "1d", "22 ns", "1 week, 2 hours",
	"10.0.0.0/8", "10.0.0.1/33", "010.0.0.1/8", "fe80::/10", "::ffff:1.2.3.4/100", "1.2.3.4", "01.2.3.4", "1.2.3", "::1", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4.5",
	"00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455", "00:11:22:33:44", "00:11:22:33:44:55:66:77", "example.com", "Example.COM", "-a.com", "a-.com", "a_b.com", "a..b", "example.com.", "xn--a",
	"1.a", "a.1", "münchen.de", "a@b.c", "a@b", "A <a@b.c>", "@b", "a b@c.d", "http://a.b/c", "/a/b", "a:b", "http://", "mailto:a@b.c", "//a", "http://a b", "a",
	"123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000",
	"123E4567-E89B-52D3-B456-426614174000", "123e4567-e89b-42d3-c456-426614174000", "123e4567-e89b-12d3-a456-42661417400", "{123e4567-e89b-12d3-a456-426614174000}",
	"507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901", "507F1F77BCF86CD799439011", "zzzf1f77bcf86cd799439011",
	"0321751043", "0-321-75104-3", "978-0321751041", "9780321751041", "9780321751042", "0321751044", "080442957X", "080442957x",
	"4111111111111111", "4111 1111 1111 1111", "4111111111111112", "378282246310005", "123-45-6789", "123456789", "123 45 6789", "12-345-6789",
	"#fff", "fff", "#ffffff", "#ffff", "#ggg", "rgb(255,255,255)", "rgb(256,0,0)", "rgb( 1 , 2 , 3 )", "rgb(1,2)", "RGB(1,2,3)", "rgb(01,2,3)",
	"a-b", "A-b", "-a", "a.b.c", "a.B", "a--b", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklm",
}

var numbers = []any{
	int64(0), int64(1), int64(-1), int64(2), int64(3), int64(100), int64(math.MaxInt32), int64(math.MaxInt32 + 1), int64(math.MinInt32 - 1), int64(math.MaxInt64),
	int64(math.MinInt64), int64(1<<53 + 1), 0.5, 1.5, -0.5, 1e10, 0.1, 3.3, 1e-7,
}

// anything returns a value that no schema asked for.
func (g generator) anything(depth int) any {
	switch n := g.IntN(9); {
	case n == 0:
		return nil
	case n == 1:
		return g.chance(50)
	case n <= 3:
		return pick(g, numbers...)
	case n <= 5 || depth == 0:
		return pick(g, texts...)
	case n == 6:
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.anything(depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range g.IntN(3) {
		object[pick(g, fieldNames...)] = g.anything(depth - 1)
	}
	return object
}

// value returns a value for a schema. With the given chance in percent it breaks a rule at each
// level.
func (g generator) value(s map[string]any, odds int) any {
	if g.chance(odds) {
		return g.anything(2)
	}
	if g.chance(odds) || s["nullable"] == true && g.chance(10) {
		return nil
	}
	if enum, _ := s["enum"].([]any); len(enum) > 0 && !g.chance(odds) {
		return enum[g.IntN(len(enum))]
	}
	if s["x-kubernetes-int-or-string"] == true {
		return pick[any](g, int64(g.IntN(5)), pick(g, texts...))
	}
	switch s["type"] {
	case "string":
		return pick(g, texts...)
	case "integer":
		if g.chance(odds) {
			return pick(g, numbers...)
		}
		return int64(g.IntN(5))
	case "number":
		return pick(g, numbers...)
	case "boolean":
		return g.chance(50)
	case "array":
		items, _ := s["items"].(map[string]any)
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(items, odds))
		}
		return list
	case "object":
		return g.objectValue(s, odds)
	}
	return g.anything(2)
}

func (g generator) objectValue(s map[string]any, odds int) any {
	object := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range slices.Sorted(keys(properties)) {
		if g.chance(60) || slices.Contains(required, any(name)) && !g.chance(odds) {
			object[name] = g.value(properties[name].(map[string]any), odds)
		}
	}
	if rest, ok := s["additionalProperties"].(map[string]any); ok {
		for range g.IntN(3) {
			object[pick(g, "p", "q", "r.s", "t/u")] = g.value(rest, odds)
		}
	}
	if g.chance(odds) {
		object[pick(g, fieldNames...)] = g.anything(1)
	}
	if s["x-kubernetes-embedded-resource"] == true && !g.chance(odds) {
		object["apiVersion"], object["kind"] = pick(g, "v1", "example.com/v1", "a/b/c", ""), pick(g, "Thing", "T_", "")
		object["metadata"] = g.metadata(odds)
	}
	return object
}

func (g generator) metadata(odds int) any {
	m := map[string]any{}
	if g.chance(70) {
		if m["name"] = pick(g, "a", "A", "a/b", "..", "a b"); g.chance(odds) {
			m["name"] = ""
		}
	}
	if g.chance(20) {
		if m["namespace"] = pick(g, "default", "A"); g.chance(odds) {
			m["namespace"] = ""
		}
	}
	if g.chance(30) {
		m["labels"] = map[string]any{pick(g, "a", "a/b", "-", "a/b/c"): pick(g, "", "x", "-", "a b")}
	}
	if g.chance(10) {
		m["annotations"] = map[string]any{pick(g, "a", "A/b", "-"): "x"}
	}
	if g.chance(10) {
		m["finalizers"] = []any{pick(g, "a/b", "a", "-")}
	}
	if g.chance(10) {
		m["creationTimestamp"] = pick[any](g, nil, "2024-02-29T12:00:00Z")
	}
	if g.chance(odds) {
		m[pick(g, "odd", "labels", "name", "generation", "uid")] = g.anything(1)
	}
	return m
}
