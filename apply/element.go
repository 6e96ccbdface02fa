package apply

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/value"

	"github.com/kindwright/kindwright/internal/json"
)

// appendElement writes one step of a path as FieldsV1 does (SSA-20):
//
//	f:name                 a field
//	k:{"name":"a"}         the item of a keyed list with this key
//	v:"a"                  the member of a set with this value
//	i:3                    the item of a list at this place
func appendElement(dst []byte, e fieldpath.PathElement) []byte {
	switch {
	case e.FieldName != nil:
		return append(append(dst, "f:"...), *e.FieldName...)
	case e.Key != nil:
		dst = append(dst, `k:{`...)
		for i, field := range *e.Key {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, field.Name)
			dst = appendScalar(append(dst, ':'), field.Value.Unstructured())
		}
		return append(dst, '}')
	case e.Value != nil:
		return appendScalar(append(dst, "v:"...), (*e.Value).Unstructured())
	case e.Index != nil:
		return strconv.AppendInt(append(dst, "i:"...), int64(*e.Index), 10)
	}
	return dst
}

// appendScalar writes a value that is part of a path.
func appendScalar(dst []byte, v any) []byte {
	if s, ok := v.(string); ok {
		return appendString(dst, s)
	}
	out, err := json.AppendTree(dst, v)
	if err != nil {
		return append(dst, "null"...) // not a value of a tree, which cannot be
	}
	return out
}

// appendString writes a string with the escapes for HTML that every other writer of FieldsV1 makes, so that the same
// element has the same name wherever it was written.
func appendString(dst []byte, s string) []byte {
	start := len(dst)
	dst = json.AppendString(dst, s)
	if !strings.ContainsAny(s, "<>&\u2028\u2029") {
		return dst
	}
	escaped := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "\u2028", `\u2028`, "\u2029", `\u2029`).Replace(string(dst[start:]))
	return append(dst[:start], escaped...)
}

// parseElement reads one step of a path. Steps of a kind that is not known are not ok: a later version may have written
// them, and they are left out.
func parseElement(s string) (e fieldpath.PathElement, ok bool, err error) {
	kind, rest, found := strings.Cut(s, ":")
	if !found {
		return e, false, fmt.Errorf("%s is no element of a path: it has no colon", quoted(s))
	}
	switch kind {
	case "f":
		e.FieldName = &rest
	case "k":
		e.Key, err = parseKey(rest)
	case "v":
		v, problem := parseScalar(rest)
		e.Value, err = &v, problem
	case "i":
		n, problem := strconv.Atoi(rest)
		e.Index, err = &n, problem
	default:
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("%s is no element of a path: %w", quoted(s), err)
	}
	return e, true, nil
}

func parseKey(s string) (*value.FieldList, error) {
	tree, err := json.DecodeTree([]byte(s), json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok || len(object) == 0 {
		return nil, fmt.Errorf("a key is an object with at least one field")
	}
	out := make(value.FieldList, 0, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !scalar(object[name]) {
			return nil, fmt.Errorf("the fields of a key are scalars")
		}
		out = append(out, value.Field{Name: name, Value: value.NewValueInterface(object[name])})
	}
	return &out, nil
}

func parseScalar(s string) (value.Value, error) {
	tree, err := json.DecodeTree([]byte(s), json.TreeOptions{})
	if err == nil && !scalar(tree) {
		err = fmt.Errorf("not a scalar")
	}
	return value.NewValueInterface(tree), err
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// quoted shortens and quotes a text for a message.
func quoted(s string) string {
	const longest = 100
	if len(s) > longest {
		return strconv.Quote(s[:longest]) + "…"
	}
	return strconv.Quote(s)
}

// fieldsTree writes a set of fields as FieldsV1, "." standing for the place itself.
func fieldsTree(s *fieldpath.Set) map[string]any {
	w := fieldsWriter{leaf: map[string]any{}}
	return w.node(s, false)
}

type fieldsWriter struct {
	leaf map[string]any // shared by all leaves: trees are never changed
	buf  []byte
}

func (w *fieldsWriter) node(s *fieldpath.Set, member bool) map[string]any {
	out := make(map[string]any, s.Members.Size()+1)
	s.Members.Iterate(func(e fieldpath.PathElement) { out[w.name(e)] = w.leaf })
	s.Children.Iterate(func(e fieldpath.PathElement) {
		child, _ := s.Children.Get(e)
		if child.Empty() {
			return
		}
		name := w.name(e)
		_, both := out[name]
		out[name] = w.node(child, both)
	})
	if member {
		out["."] = w.leaf
	}
	return out
}

func (w *fieldsWriter) name(e fieldpath.PathElement) string {
	w.buf = appendElement(w.buf[:0], e)
	return string(w.buf)
}

// fieldsOf reads FieldsV1. Its cost is that of sorting what it reads.
func fieldsOf(tree map[string]any) (*fieldpath.Set, error) {
	set, _, err := readFields(tree)
	if set == nil {
		set = &fieldpath.Set{}
	}
	return set, err
}

type readNode struct {
	element fieldpath.PathElement
	set     *fieldpath.Set
	member  bool
}

// readFields returns the set below a place, nil if it is empty, and whether the place itself is a member.
func readFields(tree map[string]any) (set *fieldpath.Set, member bool, err error) {
	nodes := make([]readNode, 0, len(tree))
	for name, v := range tree {
		if name == "." {
			member = true
			continue
		}
		child, isMap := v.(map[string]any)
		if !isMap && v != nil {
			return nil, false, fmt.Errorf("%s is not an object", quoted(name))
		}
		n := readNode{}
		var ok bool
		if n.element, ok, err = parseElement(name); err != nil {
			return nil, false, err
		} else if !ok {
			continue
		}
		if n.set, n.member, err = readFields(child); err != nil {
			return nil, false, err
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, true, nil
	}
	// In order, each insertion is an append; in disorder, each would move all that come after.
	slices.SortFunc(nodes, func(a, b readNode) int { return a.element.Compare(b.element) })
	set = &fieldpath.Set{}
	for _, n := range nodes {
		if n.member {
			set.Members.Insert(n.element)
		}
		if n.set != nil {
			if child := set.Children.Descend(n.element); child.Empty() {
				*child = *n.set
			} else { // the same element in other words
				*child = *child.Union(n.set)
			}
		}
	}
	return set, member, nil
}
