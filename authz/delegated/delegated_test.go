package delegated_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/delegated"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

// world is a host that decides by roles, with an authorizer that asks it, in virtual time.
type world struct {
	t      *testing.T
	host   *apitest.Server
	away   atomic.Bool
	asks   atomic.Int32
	answer func(*http.Request) (*http.Response, error) // in place of the host's; nil: the host answers
	z      *delegated.Authorizer
}

// RoundTrip is the connection to the host.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.asks.Add(1)
	switch {
	case w.away.Load():
		return nil, errors.New("connection refused")
	case w.answer != nil:
		return w.answer(r)
	}
	return w.host.Transport().RoundTrip(r)
}

func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.host = apitest.Config{Options: []kindwright.Option{kindwright.Authorize(rbac.New(""))}}.New(t, kinds.RBAC())
		var err error
		w.z, err = delegated.New(delegated.Connection{URL: w.host.URL, Client: &http.Client{Transport: w}}, delegated.Options{})
		require.NoError(t, err)
		test(w)
	})
}

// grant lets a user read widgets of a namespace.
func (w *world) grant(user string) (revoke func()) {
	w.t.Helper()
	roles := client.For(w.host.Client(), client.Resource[rbac.Role]{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "roles"})
	bindings := client.For(w.host.Client(), client.Resource[rbac.RoleBinding]{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "rolebindings"})
	_, err := roles.Create(w.t.Context(), &rbac.Role{ObjectMeta: meta.Named("default", "r"), Rules: []rbac.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{"example.dev"}, Resources: []string{"widgets"}}}})
	require.NoError(w.t, err)
	_, err = bindings.Create(w.t.Context(), &rbac.RoleBinding{
		ObjectMeta: meta.Named("default", "r"), RoleRef: rbac.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "r"},
		Subjects: []rbac.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: user}},
	})
	require.NoError(w.t, err)
	return func() {
		require.NoError(w.t, bindings.Delete(w.t.Context(), meta.Key{Namespace: "default", Name: "r"}))
	}
}

func widgets(user string, groups ...string) authz.Attributes {
	return authz.Attributes{
		User: authn.User{Name: user, Groups: groups}, Verb: "list", ResourceRequest: true,
		Group: "example.dev", Version: "v1", Resource: "widgets", Namespace: "default", Path: "/apis/example.dev/v1/namespaces/default/widgets",
	}
}

// code is what a client gets.
func (w *world) code(a authz.Attributes) int {
	err := authz.Require(w.t.Context(), w.z, a)
	if err == nil {
		return http.StatusOK
	}
	var st interface{ Code() int }
	require.ErrorAs(w.t, err, &st)
	return st.Code()
}

func TestAUTHZ_06_TheHostsRolesDecide(t *testing.T) {
	inWorld(t, func(w *world) {
		revoke := w.grant("ann")
		require.Equal(t, 200, w.code(widgets("ann")))
		require.Equal(t, 403, w.code(widgets("bob")))
		require.Equal(t, 200, w.code(widgets("ann")))
		require.Equal(t, 403, w.code(widgets("bob")))
		require.Equal(t, int32(2), w.asks.Load(), "answers are remembered")
		other := widgets("ann")
		other.Namespace = "kube-system"
		require.Equal(t, 403, w.code(other))
		revoke()
		require.Equal(t, 200, w.code(widgets("ann")))
		time.Sleep(10 * time.Second)
		require.Equal(t, 403, w.code(widgets("ann")), "for ten seconds")
	})
}

// Trap 19: the host's own requests do not depend on the host, or on more than it grants everybody.
func TestTheAggregatorsRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		require.Equal(t, 200, w.code(authz.Attributes{User: authn.User{Name: "system:aggregator", Groups: []string{authn.GroupAuthenticated}}, Verb: "get", Path: "/openapi/v2"}))
		require.Equal(t, int32(1), w.asks.Load())
		w.away.Store(true)
		require.Equal(t, 200, w.code(authz.Attributes{User: authn.User{Name: "system:kube-aggregator", Groups: []string{authn.GroupMasters}}, Verb: "get", Path: "/apis/example.dev/v1"}))
		for _, path := range []string{"/healthz", "/livez", "/readyz"} {
			require.Equal(t, 200, w.code(authz.Attributes{User: authn.User{Name: authn.UserAnonymous}, Verb: "get", Path: path}))
			require.Equal(t, 503, w.code(authz.Attributes{User: authn.User{Name: authn.UserAnonymous}, Verb: "post", Path: path}))
		}
		require.Equal(t, 503, w.code(authz.Attributes{User: authn.User{Name: authn.UserAnonymous}, Verb: "get", Path: "/healthz/x"}))
	})
}

func TestTheHostIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.grant("ann")
		require.Equal(t, 200, w.code(widgets("ann")))
		w.away.Store(true)
		time.Sleep(9 * time.Second)
		require.Equal(t, 200, w.code(widgets("ann")), "what is remembered counts")
		require.Equal(t, 503, w.code(widgets("bob")))
		time.Sleep(time.Second)
		require.Equal(t, 503, w.code(widgets("ann")))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 503, w.code(widgets("ann")))
		w.away.Store(false)
		require.Equal(t, 200, w.code(widgets("ann")), "a failure is not remembered")

		w.answer = func(r *http.Request) (*http.Response, error) { // it hangs
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		time.Sleep(time.Minute)
		began := time.Now()
		require.Equal(t, 503, w.code(widgets("ann")))
		require.Equal(t, 10*time.Second, time.Since(began))
		impatient, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		require.Error(t, authz.Require(impatient, w.z, widgets("ann")))
		require.Equal(t, time.Second, time.Since(began), "or as long as the client waits")
	})
}

func TestThoseWhoAskTheSameShareAQuestion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.grant("ann")
		release := make(chan struct{})
		w.answer = func(r *http.Request) (*http.Response, error) {
			<-release
			return w.host.Transport().RoundTrip(r)
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { require.Equal(t, 200, w.code(widgets("ann"))) })
		}
		synctest.Wait()
		close(release)
		all.Wait()
		require.Equal(t, int32(1), w.asks.Load())
	})
}

// Nothing but a clear yes allows.
func TestAnswersThatAreNone(t *testing.T) {
	const head = `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":`
	for name, c := range map[string]struct {
		code   int
		answer string
		want   int
	}{
		"HTML":               {200, "<html>", 503},
		"nothing":            {200, "", 503},
		"an empty answer":    {200, "{}", 403},
		"another kind":       {200, `{"apiVersion":"v1","kind":"Status","status":{"allowed":true}}`, 503},
		"a status":           {200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, 503},
		"a text for a truth": {200, head + `{"allowed":"true"}}`, 503},
		"twice":              {200, head + `{"allowed":false,"allowed":true}}`, 503},
		"both":               {200, head + `{"allowed":true,"denied":true}}`, 403},
		"a redirect":         {302, head + `{"allowed":true}}`, 503},
		"forbidden":          {403, head + `{"allowed":true}}`, 503},
		"a failure":          {500, head + `{"allowed":true}}`, 503},
		"endless":            {200, head + `{"allowed":true,"reason":"` + strings.Repeat("x", 2<<20) + `"}}`, 503},
		"yes":                {201, head + `{"allowed":true}}`, 200},
	} {
		inWorld(t, func(w *world) {
			w.answer = func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: c.code, Header: http.Header{"Location": {"http://169.254.169.254/"}}, Body: io.NopCloser(strings.NewReader(c.answer)), Request: r}, nil
			}
			require.Equal(t, c.want, w.code(widgets("ann")), name)
		})
	}
}

