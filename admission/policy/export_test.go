package policy

import (
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/cel"
)

// NewValidator returns the validator of some policies and bindings.
func NewValidator(policies []*ValidatingAdmissionPolicy, bindings []*ValidatingAdmissionPolicyBinding) admission.Validator {
	x := newIndex(cel.Prices{})
	for _, p := range policies {
		x.putPolicy(p)
	}
	for _, b := range bindings {
		x.putBinding(b)
	}
	x.publish()
	return &validator{index: x}
}
