package openapi

import (
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Undecodable says why kube-apiserver cannot decode an object of a custom resource, in its words, or
// "" if it can. It decodes metadata, and apiVersion, kind and metadata of embedded objects, into Go
// types before it looks at the schema.
func (s *Schema) Undecodable(tree map[string]any) string {
	if s.ready == nil {
		return ""
	}
	if why := undecodableMetadata(s.child("metadata"), tree["metadata"]); why != "" {
		return why
	}
	var w walk
	if s.undecodable(&w, tree, true); len(w.errs) > 0 {
		return w.errs[0].String()
	}
	return ""
}

// undecodable looks for embedded objects. It stops at the first one that cannot be decoded.
func (s *Schema) undecodable(w *walk, v any, root bool) {
	if !s.ready.embeds || len(w.errs) > 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		embedded := s.EmbeddedObject && !root
		for _, name := range sortedNames(v) {
			child := s.child(name)
			if embedded {
				undecodableField(w, child, name, v[name])
			}
			if child != nil {
				w.path = append(w.path, json.Name(name))
				child.undecodable(w, v[name], false)
				w.path = w.path[:len(w.path)-1]
			}
		}
	case []any:
		for i, item := range v {
			if s.Items != nil {
				w.path = append(w.path, json.Item(i))
				s.Items.undecodable(w, item, false)
				w.path = w.path[:len(w.path)-1]
			}
		}
	}
}

// undecodableField looks at a field of an embedded object.
func undecodableField(w *walk, s *Schema, name string, v any) {
	switch name {
	case "apiVersion", "kind":
		if _, ok := v.(string); !ok {
			w.failAt(json.Name(name), meta.CauseFieldValueInvalid, v, "must be a string")
		}
	case "metadata":
		if why := undecodableMetadata(s, v); why != "" {
			w.failAt(json.Name(name), meta.CauseFieldValueInvalid, v, why)
		}
	}
}

// undecodableMetadata says why a value cannot be decoded as metadata. s is the schema of metadata.
func undecodableMetadata(s *Schema, v any) string {
	if s == nil || v == nil {
		return ""
	}
	w := walk{sorted: true}
	s.canonical(&w, v)
	if len(w.errs) == 0 {
		return ""
	}
	problem := w.errs[0]
	if problem.Type != meta.CauseFieldValueTypeInvalid {
		return problem.Message()
	}
	kind, _ := problem.Value.(string)
	if shorter, ok := decodedKinds[kind]; ok {
		kind = shorter
	}
	if problem.Field == "" {
		return fmt.Sprintf("json: cannot unmarshal %s into Go value of type v1.ObjectMeta", kind)
	}
	field, _, inside := strings.Cut(strings.ReplaceAll(problem.Field, "[", "."), ".")
	goType := goTypeOf(field, inside)
	if goType == "int64" && kind == decodedKinds[string(Integer)] { // one with a fraction, or out of range
		object, _ := v.(map[string]any)
		if number, err := json.AppendTree(nil, object[field]); err == nil {
			kind += " " + string(number)
		}
	}
	return fmt.Sprintf("json: cannot unmarshal %s into Go struct field ObjectMeta.%s of type %s", kind, field, goType)
}

// decodedKinds are the types of JSON whose name in messages of Go's decoder is another one.
var decodedKinds = map[string]string{string(Integer): "number", string(Boolean): "bool"}

// goTypeOf returns the Go type of a field of metadata, or of what is in it.
func goTypeOf(field string, inside bool) string {
	switch field {
	case "labels", "annotations":
		if !inside {
			return "map[string]string"
		}
	case "finalizers":
		if !inside {
			return "[]string"
		}
	case "ownerReferences":
		if !inside {
			return "[]v1.OwnerReference"
		}
		return "v1.OwnerReference"
	case "managedFields":
		if !inside {
			return "[]v1.ManagedFieldsEntry"
		}
		return "v1.ManagedFieldsEntry"
	case "uid":
		return "types.UID"
	case "generation", "deletionGracePeriodSeconds":
		return "int64"
	}
	return "string"
}