// Questions that differ in any part have different answers, whatever a client does to make them look
// alike.
func TestAPoisonedCache(t *testing.T) {
	inWorld(t, func(w *world) {
		fields, err := meta.ParseFieldSelector("metadata.name=a")
		require.NoError(t, err)
		labels, err := meta.ParseSelector("a=b")
		require.NoError(t, err)
		base := widgets("ann", "dev")
		asks := int32(0)
		for i, change := range []func(*authz.Attributes){
			func(*authz.Attributes) {},
			func(a *authz.Attributes) { a.User.Name = "ann2" },
			func(a *authz.Attributes) { a.User.UID = "dev" },
			func(a *authz.Attributes) { a.User.Groups = []string{"d", "ev"} },
			func(a *authz.Attributes) { a.User.Groups = []string{"dev", ""} },
			func(a *authz.Attributes) { a.User.Groups = []string{"dev\x00list"} },
			func(a *authz.Attributes) { a.User.Extra = map[string][]string{"k": {"v"}} },
			func(a *authz.Attributes) { a.User.Extra = map[string][]string{"k": {"v", ""}} },
			func(a *authz.Attributes) { a.User.Extra = map[string][]string{"k": {"v"}, "l": nil} },
			func(a *authz.Attributes) { a.User.Extra = map[string][]string{"k": nil, "l": {"v"}} },
			func(a *authz.Attributes) { a.Verb = "watch" },
			func(a *authz.Attributes) { a.Resource, a.Subresource = "widgets", "status" },
			func(a *authz.Attributes) { a.Resource = "widgets/status" },
			func(a *authz.Attributes) { a.Name = "default" },
			func(a *authz.Attributes) { a.Namespace, a.Name = "", "default" },
			func(a *authz.Attributes) { a.ResourceRequest = false },
			func(a *authz.Attributes) { a.Fields = fields },
			func(a *authz.Attributes) { a.Labels = labels },
			func(a *authz.Attributes) { a.Labels, a.Fields = labels, fields },
		} {
			a := base
			change(&a)
			w.code(a)
			asks++
			require.Equal(t, asks, w.asks.Load(), "change %d", i)
		}
		a := base
		a.User.Extra = map[string][]string{"l": nil, "k": {"v"}}
		w.code(a)
		require.Equal(t, asks, w.asks.Load(), "the order of facts does not matter")
		a.Name = strings.Repeat("x", 10_000)
		w.code(a)
		w.code(a)
		require.Equal(t, asks+2, w.asks.Load(), "what a client can make long is not remembered")
	})
}

func TestAUTHZ_17_SelectorsAreSent(t *testing.T) {
	inWorld(t, func(w *world) {
		var body string
		w.answer = func(r *http.Request) (*http.Response, error) {
			data, err := io.ReadAll(r.Body)
			body = string(data)
			return nil, errors.Join(err, errors.New("down"))
		}
		var err error
		a := widgets("ann")
		a.Labels, err = meta.ParseSelector("a=b,c>3")
		require.NoError(t, err)
		a.Fields, err = meta.ParseFieldSelector("spec.x!=1")
		require.NoError(t, err)
		require.Equal(t, 503, w.code(a))
		require.Contains(t, body, `"fieldSelector":{"requirements":[{"key":"spec.x","operator":"NotIn","values":["1"]}]}`)
		require.Contains(t, body, `"labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]}`)
	})
}

func TestBadOptions(t *testing.T) {
	_, err := delegated.New(delegated.Connection{}, delegated.Options{})
	require.ErrorContains(t, err, "no URL")
	host := delegated.Connection{URL: "https://kube.example"}
	_, err = delegated.New(host, delegated.Options{Paths: []string{"healthz"}})
	require.ErrorContains(t, err, "Paths")
	z, err := delegated.New(host, delegated.Options{})
	require.NoError(t, err)
	rules, err := z.Rules(t.Context(), authn.User{Name: "ann"}, "default")
	require.NoError(t, err)
	require.True(t, rules.Incomplete)
}

func BenchmarkRemembered(b *testing.B) {
	answers := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 201, Body: io.NopCloser(strings.NewReader(`{"status":{"allowed":true}}`)), Request: r}, nil
	}
	z, err := delegated.New(delegated.Connection{URL: "https://kube.example", Client: &http.Client{Transport: roundTripper(answers)}}, delegated.Options{AllowedTTL: time.Hour})
	require.NoError(b, err)
	a := widgets("system:serviceaccount:team-a:controller", "system:serviceaccounts", "system:serviceaccounts:team-a", authn.GroupAuthenticated)
	a.User.UID = "e3c1b2a4-1f2b-4a5d-9c3e-0b6f2a7d8e9f"
	a.User.Extra = map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=e3c1b2a4-1f2b-4a5d-9c3e-0b6f2a7d8e9f"}}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if d, _, err := z.Authorize(ctx, a); d != authz.Allow || err != nil {
			b.Fatal(d, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
