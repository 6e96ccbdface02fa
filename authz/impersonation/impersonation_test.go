package impersonation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/impersonation"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// grants allows what it lists, as "verb group/resource/subresource namespace/name". It remembers the
// questions.
type grants struct {
	list  []string
	asked []string
	fails string // a prefix of questions that have no answer
}

func (g *grants) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	q := a.Path
	if a.ResourceRequest {
		q = fmt.Sprintf("%s/%s/%s %s/%s", a.Group, a.Resource, a.Subresource, a.Namespace, a.Name)
	}
	q = a.Verb + " " + q
	g.asked = append(g.asked, q)
	switch {
	case a.User.Name != "boss" && !strings.HasPrefix(a.User.Name, "system:serviceaccount:"):
		return authz.Deny, "", errors.New("the sender is asked about, nobody else")
	case g.fails != "" && strings.HasPrefix(q, g.fails):
		return authz.NoOpinion, "", errors.New("out of order")
	case slices.Contains(g.list, q):
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

var (
	boss     = authn.User{Name: "boss", Groups: []string{"system:authenticated"}}
	listPods = authz.Attributes{Verb: "list", Version: "v1", Resource: "pods", ResourceRequest: true}
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h[http.CanonicalHeaderKey(pairs[i])] = append(h[http.CanonicalHeaderKey(pairs[i])], pairs[i+1])
	}
	return h
}

// as asks for the identity that headers name.
func as(t *testing.T, rules impersonation.Rules, sender authn.User, pairs ...string) (impersonation.Identity, error) {
	t.Helper()
	wanted, ok, err := impersonation.Read(headers(pairs...))
	require.NoError(t, err)
	require.True(t, ok)
	return rules.As(t.Context(), sender, wanted, listPods)
}

