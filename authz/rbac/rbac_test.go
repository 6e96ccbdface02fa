package rbac_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
)

var pairs = flag.Int("pairs", 20_000, "how many random pairs of roles and requests are compared")

type rule = rbac.PolicyRule

func words(s ...string) []string { return s }

func clusterRole(name string) rbac.RoleRef { return rbac.RoleRef{Kind: "ClusterRole", Name: name} }

func ask(x *rbac.Index, a authz.Attributes) (authz.Decision, string) {
	d, why, err := x.Authorize(context.Background(), a)
	if err != nil {
		panic(err)
	}
	return d, why
}

// request reads "user verb [group/]resource[/sub][:name] [namespace]" or "user verb /path". The
// group is everything up to the last "!".
func request(text string) authz.Attributes {
	part := strings.Fields(text)
	a := authz.Attributes{User: authn.User{Name: part[0]}, Verb: part[1]}
	if strings.HasPrefix(part[2], "/") {
		a.Path = part[2]
		return a
	}
	a.ResourceRequest = true
	what := part[2]
	if group, rest, ok := strings.Cut(what, "!"); ok {
		a.Group, what = group, rest
	}
	what, a.Name, _ = strings.Cut(what, ":")
	a.Resource, a.Subresource, _ = strings.Cut(what, "/")
	if len(part) > 3 {
		a.Namespace = part[3]
	}
	return a
}

// RBAC-02, AUTHZ-09, AUTHZ-11: what a rule covers.
func TestRBAC_02_AUTHZ_09_11_Rules(t *testing.T) {
	for _, c := range []struct {
		rule    rule
		yes, no []string
	}{
		{
			rule{Verbs: words("get", "list"), APIGroups: words(""), Resources: words("pods")},
			words("u get pods", "u list pods ns", "u get pods:a ns"),
			words("u watch pods", "u get pods/log:a ns", "u get apps!pods", "u get services", "u get /pods", "u get /"),
		},
		{
			rule{Verbs: words("*"), APIGroups: words("*"), Resources: words("*")},
			words("u get pods", "u frob x.y!z/w:v ns", "u deletecollection apps!deployments ns"),
			words("u get /healthz", "u get /"),
		},
		{
			rule{Verbs: words("get"), APIGroups: words("apps"), Resources: words("*/scale")},
			words("u get apps!deployments/scale:a ns", "u get apps!x/scale"),
			words("u get apps!deployments:a ns", "u get apps!deployments/status:a ns", "u get deployments/scale"),
		},
		{
			rule{Verbs: words("get"), APIGroups: words(""), Resources: words("pods/log")},
			words("u get pods/log:a ns"),
			words("u get pods:a ns", "u get pods/exec:a ns", "u get nodes/log:a"),
		},
		{
			rule{Verbs: words("get", "create", "list", "deletecollection"), APIGroups: words(""), Resources: words("pods"), ResourceNames: words("a", "b")},
			words("u get pods:a ns", "u list pods:b ns"),
			words("u get pods:c ns", "u create pods ns", "u list pods ns", "u deletecollection pods ns", "u get pods/log:a ns"),
		},
		{
			rule{Verbs: words("get"), APIGroups: words(""), Resources: words("pods"), ResourceNames: words("")},
			words("u get pods ns"), words("u get pods:a ns"),
		},
		{
			rule{Verbs: words("get"), NonResourceURLs: words("/a/*", "/b", "/c*")},
			words("u get /a/", "u get /a/x/y", "u get /b", "u get /c", "u get /cd"),
			words("u get /a", "u get /b/", "u post /b", "u get b", "u get /"),
		},
		{
			rule{Verbs: words("get"), NonResourceURLs: words("*")},
			words("u get /", "u get /x"), words("u post /", "u get pods"),
		},
		{
			rule{Verbs: words("frob"), APIGroups: words(""), Resources: words("pods")},
			words("u frob pods ns"), words("u get pods ns", "u frobs pods ns"),
		},
	} {
		x := rbac.NewIndex("k8s.io")
		x.PutRole("", "r", []rule{c.rule})
		x.PutBinding("", "b", clusterRole("r"), []rbac.Subject{{Kind: "User", Name: "u"}})
		for _, text := range c.yes {
			d, _ := ask(x, request(text))
			require.Equal(t, authz.Allow, d, "%v: %s", c.rule, text)
		}
		for _, text := range c.no {
			d, why := ask(x, request(text))
			require.Equal(t, authz.NoOpinion, d, "%v: %s", c.rule, text)
			require.Empty(t, why)
		}
	}
}

