package policy

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/kindwright/kindwright/internal/manifest"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/internal/yaml"
)

// Manifests are policies and bindings that a program has, in place of the API: as Go values, or from
// files.
type Manifests struct {
	Policies []*ValidatingAdmissionPolicy
	Bindings []*ValidatingAdmissionPolicyBinding

	Mutating         []*MutatingAdmissionPolicy
	MutatingBindings []*MutatingAdmissionPolicyBinding
}

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
	if err := manifest.Each(data, m.add); err != nil {
		return fmt.Errorf("admission policies: %s, %w", name, err)
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
		return manifest.Append(&m.Policies, object)
	case "ValidatingAdmissionPolicyBinding":
		return manifest.Append(&m.Bindings, object)
	case "MutatingAdmissionPolicy":
		return manifest.Append(&m.Mutating, object)
	case "MutatingAdmissionPolicyBinding":
		return manifest.Append(&m.MutatingBindings, object)
	}
	return fmt.Errorf("kind %q: must be ValidatingAdmissionPolicy, MutatingAdmissionPolicy or one of their bindings", kind)
}
