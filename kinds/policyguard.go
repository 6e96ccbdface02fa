package kinds

import (
	"context"
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/typed"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// paramGuard checks that nobody has a policy read what they cannot read themselves: the messages of a
// policy could repeat it.
//
// Source: POL-03.
type paramGuard struct {
	policies meta.GroupVersionResource // of the bindings' policies
}

// paramUser is what policies and bindings say about parameters.
type paramUser struct {
	Spec struct {
		ParamKind  *policy.ParamKind `json:"paramKind"`
		PolicyName string            `json:"policyName"`
		ParamRef   *policy.ParamRef  `json:"paramRef"`
	} `json:"spec"`
}

// guard adds a check of new objects, and of those whose parameters change, to the other rules. It is asked
// about valid objects.
func (g paramGuard) guard(h *registry.Hooks, check func(context.Context, *engine.Engine, *paramUser) string, field string) {
	create, update := h.ValidateCreate, h.ValidateUpdate
	judge := func(ctx context.Context, obj *paramUser, f *status.Fields) {
		e, ok := hookcontext.Objects(ctx).(*engine.Engine)
		u, known := authn.UserFrom(ctx)
		if f.Len() > 0 || !ok || known && u.In(authn.GroupMasters) {
			return
		}
		if problem := check(ctx, e, obj); problem != "" {
			f.At("spec", field).Forbidden(problem)
		}
	}
	h.ValidateCreate = func(ctx context.Context, t registry.Tree, f *status.Fields) {
		if create != nil {
			create(ctx, t, f)
		}
		if obj, err := typed.Decode[paramUser](t); err == nil {
			judge(ctx, obj, f)
		}
	}
	h.ValidateUpdate = func(ctx context.Context, t, old registry.Tree, f *status.Fields) {
		if update != nil {
			update(ctx, t, old, f)
		}
		obj, err := typed.Decode[paramUser](t)
		before, bad := typed.Decode[paramUser](old)
		if err == nil && bad == nil && !reflect.DeepEqual(obj, before) {
			judge(ctx, obj, f)
		}
	}
}

// policy checks that the user can read all objects of the kind of the parameters.
func (g paramGuard) policy(ctx context.Context, e *engine.Engine, obj *paramUser) string {
	if obj.Spec.ParamKind == nil {
		return ""
	}
	a := readingOf(e, obj.Spec.ParamKind)
	a.Verb, a.Name, a.Namespace = "get", "*", "*"
	allowed, problem := allows(ctx, e, &a)
	if allowed || problem != "" {
		return problem
	}
	return fmt.Sprintf(`user %s must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`,
		a.User.Name, obj.Spec.ParamKind.Kind, obj.Spec.ParamKind.APIVersion)
}

// binding checks that the user can read the parameters.
func (g paramGuard) binding(ctx context.Context, e *engine.Engine, obj *paramUser) string {
	ref := obj.Spec.ParamRef
	if ref == nil {
		return ""
	}
	var of paramUser
	entry, err := e.Get(ctx, registry.Target{Resource: g.policies, Name: obj.Spec.PolicyName}, registry.ListRequest{})
	if err == nil {
		err = json.Unmarshal(entry.AppendJSON(nil), &of)
	}
	a := readingOf(e, of.Spec.ParamKind)
	a.Verb, a.Name, a.Namespace = "get", ref.Name, ref.Namespace
	if ref.Name == "" {
		a.Verb = "list"
	}
	allowed, problem := allows(ctx, e, &a)
	switch {
	case allowed || problem != "":
		return problem
	case err != nil:
		return fmt.Sprintf(`unable to get policy %s to determine minimum required permissions and user %s does not have "%s" permission for all groups, versions and resources`,
			obj.Spec.PolicyName, a.User.Name, a.Verb)
	}
	return fmt.Sprintf(`user %s does not have "%s" permission on the object referenced by paramRef`, a.User.Name, a.Verb)
}

// readingOf asks about the resource of the parameters, or about every resource while that is unknown.
func readingOf(e *engine.Engine, k *policy.ParamKind) authz.Attributes {
	a := authz.Attributes{ResourceRequest: true, Group: "*", Version: "*", Resource: "*"}
	if k == nil {
		return a
	}
	gv, err := meta.ParseGroupVersion(k.APIVersion)
	if err != nil {
		return a
	}
	a.Group, a.Version = gv.Group, gv.Version
	if served, ok := e.Set().ForKind(gv.WithKind(k.Kind)); ok {
		a.Resource = served.Kind.GroupVersionResource().Resource
	}
	return a
}

// allows asks whether the user of the request may do something.
func allows(ctx context.Context, e *engine.Engine, a *authz.Attributes) (ok bool, problem string) {
	u, known := authn.UserFrom(ctx)
	if !known {
		return false, "cannot identify user to authorize read access to the parameters"
	}
	a.User = u
	d, _, err := e.Authorizer().Authorize(ctx, *a)
	if err != nil {
		return false, "failed to authorize request: " + err.Error()
	}
	return d == authz.Allow, ""
}
