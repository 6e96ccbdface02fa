package apitest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// CRDs returns the kinds that YAML or JSON files define as custom resource definitions, such as
// those that controller-gen writes to config/crd/bases:
//
//	srv := apitest.New(t, apitest.CRDs(t, os.DirFS("../config/crd/bases")))
//
// Patterns are those of fs.Glob; without patterns CRDs reads all .yaml, .yml and .json files below
// the root. It skips documents of other kinds, and fails the test if there is no definition.
//
// Schemas with their defaults, status and scale subresources, printer columns, selectable fields
// and several versions have the effect that they have in a cluster. Versions are converted as by
// the strategy None. A definition that asks for anything else, such as a conversion webhook, fails
// the test with the file and the field. Validation expressions (x-kubernetes-validations) are not
// evaluated; the log of the test says where they are.
func CRDs(t testing.TB, fsys fs.FS, patterns ...string) registry.Definition {
	t.Helper()
	kinds, notes, err := readCRDs(fsys, patterns)
	if err != nil {
		t.Fatalf("apitest: CRDs: %v", err)
	}
	for _, note := range notes {
		t.Logf("apitest: CRDs: %s", note)
	}
	return kinds
}

// crds are the definitions of some files.
type crds []crd

// crd is a CustomResourceDefinition, and what of it has an effect here.
type crd struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		Group string `json:"group"`
		Names struct {
			Plural     string   `json:"plural"`
			Singular   string   `json:"singular"`
			Kind       string   `json:"kind"`
			ListKind   string   `json:"listKind"`
			ShortNames []string `json:"shortNames"`
			Categories []string `json:"categories"`
		} `json:"names"`
		Scope      string       `json:"scope"`
		Versions   []crdVersion `json:"versions"`
		Conversion struct {
			Strategy string         `json:"strategy"`
			Webhook  map[string]any `json:"webhook"`
		} `json:"conversion"`
		PreserveUnknownFields bool `json:"preserveUnknownFields"`
	} `json:"spec"`
	Status map[string]any `json:"status"`
}

// crdVersion is an element of spec.versions.
type crdVersion struct {
	Name               string `json:"name"`
	Served             bool   `json:"served"`
	Storage            bool   `json:"storage"`
	Deprecated         bool   `json:"deprecated"`
	DeprecationWarning string `json:"deprecationWarning"`
	Schema             struct {
		OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
	} `json:"schema"`
	Subresources struct {
		Status *struct{} `json:"status"`
		Scale  *struct {
			SpecReplicasPath   string `json:"specReplicasPath"`
			StatusReplicasPath string `json:"statusReplicasPath"`
			LabelSelectorPath  string `json:"labelSelectorPath"`
		} `json:"scale"`
	} `json:"subresources"`
	AdditionalPrinterColumns []crdColumn `json:"additionalPrinterColumns"`
	SelectableFields         []struct {
		JSONPath string `json:"jsonPath"`
	} `json:"selectableFields"`
}

// crdColumn is an element of additionalPrinterColumns.
type crdColumn struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format"`
	Description string `json:"description"`
	Priority    int32  `json:"priority"`
	JSONPath    string `json:"jsonPath"`
}

// readCRDs reads the definitions of some files, and says what of them has no effect.
func readCRDs(fsys fs.FS, patterns []string) (out crds, notes []string, err error) {
	names, err := filesOf(fsys, patterns)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, nil, err
		}
		for i, document := range documents(data) {
			c, err := readCRD(document)
			if err != nil {
				return nil, nil, fmt.Errorf("%s, document %d: %w", name, i+1, err)
			}
			if c == nil {
				continue
			}
			for _, v := range c.Spec.Versions {
				if place := expressions(v.Schema.OpenAPIV3Schema, nil); place != nil {
					notes = append(notes, fmt.Sprintf("%s: %s of version %s: validation expressions are not evaluated", name, json.FormatPath(place), v.Name))
				}
			}
			out = append(out, *c)
		}
	}
	if len(out) == 0 {
		return nil, nil, errors.New("the files have no CustomResourceDefinition")
	}
	return out, notes, nil
}

// readCRD reads a document. It returns nil if that is of another kind.
func readCRD(document []byte) (*crd, error) {
	data, err := yaml.ToJSON(document, len(document))
	if err != nil {
		return nil, err
	}
	v, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	tree, _ := v.(map[string]any)
	if tree["kind"] != "CustomResourceDefinition" {
		return nil, nil
	}
	if tree["apiVersion"] != "apiextensions.k8s.io/v1" {
		return nil, fmt.Errorf("apiVersion: must be apiextensions.k8s.io/v1, not %v", tree["apiVersion"])
	}
	var c crd
	if unknown := unknownField(tree, reflect.TypeFor[crd](), ""); unknown != "" {
		return nil, fmt.Errorf("%s: this field is not supported", unknown)
	}
	if err := json.FromTree(tree, &c); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	_, err = c.resources(registry.Env{})
	return &c, err
}

// unknownField finds a field that a Go type does not have.
func unknownField(v any, t reflect.Type, at string) string {
	switch v := v.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return ""
		}
		for i, item := range v {
			if found := unknownField(item, t.Elem(), fmt.Sprintf("%s[%d]", at, i)); found != "" {
				return found
			}
		}
	case map[string]any:
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return ""
		}
		fields := map[string]reflect.Type{}
		for f := range t.Fields() {
			fields[f.Tag.Get("json")] = f.Type
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			place := strings.TrimPrefix(at+"."+name, ".")
			field, known := fields[name]
			if !known {
				return place
			}
			if found := unknownField(v[name], field, place); found != "" {
				return found
			}
		}
	}
	return ""
}

