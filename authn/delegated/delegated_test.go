package delegated_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/delegated"
	"github.com/kindwright/kindwright/authn/token"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
)

// world is a host with an authenticator that asks it, in virtual time.
type world struct {
	t      *testing.T
	host   *apitest.Server
	maps   *client.Client[kinds.ConfigMap]
	away   atomic.Bool
	busy   atomic.Bool  // answers that it is, for a year
	asks   atomic.Int32 // token reviews
	answer string       // to token reviews, in place of the host's
	auth   *delegated.Authenticator
}

// RoundTrip is the connection to the host.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.away.Load() {
		return nil, errors.New("connection refused")
	}
	if w.busy.Load() {
		return &http.Response{
			StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"31536000"}}, Body: http.NoBody, Request: r,
		}, nil
	}
	if strings.HasSuffix(r.URL.Path, "tokenreviews") {
		w.asks.Add(1)
		if w.answer != "" {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(w.answer)), Request: r}, nil
		}
	}
	return w.host.Transport().RoundTrip(r)
}

func inWorld(t *testing.T, o delegated.Options, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tokens, err := token.Read(strings.NewReader("good,alice,7,\"dev,ops\"\n"))
		require.NoError(t, err)
		w := &world{t: t}
		w.host = apitest.Config{Options: []kindwright.Option{kindwright.Authenticate(tokens)}}.New(t, kinds.ConfigMaps())
		w.maps = client.For(w.host.Client(), client.Resource[kinds.ConfigMap]{Version: "v1", Plural: "configmaps"})
		w.auth, err = delegated.New(delegated.Connection{URL: w.host.URL, Client: &http.Client{Transport: w}}, o)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.auth.Run(ctx) }()
		test(w)
		stop()
		<-done
	})
}

// publish writes the config map of the host, nil for none, until the authenticator has heard of it.
func (w *world) publish(data map[string]string) {
	w.t.Helper()
	key := meta.Key{Namespace: "kube-system", Name: "extension-apiserver-authentication"}
	m, err := w.maps.Get(w.t.Context(), key)
	switch {
	case data == nil:
		err = w.maps.Delete(w.t.Context(), key)
	case err != nil:
		_, err = w.maps.Create(w.t.Context(), &kinds.ConfigMap{ObjectMeta: meta.Named(key.Namespace, key.Name), Data: data})
	default:
		m.Data = data
		_, err = w.maps.Update(w.t.Context(), m)
	}
	require.NoError(w.t, err)
	synctest.Wait()
}

func authority(t *testing.T, name string) *selfsigned.Authority {
	t.Helper()
	a, err := selfsigned.NewAuthority(name)
	require.NoError(t, err)
	return a
}

// from is the connection of somebody with a certificate.
func from(t *testing.T, a *selfsigned.Authority, name string, groups ...string) *tls.ConnectionState {
	t.Helper()
	pair, err := a.Client(name, groups...)
	require.NoError(t, err)
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
}

// ask sends a request and returns its user, "" for a 401, and the header fields that the handler sees.
func (w *world) ask(state *tls.ConnectionState, pairs ...string) (authn.User, http.Header) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/", nil)
	r.TLS = state
	for i := 0; i+1 < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	var u authn.User
	var seen http.Header
	answer := httptest.NewRecorder()
	authn.Middleware(authn.Union(w.auth, authn.Anonymous()))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		u, _ = authn.UserFrom(r.Context())
		seen = r.Header
	})).ServeHTTP(answer, r)
	require.Equal(w.t, u.Name == "", answer.Code == http.StatusUnauthorized)
	return u, seen
}

