package rbac

import (
	"slices"

	"github.com/kindwright/kindwright/meta"
)

// clusterRole is what the index keeps of a ClusterRole to know which rules of an aggregated one count.
type clusterRole struct {
	rules      []PolicyRule
	labels     meta.LabelMap
	aggregated bool
	selectors  []meta.Selector // of the parts of an aggregated role
}

// newClusterRole reads a ClusterRole. A selector that cannot be read selects nothing.
func newClusterRole(rules []PolicyRule, labels map[string]string, a *AggregationRule) *clusterRole {
	r := &clusterRole{rules: rules, labels: labels, aggregated: a != nil}
	if a != nil {
		for i := range a.ClusterRoleSelectors {
			if s, err := meta.SelectorFrom(&a.ClusterRoleSelectors[i]); err == nil {
				r.selectors = append(r.selectors, s)
			}
		}
	}
	return r
}

// selects reports whether a role is a part of this one.
func (r *clusterRole) selects(part *clusterRole) bool {
	return part != nil && slices.ContainsFunc(r.selectors, func(s meta.Selector) bool { return s.Matches(part.labels) })
}

// setClusterRole sets or, with nil, removes a ClusterRole, and with it the rules of all aggregated
// roles that it is or was a part of.
func (x *Index) setClusterRole(name string, next *clusterRole) {
	before := x.clusterRoles[name]
	switch {
	case next == nil:
		delete(x.clusterRoles, name)
		x.setRole(ref{"", name}, nil)
	case x.bulk && next.aggregated: // its parts may not be known yet: see aggregateAll
		x.clusterRoles[name] = next
	default:
		x.clusterRoles[name] = next
		x.setRole(ref{"", name}, compile(x.effective(name)))
	}
	if !x.bulk {
		x.changedPart(name, before, next, map[string]bool{name: true})
	}
}

// changedPart sets the rules of the aggregated roles that select a role, and of those that select
// them.
func (x *Index) changedPart(name string, before, next *clusterRole, seen map[string]bool) {
	for whole, r := range x.clusterRoles {
		if r.aggregated && !seen[whole] && whole != name && (r.selects(before) || r.selects(next)) {
			seen[whole] = true
			x.setRole(ref{"", whole}, compile(x.effective(whole)))
			x.changedPart(whole, r, r, seen)
		}
	}
}

// aggregateAll sets the rules of all aggregated roles.
func (x *Index) aggregateAll() {
	for name, r := range x.clusterRoles {
		if r.aggregated {
			x.setRole(ref{"", name}, compile(x.effective(name)))
		}
	}
}

// effective returns the rules of a ClusterRole that count. Those of an aggregated role are the union
// of its parts, and a controller writes it when they have changed. A rule that no part has any more
// does not wait for the controller: it ends with the change of the part. A rule that the controller has
// not written yet does not count, because checks against escalation read what is written.
// Source: RBAC-08.
func (x *Index) effective(name string) []PolicyRule {
	r := x.clusterRoles[name]
	if !r.aggregated || len(r.rules) == 0 {
		return r.rules
	}
	held := map[string]bool{}
	seen := map[string]bool{name: true}
	for wholes := []*clusterRole{r}; len(wholes) > 0; wholes = wholes[1:] {
		for other, part := range x.clusterRoles {
			if seen[other] || !wholes[0].selects(part) {
				continue
			}
			seen[other] = true
			if part.aggregated {
				wholes = append(wholes, part)
				continue
			}
			for _, rule := range part.rules {
				held[rule.String()] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(r.rules), func(rule PolicyRule) bool { return !held[rule.String()] })
}
