package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// Name is the name of the plugin.
const Name = "ValidatingAdmissionPolicy"

// Options say how policies are evaluated.
type Options struct {
	GroupDomain string     // the domain of the server's own groups; "" means k8s.io
	Prices      cel.Prices // what the parts of expressions cost

	// Checked is told of each check that has a consequence, by the goroutine of the request. It may be nil.
	Checked func(Check)

	// Matched is told of each evaluation of match conditions, by the goroutine of the request. It may be nil.
	Matched func(match.Evaluation)
}

var errNoConstraints = errors.New("policy contained no match constraints, a required field")

// Plugin returns the plugin that evaluates the policies of the server that binds it. The server must
// serve the kinds of this package, as kinds.Policies does, which also brings the plugin.
// Source: POL-01.
func Plugin(o Options) admission.Plugin {
	return admission.Plugin{
		Name:    Name,
		Handles: exemptions(o.GroupDomain).concerns,
		Bind: func(b watch.Binding) (admission.Mutator, admission.Validator, error) {
			x := newIndex(o)
			group := Group(o.GroupDomain)
			err := errors.Join(
				b.Observe(meta.GroupResource{Group: group, Resource: "validatingadmissionpolicies"}, watch.EveryObject(x.policyFeed())),
				b.Observe(meta.GroupResource{Group: group, Resource: "validatingadmissionpolicybindings"}, watch.EveryObject(x.bindingFeed())),
			)
			return nil, &validator{index: x}, err
		},
	}
}

// exempt are the resources that policies do not judge.
type exempt struct{ policies, authentication, authorization string }

func exemptions(domain string) exempt {
	suffix := strings.TrimPrefix(Group(domain), "admissionregistration.")
	return exempt{"admissionregistration." + suffix, "authentication." + suffix, "authorization." + suffix}
}

// concerns reports whether policies judge writes of a resource. Those of policies themselves would lock
// out whoever has to repair them, and those of reviews the components of a cluster.
// Source: POL-01.
func (e exempt) concerns(t admission.Target) bool {
	var names []string
	switch t.Resource.Group {
	case e.policies:
		names = []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}
	case e.authentication:
		names = []string{"tokenreviews", "selfsubjectreviews"}
	case e.authorization:
		names = []string{"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"}
	}
	return !slices.Contains(names, t.Resource.Resource)
}

// validator evaluates the policies of one server.
type validator struct{ index *index }

// Concerns reports whether a policy with a binding is about a request, as far as its objects do not matter.
func (v *validator) Concerns(r *admission.Request) bool { return v.index.current.Load().concerns(r) }

// Validate rejects a write that a policy denies. All policies are evaluated, because each may warn and
// annotate; the first that denies is the answer.
func (v *validator) Validate(ctx context.Context, r *admission.Request) error {
	now := v.index.current.Load()
	if hookcontext.IsExempt(ctx) || !now.any(r) {
		return nil
	}
	r = rememberingFor(r)
	w := &walk{ctx: ctx, r: r, ask: match.Ask(ctx, r), observe: v.index.observe, matched: v.index.matched}
	for h := range now.about(r) {
		if err := w.judge(h); err != nil {
			return err
		}
	}
	return w.answer()
}

// walk asks all policies about one request.
type walk struct {
	ctx context.Context //nolint:containedctx // of one request
	r   *admission.Request

	ask     cel.AskFunc
	observe func(Check)
	matched func(match.Evaluation) // may be nil
	views   []view                 // of the objects
	denials []denial
	said    int // bytes of their messages
}

// denial is a reason to reject the request.
type denial struct {
	policy, binding string
	decision
}

// maxSaid bounds what is kept of the messages of denials, and of the values of one audit
// annotation, in bytes. A binding may have thousands of parameters, and each may be a reason.
const maxSaid = 64 << 10

// deny adds a reason to reject the request.
func (w *walk) deny(d denial) {
	if w.said < maxSaid {
		w.said += len(d.message)
		w.denials = append(w.denials, d)
	}
}

// refuse applies the failure policy to an error that is not about an expression.
func (w *walk) refuse(h *hook, b *binding, err error) {
	if h.ignores() {
		return
	}
	d := denial{policy: h.name, decision: decision{message: "failed to configure policy: " + err.Error()}}
	if b != nil {
		d.binding, d.message = b.name, "failed to configure binding: "+err.Error()
	}
	w.deny(d)
}

func (h *held) ignores() bool { return h.spec.FailurePolicy != nil && *h.spec.FailurePolicy == Ignore }

// judge asks one policy. An error rejects the request whatever the policy says about failures.
func (w *walk) judge(h *hook) error {
	if h.failed != nil {
		w.refuse(h, nil, h.failed)
		return nil //nolint:nilerr // the failure policy decides
	}
	form, ok, err := h.matcher.Match(w.ctx, w.r)
	if err != nil {
		w.refuse(h, nil, err)
	}
	if err != nil || !ok {
		return nil //nolint:nilerr // the failure policy decided
	}
	params := parameters{kind: h.spec.ParamKind}
	if err := params.resolve(w.r.Server); err != nil {
		w.refuse(h, nil, err)
		return nil
	}
	var notes notes
	for _, b := range h.bindings {
		found, err := w.bound(&params, b)
		if err != nil {
			w.refuse(h, b, err)
			continue
		}
		if len(found) == 0 {
			continue
		}
		in, err := w.input(form)
		if err != nil {
			w.refuse(h, b, fmt.Errorf("failed to convert object version: %w", err))
			continue
		}
		for _, one := range found {
			in.Params = one
			verdict, err := h.compile().evaluate(w.ctx, in, h.ignores(), func() (bool, error) { return w.concerned(h, in) })
			if err != nil {
				return err
			}
			w.apply(h, b, &verdict, &notes)
		}
	}
	notes.publish(w.ctx, w.r, h.name)
	return nil
}

// concerned reports whether the match conditions of a policy hold.
func (w *walk) concerned(h *hook, in cel.AdmissionInput) (bool, error) {
	c := h.compile()
	if c.conditions.Empty() {
		return true, nil
	}
	in.Namespace = nil // conditions do not see it
	e := match.Evaluation{Name: h.name, Operation: w.r.Operation, Mutating: h.mutates != nil}
	return c.conditions.Judge(w.ctx, c.scope.Run(in, cel.MatchConditionsCostLimit), e, w.matched)
}

// bound returns the parameters that a binding has for the request; none if it does not match.
func (w *walk) bound(params *parameters, b *binding) ([]map[string]any, error) {
	if b.matcher != nil || b.failed != nil {
		if b.failed != nil {
			return nil, b.failed
		}
		if _, ok, err := b.matcher.Match(w.ctx, w.r); err != nil || !ok {
			return nil, err
		}
	}
	return params.collect(w.ctx, w.r.Server, b, w.r.Namespace)
}

// answer is the error of a rejected request.
func (w *walk) answer() error {
	if len(w.denials) == 0 {
		return nil
	}
	d := &w.denials[0]
	text := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", d.policy, d.message)
	if d.binding != "" {
		text = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", d.policy, d.binding, d.message)
	}
	return rejection(w.r, d.reason, text)
}
