package policy

import (
	"github.com/kindwright/kindwright/admission"
)

// NewValidator returns the validator of some policies and bindings.
func NewValidator(policies []*ValidatingAdmissionPolicy, bindings []*ValidatingAdmissionPolicyBinding) admission.Validator {
	x := newIndex(Options{})
	for _, p := range policies {
		x.putPolicy(p)
	}
	for _, b := range bindings {
		x.putBinding(b)
	}
	x.publish()
	return &validator{index: x}
}

// NewMutator returns the mutator of one policy with a binding.
func NewMutator(p *MutatingAdmissionPolicy) admission.Mutator {
	x := newIndex(Options{})
	x.putMutatingPolicy(p)
	b := &ValidatingAdmissionPolicyBinding{Spec: ValidatingAdmissionPolicyBindingSpec{PolicyName: p.Name}}
	b.Name = p.Name
	x.putBinding(b)
	x.publish()
	return &mutator{index: x}
}
