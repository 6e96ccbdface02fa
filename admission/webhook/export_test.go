package webhook

import "github.com/kindwright/kindwright/admission"

// NewMutator returns the mutator of some configurations.
func NewMutator(all ...*MutatingWebhookConfiguration) admission.Mutator {
	x := newIndex(Options{}, nil)
	for _, c := range all {
		c.Default()
		x.putMutating(c)
	}
	x.publish()
	return &mutator{x}
}

// NewValidator returns the validator of some configurations.
func NewValidator(all ...*ValidatingWebhookConfiguration) admission.Validator {
	return NewObservedValidator(nil, all...)
}

// NewObservedValidator returns the validator of some configurations, which tells of its calls.
func NewObservedValidator(called func(Call), all ...*ValidatingWebhookConfiguration) admission.Validator {
	x := newIndex(Options{Called: called}, nil)
	for _, c := range all {
		c.Default()
		x.putValidating(c)
	}
	x.publish()
	return &validator{x}
}
