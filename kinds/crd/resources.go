package crd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// definition is a CustomResourceDefinition as it is stored, without the schemas of its versions. They
// are read when a kind is made from them.
type definition struct {
	CustomResourceDefinition
	entry     *watch.Entry     // with the spec of this definition, whatever the status was
	documents []meta.RawJSON   // the schemas of the versions, nil if they were compiled already
	schemas   []compiledSchema // nil unless compiled
}

// read decodes a stored definition.
func read(e *watch.Entry) (*definition, error) {
	text := e.AppendJSON(make([]byte, 0, e.Length()))
	d := &definition{entry: e}
	var err error
	if d.documents, err = documentsOf(text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(withoutDocuments(text, d.documents), &d.CustomResourceDefinition); err != nil {
		return nil, err
	}
	for i := range d.Spec.Versions {
		d.Spec.Versions[i].Schema = nil
	}
	return d, nil
}

// documentsOf returns the schema documents in the JSON of a definition, nil for a version without one.
// Documents are large, so they are not decoded with the rest.
func documentsOf(text []byte) ([]meta.RawJSON, error) {
	var d struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					Document meta.RawJSON `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := json.UnmarshalOwn(text, &d); err != nil {
		return nil, err
	}
	out := make([]meta.RawJSON, len(d.Spec.Versions))
	for i, v := range d.Spec.Versions {
		out[i] = v.Schema.Document
	}
	return out, nil
}

// withoutDocuments replaces the schema documents in the JSON of a definition by null. Where the text is
// not as the server writes it, documents stay.
func withoutDocuments(text []byte, documents []meta.RawJSON) []byte {
	const before = `"openAPIV3Schema":` // the quotes tell it from all that is in a string
	out := make([]byte, 0, 4096)
	for _, document := range documents {
		at := 0
		for document != nil { // one that is not found stays
			next := bytes.Index(text[at:], []byte(before))
			if next < 0 {
				break
			}
			if at += next + len(before); bytes.HasPrefix(text[at:], document) {
				out, text = append(append(out, text[:at]...), "null"...), text[at+len(document):]
				break
			}
		}
	}
	return append(out, text...)
}

// withoutSchemas returns a definition whose versions have no schemas.
func withoutSchemas(t registry.Tree) registry.Tree {
	versions, _ := tree.At(t, "spec", "versions").([]any)
	out := make([]any, len(versions))
	for i, v := range versions {
		out[i] = v
		if version, ok := v.(map[string]any); ok {
			out[i] = tree.Without(version, "schema")
		}
	}
	return tree.With(t, out, "spec", "versions")
}

// compiledSchema is the schema of a version.
type compiledSchema struct {
	of       digest // of its document
	schema   *openapi.Schema
	rules    *cel.Rules          // if a request has compiled them
	breaches []status.FieldError // what keeps the document from being structural
	problems []status.FieldError // what keeps it from being served
}

// compile compiles the schemas of the versions. A version without one keeps every field. Versions with
// the same document share one schema.
func (d *definition) compile(m *memory) error {
	if d.documents == nil {
		documents, err := documentsOf(d.entry.AppendJSON(make([]byte, 0, d.entry.Length())))
		if err != nil {
			return err
		}
		d.documents = documents
	}
	d.schemas = make([]compiledSchema, len(d.Spec.Versions))
	for i := range d.schemas {
		own := &d.schemas[i]
		own.of = sha256.Sum256(d.documents[i])
		if j := slices.IndexFunc(d.schemas[:i], func(other compiledSchema) bool { return other.of == own.of }); j >= 0 && len(d.schemas[j].breaches) == 0 {
			*own = d.schemas[j]
			continue
		}
		if own.schema, own.rules = m.take(own.of); own.schema != nil && !d.Spec.PreserveUnknownFields {
			continue
		}
		document, err := decoded(d.documents[i])
		if err != nil {
			return err
		}
		strict := openapi.TreeReader{Position: fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i)}
		own.schema, own.breaches = strict.Read(document)
		if d.Spec.PreserveUnknownFields || len(own.breaches) > 0 { // it was stored, nevertheless
			own.schema, own.problems = d.compileStored(document)
			continue
		}
		m.note(own.of, own.schema)
	}
	return nil
}

// decoded decodes a schema document, nil for none.
func decoded(document meta.RawJSON) (map[string]any, error) {
	if document == nil {
		return unknown(), nil
	}
	v, err := json.DecodeTree(document, json.TreeOptions{})
	t, _ := v.(map[string]any)
	return t, err
}

// compileStored compiles a schema that a new definition must not have.
func (d *definition) compileStored(document map[string]any) (*openapi.Schema, []status.FieldError) {
	reader := openapi.TreeReader{Stored: openapi.AnyBreach}
	if !d.Spec.PreserveUnknownFields {
		return reader.Read(document)
	}
	schema, problems := reader.Read(keepingAll(document))
	if len(problems) > 0 { // schemas of that time need not be structural
		return reader.Read(unknown())
	}
	return schema, nil
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
		r.Hooks.Complete = admitTo(r, lives)
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

// admitTo refuses new objects while the definition is being deleted, and when it is gone. It warns of new
// finalizers with names that others may use, too.
//
// Source: CRD-21.
func admitTo(r *registry.Resource, lives func() bool) func(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
	return func(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
		if old == nil && !lives() {
			return nil, status.Forbidden(r.GroupResource(), tree.Text(t, "metadata", "name"), "create not allowed while custom resource definition is terminating")
		}
		warnOfFinalizers(ctx, finalizersOf(t), finalizersOf(old))
		return t, nil
	}
}

func finalizersOf(t registry.Tree) []any {
	list, _ := tree.At(t, "metadata", "finalizers").([]any)
	return list
}

func warnOfFinalizers(ctx context.Context, now, before []any) {
	known, had := []any{meta.FinalizerOrphanDependents, meta.FinalizerDeleteDependents, "kubernetes"}, map[string]bool{}
	for _, v := range before {
		if name, ok := v.(string); ok {
			had[name] = true
		}
	}
	for _, v := range now {
		name, ok := v.(string)
		if !ok || had[name] {
			continue
		}
		warn := func(why string) { registry.Warn(ctx, fmt.Sprintf("metadata.finalizers: %q: %s", name, why)) }
		if why := meta.CheckQualifiedName(name); why != "" {
			warn(why)
		}
		switch {
		case strings.Contains(name, "/") || slices.Contains(known, v):
		case strings.Contains(name, "."):
			warn("prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers")
		default:
			warn("prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
		}
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
	compiled := &d.schemas[i]
	schema := compiled.schema
	if len(compiled.problems) > 0 {
		all := make([]string, len(compiled.problems))
		for i, p := range compiled.problems {
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
			Undeclared: true, Stated: true,
		}.Describe(r, env)
		if err != nil {
			return fmt.Errorf("subresources.scale: %w", err)
		}
		s.View.Document.Hooks.Validate = nil // scaleRule says what is wrong, and of the object
		r.Subresources = append(r.Subresources, s)
		r.Hooks.ValidateUntyped = scaleRule(scale.SpecReplicasPath, scale.StatusReplicasPath, path)
	}
	return nil
}

// scaleRule checks the fields that a Scale shows, in every write. A write of the status is not refused for
// what is in the spec. Where the document describes no type, null is a wrong one.
func scaleRule(spec, state, selector string) func(context.Context, registry.Tree, *status.Fields) {
	replicas := func(t registry.Tree, path string, f *status.Fields) {
		v, found, ok := lookUp(t, path)
		n, isInteger := v.(int64)
		switch at := f.At(path); {
		case !ok || found && !isInteger:
			at.Invalid(0, "must be an integer")
		case n < 0:
			at.Invalid(n, "should be a non-negative integer")
		case n > math.MaxInt32:
			at.Invalid(n, fmt.Sprintf("should be less than or equal to %d", math.MaxInt32))
		}
	}
	return func(ctx context.Context, t registry.Tree, f *status.Fields) {
		if registry.SubresourceFrom(ctx) != "status" {
			replicas(t, spec, f)
		}
		replicas(t, state, f)
		if selector == "" {
			return
		}
		v, found, ok := lookUp(t, selector)
		if _, isText := v.(string); !ok || found && !isText {
			f.At(selector).Invalid("", "must be a string")
		}
	}
}

// lookUp returns what a path such as .spec.replicas leads to, and whether there is such a field. What is null has
// no fields. The result is not ok if something on the way is neither an object nor null.
func lookUp(t registry.Tree, path string) (v any, found, ok bool) {
	v = t
	for _, name := range strings.Split(path, ".")[1:] {
		if v == nil {
			return nil, false, true
		}
		object, isObject := v.(map[string]any)
		if !isObject {
			return nil, false, false
		}
		if v, found = object[name]; !found {
			return nil, false, true
		}
	}
	return v, true, true
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
