package kinds

import (
	"context"
	"errors"
	"slices"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/request"
	trees "github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// guardian checks that nobody grants more than they have. It runs as the Complete hook of a kind, so
// it sees what mutating admission made of the object, on each try of a write and in a dry run.
type guardian struct {
	group, plural string
	next          func(context.Context, registry.Tree, registry.Tree) (registry.Tree, error)
}

// roleObject is what the guardian reads of a role.
type roleObject struct {
	Metadata        meta.ObjectMeta       `json:"metadata"`
	Rules           []rbac.PolicyRule     `json:"rules"`
	AggregationRule *rbac.AggregationRule `json:"aggregationRule"`
}

// bindingObject is what the guardian reads of a binding.
type bindingObject struct {
	Metadata meta.ObjectMeta `json:"metadata"`
	RoleRef  rbac.RoleRef    `json:"roleRef"`
}

// role is the hook of roles.
func (g guardian) role(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
	t, err := g.complete(ctx, t, old)
	if err != nil || onlyCollected(t, old) {
		return t, err
	}
	var obj, before roleObject
	if err := json.FromTree(t, &obj); err != nil {
		return nil, err
	}
	if old != nil {
		if err := json.FromTree(old, &before); err != nil {
			return nil, err
		}
	}
	target := registry.Target{
		Resource:  meta.GroupVersionResource{Group: g.group, Version: "*", Resource: g.plural},
		Namespace: obj.Metadata.Namespace,
	}
	if old != nil || g.names(ctx, obj.Metadata.Name) {
		target.Name = obj.Metadata.Name
	}
	u, have, free, err := g.caller(ctx, "escalate", target)
	if err != nil || free {
		return t, err
	}
	of := meta.GroupResource{Group: g.group, Resource: g.plural}
	if err := rbac.Escalation(u, have, obj.Rules); err != nil {
		return nil, status.Forbidden(of, obj.Metadata.Name, err.Error())
	}
	if obj.AggregationRule != nil || before.AggregationRule != nil {
		if rbac.Escalation(u, have, rbac.FullAuthority()) != nil {
			return nil, status.Forbidden(of, obj.Metadata.Name, "must have cluster-admin privileges to use the aggregationRule")
		}
	}
	return t, nil
}

// names reports whether the request is about the object of this name, as an apply or a PUT is that creates it.
// A POST has no name.
func (g guardian) names(ctx context.Context, name string) bool {
	info := request.From(ctx)
	return info != nil && info.Group == g.group && info.Resource == g.plural && info.Name == name
}

// binding is the hook of bindings.
func (g guardian) binding(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
	t, err := g.complete(ctx, t, old)
	if err != nil || onlyCollected(t, old) {
		return t, err
	}
	var obj bindingObject
	if err := json.FromTree(t, &obj); err != nil {
		return nil, err
	}
	bound := registry.Target{ // in the group that the binding names: a right to bind ours is none to bind another's
		Resource:  meta.GroupVersionResource{Group: obj.RoleRef.APIGroup, Version: "*", Resource: "clusterroles"},
		Namespace: obj.Metadata.Namespace, Name: obj.RoleRef.Name,
	}
	switch {
	case obj.RoleRef.Kind == rbac.KindClusterRole:
	case obj.RoleRef.Kind == rbac.KindRole && bound.Namespace != "":
		bound.Resource.Resource = "roles"
	default:
		return t, nil // it grants nothing, and validation refuses it
	}
	if meta.CheckPathSegment(bound.Name) != "" || bound.Name == "" {
		return t, nil // which validation refuses
	}
	u, have, free, err := g.caller(ctx, "bind", bound)
	if err != nil || free {
		return t, err
	}
	of := meta.GroupResource{Group: g.group, Resource: g.plural}
	rules, err := g.rules(ctx, bound)
	if status.IsNotFound(err) {
		// It is the binding that cannot be written: kube-apiserver names its resource and the name of the role.
		return nil, status.NotFound(of, bound.Name)
	}
	if err != nil {
		return nil, err
	}
	if err := rbac.Escalation(u, have, rules); err != nil {
		return nil, status.Forbidden(of, obj.Metadata.Name, err.Error())
	}
	return t, nil
}

// complete runs the hook that the kind has itself.
func (g guardian) complete(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
	if g.next == nil {
		return t, nil
	}
	return g.next(ctx, t, old)
}

// caller returns the user of a request and what they have. It is free if the user may grant anything:
// as a member of system:masters, or by the verb.
func (g guardian) caller(ctx context.Context, verb string, t registry.Target) (u authn.User, have authz.Rules, free bool, err error) {
	u, ok := authn.UserFrom(ctx)
	if !ok {
		return u, have, false, status.Internal(errors.New("a role or binding is written for nobody"))
	}
	if u.In(authn.GroupMasters) {
		return u, have, true, nil
	}
	d, err := registry.May(ctx, verb, t)
	if err != nil {
		if bad, malformed := errors.AsType[*status.Error](err); malformed {
			return u, have, false, bad
		}
		return u, have, false, authz.Failure(err)
	}
	if d == authz.Allow {
		return u, have, true, nil
	}
	server, ok := hookcontext.Objects(ctx).(interface{ Authorizer() authz.Authorizer })
	if !ok {
		return u, have, false, status.Internal(errors.New("a role or binding is written outside a server"))
	}
	return u, authz.RulesOf(ctx, server.Authorizer(), u, t.Namespace), false, nil
}

// rules returns those that a role has, or will have as soon as they are written in it.
func (g guardian) rules(ctx context.Context, t registry.Target) ([]rbac.PolicyRule, error) {
	o, ok := hookcontext.Objects(ctx).(registry.Objects)
	if !ok {
		return nil, status.Internal(errors.New("a binding is written outside a server"))
	}
	t.Resource.Group, t.Resource.Version = g.group, "v1"
	if t.Resource.Resource == "clusterroles" {
		t.Namespace = ""
	}
	entry, err := o.Get(ctx, t, registry.ListRequest{})
	if err != nil {
		return nil, err
	}
	var obj roleObject
	if err := json.Unmarshal(entry.AppendJSON(nil), &obj); err != nil {
		return nil, status.Internal(err)
	}
	if obj.AggregationRule == nil {
		return obj.Rules, nil
	}
	return united(ctx, o, t, obj)
}

// united returns the rules of an aggregated role: those that are written in it, and those of its parts. A
// controller writes the latter a moment later, and a binding of this moment would grant them, too.
func united(ctx context.Context, o registry.Objects, t registry.Target, whole roleObject) ([]rbac.PolicyRule, error) {
	rules := map[string][]rbac.PolicyRule{t.Name: whole.Rules}
	t.Name = ""
	list, err := o.List(ctx, t, registry.ListRequest{})
	if err != nil {
		return nil, err
	}
	var all []*watch.Entry
	for e, err := range list.Items {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	for wholes := []roleObject{whole}; len(wholes) > 0; wholes = wholes[1:] {
		selectors := selectorsOf(wholes[0].AggregationRule)
		for _, e := range all {
			if _, seen := rules[e.Name()]; seen || !slices.ContainsFunc(selectors, func(s meta.Selector) bool { return s.Matches(e.Labels()) }) {
				continue
			}
			var part roleObject
			if err := json.Unmarshal(e.AppendJSON(nil), &part); err != nil {
				return nil, status.Internal(err)
			}
			if rules[e.Name()] = part.Rules; part.AggregationRule != nil {
				wholes = append(wholes, part)
			}
		}
	}
	return rbac.Union(rules), nil
}

// onlyCollected tells whether a write changes nothing but what the garbage collector needs: owners and
// finalizers. Labels count, because they decide what aggregated roles hold.
func onlyCollected(t, old registry.Tree) bool {
	if old == nil {
		return false
	}
	for _, field := range []string{"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"} {
		t, old = trees.Without(t, "metadata", field), trees.Without(old, "metadata", field)
	}
	return json.Equal(t, old)
}