// RBAC-03: users, groups and service accounts; the reason names them as Kubernetes does.
func TestRBAC_03_Subjects(t *testing.T) {
	x := rbac.NewIndex("k8s.io")
	x.PutRole("", "r", []rule{{Verbs: words("get"), APIGroups: words(""), Resources: words("pods")}})
	x.PutRole("ns", "own", []rule{{Verbs: words("list"), APIGroups: words(""), Resources: words("pods")}})
	x.PutBinding("", "c", clusterRole("r"), []rbac.Subject{
		{Kind: "User", Name: "ann"},
		{Kind: "Group", Name: "team"},
		{Kind: "ServiceAccount", Name: "sa", Namespace: "other"},
		{Kind: "ServiceAccount", Name: "homeless"},
		{Kind: "Robot", Name: "r2"},
		{Kind: "User"},
		{Kind: "Group"},
	})
	x.PutBinding("ns", "n", rbac.RoleRef{Kind: "Role", Name: "own"}, []rbac.Subject{{Kind: "ServiceAccount", Name: "sa"}})
	get, list := request("x get pods ns"), request("x list pods ns")
	for _, c := range []struct {
		user authn.User
		a    authz.Attributes
		why  string
	}{
		{authn.User{Name: "ann"}, get, `RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "r" to User "ann"`},
		{authn.User{Name: "bob", Groups: words("x", "team")}, get, `RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "r" to Group "team"`},
		{authn.User{Name: "system:serviceaccount:other:sa"}, get, `RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "r" to ServiceAccount "sa/other"`},
		{authn.User{Name: "system:serviceaccount:ns:sa"}, list, `RBAC: allowed by RoleBinding "n/ns" of Role "own" to ServiceAccount "sa/ns"`},
		{authn.User{Name: "team"}, get, ""},
		{authn.User{Name: "x", Groups: words("ann", "")}, get, ""},
		{authn.User{Name: "system:serviceaccount:ns:homeless"}, get, ""},
		{authn.User{Name: "system:serviceaccount::homeless"}, get, ""},
		{authn.User{Name: "system:serviceaccount:ns:sa"}, get, ""},
		{authn.User{Name: "r2"}, get, ""},
		{authn.User{}, get, ""},
	} {
		c.a.User = c.user
		d, why := ask(x, c.a)
		require.Equal(t, c.why, why, c.user)
		require.Equal(t, c.why != "", d == authz.Allow, c.user)
	}
}

// RBAC-04, AUTHZ-10: a namespaced binding grants in its namespace only, and never paths.
func TestRBAC_04_AUTHZ_10_NamespacedBindings(t *testing.T) {
	x := rbac.NewIndex("k8s.io")
	all := words("*")
	x.PutRole("", "all", []rule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}})
	x.PutRole("b", "all", []rule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}})
	u := []rbac.Subject{{Kind: "User", Name: "u"}}
	x.PutBinding("a", "x", clusterRole("all"), u)
	x.PutBinding("b", "x", rbac.RoleRef{Kind: "Role", Name: "all"}, u)
	x.PutBinding("c", "x", rbac.RoleRef{Kind: "Role", Name: "all"}, u) // there is none in c
	x.PutBinding("", "x", rbac.RoleRef{Kind: "Role", Name: "all"}, u)  // a Role cannot be granted everywhere
	for text, want := range map[string]bool{
		"u get pods a": true, "u get pods b": true, "u get pods c": false, "u get pods": false, "u get nodes": false, "u get /x": false,
	} {
		d, _ := ask(x, request(text))
		require.Equal(t, want, d == authz.Allow, text)
	}
	a := request("u get /x")
	a.Namespace = "a" // a path is in no namespace, whatever the attributes say
	d, _ := ask(x, a)
	require.Equal(t, authz.NoOpinion, d)
	rules, err := x.Rules(context.Background(), authn.User{Name: "u"}, "a")
	require.NoError(t, err)
	require.Len(t, rules.Resources, 1)
	require.Empty(t, rules.Paths)
	x.PutBinding("", "y", clusterRole("all"), u)
	rules, err = x.Rules(context.Background(), authn.User{Name: "u"}, "a")
	require.NoError(t, err)
	require.Equal(t, authz.Rules{
		Resources: []authz.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		Paths:     []authz.NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}, rules)
}

