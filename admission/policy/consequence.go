package policy

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// apply takes the actions of a binding.
// Source: POL-03.
func (w *walk) apply(h *hook, b *binding, v *verdict, to *notes) {
	for _, d := range v.decisions {
		check := Check{Policy: h.name, Binding: b.name, Failure: failureOf(d.message), Action: "allow", Took: d.took}
		if !d.denies {
			w.observe(check)
			continue
		}
		for _, action := range b.spec.ValidationActions {
			check.Action = strings.ToLower(action)
			w.observe(check)
			switch action {
			case Deny:
				w.deny(denial{h.name, b.name, d})
			case Warn:
				w.r.Warn(w.ctx, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", h.name, b.name, d.message))
			case Audit:
				w.record(b, d)
			}
		}
	}
	for _, text := range v.rejected {
		w.deny(denial{h.name, b.name, decision{message: text}})
		w.observe(Check{Policy: h.name, Binding: b.name, Failure: failureOf(text), Action: "deny"})
	}
	for _, n := range v.notes {
		to.add(n)
	}
}

// failureAnnotation is the key of the audit annotation of the action Audit.
const failureAnnotation = "validation.policy.admission.k8s.io/validation_failure"

// validationFailure is what the audit record says about an expression that does not hold.
type validationFailure struct {
	Message           string   `json:"message"`
	Policy            string   `json:"policy"`
	Binding           string   `json:"binding"`
	ExpressionIndex   int      `json:"expressionIndex"`
	ValidationActions []string `json:"validationActions"`
}

func (w *walk) record(b *binding, d decision) {
	text, err := json.Marshal([]validationFailure{{
		Message: d.message, Policy: b.spec.PolicyName, Binding: b.name, ExpressionIndex: d.index, ValidationActions: b.spec.ValidationActions,
	}})
	if err == nil {
		_ = w.r.Annotate(w.ctx, failureAnnotation, string(text)) // the key is valid
	}
}

// notes are the audit annotations of one policy. Each key has all values that its bindings made, up
// to a bound.
type notes struct {
	keys   []string
	values map[string][]string
	sizes  map[string]int // of the values of each key
}

func (n *notes) add(one note) {
	if n.values == nil {
		n.values, n.sizes = map[string][]string{}, map[string]int{}
	}
	have, ok := n.values[one.key]
	if !ok {
		n.keys = append(n.keys, one.key)
	}
	if n.sizes[one.key] < maxSaid && !slices.Contains(have, one.value) {
		n.values[one.key] = append(have, one.value)
		n.sizes[one.key] += len(one.value)
	}
}

func (n *notes) publish(ctx context.Context, r *admission.Request, policy string) {
	for _, key := range n.keys {
		_ = r.Annotate(ctx, policy+"/"+key, strings.Join(n.values[key], ", ")) // the key was valid when the policy was written
	}
}

// rejection is the answer to a request that a policy denies: the sentence of a 403, with the code of the
// reason.
// Source: POL-02.
func rejection(r *admission.Request, reason meta.Reason, text string) error {
	reason = cmp.Or(reason, meta.ReasonInvalid)
	code := http.StatusUnprocessableEntity
	switch reason {
	case meta.ReasonForbidden:
		code = http.StatusForbidden
	case meta.ReasonUnauthorized:
		code = http.StatusUnauthorized
	case meta.ReasonRequestEntityTooLarge:
		code = http.StatusRequestEntityTooLarge
	}
	return status.Forbidden(r.GroupResource(), r.NameInErrors(), text).WithReason(reason).WithCode(code).WithCauses(meta.StatusCause{Message: text})
}