func settings(proxies, users string) map[string]string {
	return map[string]string{
		"client-ca-file": users, "requestheader-client-ca-file": proxies, "requestheader-allowed-names": `["front"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
		"requestheader-uid-headers": `["X-Remote-Uid"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
}

func without(data map[string]string, entry string) map[string]string {
	delete(data, entry)
	return data
}

func with(data map[string]string, entry, value string) map[string]string {
	data[entry] = value
	return data
}

var remote = []string{"X-Remote-User", "ann", "X-Remote-Uid", "9", "X-Remote-Group", "dev", "X-Remote-Group", "", "X-Remote-Extra-Acme%2Fscope", "a", "X-Remote-Extra-Acme%2Fscope", "b", "X-Remote-Extra-None", ""}

func TestAUTHN_21_TheHostSaysWhoIsAFrontProxy(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		proxies, users := authority(t, "proxies"), authority(t, "users")
		front := from(t, proxies, "front")
		u, _ := w.ask(front, remote...)
		require.Empty(t, u.Name, "before anything is known, nobody is a proxy")
		synctest.Wait()
		require.ErrorContains(t, w.auth.Check(t.Context()), "does not exist")

		w.publish(settings(string(proxies.PEM()), string(users.PEM())))
		require.NoError(t, w.auth.Check(t.Context()))
		u, seen := w.ask(front, remote...)
		require.Equal(t, "ann", u.Name)
		require.Equal(t, "9", u.UID)
		require.Equal(t, []string{"dev", "system:authenticated"}, u.Groups)
		require.Equal(t, map[string][]string{"acme/scope": {"a", "b"}, "none": {""}}, u.Extra)
		require.Empty(t, seen)
		u, _ = w.ask(from(t, users, "bob", "dev"))
		require.Equal(t, "bob", u.Name, "a user's own certificate")

		w.publish(without(settings(string(proxies.PEM()), string(users.PEM())), "requestheader-uid-headers"))
		u, seen = w.ask(front, remote...)
		require.Equal(t, "ann", u.Name)
		require.Empty(t, u.UID, "a host that does not name the field passes on what the client sent (trap 17)")
		require.Empty(t, seen)

		w.publish(with(settings(string(proxies.PEM()), string(users.PEM())), "requestheader-username-headers", `["X-Webauth-User"]`))
		u, seen = w.ask(front, "X-Webauth-User", "ann", "X_webauth_user", "mallory")
		require.Equal(t, "ann", u.Name)
		require.Empty(t, seen, "fields that the host names later are removed as well")
		u, _ = w.ask(front, remote...)
		require.Empty(t, u.Name, "a field that the host does not name any more")
	})
}

func TestA1_A2_ForgedFields(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		proxies, users, stranger := authority(t, "proxies"), authority(t, "users"), authority(t, "proxies")
		w.publish(settings(string(proxies.PEM()), string(users.PEM())))
		for name, c := range map[string]struct {
			state *tls.ConnectionState
			more  []string
			want  string
		}{
			"without TLS":              {nil, nil, authn.UserAnonymous},
			"without a certificate":    {&tls.ConnectionState{}, nil, authn.UserAnonymous},
			"of another authority":     {from(t, stranger, "front"), nil, ""},
			"of a user":                {from(t, users, "front"), nil, "front"}, // who is that user, whatever the fields say
			"another name":             {from(t, proxies, "backup"), nil, ""},
			"two users":                {from(t, proxies, "front"), []string{"X-Remote-User", "system:admin"}, ""},
			"two uids":                 {from(t, proxies, "front"), []string{"X-Remote-Uid", "0"}, ""},
			"a token beside":           {nil, []string{"Authorization", "Bearer good"}, "alice"},
			"an extra that is not one": {from(t, proxies, "front"), []string{"X-Remote-Extra-%zz", "0"}, ""},
		} {
			u, seen := w.ask(c.state, append(c.more, remote...)...)
			require.Equal(t, c.want, u.Name, name)
			require.Empty(t, seen, name)
			require.NotContains(t, u.Groups, "dev2", name)
		}
		u, seen := w.ask(from(t, proxies, "front"), "X_Remote_User", "mallory")
		require.Empty(t, u.Name, "another spelling names nobody")
		require.Empty(t, seen)
	})
}

// Trap 18: what the host takes away counts at the next request, also on a connection that is open.
func TestAUTHN_21_Rotation(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		users := authority(t, "users")
		old := authority(t, "old")
		w.publish(settings(string(old.PEM()), string(users.PEM())))
		for range 20 {
			next := authority(t, "next")
			before, after := from(t, old, "front"), from(t, next, "front")
			asks := func(state *tls.ConnectionState, want string) {
				t.Helper()
				u, _ := w.ask(state, remote...)
				require.Equal(t, want, u.Name)
			}
			asks(before, "ann")
			asks(after, "")
			w.publish(settings(string(old.PEM())+string(next.PEM()), string(users.PEM())))
			asks(before, "ann")
			asks(after, "ann")
			w.publish(settings(string(next.PEM()), string(users.PEM())))
			asks(before, "")
			asks(after, "ann")
			old = next
		}
		bob := from(t, users, "bob")
		u, _ := w.ask(bob)
		require.Equal(t, "bob", u.Name)
		w.publish(without(settings(string(old.PEM()), ""), "client-ca-file"))
		u, _ = w.ask(bob)
		require.Empty(t, u.Name, "users' authorities go in the same way")
		w.publish(nil)
		u, _ = w.ask(from(t, old, "front"), remote...)
		require.Empty(t, u.Name, "without the config map nobody is trusted")
		require.ErrorContains(t, w.auth.Check(t.Context()), "does not exist")
	})
}