// check rejects what is wrong with a definition as a whole, or cannot be served here.
func (c *crd) check() error {
	var problems []error
	refuse := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	s := &c.Spec
	if want := s.Names.Plural + "." + s.Group; c.Metadata["name"] != want {
		refuse("metadata.name", "must be %q, the plural name and the group", want)
	}
	if s.Scope != "Namespaced" && s.Scope != "Cluster" {
		refuse("spec.scope", "must be Namespaced or Cluster, not %q", s.Scope)
	}
	if s.PreserveUnknownFields {
		refuse("spec.preserveUnknownFields", "true is not supported; use x-kubernetes-preserve-unknown-fields in the schema")
	}
	if strategy := s.Conversion.Strategy; strategy != "" && strategy != "None" {
		refuse("spec.conversion.strategy", "%q is not supported, only None; to convert in a test, serve a registry.Kind with registry.As", strategy)
	}
	stored := 0
	for _, v := range s.Versions {
		if v.Storage {
			stored++
		}
	}
	if stored != 1 {
		refuse("spec.versions", "exactly one version must have storage: true, not %d", stored)
	}
	return errors.Join(problems...)
}

// Define implements registry.Definition.
func (all crds) Define(env registry.Env) (registry.Bundle, error) {
	var out registry.Bundle
	for i := range all {
		resources, err := all[i].resources(env)
		if err != nil {
			return out, err
		}
		out.Resources = append(out.Resources, resources...)
	}
	return out, nil
}

// resources returns the resource of each version, the stored one first.
func (c *crd) resources(env registry.Env) ([]*registry.Resource, error) {
	versions := slices.Clone(c.Spec.Versions)
	slices.SortStableFunc(versions, func(a, b crdVersion) int {
		return order(b.Storage) - order(a.Storage)
	})
	var out []*registry.Resource
	for _, v := range versions {
		i := slices.IndexFunc(c.Spec.Versions, func(w crdVersion) bool { return w.Name == v.Name })
		r, err := c.resource(v, env)
		if err != nil {
			return nil, fmt.Errorf("spec.versions[%d].%w", i, err)
		}
		if len(out) > 0 {
			r.Stored = &registry.Conversion{Resource: out[0], To: labelled(out[0]), From: labelled(r), Fields: map[string]string{}}
			for _, field := range r.Selectable {
				r.Stored.Fields[field] = field
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func order(first bool) int {
	if first {
		return 1
	}
	return 0
}

// labelled converts objects as the strategy None does: only the apiVersion changes.
func labelled(as *registry.Resource) func(context.Context, []registry.Tree) ([]registry.Tree, error) {
	return func(_ context.Context, objects []registry.Tree) ([]registry.Tree, error) {
		out := make([]registry.Tree, len(objects))
		for i, object := range objects {
			out[i] = maps.Clone(object)
			out[i]["apiVersion"] = as.APIVersion()
		}
		return out, nil
	}
}

// resource describes one version.
func (c *crd) resource(v crdVersion, env registry.Env) (*registry.Resource, error) {
	schema, problems := openapi.FromTree(v.Schema.OpenAPIV3Schema)
	if len(problems) > 0 {
		all := make([]string, len(problems))
		for i, p := range problems {
			all[i] = p.String()
		}
		return nil, fmt.Errorf("schema.openAPIV3Schema: %s", strings.Join(all, "; "))
	}
	names := c.Spec.Names
	r := &registry.Resource{
		Group: c.Spec.Group, Version: v.Name, Plural: names.Plural, ClusterScoped: c.Spec.Scope == "Cluster",
		Names: registry.Names{
			Singular: names.Singular, Kind: names.Kind, ListKind: names.ListKind,
			ShortNames: names.ShortNames, Categories: names.Categories,
		},
		Description: schema.Description, Schema: schema, Unserved: !v.Served,
	}
	if v.Deprecated {
		r.Deprecated = &registry.Deprecation{Message: v.DeprecationWarning}
	}
	for i, f := range v.SelectableFields {
		path, err := parsePath(f.JSONPath)
		if err != nil || len(path.rest) > 0 {
			return nil, fmt.Errorf("selectableFields[%d].jsonPath: %q is not supported; it must be a path such as .spec.color", i, f.JSONPath)
		}
		r.Selectable = append(r.Selectable, strings.Join(path.fields, "."))
	}
	if err := addColumns(r, v.AdditionalPrinterColumns); err != nil {
		return nil, err
	}
	return r, addSubresources(r, v, env)
}

func addSubresources(r *registry.Resource, v crdVersion, env registry.Env) error {
	if v.Subresources.Status != nil {
		if _, has := r.Schema.Property("status"); !has {
			return errors.New("subresources.status: the schema must have the field status")
		}
		if err := (registry.Status{}).AddTo(r); err != nil {
			return err
		}
	}
	if scale := v.Subresources.Scale; scale != nil {
		s, err := registry.ScaleSubresource{
			SpecReplicasPath: scale.SpecReplicasPath, StatusReplicasPath: scale.StatusReplicasPath, LabelSelectorPath: scale.LabelSelectorPath,
		}.Describe(r, env)
		if err != nil {
			return fmt.Errorf("subresources.scale: %w", err)
		}
		r.Subresources = append(r.Subresources, s)
	}
	return nil
}

// expressions finds a node with validation expressions in a schema document.
func expressions(v any, at []json.Step) []json.Step {
	tree, _ := v.(map[string]any)
	if list, _ := tree["x-kubernetes-validations"].([]any); len(list) > 0 {
		return append(at, json.Name("x-kubernetes-validations"))
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if name == "default" || name == "example" {
			continue
		}
		if place := expressions(tree[name], append(at, json.Name(name))); place != nil {
			return place
		}
	}
	return nil
}
