package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// MutatingName is the name of the plugin that evaluates mutating policies.
const MutatingName = "MutatingAdmissionPolicy"

// Mutations returns the plugin that evaluates the mutating policies of the server that binds it. The
// server must serve their kinds, as kinds.Policies does, which also brings the plugin.
// Source: POL-05.
func Mutations(o Options) admission.Plugin {
	concerns := exemptions(o.GroupDomain).concerns
	return admission.Plugin{
		Name:    MutatingName,
		Handles: func(t admission.Target) bool { return t.Operation != admission.Delete && concerns(t) },
		Bind: func(b watch.Binding) (admission.Mutator, admission.Validator, error) {
			x := newIndex(o)
			group := Group(o.GroupDomain)
			err := errors.Join(
				b.Observe(meta.GroupResource{Group: group, Resource: "mutatingadmissionpolicies"}, watch.EveryObject(x.mutatingPolicyFeed())),
				b.Observe(meta.GroupResource{Group: group, Resource: "mutatingadmissionpolicybindings"}, watch.EveryObject(x.mutatingBindingFeed())),
			)
			return &mutator{index: x}, nil, err
		},
	}
}

// mutation is a change of a policy, compiled.
type mutation struct {
	makes expression
	merge bool // what is made is merged; otherwise it is a JSON patch
}

// compileMutations compiles a mutating policy that is stored already.
func compileMutations(spec *MutatingAdmissionPolicySpec, prices cel.Prices) *compiled {
	out := compile(spec.shared(), prices)
	if out.failed != nil {
		return out
	}
	for _, m := range spec.Mutations {
		switch {
		case m.PatchType == PatchApplyConfiguration && m.ApplyConfiguration != nil:
			out.mutations = append(out.mutations, mutation{compileOne(out.scope, m.ApplyConfiguration.Expression, true, cel.Configuration()), true})
		case m.PatchType == PatchJSON && m.JSONPatch != nil:
			out.mutations = append(out.mutations, mutation{compileOne(out.scope, m.JSONPatch.Expression, true, cel.Patches()), false})
		}
	}
	out.again = spec.ReinvocationPolicy == IfNeeded
	return out
}

// apply returns the object with the change. An error that is a *status.Error is the answer to the
// write; others count as the failure policy says.
//
// The options of a connection are no objects: nothing is known about their lists, and they have no defaults.
func (m *mutation) apply(ctx context.Context, run *cel.AdmissionRun, object map[string]any, r *admission.Request) (map[string]any, error) {
	server, connects := r.Server, r.Operation == admission.Connect
	if m.makes.failed != nil {
		return nil, m.makes.failed
	}
	made, err := run.Evaluate(ctx, m.makes.AdmissionExpression)
	if err != nil {
		return nil, err
	}
	if connects && m.merge {
		return nil, fmt.Errorf("error applying patch: failed to convert patch object to typed object: no corresponding type for %s", worded(r.Kind))
	}
	changed, err := m.change(ctx, made, object, server)
	if err != nil {
		return nil, err
	}
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"}} {
		if was := tree.Text(object, path...); was != tree.Text(changed, path...) && (was != "" || path[len(path)-1] != "name") {
			return nil, fmt.Errorf("a mutation must not change %s", strings.Join(path, "."))
		}
	}
	if connects || json.Equal(object, changed) {
		return changed, nil
	}
	if !m.merge { // a merge has checked its part
		if err := server.CheckFields(changed); err != nil {
			return nil, err
		}
	}
	return server.Default(ctx, changed)
}

// worded is a kind as errors of Kubernetes name it.
func worded(k meta.GroupVersionKind) string {
	return k.Group + "/" + k.Version + ", Kind=" + k.Kind
}