// A host, or what stands before it, asks to be left alone for a year. A question about a token fails in
// time, and what the host takes away afterwards counts within a minute.
func TestAUTHN_21_AHostThatAsksForAYear(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		proxies := authority(t, "proxies")
		good := settings(string(proxies.PEM()), string(authority(t, "users").PEM()))
		w.publish(good)
		front := from(t, proxies, "front")
		w.busy.Store(true)
		began := time.Now()
		_, seen := w.ask(nil, "Authorization", "Bearer unknown")
		require.Nil(t, seen)
		require.Less(t, time.Since(began), time.Minute)
		time.Sleep(2 * time.Hour) // until the watch has ended
		w.busy.Store(false)
		w.publish(settings(string(authority(t, "others").PEM()), string(authority(t, "users").PEM())))
		time.Sleep(time.Minute)
		u, _ := w.ask(front, remote...)
		require.Empty(t, u.Name)
	})
}

func TestAUTHN_21_WhatCannotBeReadChangesNothing(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		proxies, users := authority(t, "proxies"), authority(t, "users")
		good := func() map[string]string { return settings(string(proxies.PEM()), string(users.PEM())) }
		front := from(t, proxies, "front")
		w.publish(good())
		half := string(proxies.PEM())[:200]
		for name, bad := range map[string]map[string]string{
			"garbage":                   with(good(), "requestheader-client-ca-file", "garbage"),
			"half a certificate":        with(good(), "requestheader-client-ca-file", half),
			"one good, half of another": with(good(), "requestheader-client-ca-file", string(proxies.PEM())+half),
			"an empty certificate":      with(good(), "client-ca-file", ""),
			"a key":                     with(good(), "client-ca-file", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"),
			"names that are no list":    with(good(), "requestheader-allowed-names", `{"front":true}`),
			"names that are no JSON":    with(good(), "requestheader-allowed-names", `front`),
			"names that are null":       with(good(), "requestheader-allowed-names", `null`),
			"no names":                  without(good(), "requestheader-allowed-names"),
			"no user field":             without(good(), "requestheader-username-headers"),
			"a field of its own use":    with(good(), "requestheader-username-headers", `["Authorization"]`),
			"all may be proxies": with(with(good(), "requestheader-allowed-names", `[]`),
				"client-ca-file", string(proxies.PEM())),
		} {
			w.publish(bad)
			require.ErrorContains(t, w.auth.Check(t.Context()), "last good settings", name)
			u, _ := w.ask(front, remote...)
			require.Equal(t, "ann", u.Name, name)
			w.publish(good())
			require.NoError(t, w.auth.Check(t.Context()), name)
		}
		w.publish(with(good(), "requestheader-allowed-names", `[]`))
		u, _ := w.ask(from(t, proxies, "any"), remote...)
		require.Equal(t, "ann", u.Name, "an empty list stands for all names")
		w.publish(map[string]string{})
		u, _ = w.ask(front, remote...)
		require.Empty(t, u.Name, "what is not published counts as taken away")
		require.ErrorContains(t, w.auth.Check(t.Context()), "no requestheader-client-ca-file")
	})
}

func TestREVIEW_06_TheHostKnowsTokens(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		bearer := func(token string) string {
			u, seen := w.ask(nil, "Authorization", "Bearer "+token)
			require.Empty(t, seen)
			return u.Name
		}
		require.Equal(t, "alice", bearer("good"))
		require.Equal(t, "alice", bearer("good"))
		require.Empty(t, bearer("bad"))
		require.Empty(t, bearer("bad"))
		require.Equal(t, int32(2), w.asks.Load(), "answers are remembered")
		require.Empty(t, bearer(strings.Repeat("x", authn.MaxTokenBytes+1)))
		require.Equal(t, int32(2), w.asks.Load(), "nobody is asked about a huge token")

		w.away.Store(true)
		time.Sleep(9 * time.Second)
		require.Equal(t, "alice", bearer("good"), "the host is away: what is remembered counts")
		require.Empty(t, bearer("other"))
		time.Sleep(2 * time.Second)
		require.Empty(t, bearer("good"), "for ten seconds")
		w.away.Store(false)
		require.Equal(t, "alice", bearer("good"), "failures are not remembered")
	})
}

