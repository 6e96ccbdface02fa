package kinds

import (
	"context"
	"slices"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// aggregatorUser is the user that admission and logs see when the server writes the rules of
// aggregated roles.
var aggregatorUser = authn.User{
	Name: "system:serviceaccount:kube-system:clusterrole-aggregation-controller", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated},
}

// aggregator keeps the rules of the ClusterRoles that have an aggregationRule (RBAC-08).
type aggregator struct {
	resource meta.GroupVersionResource
}

// aggregation is what the aggregator knows of the ClusterRoles.
type aggregation struct {
	objects registry.Objects
	of      meta.GroupVersionResource
	roles   map[string]*part
	synced  bool
}

// part is a ClusterRole: a part of others, or made of parts.
type part struct {
	labels    meta.LabelSet
	rules     []rbac.PolicyRule
	version   string
	selectors []meta.Selector
	united    bool
}

// run follows the ClusterRoles until ctx ends.
func (a aggregator) run(ctx context.Context, o registry.Objects) {
	e := o.(*engine.Engine) //nolint:forcetypeassert // hooks of the library get the engine itself
	ctx = authn.WithUser(ctx, aggregatorUser)
	for ctx.Err() == nil {
		if err := a.follow(ctx, o); err != nil && ctx.Err() == nil {
			e.Logger().Error(err, "failed to keep aggregated roles; retrying")
			_ = pause.For(ctx, firstRetry)
		}
	}
}

func (a aggregator) follow(ctx context.Context, o registry.Objects) error {
	now := &aggregation{objects: o, of: a.resource, roles: map[string]*part{}}
	for event, err := range o.Watch(ctx, registry.Target{Resource: a.resource}, registry.WatchRequest{}) {
		if err != nil {
			return err
		}
		switch event.Type {
		case meta.Bookmark:
			now.synced = true
		case meta.Added, meta.Modified:
			if err := now.learn(event.Entry); err != nil {
				return err
			}
		case meta.Deleted:
			delete(now.roles, event.Entry.Name())
		}
		if !now.synced {
			continue
		}
		if err := now.unite(ctx); err != nil {
			return err
		}
	}
	return nil
}

// learn notes the state of a role.
func (a *aggregation) learn(e *watch.Entry) error {
	var obj roleObject
	if err := json.Unmarshal(e.AppendJSON(nil), &obj); err != nil {
		return err
	}
	p := &part{labels: e.Labels(), rules: obj.Rules, version: obj.Metadata.ResourceVersion}
	if obj.AggregationRule != nil {
		p.united, p.selectors = true, selectorsOf(obj.AggregationRule)
	}
	a.roles[e.Name()] = p
	return nil
}

// selectorsOf returns what selects the parts of a role. A selector that cannot be read selects nothing.
func selectorsOf(a *rbac.AggregationRule) (out []meta.Selector) {
	for i := range a.ClusterRoleSelectors {
		if s, err := meta.SelectorFrom(&a.ClusterRoleSelectors[i]); err == nil {
			out = append(out, s)
		}
	}
	return out
}

// unite writes the aggregated roles whose rules are not the union of their parts. The event of such a
// write unites the roles of which it is a part itself.
func (a *aggregation) unite(ctx context.Context) error {
	for name, role := range a.roles {
		if !role.united {
			continue
		}
		parts := map[string][]rbac.PolicyRule{}
		for other, p := range a.roles {
			if other != name && slices.ContainsFunc(role.selectors, func(s meta.Selector) bool { return s.Matches(p.labels) }) {
				parts[other] = p.rules
			}
		}
		rules := rbac.Union(parts)
		if slices.EqualFunc(rules, role.rules, rbac.PolicyRule.Equal) {
			continue
		}
		if err := a.write(ctx, name, role, rules); err != nil {
			return err
		}
	}
	return nil
}

// write replaces the rules of a role, unless it has changed: then its event is on the way.
func (a *aggregation) write(ctx context.Context, name string, role *part, rules []rbac.PolicyRule) error {
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": role.version}, "rules": append([]rbac.PolicyRule{}, rules...)}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = a.objects.Patch(ctx, registry.Target{Resource: a.of, Name: name},
		registry.PatchRequest{Type: meta.MergePatch, Body: body}, registry.WriteOptions{FieldManager: "clusterrole-aggregation-controller"})
	if status.IsConflict(err) || status.IsNotFound(err) {
		return nil
	}
	role.rules = rules
	return err
}
