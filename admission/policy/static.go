package policy

import (
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The names of the plugins of manifests.
const (
	StaticName         = "StaticValidatingAdmissionPolicy"
	StaticMutatingName = "StaticMutatingAdmissionPolicy"
)

// Static returns a plugin that evaluates the validating policies of manifests. They are in force from the
// start of a server to its end, nobody can change them through the API, and they judge the kinds of
// policies like all others. They have no parameters, because a policy that could not read these would lock
// everybody out.
//
// The error names everything that is wrong with the manifests.
//
// Source: POL-01.
func Static(o Options, m Manifests) (admission.Plugin, error) {
	s := NewStatics(o)
	err := s.Replace(m)
	if len(m.Mutating)+len(m.MutatingBindings) > 0 {
		err = errors.Join(err, errors.New("admission policies: mutating ones need the plugins of NewStatics"))
	}
	return s.Validating(), err
}

// Statics are policies of manifests that a program can replace while they are in force, such as those of
// files. See [Static].
type Statics struct {
	options              Options
	validating, mutating *index
}

// NewStatics returns a set without policies.
func NewStatics(o Options) *Statics {
	return &Statics{options: o, validating: newIndex(o), mutating: newIndex(o)}
}

// Validating returns the plugin that evaluates the validating policies of s.
func (s *Statics) Validating() admission.Plugin {
	return admission.Plugin{Name: StaticName, Handles: s.concerns(), Validator: &validator{index: s.validating}}
}

// Mutating returns the plugin that evaluates the mutating policies of s.
func (s *Statics) Mutating() admission.Plugin {
	concerns := s.concerns()
	return admission.Plugin{
		Name:    StaticMutatingName,
		Handles: func(t admission.Target) bool { return t.Operation != admission.Delete && concerns(t) },
		Mutator: &mutator{index: s.mutating},
	}
}

func (s *Statics) concerns() func(admission.Target) bool {
	e := exemptions(s.options.GroupDomain)
	e.policies = "" // no group has this name and these resources
	return e.concerns
}

// Replace puts manifests in force in place of those before. A write that runs meanwhile sees the ones or the
// others. If anything is wrong with the manifests, nothing changes, and the error names all of it.
func (s *Statics) Replace(m Manifests) error {
	if err := m.check(s.options); err != nil {
		return err
	}
	x := s.validating
	x.replace(func() {
		for _, p := range m.Policies {
			x.putPolicy(p)
		}
		for _, b := range m.Bindings {
			x.putBinding(b)
		}
	})
	y := s.mutating
	y.replace(func() {
		for _, p := range m.Mutating {
			y.putMutatingPolicy(p)
		}
		for _, b := range m.MutatingBindings {
			y.putBinding(&ValidatingAdmissionPolicyBinding{ObjectMeta: b.ObjectMeta, Spec: *b.Spec.shared()})
		}
	})
	return nil
}

// replace publishes what put adds to an empty index. Policies that stay the same stay compiled.
func (x *index) replace(put func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.policies
	x.policies, x.bindings = map[string]*held{}, map[string]*binding{}
	put()
	for name, h := range x.policies {
		if had := before[name]; had != nil && h.same(had) {
			x.policies[name] = had
		}
	}
	x.publish()
}

// check fills in defaults and returns what is wrong.
func (m *Manifests) check(o Options) error {
	var c manifestCheck
	rules := cel.RuleOptions{Prices: o.Prices}
	for _, p := range m.Policies {
		p.Default()
		var f status.Fields
		p.Validate(nil, rules, &f)
		c.policy("ValidatingAdmissionPolicy", p.Name, p.Spec.ParamKind, &f)
	}
	for _, b := range m.Bindings {
		b.Default()
		var f status.Fields
		b.Validate(&f)
		c.binding("ValidatingAdmissionPolicy", &b.ObjectMeta, b.Spec.PolicyName, b.Spec.ParamRef, &f)
	}
	for _, p := range m.Mutating {
		p.Default()
		var f status.Fields
		p.Validate(nil, rules, &f)
		c.policy("MutatingAdmissionPolicy", p.Name, p.Spec.ParamKind, &f)
	}
	for _, b := range m.MutatingBindings {
		b.Default()
		var f status.Fields
		b.Validate(&f)
		c.binding("MutatingAdmissionPolicy", &b.ObjectMeta, b.Spec.PolicyName, b.Spec.ParamRef, &f)
	}
	return errors.Join(c.problems...)
}

// manifestCheck collects what is wrong with manifests.
type manifestCheck struct {
	known    map[string]bool // kind and name of each object
	problems []error
}

func (c *manifestCheck) policy(kind, name string, params *ParamKind, f *status.Fields) {
	if params != nil {
		f.At("spec", "paramKind").Forbidden("a static policy has no parameters")
	}
	c.object(kind, name, f)
}

func (c *manifestCheck) binding(of string, b *meta.ObjectMeta, policy string, params *ParamRef, f *status.Fields) {
	if params != nil {
		f.At("spec", "paramRef").Forbidden("a static policy has no parameters")
	}
	if !c.known[of+" "+policy] {
		f.At("spec", "policyName").Invalid(policy, "must be the name of a static policy")
	}
	c.object(of+"Binding", b.Name, f)
}

func (c *manifestCheck) object(kind, name string, f *status.Fields) {
	id := kind + " " + name
	if name == "" || c.known[id] {
		f.At("metadata", "name").Invalid(name, "must be given, once")
	}
	if c.known == nil {
		c.known = map[string]bool{}
	}
	c.known[id] = true
	for _, e := range f.Errors() {
		c.problems = append(c.problems, fmt.Errorf("admission policies: %s %q: %s: %s", kind, name, e.Field, e.Detail))
	}
}
