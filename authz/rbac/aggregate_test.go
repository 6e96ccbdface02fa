package rbac_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/meta"
)

// aggregates is a ClusterRole that selects roles by a label, with the rules that a controller wrote.
func aggregates(name, label string, rules []rule, own ...string) *rbac.ClusterRole {
	r := part(name, rules, own...)
	r.AggregationRule = &rbac.AggregationRule{ClusterRoleSelectors: []meta.LabelSelector{{MatchLabels: map[string]string{label: "true"}}}}
	return r
}

// part is a ClusterRole with labels.
func part(name string, rules []rule, labels ...string) *rbac.ClusterRole {
	r := &rbac.ClusterRole{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{}}, Rules: rules}
	for _, l := range labels {
		r.Labels[l] = "true"
	}
	return r
}

func mayGet(t *testing.T, x *rbac.Index, resource string) bool {
	t.Helper()
	d, _, err := x.Authorize(t.Context(), authz.Attributes{User: authn.User{Name: "u"}, Verb: "get", Resource: resource, ResourceRequest: true})
	require.NoError(t, err)
	return d == authz.Allow
}

func gets(resources ...string) []rule {
	var out []rule
	for _, r := range resources {
		out = append(out, rule{Verbs: words("get"), APIGroups: words(""), Resources: words(r)})
	}
	return out
}

// A right that a part of an aggregated role loses is gone at once, before a controller has written the
// rules of the aggregated role; a right that a part gains waits for it.
func TestRBAC_08_ARightThatAPartLosesIsGone(t *testing.T) {
	x := rbac.NewIndex("k8s.io")
	x.PutClusterRole(part("pods", gets("pods"), "to-edit"))
	x.PutClusterRole(part("jobs", gets("jobs"), "to-edit"))
	x.PutClusterRole(aggregates("edit", "to-edit", gets("pods", "jobs", "more"), "to-admin"))
	x.PutClusterRole(aggregates("admin", "to-admin", gets("pods", "jobs")))
	x.PutBinding("", "b", rbac.RoleRef{Kind: "ClusterRole", Name: "admin"}, []rbac.Subject{{Kind: "User", Name: "u"}})
	require.True(t, mayGet(t, x, "pods"))
	require.True(t, mayGet(t, x, "jobs"))
	require.False(t, mayGet(t, x, "more"), "no part has it")

	x.PutClusterRole(part("pods", gets("nodes"), "to-edit"))
	require.False(t, mayGet(t, x, "pods"))
	require.False(t, mayGet(t, x, "nodes"), "not written yet")
	x.PutClusterRole(aggregates("admin", "to-admin", gets("nodes", "jobs")))
	require.True(t, mayGet(t, x, "nodes"))

	x.PutClusterRole(part("jobs", gets("jobs")))
	require.False(t, mayGet(t, x, "jobs"), "the label is gone")
	x.PutClusterRole(part("jobs", gets("jobs"), "to-edit"))
	require.True(t, mayGet(t, x, "jobs"))
	x.PutClusterRole(aggregates("edit", "to-edit", gets("nodes", "jobs")))
	require.False(t, mayGet(t, x, "jobs"), "the role between the two is no part of admin")
	x.PutClusterRole(aggregates("edit", "to-edit", nil, "to-admin"))
	require.True(t, mayGet(t, x, "jobs"))
	x.DropRole("", "jobs")
	require.False(t, mayGet(t, x, "jobs"))
	x.DropRole("", "edit")
	require.False(t, mayGet(t, x, "nodes"))
	x.DropRole("", "admin")
}

// Random roles that select one another, in circles too: a right counts if it is written in the role
// that is bound, and a plain role has it that can be reached from there.
func TestRBAC_08_RandomAggregation(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 8))
		x := rbac.NewIndex("k8s.io")
		x.PutBinding("", "b", rbac.RoleRef{Kind: "ClusterRole", Name: "r0"}, []rbac.Subject{{Kind: "User", Name: "u"}})
		roles := map[string]*rbac.ClusterRole{}
		selects := map[string]string{}
		for step := range 60 {
			name := fmt.Sprintf("r%d", r.IntN(6))
			var have, labels []string
			for i := range 4 {
				if r.IntN(2) == 0 {
					have = append(have, fmt.Sprintf("k%d", i))
				}
				if r.IntN(3) == 0 {
					labels = append(labels, fmt.Sprintf("l%d", i))
				}
			}
			delete(selects, name)
			switch r.IntN(5) {
			case 0:
				delete(roles, name)
				x.DropRole("", name)
			case 1, 2:
				roles[name] = part(name, gets(have...), labels...)
				x.PutClusterRole(roles[name])
			default:
				selects[name] = fmt.Sprintf("l%d", r.IntN(4))
				roles[name] = aggregates(name, selects[name], gets(have...), labels...)
				x.PutClusterRole(roles[name])
			}
			for i := range 4 {
				k := fmt.Sprintf("k%d", i)
				require.Equal(t, counts(roles, selects, k), mayGet(t, x, k), "seed %d step %d: %s", seed, step, k)
			}
		}
	}
}

// counts is the definition of what r0 gives.
func counts(roles map[string]*rbac.ClusterRole, selects map[string]string, resource string) bool {
	writes := func(name string) bool {
		for _, rule := range roles[name].Rules {
			if rule.Resources[0] == resource {
				return true
			}
		}
		return false
	}
	if roles["r0"] == nil || !writes("r0") {
		return false
	}
	if selects["r0"] == "" {
		return true
	}
	reached := map[string]bool{"r0": true}
	for grew := true; grew; {
		grew = false
		for from := range reached {
			for to, role := range roles {
				if label := selects[from]; label != "" && role.Labels[label] == "true" && !reached[to] {
					reached[to], grew = true, true
				}
			}
		}
	}
	for name := range reached {
		if selects[name] == "" && writes(name) {
			return true
		}
	}
	return false
}
