package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// From returns the definition of a Go kind as YAML, for a server that does not have its program. Objects
// of the definition have the schema, the subresources status and scale, the selectable fields and the
// columns of the kind. What the kind does in Go functions stays behind: rules, columns and selectable
// fields that are computed, and other subresources.
//
// A kind with several forms becomes a definition with several versions. Only the stored one has a scale.
// Their conversions stay behind, too: a server that serves the definition gets them by Convert and
// ConverterOf.
//
// From fails if a schema cannot say what the Go type does, for example if the type contains itself.
func From[T any](k registry.Kind[T]) ([]byte, error) {
	all, err := k.Define(registry.Env{GroupDomain: "k8s.io"})
	if err != nil {
		return nil, err
	}
	r := all.Resources[0]
	versions := make([]any, len(all.Resources))
	for i, form := range all.Resources {
		endpoints := k.Subresources
		if i > 0 {
			endpoints = nil
		}
		if form.Group != r.Group || form.Plural != r.Plural || form.Names.Kind != r.Names.Kind {
			return nil, fmt.Errorf("crd: the forms %s and %s have different names, and a definition has one", r.GroupVersionKind(), form.GroupVersionKind())
		}
		if versions[i], err = versionOf(form, i == 0, endpoints); err != nil {
			return nil, err
		}
	}
	names := map[string]any{"plural": r.Plural, "kind": r.Names.Kind}
	for name, word := range map[string]string{"singular": r.Names.Singular, "listKind": r.Names.ListKind} {
		if word != "" {
			names[name] = word
		}
	}
	put(names, "shortNames", texts(r.Names.ShortNames))
	put(names, "categories", texts(r.Names.Categories))
	scope := "Namespaced"
	if r.ClusterScoped {
		scope = "Cluster"
	}
	data, err := json.AppendTree(nil, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": r.Plural + "." + r.Group},
		"spec":     map[string]any{"group": r.Group, "names": names, "scope": scope, "versions": versions},
	})
	if err != nil {
		return nil, err
	}
	return yaml.FromJSON(data)
}

// versionOf writes one version of a definition.
func versionOf(r *registry.Resource, stored bool, endpoints []registry.Endpoint) (map[string]any, error) {
	schema, err := structural(r.Schema, maxSchemaDepth)
	if err != nil {
		return nil, fmt.Errorf("crd: %w", err)
	}
	properties, _ := schema["properties"].(map[string]any)
	properties["metadata"] = map[string]any{"type": "object"}
	if _, problems := openapi.FromTree(schema); len(problems) > 0 {
		return nil, fmt.Errorf("crd: the schema cannot be that of a definition: %s", problems[0])
	}
	out := map[string]any{"name": r.Version, "served": true, "storage": stored, "schema": map[string]any{"openAPIV3Schema": schema}}
	put(out, "subresources", subresourcesOf(r, endpoints))
	put(out, "additionalPrinterColumns", printerColumns(r))
	put(out, "selectableFields", selectableFields(r))
	return out, nil
}

// ConverterOf returns the conversions between the forms of a Go kind, for Convert.
func ConverterOf[T any](k registry.Kind[T]) (registry.Converter, error) {
	all, err := k.Define(registry.Env{GroupDomain: "k8s.io"})
	if err != nil {
		return nil, err
	}
	forms := map[string]*registry.Conversion{} // nil for the stored one
	for _, r := range all.Resources {
		forms[r.APIVersion()] = r.Stored
	}
	return func(ctx context.Context, to string, objects []registry.Tree) ([]registry.Tree, error) {
		target, known := forms[to]
		if !known {
			return nil, fmt.Errorf("crd: %s has no version %s", all.Resources[0].Names.Kind, to)
		}
		out := make([]registry.Tree, len(objects))
		for i, object := range objects {
			from, _ := object["apiVersion"].(string)
			source, known := forms[from]
			if !known {
				return nil, fmt.Errorf("crd: %s has no version %s", all.Resources[0].Names.Kind, from)
			}
			converted := []registry.Tree{object}
			if source != nil && from != to {
				var err error
				if converted, err = source.To(ctx, converted); err != nil {
					return nil, err
				}
			}
			if target != nil && from != to {
				var err error
				if converted, err = target.From(ctx, converted); err != nil {
					return nil, err
				}
			}
			out[i] = tree.With(converted[0], to, "apiVersion")
		}
		return out, nil
	}, nil
}