func TestIMP_01_TheHeaders(t *testing.T) {
	got, ok, err := impersonation.Read(headers("Accept", "*/*", "Impersonate-User", "alice", "Impersonate-Group", "dev", "impersonate-group", "ops",
		"IMPERSONATE-UID", "7", "Impersonate-Extra-Acme.com%2fProject", "a", "Impersonate-Extra-acme.com%2Fproject", "b", "Impersonate-Extra-Scopes", "x"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, authn.User{
		Name: "alice", Groups: []string{"dev", "ops"}, UID: "7",
		Extra: map[string][]string{"acme.com/project": {"a", "b"}, "scopes": {"x"}},
	}, got)

	_, ok, err = impersonation.Read(headers("Accept", "*/*", "X-Impersonate-User", "alice", "Impersonate", "x", "Impersonated-User", "x"))
	require.NoError(t, err)
	require.False(t, ok)

	got, ok, err = impersonation.Read(http.Header{"impersonate-user": {"alice"}, "Impersonate-Extra-A": {}})
	require.NoError(t, err, "an in-process caller may write the names as they like")
	require.True(t, ok)
	require.Equal(t, authn.User{Name: "alice"}, got)
}

func TestIMP_03_S18_ImpersonationThatMakesNoSenseIs400(t *testing.T) {
	many := []string{"Impersonate-User", "a"}
	for i := range 257 {
		many = append(many, "Impersonate-Group", fmt.Sprint(i))
	}
	for _, pairs := range [][]string{
		{"Impersonate-User", ""},
		{"Impersonate-User", "a", "Impersonate-User", "b"},
		{"Impersonate-User", "", "Impersonate-User", "b"},
		{"Impersonate-User", "b", "Impersonate-User", ""},
		{"Impersonate-User", "a", "Impersonate-Uid", "1", "Impersonate-Uid", "2"},
		{"Impersonate-User", "a", "Impersonate-Group", ""},
		{"Impersonate-User", "a\u202eb"},
		{"Impersonate-User", "a", "Impersonate-Extra-%zz", "x"},
		{"Impersonate-User", "a", "Impersonate-Extra-", "x"},
		{"Impersonate-User", "a", "Impersonate-Extra-%00", "x"},
		{"Impersonate-User", "a", "Impersonate-Users", "x"},
		{"Impersonate_User", "a"},
		{"Impersonate-User", "a", "Impersonate-", "x"},
		{"Impersonate-Group", "system:masters"},
		{"Impersonate-Uid", "1"},
		{"Impersonate-Extra-A", "1"},
		many,
	} {
		_, _, err := impersonation.Read(headers(pairs...))
		require.True(t, status.IsBadRequest(err), "%q: %v", pairs, err)
	}
}

func TestIMP_02_Z14_EachPartNeedsTheVerbImpersonate(t *testing.T) {
	all := []string{
		"impersonate /users/ /alice", "impersonate /groups/ /dev", "impersonate authentication.k8s.io/uids/ /7",
		"impersonate authentication.k8s.io/userextras/scopes /x", "impersonate authentication.k8s.io/userextras/scopes /y",
	}
	pairs := []string{
		"Impersonate-User", "alice", "Impersonate-Group", "dev", "Impersonate-Uid", "7",
		"Impersonate-Extra-Scopes", "x", "Impersonate-Extra-Scopes", "y",
	}
	id, err := as(t, impersonation.Rules{Authorizer: &grants{list: all}, PlainOnly: true}, boss, pairs...)
	require.NoError(t, err)
	require.Equal(t, authn.User{
		Name: "alice", UID: "7", Groups: []string{"dev", "system:authenticated"},
		Extra: map[string][]string{"scopes": {"x", "y"}}, Method: "impersonation",
	}, id.User)
	require.Equal(t, boss, id.Sender)
	require.Empty(t, id.Constraint)

	for i, missing := range all {
		_, err := as(t, impersonation.Rules{Authorizer: &grants{list: slices.Delete(slices.Clone(all), i, i+1)}, PlainOnly: true}, boss, pairs...)
		require.True(t, status.IsForbidden(err), missing)
	}
	_, err = as(t, impersonation.Rules{Authorizer: &grants{}, PlainOnly: true}, boss, "Impersonate-User", "alice")
	require.ErrorContains(t, err, `users "alice" is forbidden: User "boss" cannot impersonate resource "users" in API group "" at the cluster scope`)
	_, err = as(t, impersonation.Rules{Authorizer: &grants{}, PlainOnly: true}, boss, "Impersonate-User", "system:serviceaccount:a:b")
	require.ErrorContains(t, err, `serviceaccounts "b" is forbidden: User "boss" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a"`)
}

func TestIMP_04_GroupsThatFollowFromTheName(t *testing.T) {
	everything := impersonation.Rules{Authorizer: authz.AlwaysAllow(), PlainOnly: true}
	for _, c := range []struct {
		user   string
		groups []string
		want   []string
	}{
		{"alice", nil, []string{"system:authenticated"}},
		{"alice", []string{"dev"}, []string{"dev", "system:authenticated"}},
		{"alice", []string{"system:authenticated"}, []string{"system:authenticated"}},
		{"alice", []string{"system:unauthenticated"}, []string{"system:unauthenticated"}},
		{"system:anonymous", nil, []string{"system:unauthenticated"}},
		{"system:anonymous", []string{"dev"}, []string{"dev", "system:unauthenticated"}},
		{"system:serviceaccount:a:b", nil, []string{"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"}},
		{"system:serviceaccount:a:b", []string{"dev"}, []string{"dev", "system:authenticated"}},
		{"system:serviceaccount:a", nil, []string{"system:authenticated"}},
		{"system:serviceaccount:a:b:c", nil, []string{"system:authenticated"}},
		{"system:node:n", nil, []string{"system:authenticated"}},
	} {
		pairs := []string{"Impersonate-User", c.user}
		for _, g := range c.groups {
			pairs = append(pairs, "Impersonate-Group", g)
		}
		id, err := as(t, everything, boss, pairs...)
		require.NoError(t, err)
		require.Equal(t, c.want, id.User.Groups, "%s %s", c.user, c.groups)
	}
	until := time.Now().Add(time.Hour)
	id, err := as(t, everything, authn.User{Name: "boss", Expires: until}, "Impersonate-User", "alice")
	require.NoError(t, err)
	require.Equal(t, until, id.User.Expires, "the sender's credential ends it")
}

const authenticationGroup = "authentication.k8s.io/"

func TestIMP_ConstrainedImpersonation(t *testing.T) {
	account := authn.User{Name: "system:serviceaccount:a:agent", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}}
	for name, c := range map[string]struct {
		sender     authn.User
		pairs      []string
		grants     []string
		constraint string // "" if refused
		groups     []string
	}{
		"a user": {
			boss,
			[]string{"Impersonate-User", "alice"},
			[]string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice"},
			"impersonate:user-info",
			[]string{"system:authenticated"},
		},
		"a user, for another verb": {
			boss,
			[]string{"Impersonate-User", "alice"},
			[]string{"impersonate-on:user-info:get /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice"},
			"", nil,
		},
		"a user of the core group": {
			boss,
			[]string{"Impersonate-User", "alice"},
			[]string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info /users/ /alice"},
			"", nil,
		},
		"a user with groups that are all allowed": {
			boss,
			[]string{"Impersonate-User", "alice", "Impersonate-Group", "a", "Impersonate-Group", "b", "Impersonate-Group", "c", "Impersonate-Group", "d"},
			[]string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice", "impersonate:user-info " + authenticationGroup + "groups/ /*"},
			"impersonate:user-info",
			[]string{"a", "b", "c", "d", "system:authenticated"},
		},
		"the group of masters": {
			boss,
			[]string{"Impersonate-User", "alice", "Impersonate-Group", "system:masters"},
			[]string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice", "impersonate:user-info " + authenticationGroup + "groups/ /system:masters"},
			"", nil,
		},
		"an extra": {
			boss,
			[]string{"Impersonate-User", "alice", "Impersonate-Extra-Acme.dev%2fx", "1"},
			[]string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice", "impersonate:user-info " + authenticationGroup + "userextras/acme.dev/x /1"},
			"impersonate:user-info",
			[]string{"system:authenticated"},
		},
		"many extras": {
			boss,
			[]string{"Impersonate-User", "alice", "Impersonate-Extra-a.b%2fx", "1", "Impersonate-Extra-a.b%2fx", "2", "Impersonate-Extra-a.b%2fx", "3", "Impersonate-Extra-a.b%2fx", "4"},
			[]string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice", "impersonate:user-info " + authenticationGroup + "userextras/* /*"},
			"impersonate:user-info",
			[]string{"system:authenticated"},
		},
		"an extra without a domain": {
			boss,
			[]string{"Impersonate-User", "alice", "Impersonate-Extra-Scopes", "1"},
			[]string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice", "impersonate:user-info " + authenticationGroup + "userextras/scopes /1"},
			"", nil,
		},
		"a service account": {
			boss,
			[]string{"Impersonate-User", "system:serviceaccount:x:y"},
			[]string{"impersonate-on:serviceaccount:list /pods/ /", "impersonate:serviceaccount " + authenticationGroup + "serviceaccounts/ x/y"},
			"impersonate:serviceaccount",
			[]string{"system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"},
		},
		"a service account as a user": {
			boss,
			[]string{"Impersonate-User", "system:serviceaccount:x:y", "Impersonate-Group", "g"},
			[]string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /system:serviceaccount:x:y", "impersonate:user-info " + authenticationGroup + "groups/ /g"},
			"", nil,
		},
		"any node": {
			boss,
			[]string{"Impersonate-User", "system:node:n1"},
			[]string{"impersonate-on:arbitrary-node:list /pods/ /", "impersonate:arbitrary-node " + authenticationGroup + "nodes/ /n1"},
			"impersonate:arbitrary-node",
			[]string{"system:nodes", "system:authenticated"},
		},
		"the own node": {
			account,
			[]string{"Impersonate-User", "system:node:n1"},
			[]string{"impersonate-on:associated-node:list /pods/ /", "impersonate:associated-node " + authenticationGroup + "nodes/ /*"},
			"impersonate:associated-node",
			[]string{"system:nodes", "system:authenticated"},
		},
		"another node": {
			account,
			[]string{"Impersonate-User", "system:node:n2"},
			[]string{"impersonate-on:associated-node:list /pods/ /", "impersonate:associated-node " + authenticationGroup + "nodes/ /*"},
			"", nil,
		},
		"the own node of somebody who is no service account": {
			authn.User{Name: "boss", Extra: account.Extra},
			[]string{"Impersonate-User", "system:node:n1"},
			[]string{"impersonate-on:associated-node:list /pods/ /", "impersonate:associated-node " + authenticationGroup + "nodes/ /*"},
			"", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := as(t, impersonation.Rules{Authorizer: &grants{list: c.grants}}, c.sender, c.pairs...)
			if c.constraint == "" {
				require.True(t, status.IsForbidden(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.constraint, id.Constraint)
			require.Equal(t, c.groups, id.User.Groups)
			for i := range c.grants {
				_, err := as(t, impersonation.Rules{Authorizer: &grants{list: slices.Delete(slices.Clone(c.grants), i, i+1)}}, c.sender, c.pairs...)
				require.True(t, status.IsForbidden(err), "without %s", c.grants[i])
			}
			_, err = as(t, impersonation.Rules{Authorizer: &grants{list: c.grants}, PlainOnly: true}, c.sender, c.pairs...)
			require.True(t, status.IsForbidden(err), "the verbs mean nothing where it is off")
		})
	}
}

// As in Kubernetes, an authorizer is asked whether an account may act as its own node, whichever that is.
func TestIMP_TheOwnNodeIsNotToldToTheAuthorizer(t *testing.T) {
	seen := map[string]map[string][]string{}
	allow := func(mode string) authz.Func {
		return func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			if seen[a.Verb] = a.User.Extra; strings.Contains(a.Verb, mode) {
				return authz.Allow, "", nil
			}
			return authz.NoOpinion, "", nil
		}
	}
	sender := authn.User{Name: "system:serviceaccount:x:agent", Extra: map[string][]string{
		"authentication.kubernetes.io/node-name": {"n1"}, "authentication.kubernetes.io/pod-name": {"p"},
	}}
	id, err := as(t, impersonation.Rules{Authorizer: allow("associated-node")}, sender, "Impersonate-User", "system:node:n1")
	require.NoError(t, err)
	require.Equal(t, sender.Extra, id.Sender.Extra, "the record has them all")
	keys := map[string][]string{"authentication.kubernetes.io/associated-node-keys": {"authentication.kubernetes.io/node-name", "authentication.kubernetes.io/pod-name"}}
	require.Equal(t, map[string]map[string][]string{"impersonate-on:associated-node:list": keys, "impersonate:associated-node": keys}, seen)

	clear(seen)
	_, err = as(t, impersonation.Rules{Authorizer: allow("arbitrary-node")}, sender, "Impersonate-User", "system:node:n1")
	require.NoError(t, err)
	require.Equal(t, sender.Extra, seen["impersonate:arbitrary-node"], "other modes are about one node")
}

func TestIMP_TheConstraintIsTriedFirst(t *testing.T) {
	both := &grants{list: []string{
		"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice", "impersonate /users/ /alice",
	}}
	id, err := as(t, impersonation.Rules{Authorizer: both}, boss, "Impersonate-User", "alice")
	require.NoError(t, err)
	require.Equal(t, "impersonate:user-info", id.Constraint)

	plain := &grants{list: []string{"impersonate /users/ /alice"}}
	id, err = as(t, impersonation.Rules{Authorizer: plain}, boss, "Impersonate-User", "alice")
	require.NoError(t, err)
	require.Empty(t, id.Constraint)
	require.Equal(t, []string{"impersonate-on:user-info:list /pods/ /", "impersonate /users/ /alice"}, plain.asked)

	_, err = as(t, impersonation.Rules{Authorizer: &grants{}}, boss, "Impersonate-User", "alice")
	require.ErrorContains(t, err, `pods is forbidden: User "boss" cannot impersonate-on:user-info:list resource "pods"`)
	_, err = as(t, impersonation.Rules{Authorizer: &grants{}, Group: "authentication.example.dev"}, boss, "Impersonate-User", "system:node:n", "Impersonate-Uid", "1")
	require.ErrorContains(t, err, `users "system:node:n" is forbidden`, "a node with a uid is in no mode but the plain one")

	user := []string{"impersonate-on:user-info:list /pods/ /", "impersonate:user-info " + authenticationGroup + "users/ /alice"}
	_, err = as(t, impersonation.Rules{Authorizer: &grants{list: user}}, boss, "Impersonate-User", "alice", "Impersonate-Extra-Scopes", "1")
	require.EqualError(t, err, `userextras.authentication.k8s.io is forbidden: User "boss" cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: `+
		`impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")`)

	// The rules about one mode cannot be asked; those about another still count.
	failing := &grants{list: plain.list, fails: "impersonate-on:"}
	_, err = as(t, impersonation.Rules{Authorizer: failing}, boss, "Impersonate-User", "alice")
	require.NoError(t, err)
	_, err = as(t, impersonation.Rules{Authorizer: &grants{fails: "impersonate"}}, boss, "Impersonate-User", "alice")
	require.Equal(t, meta.ReasonInternalError, status.ReasonOf(err))
}

func TestIMP_05_TheHeadersAreGoneAndTheUserIsAnother(t *testing.T) {
	read := func(*http.Request) (authz.Attributes, error) { return listPods, nil }
	serve := func(attributes authz.AttributesFunc, ctx context.Context, h http.Header) (code int, inner *http.Request) {
		r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
		r.Header = h
		w := httptest.NewRecorder()
		impersonation.Middleware(impersonation.Rules{Authorizer: authz.AlwaysAllow()}, attributes)(http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { inner = r })).ServeHTTP(w, r)
		return w.Code, inner
	}
	ctx := authn.WithUser(t.Context(), boss)
	asked := headers("Accept", "*/*", "Impersonate-User", "alice", "Impersonate-Uid", "1", "Impersonate-Group", "g", "Impersonate-Extra-a.b%2fc", "d")
	_, inner := serve(read, ctx, asked)
	require.Equal(t, headers("Accept", "*/*"), inner.Header)
	require.Equal(t, "alice", asked.Get("Impersonate-User"), "the request as received is not changed")
	u, _ := authn.UserFrom(inner.Context())
	require.Equal(t, "alice", u.Name)

	_, inner = serve(read, ctx, headers("Accept", "*/*"))
	u, _ = authn.UserFrom(inner.Context())
	require.Equal(t, "boss", u.Name)

	for name, c := range map[string]struct {
		ctx  context.Context
		read authz.AttributesFunc
		h    http.Header
		code int
	}{
		"wrong headers":          {ctx, read, headers("Impersonate-Group", "g"), 400},
		"nobody":                 {t.Context(), read, asked, 500},
		"attributes fail":        {ctx, func(*http.Request) (authz.Attributes, error) { return listPods, errors.New("x") }, asked, 500},
		"attributes panic":       {ctx, func(*http.Request) (authz.Attributes, error) { panic("x") }, asked, 500},
		"headers of a stranger":  {authn.WithUser(t.Context(), authn.User{}), read, asked, 500},
		"a header of no meaning": {ctx, read, headers("Impersonate-User", "a", "Impersonate-Name", "b"), 400},
	} {
		code, inner := serve(c.read, c.ctx, c.h)
		require.Equal(t, c.code, code, name)
		require.Nil(t, inner, name)
	}
}
