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

// appendElement writes one path element in the syntax of FieldsV1:
//
//	f:name                 a field
//	k:{"name":"a"}         the item of a keyed list with this key
//	v:"a"                  the member of a set with this value
//	i:3                    the item of a list at this index
//
// Source: SSA-20.
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

// appendScalar writes a scalar inside a path element.
func appendScalar(dst []byte, v any) []byte {
	if s, ok := v.(string); ok {
		return appendString(dst, s)
	}
	out, err := json.AppendTree(dst, v)
	if err != nil {
		return append(dst, "null"...) // cannot happen: v is a scalar of a tree
	}
	return out
}

// appendString writes a string with the HTML escapes that all other writers of FieldsV1 use. Path
// elements are compared as text, so an element must look the same regardless of who wrote it.
func appendString(dst []byte, s string) []byte {
	start := len(dst)
	dst = json.AppendString(dst, s)
	if !strings.ContainsAny(s, "<>&\u2028\u2029") { // most names need no copy
		return dst
	}
	return append(dst[:start], json.EscapeHTML(string(dst[start:]))...)
}

// parseElement parses one path element. ok is false for an unknown kind of element. A newer version
// may have written it, so the caller skips it.
func parseElement(s string) (e fieldpath.PathElement, ok bool, err error) {
	kind, rest, found := strings.Cut(s, ":")
	if !found {
		return e, false, fmt.Errorf("%s is not a path element: it has no colon", quoted(s))
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
		return e, false, fmt.Errorf("%s is not a path element: %w", quoted(s), err)
	}
	return e, true, nil
}

// parseKey parses the key of a list item. Fields are sorted by name, because path elements are
// compared field by field.
func parseKey(s string) (*value.FieldList, error) {
	tree, err := json.DecodeTree([]byte(s), json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok || len(object) == 0 {
		return nil, fmt.Errorf("a key must be an object with at least one field")
	}
	out := make(value.FieldList, 0, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !scalar(object[name]) {
			return nil, fmt.Errorf("the fields of a key must be scalars")
		}
		out = append(out, value.Field{Name: name, Value: value.NewValueInterface(object[name])})
	}
	return &out, nil
}

func parseScalar(s string) (value.Value, error) {
	tree, err := json.DecodeTree([]byte(s), json.TreeOptions{})
	if err == nil && !scalar(tree) {
		err = fmt.Errorf("must be a scalar")
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

// quoted quotes a text for a message and shortens it.
func quoted(s string) string {
	const longest = 100
	if len(s) > longest {
		return strconv.Quote(s[:longest]) + "…"
	}
	return strconv.Quote(s)
}

// fieldsTree encodes a set of fields as FieldsV1. The name "." means that the place itself is a
// member.
func fieldsTree(s *fieldpath.Set) map[string]any {
	w := fieldsWriter{leaf: map[string]any{}}
	return w.node(s, false)
}

// fieldsWriter encodes one set of fields. It reuses its buffer for all names.
type fieldsWriter struct {
	leaf map[string]any // shared by all leaves, since trees are never modified
	buf  []byte
}

// node encodes the set below a place. member states whether the place itself is in the set.
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

// fieldsOf decodes FieldsV1. The cost is that of sorting the elements.
func fieldsOf(tree map[string]any) (*fieldpath.Set, error) {
	set, _, err := readFields(tree)
	if set == nil {
		set = &fieldpath.Set{}
	}
	return set, err
}

// readNode is a decoded element of a set before it is inserted in sorted order.
type readNode struct {
	element fieldpath.PathElement
	set     *fieldpath.Set
	member  bool
}

// readFields returns the set below a place and whether the place itself is a member. The set is nil
// if it is empty.
func readFields(tree map[string]any) (set *fieldpath.Set, member bool, err error) {
	nodes := make([]readNode, 0, len(tree))
	for name, v := range tree {
		if name == "." {
			member = true
			continue
		}
		child, isMap := v.(map[string]any)
		if !isMap && v != nil {
			return nil, false, fmt.Errorf("%s must be an object", quoted(name))
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
	// Inserting in sorted order appends; in any other order, each insertion moves all later
	// elements.
	slices.SortFunc(nodes, func(a, b readNode) int { return a.element.Compare(b.element) })
	set = &fieldpath.Set{}
	for _, n := range nodes {
		if n.member {
			set.Members.Insert(n.element)
		}
		if n.set != nil {
			if child := set.Children.Descend(n.element); child.Empty() {
				*child = *n.set
				// The same element in another spelling, such as 1 and 1.0.
			} else {
				*child = *child.Union(n.set)
			}
		}
	}
	return set, member, nil
}
