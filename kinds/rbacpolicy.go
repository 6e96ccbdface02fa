package kinds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// policyUser is the user that admission and logs see when the server makes roles and bindings.
var policyUser = authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}

// policyKeeper creates and repairs the roles and bindings of a policy.
type policyKeeper struct {
	group  string
	policy rbac.Policy
}

// reconcile is a start hook. All objects are written at once, which the store makes few commits of.
func (p policyKeeper) reconcile(ctx context.Context, o registry.Objects) error {
	ctx = authn.WithUser(ctx, policyUser)
	inherited, err := p.inherited(ctx, o)
	if err != nil {
		return err
	}
	var work []func() error
	for _, r := range p.policy.ClusterRoles {
		work = append(work, func() error { return keep(ctx, o, p.target("clusterroles", r.ObjectMeta), &r, repairClusterRole) })
	}
	for _, r := range p.policy.Roles {
		work = append(work, func() error { return keep(ctx, o, p.target("roles", r.ObjectMeta), &r, repairRole) })
	}
	for _, b := range p.policy.ClusterRoleBindings {
		if b.Name == publicInfo && inherited != nil {
			b.Subjects, b.Annotations, b.Labels = inherited.Subjects, inherited.Annotations, inherited.Labels
		}
		repair := func(b, want *rbac.ClusterRoleBinding) (changed, replace bool) {
			return repairBinding(&b.ObjectMeta, &want.ObjectMeta, &b.Subjects, want.Subjects), b.RoleRef != want.RoleRef
		}
		work = append(work, func() error { return keep(ctx, o, p.target("clusterrolebindings", b.ObjectMeta), &b, repair) })
	}
	for _, b := range p.policy.RoleBindings {
		repair := func(b, want *rbac.RoleBinding) (changed, replace bool) {
			return repairBinding(&b.ObjectMeta, &want.ObjectMeta, &b.Subjects, want.Subjects), b.RoleRef != want.RoleRef
		}
		work = append(work, func() error { return keep(ctx, o, p.target("rolebindings", b.ObjectMeta), &b, repair) })
	}
	problems := make([]error, len(work))
	var group sync.WaitGroup
	for i, one := range work {
		group.Go(func() { problems[i] = one() })
	}
	group.Wait()
	return errors.Join(problems...)
}

// publicInfo is the binding that was split off that of system:discovery.
const publicInfo = "system:public-info-viewer"

// inherited returns what publicInfo begins with if it does not exist and system:discovery does: the
// subjects, annotations and labels of the latter, so that what an administrator has closed stays closed
// and is not repaired. A server before that split had one binding for both (Kubernetes 1.14).
func (p policyKeeper) inherited(ctx context.Context, o registry.Objects) (*rbac.ClusterRoleBinding, error) {
	_, err := o.Get(ctx, p.target("clusterrolebindings", meta.Named("", publicInfo)), registry.ListRequest{})
	if !status.IsNotFound(err) {
		return nil, err
	}
	before, err := o.Get(ctx, p.target("clusterrolebindings", meta.Named("", "system:discovery")), registry.ListRequest{})
	if status.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var obj rbac.ClusterRoleBinding
	if err := json.Unmarshal(before.AppendJSON(nil), &obj); err != nil {
		return nil, err
	}
	return &obj, nil
}

func (p policyKeeper) target(plural string, m meta.ObjectMeta) registry.Target {
	return registry.Target{
		Resource:  meta.GroupVersionResource{Group: p.group, Version: "v1", Resource: plural},
		Namespace: m.Namespace, Name: m.Name,
	}
}

// maxKeepTries is how often an object is written that somebody else writes at the same time.
const maxKeepTries = 5

// keep creates an object, or repairs it. It skips kinds that are not served. Repair adds what is missing, and says whether it did and
// whether the object must be replaced because it cannot be changed.
func keep[T any](ctx context.Context, o registry.Objects, t registry.Target, want *T, repair func(have, want *T) (changed, replace bool)) error {
	by := registry.WriteOptions{FieldManager: "kube-apiserver"}
	body, err := json.Marshal(want)
	if err != nil {
		return err
	}
	for range maxKeepTries {
		if err = keepOnce(ctx, o, t, want, body, by, repair); err == nil || !status.IsConflict(err) && !status.IsAlreadyExists(err) && !status.IsNotFound(err) {
			break
		}
	}
	if err != nil && !status.IsNotFound(err) {
		return fmt.Errorf("keep %s %q: %w", t.Resource.Resource, t.Name, err)
	}
	return nil
}

