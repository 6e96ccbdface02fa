package abac_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/abac"
)

// line is a policy in the form of a file.
func line(spec string) string {
	return `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":` + spec + "}\n"
}

func TestABAC_01_EveryLineIsAPolicy(t *testing.T) {
	p, err := abac.Parse([]byte("\n# comment\n   \t\n  # another, then a line\r\n" + line(`{"user":"alice"}`) + "   " + line(`{"group":"ops"}`)))
	require.NoError(t, err)
	require.Equal(t, abac.Policies{{User: "alice"}, {Group: "ops"}}, p)

	path := filepath.Join(t.TempDir(), "policy.jsonl")
	for bad, want := range map[string]string{
		"{":                       "ends early",
		"user: alice":             "line 3: ",
		"[]":                      "must be an object",
		`{"user":"a"}{}`:          "line 3: ",
		`{"User":"a"}`:            `User: Forbidden: unknown field, did you mean "user"?`,
		`{"user":"a","user":"b"}`: "user: Forbidden: duplicate field",
		`{"user":1}`:              "user: Invalid value: 1: must be a string",
		`{"kind":"Policy"}`:       "apiVersion: Required value",
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1"}`:               "kind: Required value",
		`{"apiVersion":"abac.authorization.kubernetes.io/v1","kind":"Policy"}`:    `apiVersion: Invalid value: "abac.authorization.kubernetes.io/v1"`,
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Role"}`: `kind: Invalid value: "Role"`,
		line(`{"usr":"a"}`):                   `spec.usr: Forbidden: unknown field, did you mean "user"?`,
		line(`{"readonly":"true"}`):           `spec.readonly: Invalid value: "true": must be true or false`,
		strings.TrimSpace(line(`{}`)) + ` {}`: "line 3: ",
	} {
		require.NoError(t, os.WriteFile(path, []byte("#\n"+line(`{"user":"alice"}`)+bad+"\n"), 0o600))
		_, err := abac.Open(path)
		require.ErrorContains(t, err, want, bad)
		require.ErrorContains(t, err, path+": line 3: ", bad)
	}
	_, err = abac.Open(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	p, err = abac.Open(path)
	require.NoError(t, err)
	require.Empty(t, p)
}

func TestABAC_02_BothForms(t *testing.T) {
	all := `{"user":"u","group":"g","apiGroup":"a","resource":"r","namespace":"n","nonResourcePath":"/p","readonly":true}`
	p, err := abac.Parse([]byte(line(all) + strings.Replace(line(all), "kubernetes.io", "example.dev", 1)))
	require.NoError(t, err)
	want := abac.Policy{User: "u", Group: "g", APIGroup: "a", Resource: "r", Namespace: "n", NonResourcePath: "/p", Readonly: true}
	require.Equal(t, abac.Policies{want, want}, p)

	for old, want := range map[string]abac.Policy{
		`{}`:                                   {Group: "system:authenticated", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"user":"u"}`:                         {User: "u", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"user":"*","group":"g"}`:             {Group: "system:authenticated", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"group":"*","readonly":true}`:        {Group: "system:authenticated", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*", Readonly: true},
		`{"group":"g","resource":"r"}`:         {Group: "g", APIGroup: "*", Resource: "r", Namespace: "*"},
		`{"group":"g","namespace":"n"}`:        {Group: "g", APIGroup: "*", Resource: "*", Namespace: "n"},
		`{"user":"u","resource":"*"}`:          {User: "u", APIGroup: "*", Resource: "*", Namespace: "*"},
		`{"apiVersion":null,"user":"u"}`:       {User: "u", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"user":"u","group":"g","kind":null}`: {User: "u", Group: "g", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
	} {
		p, err := abac.Parse([]byte(old))
		require.NoError(t, err, old)
		require.Equal(t, abac.Policies{want}, p, old)
	}
	_, err = abac.Parse([]byte(`{"user":"u","nonResourcePath":"/p"}`))
	require.ErrorContains(t, err, "nonResourcePath: Forbidden: unknown field", "the old form has none")

	const old = `{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy","user":"u","namespace":"n"}`
	p, err = abac.Parse([]byte(old))
	require.NoError(t, err, "the old form may name its version")
	require.Equal(t, abac.Policies{{User: "u", APIGroup: "*", Resource: "*", Namespace: "n"}}, p)
	_, err = abac.Parse([]byte(strings.Replace(old, `"user":"u"`, `"spec":{}`, 1)))
	require.ErrorContains(t, err, "spec: Forbidden: unknown field")
}

// Kubernetes reads an asterisk as the group system:authenticated. A file that lets "everybody" in
// must not let in who is nobody.
func TestABAC_03_AnAsteriskIsNotTheAnonymous(t *testing.T) {
	nobody := authn.User{Name: authn.UserAnonymous, Groups: []string{authn.GroupUnauthenticated}}
	for spec, want := range map[string]bool{
		`"user":"*"`:             false,
		`"group":"*"`:            false,
		`"user":"*","group":"*"`: false,
		`"user":"*","group":"system:unauthenticated"`:     false,
		`"group":"*","user":"system:anonymous"`:           false,
		`"group":"system:unauthenticated"`:                true,
		`"user":"system:anonymous"`:                       true,
		`"user":"system:anonymous","group":"system:none"`: false,
	} {
		list, err := abac.Parse([]byte(line("{" + spec + `,"nonResourcePath":"*","namespace":"*","resource":"*","apiGroup":"*"}`)))
		require.NoError(t, err)
		for _, resource := range []bool{true, false} {
			d, _, err := list.Authorize(t.Context(), authz.Attributes{User: nobody, ResourceRequest: resource, Path: "/x"})
			require.NoError(t, err)
			require.Equal(t, want, d == authz.Allow, spec)
		}
		rules, err := list.Rules(t.Context(), nobody, "a")
		require.NoError(t, err)
		require.Equal(t, want, len(rules.Resources) > 0, spec)
	}
}

func TestABAC_03_SubjectsAndVerbs(t *testing.T) {
	alice := authn.User{Name: "alice", Groups: []string{"ops", "system:authenticated"}}
	for _, c := range []struct {
		policy abac.Policy
		verb   string
		want   bool
	}{
		{abac.Policy{}, "get", false},
		{abac.Policy{User: "alice"}, "delete", true},
		{abac.Policy{User: "Alice"}, "get", false},
		{abac.Policy{User: "bob"}, "get", false},
		{abac.Policy{User: "*"}, "get", true},
		{abac.Policy{Group: "ops"}, "get", true},
		{abac.Policy{Group: "*"}, "get", true},
		{abac.Policy{Group: "devs"}, "get", false},
		{abac.Policy{User: "alice", Group: "devs"}, "get", false},
		{abac.Policy{User: "bob", Group: "ops"}, "get", false},
		{abac.Policy{User: "*", Group: "devs"}, "get", false},
		{abac.Policy{User: "alice", Group: "ops"}, "get", true},
		{abac.Policy{User: "alice", Readonly: true}, "get", true},
		{abac.Policy{User: "alice", Readonly: true}, "list", true},
		{abac.Policy{User: "alice", Readonly: true}, "watch", true},
		{abac.Policy{User: "alice", Readonly: true}, "create", false},
		{abac.Policy{User: "alice", Readonly: true}, "deletecollection", false},
		{abac.Policy{User: "alice", Readonly: true}, "GET", false},
		{abac.Policy{User: "alice", Readonly: true}, "", false},
	} {
		for _, resource := range []bool{true, false} {
			c.policy.APIGroup, c.policy.Resource, c.policy.Namespace, c.policy.NonResourcePath = "*", "*", "*", "*"
			got, _, err := abac.Policies{c.policy}.Authorize(t.Context(), authz.Attributes{User: alice, Verb: c.verb, ResourceRequest: resource, Path: "/x"})
			require.NoError(t, err)
			require.Equal(t, c.want, got == authz.Allow, "%+v %s", c.policy, c.verb)
		}
	}
}

func TestABAC_04_ResourcesAndPaths(t *testing.T) {
	allowed := func(p abac.Policy, a authz.Attributes) bool {
		p.User, a.User.Name = "u", "u"
		d, _, err := abac.Policies{p}.Authorize(t.Context(), a)
		require.NoError(t, err)
		return d == authz.Allow
	}
	widgets := authz.Attributes{ResourceRequest: true, Group: "example.dev", Resource: "widgets", Namespace: "a", Path: "/apis/example.dev/v1/namespaces/a/widgets"}
	require.True(t, allowed(abac.Policy{APIGroup: "example.dev", Resource: "widgets", Namespace: "a"}, widgets))
	require.True(t, allowed(abac.Policy{APIGroup: "*", Resource: "*", Namespace: "*"}, widgets))
	require.False(t, allowed(abac.Policy{Resource: "widgets", Namespace: "a"}, widgets), "unset is not any")
	require.False(t, allowed(abac.Policy{APIGroup: "example.dev", Namespace: "a"}, widgets))
	require.False(t, allowed(abac.Policy{APIGroup: "example.dev", Resource: "widgets"}, widgets))
	require.False(t, allowed(abac.Policy{APIGroup: "example.dev", Resource: "widgets", Namespace: "b"}, widgets))
	require.False(t, allowed(abac.Policy{APIGroup: "example.dev", Resource: "widget*", Namespace: "a"}, widgets), "an asterisk stands alone")
	require.False(t, allowed(abac.Policy{NonResourcePath: "*"}, widgets), "a path is no resource")
	widgets.Namespace = ""
	require.True(t, allowed(abac.Policy{APIGroup: "example.dev", Resource: "widgets"}, widgets), "requests across all namespaces")
	require.False(t, allowed(abac.Policy{APIGroup: "example.dev", Resource: "widgets", Namespace: "a"}, widgets))

	for pattern, paths := range map[string]map[string]bool{
		"/healthz": {"/healthz": true, "/healthz/x": false, "/healthzz": false},
		"/a/*":     {"/a/b": true, "/a/": true, "/a": false, "/ab": false},
		"/a**":     {"/ab": true, "/a": true, "/b": false},
		"*":        {"/": true, "/a": true},
		"/*/a":     {"/b/a": false, "/*/a": true},
		"":         {"/": false},
	} {
		for path, want := range paths {
			require.Equal(t, want, allowed(abac.Policy{NonResourcePath: pattern}, authz.Attributes{Path: path}), "%q %q", pattern, path)
		}
	}
	require.False(t, allowed(abac.Policy{APIGroup: "*", Resource: "*", Namespace: "*"}, authz.Attributes{Path: "/x"}))
}

func TestABAC_05_NoLineNoOpinion(t *testing.T) {
	d, reason, err := abac.Policies{{User: "bob"}}.Authorize(t.Context(), authz.Attributes{User: authn.User{Name: "alice"}})
	require.NoError(t, err)
	require.Equal(t, authz.NoOpinion, d)
	require.Equal(t, "No policy matched.", reason)
}

func TestREVIEW_04_RulesOfPolicies(t *testing.T) {
	list := abac.Policies{
		{User: "alice", APIGroup: "example.dev", Resource: "widgets", Namespace: "a"},
		{Group: "ops", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "/x**", Readonly: true},
		{User: "alice", Resource: "pods", Namespace: "b"},
		{User: "bob", Resource: "pods", Namespace: "*"},
	}
	rules, err := list.Rules(t.Context(), authn.User{Name: "alice", Groups: []string{"ops"}}, "a")
	require.NoError(t, err)
	require.Equal(t, authz.Rules{
		Resources: []authz.ResourceRule{
			{Verbs: []string{"*"}, APIGroups: []string{"example.dev"}, Resources: []string{"widgets", "widgets/*"}},
			{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
		},
		Paths: []authz.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/x*"}}},
	}, rules)
}

// words is what random policies and requests are made of.
var words = []string{"", "*", "a", "b", "ab", "/a", "/a/b", "/a*", "/a/*", "/b"}

// plainly evaluates policies as the documentation of Kubernetes reads, by sets of the words that
// each field accepts.
func plainly(policies []map[string]string, q map[string]string, groups []string) bool {
	accepts := func(said string, is ...string) bool {
		return said == "*" || slices.Contains(is, said)
	}
	known := slices.Contains(groups, authn.GroupAuthenticated)
	for _, p := range policies {
		var conditions []bool
		if p["user"] != "" {
			conditions = append(conditions, accepts(p["user"], q["user"]), known || p["user"] != "*")
		}
		if p["group"] != "" {
			conditions = append(conditions, accepts(p["group"], groups...), known || p["group"] != "*")
		}
		conditions = append(conditions, len(conditions) > 0)
		if p["readonly"] == "true" {
			conditions = append(conditions, slices.Contains([]string{"get", "list", "watch"}, q["verb"]))
		}
		if q["is"] == "resource" {
			for _, field := range []string{"namespace", "resource", "apiGroup"} {
				conditions = append(conditions, accepts(p[field], q[field]))
			}
		} else {
			var prefixes []string // every pattern that the path matches
			for n := range len(q["path"]) + 1 {
				prefixes = append(prefixes, q["path"][:n]+"*")
			}
			conditions = append(conditions, slices.Contains(append(prefixes, q["path"]), p["nonResourcePath"]))
		}
		if !slices.Contains(conditions, false) {
			return true
		}
	}
	return false
}

var pairs = flag.Int("pairs", 100_000, "how many random pairs of policies and requests are compared")

// ABAC-03 to ABAC-05: the authorizer and plainly, which shares no code with it, agree.
func TestRandomPoliciesDecideAsTheyRead(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 1))
	word := func() string { return words[r.IntN(len(words))] }
	pattern := func() string { // mostly one that accepts much, or hardly any pair is allowed
		if r.IntN(2) == 0 {
			return "*"
		}
		return word()
	}
	verbs := []string{"get", "list", "watch", "create", "delete", "x"}
	allowed := 0
	for done := 0; done < *pairs; {
		var text strings.Builder
		var plain []map[string]string
		for range 1 + r.IntN(3) {
			p := map[string]string{
				"user": pattern(), "group": pattern(), "namespace": pattern(), "resource": pattern(), "apiGroup": pattern(), "nonResourcePath": pattern(),
				"readonly": []string{"true", "false"}[r.IntN(2)],
			}
			plain = append(plain, p)
			text.WriteString(line(fmt.Sprintf(`{"user":%q,"group":%q,"namespace":%q,"resource":%q,"apiGroup":%q,"nonResourcePath":%q,"readonly":%s}`,
				p["user"], p["group"], p["namespace"], p["resource"], p["apiGroup"], p["nonResourcePath"], p["readonly"])))
		}
		policies, err := abac.Parse([]byte(text.String()))
		require.NoError(t, err)
		for range min(20, *pairs-done) {
			done++
			q := map[string]string{"user": word(), "namespace": word(), "resource": word(), "apiGroup": word(), "path": word(), "verb": verbs[r.IntN(len(verbs))]}
			groups := []string{word(), []string{authn.GroupAuthenticated, word()}[r.IntN(2)]}
			a := authz.Attributes{
				User: authn.User{Name: q["user"], Groups: groups}, Verb: q["verb"], Namespace: q["namespace"], Resource: q["resource"], Group: q["apiGroup"], Path: q["path"],
			}
			if r.IntN(2) == 0 {
				q["is"], a.ResourceRequest = "resource", true
			}
			d, _, err := policies.Authorize(t.Context(), a)
			require.NoError(t, err)
			if plainly(plain, q, groups) != (d == authz.Allow) {
				require.FailNow(t, "they differ", "%s\n%v %v: %v", text.String(), q, groups, d)
			}
			if d == authz.Allow {
				allowed++
			}
		}
	}
	t.Logf("%d pairs, %d allowed", *pairs, allowed)
	require.Greater(t, allowed, *pairs/50, "the pairs show something")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("# x\n" + line(`{"user":"alice"}`) + "{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		policies, err := abac.Parse(data)
		if err != nil {
			require.ErrorContains(t, err, "line ")
			return
		}
		_, _, err = policies.Authorize(t.Context(), authz.Attributes{User: authn.User{Name: "alice"}, Path: "/"})
		require.NoError(t, err)
	})
}