func (m *mutation) change(ctx context.Context, made any, object map[string]any, server admission.Server) (map[string]any, error) {
	if m.merge {
		part, _ := made.(map[string]any)
		out, err := server.Merge(ctx, object, part)
		if _, answer := errors.AsType[*status.Error](err); err != nil && !answer {
			err = fmt.Errorf("error applying patch: %w", err)
		}
		return out, err
	}
	list, _ := made.([]cel.Patch)
	operations := make([]patch.Operation, len(list))
	for i, p := range list {
		operations[i] = patch.Operation{Op: p.Op, Path: p.Path, From: p.From, Value: p.Value}
	}
	out, err := patch.Operations(object, operations)
	switch _, answer := errors.AsType[*status.Error](err); {
	case errors.Is(err, patch.ErrTest):
		return object, nil
	case err != nil && !answer:
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	return out, err
}

func (m *mutation) failureOf(err error) CheckFailure {
	if m.makes.failed != nil {
		return CheckCompile
	}
	return failureOf(err.Error())
}

// mutator evaluates the mutating policies of one server.
type mutator struct{ index *index }

// invocation is a policy that is about a write, for one binding and one parameter.
type invocation struct {
	*hook
	binding *binding
	form    admission.Form
	param   map[string]any
}

// invoked identifies an invocation in both rounds.
type invoked struct {
	hook             *hook
	binding          *binding
	namespace, param string
}

func (i *invocation) key() invoked {
	return invoked{i.hook, i.binding, tree.Text(i.param, "metadata", "namespace"), tree.Text(i.param, "metadata", "name")}
}

// evaluated is what is known of one request after the first round.
type evaluated struct {
	policies *snapshot
	again    map[invoked]bool // ask to be evaluated again
	changed  bool             // one of the policies changed the object
	left     map[string]any   // the object after the round
}

// Concerns reports whether a policy with a binding is about a request, as far as its objects do not matter.
func (m *mutator) Concerns(r *admission.Request) bool { return m.index.current.Load().concerns(r) }

// Mutate changes the object as the policies say: in the order of their names, of the names of their
// bindings and of their parameters. Each sees the object as those before have left it. Which policies
// are about the write is decided by the object that the request brings.
//
// In the second round, policies that ask for it are evaluated again if anything has changed the object
// since the first began. A policy that was not evaluated in the first is not evaluated in the second.
func (m *mutator) Mutate(ctx context.Context, r *admission.Request) (map[string]any, error) {
	now, again := m.index.current.Load(), r.Reinvocation.Again()
	if r.Object == nil || r.Server == nil || hookcontext.IsExempt(ctx) {
		return admission.Allowed(r)
	}
	var before *evaluated
	if again {
		before, _ = r.Reinvocation.State(m).(*evaluated)
		if before == nil || !before.changed && json.Equal(before.left, r.Object) {
			return admission.Allowed(r)
		}
		now = before.policies
	}
	if !now.any(r) {
		return admission.Allowed(r)
	}
	r = rememberingFor(r)
	changes := changing{walk: &walk{ctx: ctx, r: r, ask: match.Ask(ctx, r), observe: m.index.observe, matched: m.index.matched}}
	all := changes.invocations(now)
	for i := range all {
		if again && !before.again[all[i].key()] {
			continue
		}
		if err := changes.invoke(&all[i]); err != nil {
			return nil, err
		}
	}
	if len(changes.denials) > 0 {
		return nil, changes.mutationAnswer()
	}
	if changes.changed {
		r.Reinvocation.Request()
	}
	if !again && len(changes.again) > 0 {
		r.Reinvocation.Keep(m, &evaluated{policies: now, again: changes.again, changed: changes.changed, left: changes.r.Object})
	}
	if !changes.changed || json.Equal(changes.r.Object, r.Object) {
		return admission.Allowed(r)
	}
	return changes.r.Object, nil
}

// invocations returns the policies that are about the request.
func (w *walk) invocations(now *snapshot) []invocation {
	var out []invocation
	for h := range now.about(w.r) {
		if h.failed != nil {
			w.refuse(h, nil, h.failed)
			continue
		}
		form, ok, err := h.matcher.Match(w.ctx, w.r)
		if err != nil {
			w.refuse(h, nil, err)
		}
		if err != nil || !ok {
			continue
		}
		params := parameters{kind: h.spec.ParamKind}
		if err := params.resolve(w.r.Server); err != nil {
			w.refuse(h, nil, err)
			continue
		}
		for _, b := range h.bindings {
			found, err := w.bound(&params, b)
			if err != nil {
				w.refuse(h, b, err)
			}
			for _, one := range found {
				out = append(out, invocation{hook: h, binding: b, form: form, param: one})
			}
		}
	}
	return out
}

// changing is a walk that changes the object of its request.
type changing struct {
	*walk
	changed bool             // a mutation made a difference
	again   map[invoked]bool // were evaluated, and ask to be evaluated again
}

// invoke evaluates one policy. An error is the answer to the request.
func (c *changing) invoke(i *invocation) error {
	compiled := i.compile()
	in, ok := c.shown(i)
	if !ok {
		return nil
	}
	switch ok, err := c.concerned(i.hook, in); {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case err != nil:
		c.fail(i, err)
		return nil
	case !ok:
		return nil
	}
	if compiled.again {
		if c.again == nil {
			c.again = map[invoked]bool{}
		}
		c.again[i.key()] = true
	}
	for k := range compiled.mutations {
		if err := c.mutate(i, &compiled.mutations[k]); err != nil {
			return err
		}
	}
	return nil
}

// shown returns what the expressions of a policy see now.
func (c *changing) shown(i *invocation) (in cel.AdmissionInput, ok bool) {
	if err := i.compile().failed; err != nil {
		c.fail(i, err)
		return in, false
	}
	in, err := c.input(i.form)
	if err != nil {
		c.fail(i, fmt.Errorf("failed to convert object version: %w", err))
	}
	in.Params = i.param
	return in, err == nil
}

func (c *changing) mutate(i *invocation, m *mutation) error {
	in, ok := c.shown(i)
	if !ok {
		return nil
	}
	start, failure := time.Now(), CheckNoError
	out, err := m.apply(c.ctx, i.compile().scope.Run(in, cel.BindingCostLimit), in.Object, c.r)
	if err != nil {
		failure = m.failureOf(err)
	}
	c.observe(Check{Policy: i.name, Binding: i.binding.name, Failure: failure, Took: time.Since(start)})
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if err != nil {
		if _, answer := errors.AsType[*status.Error](err); answer {
			return err
		}
		c.fail(i, err)
		return nil
	}
	if json.Equal(in.Object, out) {
		return nil
	}
	if i.form.Kind != c.r.Kind {
		if out, err = c.r.ConvertBack(c.ctx, in.Object, out); err != nil {
			return status.Internal(fmt.Errorf("failed to convert object: %w", err))
		}
	}
	next := *c.r
	next.Object = out
	c.r, c.views, c.changed = &next, nil, true
	return nil
}

// fail applies the failure policy to an error of an expression.
func (c *changing) fail(i *invocation, err error) {
	if !i.ignores() {
		c.deny(denial{policy: i.name, binding: i.binding.name, decision: decision{message: err.Error(), reason: meta.ReasonInvalid}})
	}
}

// mutationAnswer is the error of a request whose object could not be changed.
func (w *walk) mutationAnswer() error {
	var causes []meta.StatusCause
	for i := range w.denials {
		d := &w.denials[i]
		text := fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", d.policy, d.binding, d.message)
		if d.binding == "" {
			text = fmt.Sprintf("policy %q denied request: %s", d.policy, d.message)
		}
		causes = append(causes, meta.StatusCause{Message: text})
	}
	out := status.Forbidden(w.r.GroupResource(), w.r.NameInErrors(), causes[0].Message).WithMessage(causes[0].Message).WithCauses(causes...)
	if reason := w.denials[0].reason; reason != "" {
		out = out.WithReason(reason)
	}
	return out.WithCode(http.StatusForbidden)
}
