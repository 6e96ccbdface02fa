package rbac_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
)

// singles are all permissions that the words of the tests can express, one word of each sort. A word
// that no rule has stands for all others, so that * means more than the rest together.
func singles() []authz.Attributes {
	var out []authz.Attributes
	for _, verb := range words("get", "list", "create", "frob", "twiddle", "unheard") {
		for _, path := range words("/", "/a", "/a/", "/a/b", "/a/unheard", "/ab", "/abc", "/b", "/b*", "/bunheard", "/unheard", "unheard") {
			out = append(out, authz.Attributes{Verb: verb, Path: path})
		}
		for _, group := range words("", "apps", "unheard") {
			for _, resource := range words("pods", "services", "unheard") {
				for _, sub := range words("", "log", "status", "unheard") {
					for _, name := range words("a", "b", "", "unheard") {
						out = append(out, authz.Attributes{ResourceRequest: true, Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: name})
					}
				}
			}
		}
	}
	return out
}

// plain leaves out the words that stand for an object of their own in requests and for nothing else:
// an empty name, a resource that ends in a slash, the subresource *.
func plain(r rule) rule {
	keep := func(list []string, ok func(string) bool) (out []string) {
		for _, w := range list {
			if ok(w) {
				out = append(out, w)
			}
		}
		return out
	}
	r.Resources = keep(r.Resources, func(w string) bool { return w != "*/" && w != "pods/*" })
	return r
}

// RBAC-06: Covers is right about every single permission. A rule set that is covered allows nothing
// that the other does not allow, and one that is not allows something more.
func TestCoversAgreesWithSinglePermissions(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	all := singles()
	some := func(n int) []rule {
		out := make([]rule, 1+r.IntN(n))
		for i := range out {
			out[i] = plain(randomRule(r))
		}
		return out
	}
	allows := func(rules []rule, a authz.Attributes) bool {
		for _, one := range rules {
			if covers(one, a) {
				return true
			}
		}
		return false
	}
	covered := 0
	for range *pairs / 10 { // each is compared in thousands of permissions
		have, want := some(6), some(2)
		missing, err := rbac.Covers(have, want)
		require.NoError(t, err)
		more := false
		for _, a := range all {
			if allows(want, a) && !allows(have, a) {
				more = true
				break
			}
		}
		if len(missing) == 0 {
			covered++
			require.False(t, more, "seed %d: %v covers %v", seed, have, want)
		} else {
			require.True(t, more, "seed %d: %v lacks %v of %v", seed, have, missing, want)
		}
		again, err := rbac.Covers(append(have, missing...), want)
		require.NoError(t, err)
		require.Empty(t, again, "what is missing is all that is missing")
	}
	require.Positive(t, covered)
}

func TestCoversIsBounded(t *testing.T) {
	many := strings.Fields(strings.Repeat("x ", 3000))
	_, err := rbac.Covers(nil, []rule{{Verbs: many, APIGroups: many, Resources: many, ResourceNames: many}})
	require.ErrorIs(t, err, rbac.ErrTooMany)
	missing, err := rbac.Covers(rbac.FullAuthority(), []rule{{Verbs: many, APIGroups: many, Resources: many}})
	require.NoError(t, err)
	require.Empty(t, missing)
	require.ErrorIs(t, rbac.Escalation(authn.User{Name: "u"}, authz.Rules{}, []rule{{Verbs: many, APIGroups: many, Resources: many}}), rbac.ErrTooMany)

	// A role with more combinations than a table holds still counts.
	names := make([]string, 20_000)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	x := rbac.NewIndex("k8s.io")
	for i := range 40 {
		n := strconv.Itoa(i)
		x.PutRole("", n, []rule{{Verbs: words("get"), APIGroups: words("g" + n), Resources: words("pods"), ResourceNames: names}, {Verbs: words("list"), APIGroups: words(""), Resources: words("r" + n)}})
		x.PutBinding("", n, clusterRole(n), []rbac.Subject{{Kind: "User", Name: "u"}})
	}
	for text, want := range map[string]bool{"u get g7!pods:19999": true, "u get g7!pods:20000": false, "u list r39": true, "u get g39!pods": false} {
		d, _ := ask(x, request(text))
		require.Equal(t, want, d == authz.Allow, text)
	}
}

// A message lists what is missing, compact and bounded.
func TestEscalationMessage(t *testing.T) {
	u := authn.User{Name: "bob", Groups: words("a", "b")}
	err := rbac.Escalation(u, authz.Rules{Why: "no role"}, []rule{
		{Verbs: words("get", "list"), APIGroups: words(""), Resources: words("pods"), ResourceNames: words("x")},
		{Verbs: words("watch"), APIGroups: words(""), Resources: words("pods"), ResourceNames: words("x")},
		{Verbs: words("get"), NonResourceURLs: words("/a*")},
	})
	require.EqualError(t, err, `user "bob" (groups=["a" "b"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:["get" "list" "watch"]}
{NonResourceURLs:["/a*"], Verbs:["get"]}; resolution errors: no role`)
	long := make([]string, 500)
	for i := range long {
		long[i] = strconv.Itoa(i)
	}
	err = rbac.Escalation(u, authz.Rules{}, []rule{{Verbs: words("get"), APIGroups: words(""), Resources: long}})
	require.ErrorContains(t, err, "and 400 more")
}
