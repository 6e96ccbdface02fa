package rbac_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
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

// numbered are words that nobody else has.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.FormatInt(int64(i), 36)
	}
	return out
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// S22: a role of some megabytes is not compared in pairs. Whoever may create roles in a namespace could keep
// a processor busy for hours with one request, although the role was refused: 40,000 verbs took a minute.
func TestS22_ManyVerbsAreJoinedOnce(t *testing.T) {
	verbs := numbered(20_000)
	want := rule{Verbs: verbs, APIGroups: words(""), Resources: words("pods")}
	require.Less(t, allocated(func() {
		err := rbac.Escalation(authn.User{Name: "u"}, authz.Rules{}, []rule{want})
		require.ErrorContains(t, err, "not currently held")
		require.ErrorContains(t, err, "and more")
	}), uint64(100<<20))

	var single []rule
	for _, verb := range verbs {
		single = append(single, rule{Verbs: words(verb), APIGroups: words(""), Resources: words("pods")})
	}
	first := single[0].Verbs
	require.Less(t, allocated(func() {
		joined := rbac.Compact(append(single, single[0]))
		require.Len(t, joined, 1)
		require.Equal(t, verbs, joined[0].Verbs, "each once, in order")
	}), uint64(100<<20))
	require.Equal(t, words(verbs[0]), first, "the caller's rules stay as they are")
	require.Equal(t, single, rbac.Union(map[string][]rule{"a": single, "b": single[:1]}))
}

// S22: unusual verbs of many rules about one resource, in one role and in many.
func TestS22_UnusualVerbsAreNotComparedInPairs(t *testing.T) {
	verbs := numbered(20_000)
	var rules []rule
	for few := range slices.Chunk(verbs, 60) {
		rules = append(rules, rule{Verbs: few, APIGroups: words(""), Resources: words("pods")})
	}
	x := rbac.NewIndex("k8s.io")
	require.Less(t, allocated(func() { x.PutRole("", "one", rules) }), uint64(100<<20))
	x.PutBinding("", "one", clusterRole("one"), []rbac.Subject{{Kind: "User", Name: "one"}})
	for i, r := range rules {
		name := strconv.Itoa(i)
		x.PutRole("", name, []rule{r})
		x.PutBinding("", name, clusterRole(name), []rbac.Subject{{Kind: "User", Name: "many"}})
	}
	for _, user := range words("one", "many") {
		for _, verb := range words(verbs[0], verbs[len(verbs)/2], verbs[len(verbs)-1]) {
			d, _ := ask(x, request(user+" "+verb+" pods"))
			require.Equal(t, authz.Allow, d, "%s %s", user, verb)
		}
		d, _ := ask(x, request(user+" unheard pods"))
		require.Equal(t, authz.NoOpinion, d, user)
	}
	x.DropRole("", "0")
	d, _ := ask(x, request("many "+verbs[0]+" pods"))
	require.Equal(t, authz.NoOpinion, d)
}

// S22: who has a role that is in no table cannot have it compared with each word of another.
func TestS22_ComparisonsWithWideRolesAreBounded(t *testing.T) {
	verbs := numbered(40_000)
	half := len(verbs) / 2
	have := []rule{{Verbs: verbs[:half], APIGroups: words(""), Resources: words("pods")}}
	_, err := rbac.Covers(have, []rule{{Verbs: verbs[half:], APIGroups: words(""), Resources: words("pods")}})
	require.ErrorIs(t, err, rbac.ErrTooMany)
	missing, err := rbac.Covers(have, []rule{{Verbs: words(verbs[half-1], verbs[half]), APIGroups: words(""), Resources: words("pods")}})
	require.NoError(t, err)
	require.Equal(t, []rule{{Verbs: words(verbs[half]), APIGroups: words(""), Resources: words("pods")}}, missing)
}

// S22: a binding of many subjects copies the directory once, and one that names somebody again and again
// gives them no more. Whoever may write bindings in a namespace could hold up those of all others for minutes.
func TestS22_BindingsWithManySubjects(t *testing.T) {
	const n = 20_000
	x := rbac.NewIndex("k8s.io")
	x.PutRole("", "r", []rule{{Verbs: words("get"), APIGroups: words(""), Resources: words("pods")}})
	allowed := func(user string) bool {
		d, _ := ask(x, request(user+" get pods a"))
		return d == authz.Allow
	}
	subjects := func(name func(int) string) (out []rbac.Subject) {
		for i := range n {
			out = append(out, rbac.Subject{Kind: "User", Name: name(i)})
		}
		return out
	}
	different := subjects(func(i int) string { return "u" + strconv.Itoa(i) })
	require.Less(t, allocated(func() { x.PutBinding("a", "different", clusterRole("r"), different) }), uint64(50<<20))
	same := subjects(func(int) string { return "ann" })
	require.Less(t, allocated(func() {
		x.PutBinding("a", "one", clusterRole("r"), same)
		x.PutBinding("a", "two", clusterRole("r"), same)
	}), uint64(20<<20))
	require.True(t, allowed("u0") && allowed("u19999") && allowed("ann"))

	require.Less(t, allocated(func() { x.PutBinding("a", "different", clusterRole("r"), different[1:]) }), uint64(50<<20))
	require.False(t, allowed("u0"))
	require.True(t, allowed("u1"))
	x.DropBinding("a", "one")
	require.True(t, allowed("ann"), "the other binding names them too")
	x.PutBinding("a", "two", clusterRole("r"), same[:1])
	require.True(t, allowed("ann"))
	x.DropBinding("a", "two")
	require.False(t, allowed("ann"))
	require.Less(t, allocated(func() { x.DropBinding("a", "different") }), uint64(50<<20))
	require.False(t, allowed("u1") || allowed("u19999"))
}

// S1: a long word is a part of each line of the message, so a body of a megabyte made an answer, a line of
// the log and a record of a hundred.
func TestS1_AMessageAboutEscalationIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	err := rbac.Escalation(authn.User{Name: "u"}, authz.Rules{}, []rule{{
		Verbs: words("get"), APIGroups: words(""), Resources: numbered(200), ResourceNames: []string{long},
	}})
	require.ErrorContains(t, err, "and 100 more")
	require.Less(t, len(err.Error()), 256<<10)
}