// RBAC-05: no match is no opinion, and a chain asks the next.
func TestRBAC_05_NoOpinion(t *testing.T) {
	x := rbac.NewIndex("k8s.io")
	d, _, err := authz.Union(x, authz.AlwaysAllow()).Authorize(context.Background(), request("u get pods"))
	require.NoError(t, err)
	require.Equal(t, authz.Allow, d)
	d, _, err = rbac.New("").Authorize(context.Background(), request("u get pods"))
	require.ErrorIs(t, err, authz.ErrUnavailable)
	require.Equal(t, authz.Deny, d, "an authorizer without a server allows nothing")
}

// RBAC-10: a missing role does not hide other grants and is named; it works again when it is back.
func TestRBAC_10_MissingRoles(t *testing.T) {
	x := rbac.NewIndex("k8s.io")
	u := []rbac.Subject{{Kind: "User", Name: "u"}}
	rules := []rule{{Verbs: words("get"), APIGroups: words(""), Resources: words("pods")}}
	x.PutBinding("", "broken", clusterRole("gone"), u)
	x.PutBinding("ns", "broken", rbac.RoleRef{Kind: "Role", Name: "lost"}, u)
	d, why := ask(x, request("u get pods"))
	require.Equal(t, authz.NoOpinion, d)
	require.Equal(t, `RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`, why)
	_, why = ask(x, request("u get pods ns"))
	require.Equal(t, `RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "lost" not found]`, why)
	listed, err := x.Rules(context.Background(), authn.User{Name: "u"}, "ns")
	require.NoError(t, err)
	require.Contains(t, listed.Why, `"lost" not found`)

	x.PutRole("", "good", rules)
	x.PutBinding("", "good", clusterRole("good"), u)
	d, _ = ask(x, request("u get pods"))
	require.Equal(t, authz.Allow, d)
	x.DropBinding("", "good")
	for range 3 {
		x.PutRole("", "gone", rules)
		d, why = ask(x, request("u get pods"))
		require.Equal(t, authz.Allow, d)
		require.Contains(t, why, `ClusterRoleBinding "broken"`)
		x.DropRole("", "gone")
		d, _ = ask(x, request("u get pods"))
		require.Equal(t, authz.NoOpinion, d)
	}
	x.DropBinding("", "broken")
	x.DropBinding("ns", "broken")
	d, why = ask(x, request("u get pods ns"))
	require.Equal(t, authz.NoOpinion, d)
	require.Empty(t, why)
}

// A world is a set of roles and bindings that the reference evaluates one by one.
type world struct {
	roles    map[[2]string][]rule
	bindings map[[2]string]grants
}

type grants struct {
	of       rbac.RoleRef
	subjects []rbac.Subject
}

// allows is the definition of RBAC, written without regard to cost.
func (w world) allows(a authz.Attributes) bool {
	for at, b := range w.bindings {
		namespace := at[0]
		if namespace != "" && (!a.ResourceRequest || namespace != a.Namespace) {
			continue
		}
		role := [2]string{"", b.of.Name}
		if b.of.Kind == "Role" {
			if namespace == "" {
				continue
			}
			role[0] = namespace
		}
		for _, s := range b.subjects {
			if !means(s, a.User, namespace) {
				continue
			}
			for _, r := range w.roles[role] {
				if covers(r, a) {
					return true
				}
			}
		}
	}
	return false
}

func means(s rbac.Subject, u authn.User, namespace string) bool {
	switch s.Kind {
	case "User":
		return s.Name == u.Name
	case "Group":
		return slices.Contains(u.Groups, s.Name)
	}
	if s.Namespace != "" {
		namespace = s.Namespace
	}
	return namespace != "" && u.Name == fmt.Sprintf("system:serviceaccount:%s:%s", namespace, s.Name)
}

func covers(r rule, a authz.Attributes) bool {
	one := func(list []string, ok func(string) bool) bool { return slices.ContainsFunc(list, ok) }
	if !one(r.Verbs, func(v string) bool { return v == "*" || v == a.Verb }) {
		return false
	}
	if !a.ResourceRequest {
		return one(r.NonResourceURLs, func(p string) bool {
			return p == a.Path || strings.HasSuffix(p, "*") && strings.HasPrefix(a.Path, strings.TrimRight(p, "*"))
		})
	}
	whole := a.Resource
	if a.Subresource != "" {
		whole += "/" + a.Subresource
	}
	return one(r.APIGroups, func(g string) bool { return g == "*" || g == a.Group }) &&
		one(r.Resources, func(p string) bool {
			return p == "*" || p == whole || a.Subresource != "" && p == "*/"+a.Subresource
		}) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
}

