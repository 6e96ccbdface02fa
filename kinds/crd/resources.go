package crd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/watch"
)

// definition is a CustomResourceDefinition as it is stored. Schemas are read from the tree, where
// nothing is lost to a Go type.
type definition struct {
	CustomResourceDefinition
	tree registry.Tree
}

// read decodes a stored definition.
func read(e *watch.Entry) (*definition, error) {
	v, err := json.DecodeTree(e.AppendJSON(nil), json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	d := &definition{}
	d.tree, _ = v.(map[string]any)
	return d, json.FromTree(d.tree, &d.CustomResourceDefinition)
}

// schema returns the schema document of a version; a version without one keeps every field.
func (d *definition) schema(i int) map[string]any {
	spec, _ := d.tree["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	version, _ := versions[i].(map[string]any)
	holder, _ := version["schema"].(map[string]any)
	if document, ok := holder["openAPIV3Schema"].(map[string]any); ok {
		return document
	}
	return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
}

// resources returns the resource of each version, the stored one first.
func (d *definition) resources(names CustomResourceDefinitionNames, env registry.Env, convert registry.Converter) ([]*registry.Resource, error) {
	order := make([]int, len(d.Spec.Versions))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return first(d.Spec.Versions[b].Storage) - first(d.Spec.Versions[a].Storage) })
	var out []*registry.Resource
	for _, i := range order {
		r, err := d.resource(i, names, env)
		if err != nil {
			return nil, fmt.Errorf("spec.versions[%d].%w", i, err)
		}
		if len(out) == 0 {
			r.Converter = convert
		} else {
			r.Stored = &registry.Conversion{Resource: out[0]}
		}
		out = append(out, r)
	}
	return out, nil
}

func first(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// resource describes one version.
func (d *definition) resource(i int, names CustomResourceDefinitionNames, env registry.Env) (*registry.Resource, error) {
	v := &d.Spec.Versions[i]
	schema, problems := openapi.TreeReader{Stored: openapi.AnyBreach}.Read(d.schema(i))
	if len(problems) > 0 {
		all := make([]string, len(problems))
		for i, p := range problems {
			all[i] = p.String()
		}
		return nil, fmt.Errorf("schema.openAPIV3Schema: %s", strings.Join(all, "; "))
	}
	r := &registry.Resource{
		Group: d.Spec.Group, Version: v.Name, Plural: names.Plural, ClusterScoped: d.Spec.Scope == "Cluster",
		Names: registry.Names{
			Singular: names.Singular, Kind: names.Kind, ListKind: names.ListKind,
			ShortNames: names.ShortNames, Categories: names.Categories,
		},
		Description: schema.Description, Schema: schema, Unserved: !v.Served,
		Writes: registry.WriteRules{RequireVersion: true, NoCreate: d.DeletionTimestamp != nil},
	}
	if v.Deprecated {
		message := ""
		if v.DeprecationWarning != nil {
			message = *v.DeprecationWarning
		}
		r.Deprecated = &registry.Deprecation{Message: cmp.Or(message, fmt.Sprintf("%s %s is deprecated", r.APIVersion(), names.Kind))}
	}
	for i, f := range v.SelectableFields {
		path, err := parsePath(f.JSONPath)
		if err != nil || len(path.rest) > 0 {
			return nil, fmt.Errorf("selectableFields[%d].jsonPath: %q must be a path such as .spec.color", i, f.JSONPath)
		}
		r.Selectable = append(r.Selectable, strings.Join(path.fields, "."))
	}
	if err := addColumns(r, v.AdditionalPrinterColumns); err != nil {
		return nil, err
	}
	return r, addSubresources(r, v.Subresources, env)
}

func addSubresources(r *registry.Resource, of *CustomResourceSubresources, env registry.Env) error {
	if of == nil {
		return nil
	}
	if of.Status != nil {
		if _, has := r.Schema.Property("status"); !has {
			return errors.New("subresources.status: the schema must have the field status")
		}
		if err := (registry.Status{}).AddTo(r); err != nil {
			return err
		}
	}
	if scale := of.Scale; scale != nil {
		path := ""
		if scale.LabelSelectorPath != nil {
			path = *scale.LabelSelectorPath
		}
		s, err := registry.ScaleSubresource{
			SpecReplicasPath: scale.SpecReplicasPath, StatusReplicasPath: scale.StatusReplicasPath, LabelSelectorPath: path,
		}.Describe(r, env)
		if err != nil {
			return fmt.Errorf("subresources.scale: %w", err)
		}
		r.Subresources = append(r.Subresources, s)
	}
	return nil
}
