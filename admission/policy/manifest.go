package policy

import (
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/openapi"
)

// Manifests are policies and bindings that a program has, in place of the API: as Go values, or from
// files.
type Manifests struct {
	Policies []*ValidatingAdmissionPolicy
	Bindings []*ValidatingAdmissionPolicyBinding

	Mutating         []*MutatingAdmissionPolicy
	MutatingBindings []*MutatingAdmissionPolicyBinding
}

// maxManifest bounds a document of a manifest, in bytes.
const maxManifest = 3 << 20

// ReadManifests reads manifests from files in YAML or JSON. The patterns are those of fs.Glob; without
// any, it reads all .yaml, .yml and .json files. A document is an object or a v1 List of objects. Unknown
// fields and other kinds are errors.
//
//	m, err := policy.ReadManifests(os.DirFS("/etc/policies"))
func ReadManifests(fsys fs.FS, patterns ...string) (m Manifests, err error) {
	names, err := yaml.Files(fsys, patterns)
	if err != nil {
		return m, fmt.Errorf("admission policies: %w", err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return m, fmt.Errorf("admission policies: %w", err)
		}
		if err := m.Add(name, data); err != nil {
			return m, err
		}
	}
	return m, nil
}

// Add adds the objects of one file; see [ReadManifests]. The name is for the error.
func (m *Manifests) Add(name string, data []byte) error {
	for i, document := range yaml.Documents(data) {
		if err := m.read(document); err != nil {
			return fmt.Errorf("admission policies: %s, document %d: %w", name, i+1, err)
		}
	}
	return nil
}

func (m *Manifests) read(document []byte) error {
	data, err := yaml.ToJSON(document, maxManifest)
	if err != nil {
		return err
	}
	t, err := json.DecodeTree(data, json.TreeOptions{})
	if err != nil {
		return err
	}
	object, _ := t.(map[string]any)
	if tree.Text(object, "apiVersion") != "v1" || tree.Text(object, "kind") != "List" {
		return m.add(object)
	}
	for name := range object {
		if name != "apiVersion" && name != "kind" && name != "items" && name != "metadata" {
			return fmt.Errorf("unknown field %q", name)
		}
	}
	items, _ := object["items"].([]any)
	for i, item := range items {
		one, _ := item.(map[string]any)
		if err := m.add(one); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

// add adds an object.
func (m *Manifests) add(object map[string]any) error {
	group, version, _ := strings.Cut(tree.Text(object, "apiVersion"), "/")
	kind := tree.Text(object, "kind")
	if !strings.HasPrefix(group, "admissionregistration.") || version != "v1" {
		return fmt.Errorf("apiVersion %q: must be admissionregistration.k8s.io/v1", tree.Text(object, "apiVersion"))
	}
	switch kind {
	case "ValidatingAdmissionPolicy":
		return decodeTo(object, &m.Policies)
	case "ValidatingAdmissionPolicyBinding":
		return decodeTo(object, &m.Bindings)
	case "MutatingAdmissionPolicy":
		return decodeTo(object, &m.Mutating)
	case "MutatingAdmissionPolicyBinding":
		return decodeTo(object, &m.MutatingBindings)
	}
	return fmt.Errorf("kind %q: must be ValidatingAdmissionPolicy, MutatingAdmissionPolicy or one of their bindings", kind)
}

func decodeTo[T any](object map[string]any, list *[]*T) error {
	one := new(T)
	*list = append(*list, one)
	return decode(object, one)
}

// decode reads an object strictly.
func decode(object map[string]any, into any) error {
	schema, err := (&openapi.Types{}).Schema(reflect.TypeOf(into).Elem())
	if err != nil {
		return err
	}
	for field := range schema.Unknown(object) {
		return fmt.Errorf("unknown field %q", field.Path)
	}
	return json.FromTree(object, into)
}
