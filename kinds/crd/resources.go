package crd

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// definition is a CustomResourceDefinition as it is stored. Schemas are read from the tree, where
// nothing is lost to a Go type.
type definition struct {
	CustomResourceDefinition
	tree registry.Tree
	key  string // in the live view
}

// read decodes a stored definition.
func read(e *watch.Entry) (*definition, error) {
	v, err := json.DecodeTree(e.AppendJSON(nil), json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	d := &definition{key: e.Key()}
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
	return unknown()
}

// unknown is the schema document of a kind whose objects may have any fields.
func unknown() map[string]any {
	return map[string]any{"type": "object", preserveUnknown: true}
}

const preserveUnknown = "x-kubernetes-preserve-unknown-fields"

// keepingAll returns a schema document under which no field of an object is dropped, as definitions ask
// for that were stored with preserveUnknownFields.
func keepingAll(node map[string]any) map[string]any {
	out := maps.Clone(node)
	if out["type"] == "object" && out["additionalProperties"] == nil {
		out[preserveUnknown] = true
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if below, ok := out[keyword].(map[string]any); ok {
			out[keyword] = keepingAll(below)
		}
	}
	if properties, ok := out["properties"].(map[string]any); ok {
		kept := make(map[string]any, len(properties))
		for name, below := range properties {
			kept[name] = below
			if one, ok := below.(map[string]any); ok {
				kept[name] = keepingAll(one)
			}
		}
		out["properties"] = kept
	}
	return out
}

// resources returns the resource of each version, the stored one first.
func (d *definition) resources(names CustomResourceDefinitionNames, env registry.Env, convert registry.Converter, lives func() bool) ([]*registry.Resource, error) {
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
		r.Hooks.Complete = refuseNew(r, lives)
		if len(out) == 0 {
			r.Converter = convert
			if convert == nil {
				r.Converter, r.SelectByRecord = relabelled, true
			}
		} else {
			r.Stored = &registry.Conversion{Resource: out[0]}
		}
		out = append(out, r)
	}
	return out, nil
}

// refuseNew refuses new objects while the definition is being deleted, and when it is gone.
//
// Source: CRD-21.
func refuseNew(r *registry.Resource, lives func() bool) func(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
	return func(_ context.Context, t, old registry.Tree) (registry.Tree, error) {
		if old == nil && !lives() {
			return nil, status.Forbidden(r.GroupResource(), tree.NameOf(t), "create not allowed while custom resource definition is terminating")
		}
		return t, nil
	}
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
	reader := openapi.TreeReader{Stored: openapi.AnyBreach}
	document := d.schema(i)
	if d.Spec.PreserveUnknownFields {
		document = keepingAll(document)
	}
	schema, problems := reader.Read(document)
	if len(problems) > 0 && d.Spec.PreserveUnknownFields { // schemas of that time need not be structural
		schema, problems = reader.Read(unknown())
	}
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
		Writes: registry.WriteRules{RequireVersion: true},
	}
	if v.Deprecated {
		r.Deprecated = d.deprecation(v)
	}
	for i, f := range v.SelectableFields {
		names, err := fieldNames(f.JSONPath)
		if err != nil {
			return nil, fmt.Errorf("selectableFields[%d].jsonPath: %q: %w", i, f.JSONPath, err)
		}
		r.Selectable = append(r.Selectable, strings.Join(names, "."))
	}
	addColumns(r, v.AdditionalPrinterColumns)
	return r, addSubresources(r, v.Subresources, env)
}

func addSubresources(r *registry.Resource, of *CustomResourceSubresources, env registry.Env) error {
	if of == nil {
		return nil
	}
	if of.Status != nil {
		if err := (registry.Status{Undeclared: true}).AddTo(r); err != nil {
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
			Undeclared: true,
		}.Describe(r, env)
		if err != nil {
			return fmt.Errorf("subresources.scale: %w", err)
		}
		r.Subresources = append(r.Subresources, s)
		r.Hooks.ValidateUntyped = scaleRule(scale.SpecReplicasPath, scale.StatusReplicasPath, path)
	}
	return nil
}

// scaleRule checks the fields that a Scale shows, in every write. A write of the status is not refused for
// what is in the spec.
func scaleRule(spec, state, selector string) func(context.Context, registry.Tree, *status.Fields) {
	replicas := func(t registry.Tree, path string, f *status.Fields) {
		at := f.At(path)
		switch n := tree.At(t, strings.Split(path, ".")[1:]...).(type) {
		case nil:
		case int64:
			if n < 0 {
				at.Invalid(n, "should be a non-negative integer")
			} else if n > math.MaxInt32 {
				at.Invalid(n, fmt.Sprintf("should be less than or equal to %d", math.MaxInt32))
			}
		default:
			at.Invalid(0, "must be an integer")
		}
	}
	return func(ctx context.Context, t registry.Tree, f *status.Fields) {
		if registry.SubresourceFrom(ctx) != "status" {
			replicas(t, spec, f)
		}
		replicas(t, state, f)
		if selector != "" {
			if v := tree.At(t, strings.Split(selector, ".")[1:]...); v != nil {
				if _, ok := v.(string); !ok {
					f.At(selector).Invalid("", "must be a string")
				}
			}
		}
	}
}

// deprecation returns what clients of a version are warned of: the text of the definition, or a hint at
// the best version that is not deprecated.
// Source: VER-17.
func (d *definition) deprecation(v *CustomResourceDefinitionVersion) *registry.Deprecation {
	if v.DeprecationWarning != nil {
		return &registry.Deprecation{Message: *v.DeprecationWarning}
	}
	best := ""
	for _, other := range d.Spec.Versions {
		if other.Served && !other.Deprecated && meta.CompareVersions(other.Name, v.Name) < 0 && (best == "" || meta.CompareVersions(other.Name, best) < 0) {
			best = other.Name
		}
	}
	out := &registry.Deprecation{}
	if best != "" {
		out.Instead = meta.GroupVersionKind{Group: d.Spec.Group, Version: best, Kind: d.Spec.Names.Kind}
	}
	return out
}