// The words that random rules and requests are made of.
var (
	someVerbs     = words("get", "list", "create", "frob", "twiddle", "*")
	someGroups    = words("", "apps", "*")
	someResources = words("pods", "services", "pods/log", "*/log", "*/status", "*", "services/status", "*/", "pods/*")
	someNames     = words("a", "b", "")
	somePaths     = words("/a", "/a/*", "/a/b", "/ab*", "*", "/*", "/b**")
	someSpaces    = words("", "n1", "n2")
	someUsers     = words("u1", "u2", "system:serviceaccount:n1:s", "system:serviceaccount:n2:s")
	someTeams     = words("g1", "g2", "g3")
)

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

func some(r *rand.Rand, from []string, most int) (out []string) {
	for range r.IntN(most + 1) {
		out = append(out, pick(r, from))
	}
	return out
}

func randomRule(r *rand.Rand) rule {
	out := rule{Verbs: append(some(r, someVerbs, 2), pick(r, someVerbs))}
	if r.IntN(4) == 0 {
		out.NonResourceURLs = append(some(r, somePaths, 1), pick(r, somePaths))
		return out
	}
	out.APIGroups, out.Resources = append(some(r, someGroups, 1), pick(r, someGroups)), append(some(r, someResources, 2), pick(r, someResources))
	if r.IntN(3) == 0 {
		out.ResourceNames = some(r, someNames, 2)
	}
	return out
}

func randomSubject(r *rand.Rand) rbac.Subject {
	switch r.IntN(3) {
	case 0:
		return rbac.Subject{Kind: "User", Name: pick(r, someUsers)}
	case 1:
		return rbac.Subject{Kind: "Group", Name: pick(r, someTeams)}
	}
	return rbac.Subject{Kind: "ServiceAccount", Name: "s", Namespace: pick(r, someSpaces)}
}

func randomRequest(r *rand.Rand) authz.Attributes {
	a := authz.Attributes{User: authn.User{Name: pick(r, someUsers), Groups: some(r, someTeams, 3)}, Verb: pick(r, someVerbs)}
	if r.IntN(4) == 0 {
		a.Path = pick(r, words("/", "/a", "/a/", "/a/b", "/abc", "/b", "/b*", "*", ""))
		return a
	}
	a.ResourceRequest, a.Group, a.Namespace, a.Name = true, pick(r, someGroups), pick(r, someSpaces), pick(r, someNames)
	a.Resource = pick(r, words("pods", "services", "*", "pods/log"))
	a.Subresource = pick(r, words("", "", "log", "status", "*"))
	return a
}

// change makes the same random change of the world and of the index.
func (w world) change(r *rand.Rand, x *rbac.Index, roles int) {
	at := [2]string{pick(r, someSpaces), strconv.Itoa(r.IntN(roles))}
	switch r.IntN(5) {
	case 0:
		delete(w.roles, at)
		x.DropRole(at[0], at[1])
	case 1, 2:
		rules := make([]rule, r.IntN(4))
		for i := range rules {
			rules[i] = randomRule(r)
		}
		w.roles[at] = rules
		x.PutRole(at[0], at[1], rules)
	case 3:
		delete(w.bindings, at)
		x.DropBinding(at[0], at[1])
	case 4:
		b := grants{of: rbac.RoleRef{Kind: pick(r, words("Role", "ClusterRole")), Name: strconv.Itoa(r.IntN(roles))}}
		for range r.IntN(4) {
			b.subjects = append(b.subjects, randomSubject(r))
		}
		w.bindings[at] = b
		x.PutBinding(at[0], at[1], b.of, b.subjects)
	}
}

// The index and an evaluator that shares no code with it agree on random pairs of a world and a
// request, while the world changes.
func TestIndexAgreesWithReference(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	allowed := 0
	for done := 0; done < *pairs; {
		w := world{map[[2]string][]rule{}, map[[2]string]grants{}}
		x := rbac.NewIndex("k8s.io")
		roles := 3 + r.IntN(60) // few, or enough for tables
		for range roles {
			w.change(r, x, roles)
		}
		for range 40 {
			for range 1 + r.IntN(roles/3+1) {
				w.change(r, x, roles)
			}
			for range 10 {
				a := randomRequest(r)
				want := w.allows(a)
				d, why := ask(x, a)
				if want != (d == authz.Allow) {
					require.Failf(t, "the index differs", "seed %d: %+v: want %v, got %v %s\n%+v", seed, a, want, d, why, w)
				}
				if want {
					allowed++
				}
				done++
			}
		}
	}
	require.Positive(t, allowed)
	t.Logf("%d pairs, %d allowed", *pairs, allowed)
}
