package crd

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
)

// WithoutFieldSelectors drops selectableFields from definitions, unless the stored one has them, as
// kube-apiserver does without the feature CustomResourceFieldSelectors.
func WithoutFieldSelectors() Option {
	return func(d *definitions) {
		d.dropped = append(d.dropped, dropped{in: hasSelectable, from: withoutSelectable})
	}
}

// WithoutRatcheting judges an update of a custom resource as a new object, as kube-apiserver does without
// the feature CRDValidationRatcheting. It drops optionalOldSelf from the rules of definitions, unless the
// stored one has it.
func WithoutRatcheting() Option {
	return func(d *definitions) {
		d.noRatcheting = true
		d.dropped = append(d.dropped, dropped{
			in:   func(version map[string]any) bool { return mentions(version["schema"], optionalOldSelf) },
			from: func(version map[string]any) map[string]any { return without(version, optionalOldSelf) },
		})
	}
}

const optionalOldSelf = "optionalOldSelf"

// dropped is a part of the versions of a definition that the server does not have.
type dropped struct {
	in   func(version map[string]any) bool
	from func(version map[string]any) map[string]any
}

func hasSelectable(version map[string]any) bool { return version["selectableFields"] != nil }

func withoutSelectable(version map[string]any) map[string]any {
	out := maps.Clone(version)
	delete(out, "selectableFields")
	return out
}

// reset returns what a request may change of a definition.
func (d *definitions) reset(before func(old, sent registry.Tree) registry.Tree) func(old, sent registry.Tree) registry.Tree {
	if len(d.dropped) == 0 {
		return before
	}
	return func(old, sent registry.Tree) registry.Tree {
		if before != nil {
			sent = before(old, sent)
		}
		for _, part := range d.dropped {
			if !slices.ContainsFunc(versionsOf(old), part.in) {
				sent = part.drop(sent)
			}
		}
		return sent
	}
}

func (p dropped) drop(t registry.Tree) registry.Tree {
	versions := versionsOf(t)
	if !slices.ContainsFunc(versions, p.in) {
		return t
	}
	out := make([]any, len(versions))
	for i, v := range versions {
		out[i] = p.from(v)
	}
	return tree.With(t, out, "spec", "versions")
}

// versionsOf returns the versions of a definition, if each of them is an object.
func versionsOf(t registry.Tree) []map[string]any {
	list, _ := tree.At(t, "spec", "versions").([]any)
	out := make([]map[string]any, len(list))
	for i, v := range list {
		version, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		out[i] = version
	}
	return out
}

// mentions reports whether a rule in a schema has a field. Properties may have any name, so only what
// stands below x-kubernetes-validations counts.
func mentions(v any, field string) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if rules, ok := inner.([]any); ok && name == "x-kubernetes-validations" {
				if slices.ContainsFunc(rules, func(r any) bool { m, _ := r.(map[string]any); return m[field] != nil }) {
					return true
				}
			} else if mentions(inner, field) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return mentions(inner, field) })
	}
	return false
}

// without returns a schema without a field of its rules.
func without(m map[string]any, field string) map[string]any {
	out := maps.Clone(m)
	for name, inner := range m {
		list, isList := inner.([]any)
		object, isObject := inner.(map[string]any)
		switch {
		case isObject:
			out[name] = without(object, field)
		case isList:
			list = slices.Clone(list)
			for i, item := range list {
				one, ok := item.(map[string]any)
				if !ok {
					continue
				}
				if one = without(one, field); name == "x-kubernetes-validations" {
					delete(one, field)
				}
				list[i] = one
			}
			out[name] = list
		}
	}
	return out
}
