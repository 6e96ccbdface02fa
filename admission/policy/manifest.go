package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// Manifests are policies and bindings that a program has, in place of the API: as Go values, or from
// files.
type Manifests struct {
	Policies []*ValidatingAdmissionPolicy
	Bindings []*ValidatingAdmissionPolicyBinding
}

// StaticName is the name of the plugin of [Static].
const StaticName = "StaticValidatingAdmissionPolicy"

// maxManifest bounds a document of a manifest, in bytes.
const maxManifest = 3 << 20

// ReadManifests reads manifests from files in YAML or JSON. The patterns are those of fs.Glob; without
// any, it reads all .yaml, .yml and .json files. Unknown fields and other kinds are errors.
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
		for i, document := range yaml.Documents(data) {
			if err := m.read(document); err != nil {
				return m, fmt.Errorf("admission policies: %s, document %d: %w", name, i+1, err)
			}
		}
	}
	return m, nil
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
	group, version, _ := strings.Cut(tree.Text(object, "apiVersion"), "/")
	kind := tree.Text(object, "kind")
	if !strings.HasPrefix(group, "admissionregistration.") || version != "v1" {
		return fmt.Errorf("apiVersion %q: must be admissionregistration.k8s.io/v1", tree.Text(object, "apiVersion"))
	}
	switch kind {
	case "ValidatingAdmissionPolicy":
		p := &ValidatingAdmissionPolicy{}
		m.Policies = append(m.Policies, p)
		return decode(object, p)
	case "ValidatingAdmissionPolicyBinding":
		b := &ValidatingAdmissionPolicyBinding{}
		m.Bindings = append(m.Bindings, b)
		return decode(object, b)
	}
	return fmt.Errorf("kind %q: must be ValidatingAdmissionPolicy or ValidatingAdmissionPolicyBinding", kind)
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

// Static returns a plugin that evaluates manifests. They are in force from the start of a server to its
// end, nobody can change them through the API, and they judge the kinds of policies like all others. They
// have no parameters, because a policy that could not read these would lock everybody out.
//
// The error names everything that is wrong with the manifests.
//
// Source: POL-01.
func Static(o Options, m Manifests) (admission.Plugin, error) {
	x := newIndex(o)
	problems := m.check(o)
	for _, p := range m.Policies {
		x.putPolicy(p)
	}
	for _, b := range m.Bindings {
		x.putBinding(b)
	}
	x.publish()
	concerns := exemptions(o.GroupDomain)
	concerns.policies = "" // no group has this name and these resources
	return admission.Plugin{Name: StaticName, Handles: concerns.concerns, Validator: &validator{index: x}}, errors.Join(problems...)
}

// check fills in defaults and returns what is wrong.
func (m *Manifests) check(o Options) (problems []error) {
	bad := func(kind, name string, f *status.Fields) {
		for _, e := range f.Errors() {
			problems = append(problems, fmt.Errorf("admission policies: %s %q: %s: %s", kind, name, e.Field, e.Detail))
		}
	}
	known := map[string]bool{}
	for _, p := range m.Policies {
		p.Default()
		var f status.Fields
		p.Validate(nil, cel.RuleOptions{Prices: o.Prices}, &f)
		if p.Name == "" || known[p.Name] {
			f.At("metadata", "name").Invalid(p.Name, "must be given, once")
		}
		if p.Spec.ParamKind != nil {
			f.At("spec", "paramKind").Forbidden("a static policy has no parameters")
		}
		known[p.Name] = true
		bad("ValidatingAdmissionPolicy", p.Name, &f)
	}
	bound := map[string]bool{}
	for _, b := range m.Bindings {
		b.Default()
		var f status.Fields
		b.Validate(&f)
		if b.Name == "" || bound[b.Name] {
			f.At("metadata", "name").Invalid(b.Name, "must be given, once")
		}
		if b.Spec.ParamRef != nil {
			f.At("spec", "paramRef").Forbidden("a static policy has no parameters")
		}
		if !known[b.Spec.PolicyName] {
			f.At("spec", "policyName").Invalid(b.Spec.PolicyName, "must be the name of a static policy")
		}
		bound[b.Name] = true
		bad("ValidatingAdmissionPolicyBinding", b.Name, &f)
	}
	return problems
}