// put sets a field unless the value is empty.
func put[V []any | map[string]any](of map[string]any, name string, value V) {
	if len(value) > 0 {
		of[name] = value
	}
}

func texts(all []string) []any {
	out := make([]any, len(all))
	for i, text := range all {
		out[i] = text
	}
	return out
}

func subresourcesOf(r *registry.Resource, endpoints []registry.Endpoint) map[string]any {
	out := map[string]any{}
	if slices.ContainsFunc(r.Subresources, func(s registry.Subresource) bool { return s.Name == "status" }) {
		out["status"] = map[string]any{}
	}
	for _, e := range endpoints {
		if scale, ok := e.(registry.ScaleSubresource); ok {
			paths := map[string]any{"specReplicasPath": scale.SpecReplicasPath, "statusReplicasPath": scale.StatusReplicasPath}
			if scale.LabelSelectorPath != "" {
				paths["labelSelectorPath"] = scale.LabelSelectorPath
			}
			out["scale"] = paths
		}
	}
	return out
}

// printerColumns returns the columns that show a field. The name is always a column.
func printerColumns(r *registry.Resource) (out []any) {
	for _, c := range r.Columns {
		if c.Cell != nil || c.Format == "name" {
			continue
		}
		path := ""
		for _, name := range c.Path {
			path += "." + strings.ReplaceAll(name, ".", `\.`)
		}
		column := map[string]any{"name": c.Name, "type": c.Type, "jsonPath": path}
		if slices.Contains(columnFormats, c.Format) {
			column["format"] = c.Format
		}
		if c.Description != "" {
			column["description"] = c.Description
		}
		if c.Priority != 0 {
			column["priority"] = int64(c.Priority)
		}
		out = append(out, column)
	}
	return out
}

func selectableFields(r *registry.Resource) (out []any) {
	for _, field := range r.Selectable {
		if r.Computed[field] == nil {
			out = append(out, map[string]any{"jsonPath": "." + field})
		}
	}
	return out
}

// maxSchemaDepth is how deep the types of a kind may be nested in each other. A type that contains
// itself is deeper.
const maxSchemaDepth = 64

// structural writes a schema as the document of a definition has it.
func structural(s *openapi.Schema, depth int) (map[string]any, error) {
	if depth == 0 {
		return nil, errors.New("the schema contains itself, or is nested too deeply")
	}
	out := conditions(s)
	if format := formatOf(s); format != "" {
		out["format"] = format
	}
	switch {
	case s.IntOrString || s.OrNumber:
		out["x-kubernetes-int-or-string"] = true
	case s.Type == "":
		out["x-kubernetes-preserve-unknown-fields"] = true
	default:
		out["type"] = string(s.Type)
	}
	for name, flag := range map[string]bool{
		"nullable": s.Nullable, "x-kubernetes-preserve-unknown-fields": s.PreserveUnknown, "x-kubernetes-embedded-resource": s.EmbeddedObject,
	} {
		if flag {
			out[name] = true
		}
	}
	for name, text := range map[string]string{
		"description": s.Description, "x-kubernetes-list-type": string(s.ListType), "x-kubernetes-map-type": string(s.MapType),
	} {
		if text != "" {
			out[name] = text
		}
	}
	if s.DefaultValue != nil {
		out["default"] = s.DefaultValue
	}
	put(out, "x-kubernetes-list-map-keys", texts(s.ListMapKeys))
	put(out, "x-kubernetes-validations", expressions(s.Rules))
	if err := parts(out, s, depth-1); err != nil {
		return nil, err
	}
	return out, nil
}