func keepOnce[T any](ctx context.Context, o registry.Objects, t registry.Target, want *T, body []byte, wo registry.WriteOptions, repair func(have, want *T) (changed, replace bool)) error {
	at := t
	at.Name = ""
	entry, err := o.Get(ctx, t, registry.ListRequest{})
	if status.IsNotFound(err) {
		_, err = o.Create(ctx, at, body, wo)
		return err
	}
	if err != nil {
		return err
	}
	have := new(T)
	if err := json.Unmarshal(entry.AppendJSON(nil), have); err != nil {
		return err
	}
	if protected(entry.AppendJSON(nil)) {
		return nil
	}
	changed, replace := repair(have, want)
	switch {
	case replace:
		if _, err := o.Delete(ctx, t, registry.DeleteOptions{UID: entry.UID()}); err != nil {
			return err
		}
		_, err = o.Create(ctx, at, body, wo)
		return err
	case changed:
		body, err := json.Marshal(have)
		if err != nil {
			return err
		}
		_, err = o.Update(ctx, t, body, wo)
		return err
	}
	return nil
}

// protected tells whether the owner of an object forbids its repair.
func protected(object []byte) bool {
	var obj struct {
		Metadata meta.ObjectMeta `json:"metadata"`
	}
	return json.Unmarshal(object, &obj) == nil && obj.Metadata.Annotations[rbac.AutoUpdate] == "false"
}

func repairClusterRole(have, want *rbac.ClusterRole) (changed, replace bool) {
	changed = repairMetadata(&have.ObjectMeta, &want.ObjectMeta)
	if want.AggregationRule == nil {
		return repairRules(&have.Rules, want.Rules) || changed, false
	}
	if have.AggregationRule == nil {
		have.AggregationRule = &rbac.AggregationRule{}
	}
	selectors := func(all []meta.LabelSelector) (out []string) {
		for _, s := range all {
			if selector, err := meta.SelectorFrom(&s); err == nil {
				out = append(out, selector.String())
			}
		}
		return out
	}
	present := selectors(have.AggregationRule.ClusterRoleSelectors)
	for _, s := range want.AggregationRule.ClusterRoleSelectors {
		if one := selectors([]meta.LabelSelector{s}); len(one) == 1 && !slices.Contains(present, one[0]) {
			have.AggregationRule.ClusterRoleSelectors = append(have.AggregationRule.ClusterRoleSelectors, s)
			changed = true
		}
	}
	return changed, false
}

func repairRole(have, want *rbac.Role) (changed, replace bool) {
	changed = repairMetadata(&have.ObjectMeta, &want.ObjectMeta)
	return repairRules(&have.Rules, want.Rules) || changed, false
}

// repairRules adds the permissions that are missing. What somebody has added stays.
func repairRules(have *[]rbac.PolicyRule, want []rbac.PolicyRule) bool {
	missing, err := rbac.Covers(*have, want)
	if err != nil {
		missing = want
	}
	*have = append(*have, rbac.Compact(missing)...)
	return len(missing) > 0
}

func repairBinding(have, want *meta.ObjectMeta, subjects *[]rbac.Subject, wanted []rbac.Subject) bool {
	changed := repairMetadata(have, want)
	for _, s := range wanted {
		if !slices.Contains(*subjects, s) {
			*subjects, changed = append(*subjects, s), true
		}
	}
	return changed
}

// repairMetadata adds the labels and annotations that are missing. Values that somebody has changed
// stay.
func repairMetadata(have, want *meta.ObjectMeta) bool {
	add := func(to *map[string]string, from map[string]string) (changed bool) {
		for k, v := range from {
			if _, has := (*to)[k]; !has {
				if *to == nil {
					*to = map[string]string{}
				} else if !changed {
					*to = maps.Clone(*to)
				}
				(*to)[k], changed = v, true
			}
		}
		return changed
	}
	labels := add(&have.Labels, want.Labels)
	return add(&have.Annotations, want.Annotations) || labels
}