// A flood of unknown tokens does not push out the known ones, nor do answers collide.
func TestAPoisonedCache(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		u, _ := w.ask(nil, "Authorization", "Bearer good")
		require.Equal(t, "alice", u.Name)
		for i := range 5000 {
			u, _ := w.ask(nil, "Authorization", "Bearer good"+strings.Repeat("x", 1+i%7)+time.Duration(i).String())
			require.Empty(t, u.Name)
		}
		asked := w.asks.Load()
		u, _ = w.ask(nil, "Authorization", "Bearer good")
		require.Equal(t, "alice", u.Name)
		require.Equal(t, asked, w.asks.Load())
	})
}

// Whatever the host answers, a token that it does not clearly accept for this server is refused.
func TestAnswersThatAreNone(t *testing.T) {
	const head = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":`
	for name, answer := range map[string]string{
		"HTML": "<html>", "nothing": "", "null": "null", "a list": "[]",
		"another kind":       `{"apiVersion":"v1","kind":"Status","status":{"authenticated":true,"user":{"username":"root"}}}`,
		"another version":    strings.Replace(head, "/v1", "/v1beta1", 1) + `{"authenticated":true,"user":{"username":"root"},"audiences":["fleet"]}}`,
		"no user":            head + `{"authenticated":true,"audiences":["fleet"]}}`,
		"anonymous":          head + `{"authenticated":true,"user":{"username":"system:anonymous"},"audiences":["fleet"]}}`,
		"not authenticated":  head + `{"user":{"username":"root"},"audiences":["fleet"]}}`,
		"a text for a truth": head + `{"authenticated":"true","user":{"username":"root"},"audiences":["fleet"]}}`,
		"twice":              head + `{"authenticated":false,"authenticated":true,"user":{"username":"root"}}}`,
		"another audience":   head + `{"authenticated":true,"user":{"username":"root"},"audiences":["kube"]}}`,
		"endless":            head + `{"authenticated":true,"user":{"username":"` + strings.Repeat("r", 2<<20) + `"},"audiences":["fleet"]}}`,
	} {
		inWorld(t, delegated.Options{Audiences: []string{"fleet"}}, func(w *world) {
			w.answer = answer
			u, _ := w.ask(nil, "Authorization", "Bearer good")
			require.Empty(t, u.Name, name)
		})
	}
	inWorld(t, delegated.Options{Audiences: []string{"fleet"}}, func(w *world) {
		w.answer = head + `{"authenticated":true,"user":{"username":"root"},"audiences":["fleet"]}}`
		u, _ := w.ask(nil, "Authorization", "Bearer good")
		require.Equal(t, "root", u.Name)
	})
}

func TestTheHostIsAway(t *testing.T) {
	inWorld(t, delegated.Options{}, func(w *world) {
		proxies, users := authority(t, "proxies"), authority(t, "users")
		w.publish(settings(string(proxies.PEM()), string(users.PEM())))
		w.away.Store(true)
		time.Sleep(10 * time.Minute)
		u, _ := w.ask(from(t, proxies, "front"), remote...)
		require.Equal(t, "ann", u.Name, "the last settings stay in use")
		began := time.Now()
		u, _ = w.ask(nil, "Authorization", "Bearer good")
		require.Empty(t, u.Name)
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
	})
}

func TestAConnectionIsRequired(t *testing.T) {
	_, err := delegated.New(delegated.Connection{}, delegated.Options{})
	require.ErrorContains(t, err, "no URL")
}

func TestAConnectionFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.yaml")
	require.NoError(t, os.WriteFile(path, []byte("current-context: c\ncontexts: [{name: c, context: {cluster: h, user: u}}]\nclusters: [{name: h, cluster: {server: 'https://kube.example/prefix'}}]\nusers: [{name: u, user: {token: t}}]\n"), 0o600))
	host, err := delegated.ReadConnection(path, func(err error) { require.NoError(t, err) })
	require.NoError(t, err)
	require.Equal(t, "https://kube.example/prefix/apis", host.At("/apis").URL)
	_, err = delegated.New(host, delegated.Options{CacheTTL: -1})
	require.NoError(t, err)
}