// formatOf returns the format of a text, also of one that only its Go type says: rules see another type than text there.
func formatOf(s *openapi.Schema) string {
	switch {
	case s.Format != "" || s.Type != openapi.String:
		return s.Format
	case s.Notation == openapi.NotationDuration:
		return "duration"
	case s.Notation == openapi.NotationBytes:
		return "byte"
	}
	return ""
}

// parts writes the schemas of fields, values and items.
func parts(out map[string]any, s *openapi.Schema, depth int) (err error) {
	if len(s.Properties) > 0 {
		properties := map[string]any{}
		for _, p := range s.Properties {
			if properties[p.Name], err = structural(p.Schema, depth); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		out["properties"] = properties
	}
	if s.AdditionalProperties != nil {
		if out["additionalProperties"], err = structural(s.AdditionalProperties, depth); err != nil {
			return err
		}
	}
	if s.Items == nil {
		return nil
	}
	items, err := structural(s.Items, depth)
	if err != nil {
		return err
	}
	requireKeys(items, s)
	out["items"] = items
	return nil
}

// requireKeys makes the keys of a list required, as definitions demand of keys without a default.
func requireKeys(items map[string]any, of *openapi.Schema) {
	required, _ := items["required"].([]any)
	for _, key := range of.ListMapKeys {
		if field, ok := of.Items.Property(key); ok && field.DefaultValue == nil && !slices.Contains(required, any(key)) {
			required = append(required, key)
		}
	}
	put(items, "required", required)
}

// conditions writes what a schema demands of values.
func conditions(s *openapi.Schema) map[string]any {
	out := map[string]any{}
	for name, text := range map[string]string{"format": s.Format, "pattern": s.Pattern} {
		if text != "" {
			out[name] = text
		}
	}
	for name, n := range map[string]*int64{
		"minLength": s.MinLength, "maxLength": s.MaxLength, "minItems": s.MinItems, "maxItems": s.MaxItems,
		"minProperties": s.MinProperties, "maxProperties": s.MaxProperties,
	} {
		if n != nil {
			out[name] = *n
		}
	}
	for name, n := range map[string]any{"minimum": s.Minimum, "maximum": s.Maximum, "multipleOf": s.MultipleOf} {
		if n != nil {
			out[name] = n
		}
	}
	for name, flag := range map[string]bool{"exclusiveMinimum": s.ExclusiveMinimum, "exclusiveMaximum": s.ExclusiveMaximum} {
		if flag {
			out[name] = true
		}
	}
	put(out, "enum", s.Enum)
	put(out, "required", texts(s.Required))
	put(out, "allOf", branches(s.AllOf))
	put(out, "anyOf", branches(s.AnyOf))
	put(out, "oneOf", branches(s.OneOf))
	if s.Not != nil {
		out["not"] = branches([]*openapi.Schema{s.Not})[0]
	}
	return out
}

// branches writes schemas that only demand something.
func branches(all []*openapi.Schema) []any {
	out := make([]any, len(all))
	for i, s := range all {
		one := conditions(s)
		properties := map[string]any{}
		for _, p := range s.Properties {
			properties[p.Name] = branches([]*openapi.Schema{p.Schema})[0]
		}
		put(one, "properties", properties)
		if s.Items != nil {
			one["items"] = branches([]*openapi.Schema{s.Items})[0]
		}
		out[i] = one
	}
	return out
}

func expressions(rules []openapi.Rule) (out []any) {
	for _, r := range rules {
		one := map[string]any{"rule": r.Rule}
		for name, text := range map[string]string{"message": r.Message, "messageExpression": r.MessageExpression, "reason": r.Reason, "fieldPath": r.FieldPath} {
			if text != "" {
				one[name] = text
			}
		}
		if r.OptionalOldSelf {
			one["optionalOldSelf"] = true
		}
		out = append(out, one)
	}
	return out
}
