package serviceaccount_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

const (
	issuer     = "https://issuer.example.dev"
	accountsOf = "serviceaccounts"
)

// world is what a server would have: objects, and tokens about them.
type world struct {
	tokens *serviceaccount.Tokens
	check  authn.Authenticator

	mu      sync.Mutex
	objects map[string]*watch.Entry
}

func newWorld(t testing.TB, o serviceaccount.Options) *world {
	t.Helper()
	if o.Issuers == nil {
		o.Issuers = []string{issuer}
	}
	if o.Keys == nil {
		key := ecKey(t)
		var err error
		o.Signer, err = serviceaccount.NewSigner(key)
		require.NoError(t, err)
		o.Keys, err = serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key.Public()})
		require.NoError(t, err)
	}
	w := &world{objects: map[string]*watch.Entry{}}
	var err error
	w.tokens, err = serviceaccount.New(o)
	require.NoError(t, err)
	w.check = w.tokens.Authenticator(w.get)
	return w
}

func (w *world) get(_ context.Context, of meta.GroupVersionResource, namespace, name string) (*watch.Entry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.objects[of.Resource+"/"+namespace+"/"+name]; e != nil {
		return e, nil
	}
	return nil, status.NotFound(of.GroupResource(), name)
}

// put makes an object. more is the rest of its text, which begins with a comma.
func (w *world) put(resource, namespace, name string, uid meta.UID, more string, labels ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	facts := watch.Facts{Namespace: namespace, Name: name, UID: uid}
	if len(labels) > 0 {
		facts.Labels = meta.NewLabelSet(map[string]string{labels[0]: labels[1]})
	}
	body := watch.Body{Prefix: []byte(`{"metadata":{`), Suffix: []byte(fmt.Sprintf(`"name":%q,"uid":%q}%s}`, name, uid, more))}
	w.objects[resource+"/"+namespace+"/"+name] = watch.NewEntry(name, 1, body, facts)
}

// remove deletes an object, or with a time marks it as one that ends then.
func (w *world) remove(resource, namespace, name string, ends ...time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := resource + "/" + namespace + "/" + name
	if len(ends) > 0 {
		facts := w.objects[key].Facts()
		facts.Deleted = &ends[0]
		w.objects[key] = watch.NewEntry(name, 1, w.objects[key].Body(), facts)
		return
	}
	delete(w.objects, key)
}

func (w *world) issue(asked serviceaccount.TokenRequest) (*serviceaccount.TokenRequest, error) {
	robot := serviceaccount.Account{Namespace: "default", Name: "robot", UID: "u1"}
	return w.tokens.Issue(context.Background(), robot, asked, w.get)
}

func (w *world) token(t testing.TB, asked serviceaccount.TokenRequest) string {
	t.Helper()
	answer, err := w.issue(asked)
	require.NoError(t, err)
	return answer.Status.Token
}

func request(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func (w *world) accepts(t testing.TB, token string) authn.User {
	t.Helper()
	u, ok, err := w.check.Authenticate(request(token))
	require.NoError(t, err)
	require.True(t, ok)
	return u
}

func (w *world) rejects(t testing.TB, token, why string) {
	t.Helper()
	_, ok, err := w.check.Authenticate(request(token))
	require.False(t, ok)
	require.ErrorContains(t, err, why)
}

func bound(kind, name string, uid meta.UID) (r serviceaccount.TokenRequest) {
	r.Spec.BoundObjectRef = &serviceaccount.BoundObjectReference{Kind: kind, APIVersion: "v1", Name: name, UID: uid}
	return r
}

func payload(t testing.TB, token string) map[string]any {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	require.NoError(t, err)
	claims := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &claims))
	return claims
}

func TestOptions(t *testing.T) {
	keys, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: ecKey(t).Public()})
	require.NoError(t, err)
	for want, o := range map[string]serviceaccount.Options{
		"an issuer is required":      {Keys: keys},
		"an issuer is empty":         {Keys: keys, Issuers: []string{""}},
		`"a" is given twice`:         {Keys: keys, Issuers: []string{"a", "a"}},
		"there is no key":            {Issuers: []string{"a"}},
		"lifetime -1s is negative":   {Keys: keys, Issuers: []string{"a"}, MaxLifetime: -time.Second},
		"tokens of service accounts": {},
	} {
		_, err := serviceaccount.New(o)
		require.ErrorContains(t, err, want)
	}
	w := newWorld(t, serviceaccount.Options{Keys: keys})
	_, ok, err := w.tokens.Authenticate(request("x"))
	require.False(t, ok)
	require.ErrorContains(t, err, "belongs to no server")
	require.Equal(t, []string{issuer}, w.tokens.Audiences())
}

func TestSAT_02_SAT_04_ClaimsAndUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, serviceaccount.Options{})
		w.put(accountsOf, "default", "robot", "u1", "")
		w.put("pods", "default", "p", "u2", `,"spec":{"serviceAccountName":"robot","nodeName":"n"}`)
		w.put("nodes", "", "n", "u3", "")
		answer, err := w.issue(bound("Pod", "p", "u2"))
		require.NoError(t, err)
		now := time.Now()
		require.Equal(t, now.Add(time.Hour).Unix(), answer.Status.ExpirationTimestamp.Unix())
		claims := payload(t, answer.Status.Token)
		id, _ := claims["jti"].(string)
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
		at := float64(now.Unix())
		require.Equal(t, map[string]any{
			"iss": issuer, "sub": "system:serviceaccount:default:robot", "aud": []any{issuer}, "jti": id,
			"iat": at, "nbf": at, "exp": at + 3600,
			"kubernetes.io": map[string]any{
				"namespace": "default", "serviceaccount": map[string]any{"name": "robot", "uid": "u1"},
				"pod": map[string]any{"name": "p", "uid": "u2"}, "node": map[string]any{"name": "n", "uid": "u3"},
			},
		}, claims)
		require.Equal(t, authn.User{
			Name: "system:serviceaccount:default:robot", UID: "u1", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default"},
			Audiences: []string{issuer}, Expires: now.Add(time.Hour).Truncate(time.Second).Local(), Method: "serviceaccount", Issuer: issuer,
			Extra: map[string][]string{
				"authentication.kubernetes.io/credential-id": {"JTI=" + id},
				"authentication.kubernetes.io/pod-name":      {"p"}, "authentication.kubernetes.io/pod-uid": {"u2"},
				"authentication.kubernetes.io/node-name": {"n"}, "authentication.kubernetes.io/node-uid": {"u3"},
			},
		}, w.accepts(t, answer.Status.Token))
	})
}

func TestSAT_03_TheObjectsOfNowDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, serviceaccount.Options{})
		w.put(accountsOf, "default", "robot", "u1", "")
		for _, of := range []struct{ kind, resource, namespace string }{{"Pod", "pods", "default"}, {"Secret", "secrets", "default"}, {"Node", "nodes", ""}} {
			put := func(uid meta.UID) {
				w.put(of.resource, of.namespace, "x", uid, `,"spec":{"serviceAccountName":"robot"}`)
			}
			_, err := w.issue(bound(of.kind, "x", ""))
			require.True(t, status.IsNotFound(err), "%v", err)
			put("u2")
			_, err = w.issue(bound(of.kind, "x", "other"))
			require.True(t, status.IsConflict(err), "%v", err)
			token := w.token(t, bound(of.kind, "x", ""))
			w.accepts(t, token)
			w.remove(of.resource, of.namespace, "x", time.Now().Add(time.Minute))
			w.accepts(t, token)
			time.Sleep(time.Minute)
			w.rejects(t, token, "is being deleted")
			w.remove(of.resource, of.namespace, "x")
			w.rejects(t, token, of.resource+` "x" is gone`)
			put("u3")
			w.rejects(t, token, "is gone, although there is one of this name")
			put("u2")
			w.accepts(t, token)
		}
		token := w.token(t, serviceaccount.TokenRequest{})
		w.put(accountsOf, "default", "robot", "u4", "")
		w.rejects(t, token, "is gone, although")
		w.put(accountsOf, "default", "robot", "u1", "")
		w.accepts(t, token)
		time.Sleep(time.Hour)
		w.rejects(t, token, "has expired")
	})
}

func TestSAT_03_WhatIsNotBound(t *testing.T) {
	w := newWorld(t, serviceaccount.Options{})
	w.put("pods", "default", "p", "u2", `,"spec":{"serviceAccountName":"other"}`)
	_, err := w.issue(bound("Pod", "p", ""))
	require.ErrorContains(t, err, `cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.`)
	_, err = w.issue(bound("ConfigMap", "p", ""))
	require.ErrorContains(t, err, "cannot bind token to object of type /v1, Kind=ConfigMap")
	asked := bound("Pod", "p", "")
	asked.Spec.BoundObjectRef.APIVersion = "v2/v1"
	_, err = w.issue(asked)
	require.ErrorContains(t, err, "cannot bind token to object of type v2/v1, Kind=Pod")
	_, err = w.issue(serviceaccount.TokenRequest{ObjectMeta: meta.ObjectMeta{UID: "old"}})
	require.ErrorContains(t, err, "the UID in the token request (old) does not match the UID of the service account (u1)")
}

func TestSAT_01_LifetimesAndExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, serviceaccount.Options{Audiences: []string{"api", "other"}, Extend: true, MaxLifetime: 2 * time.Hour})
		w.put(accountsOf, "default", "robot", "u1", "")
		w.put("pods", "default", "p", "u2", `,"spec":{"serviceAccountName":"robot"}`)
		ask := func(seconds int64, pod bool, audiences ...string) (asked int64, lasts, warns float64) {
			r := serviceaccount.TokenRequest{}
			if pod {
				r = bound("Pod", "p", "")
			}
			r.Spec.Audiences, r.Spec.ExpirationSeconds = audiences, &seconds
			answer, err := w.issue(r)
			require.NoError(t, err)
			claims := payload(t, answer.Status.Token)
			issued, _ := claims["iat"].(float64)
			ends, _ := claims["exp"].(float64)
			private, _ := claims["kubernetes.io"].(map[string]any)
			if at, ok := private["warnafter"].(float64); ok {
				warns = at - issued
			}
			require.Equal(t, *answer.Spec.ExpirationSeconds, answer.Status.ExpirationTimestamp.Unix()-int64(issued))
			return *answer.Spec.ExpirationSeconds, ends - issued, warns
		}
		for _, c := range []struct {
			seconds      int64
			pod          bool
			audiences    []string
			asked        int64
			lasts, warns float64
		}{
			{3607, true, nil, 3607, 365 * 24 * 3600, 3607},
			{3607, true, []string{"api"}, 3607, 365 * 24 * 3600, 3607},
			{3607, true, []string{"api", "bank"}, 3607, 3607, 0},
			{3607, false, nil, 3607, 3607, 0},
			{3608, true, nil, 3608, 3608, 0},
			{7200, false, nil, 7200, 7200, 0},
			{7201, false, nil, 7200, 7200, 0},
		} {
			asked, lasts, warns := ask(c.seconds, c.pod, c.audiences...)
			require.Equal(t, []any{c.asked, c.lasts, c.warns}, []any{asked, lasts, warns}, "%+v", c)
		}
		for seconds, want := range map[int64]string{599: "may not specify a duration less than 10 minutes", 600: "", 1 << 32: "", 1<<32 + 1: "may not specify a duration larger than 2^32 seconds"} {
			var f status.Fields
			spec := serviceaccount.TokenRequestSpec{ExpirationSeconds: &seconds}
			if spec.Validate(&f); want == "" {
				require.Zero(t, f.Len())
			} else {
				require.Equal(t, want, f.Errors()[0].Detail)
			}
		}
	})
}

func TestSAT_03_AudiencesOfAReview(t *testing.T) {
	w := newWorld(t, serviceaccount.Options{Audiences: []string{"api", "more"}})
	w.put(accountsOf, "default", "robot", "u1", "")
	ask := func(audiences ...string) string {
		return w.token(t, serviceaccount.TokenRequest{Spec: serviceaccount.TokenRequestSpec{Audiences: audiences}})
	}
	require.Equal(t, []string{"api", "more"}, w.accepts(t, ask()).Audiences)
	require.Equal(t, []string{"api"}, w.accepts(t, ask("bank", "api")).Audiences)
	w.rejects(t, ask("bank"), "other audiences")
	review := func(token string, audiences ...string) authn.TokenReviewStatus {
		return authn.ReviewToken(t.Context(), w.check, authn.TokenReviewSpec{Token: token, Audiences: audiences})
	}
	require.Equal(t, []string{"bank"}, review(ask("bank", "api"), "shop", "bank").Audiences)
	require.False(t, review(ask("bank", "api"), "shop").Authenticated)
	require.True(t, review(ask("api")).Authenticated)
}

// external signs with keys that the library does not have.
type external func(claims []byte) (string, error)

func (f external) Sign(_ context.Context, claims []byte) (string, error) { return f(claims) }

func TestExternalSigners(t *testing.T) {
	key := ecKey(t)
	good, err := serviceaccount.NewSigner(key)
	require.NoError(t, err)
	keys, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key.Public()})
	require.NoError(t, err)
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for want, sign := range map[string]external{
		"":                       func(c []byte) (string, error) { return good.Sign(t.Context(), c) },
		"no connection":          func([]byte) (string, error) { return "", errors.New("no connection") },
		"compact form":           func([]byte) (string, error) { return "x", nil },
		"has changed the claims": func([]byte) (string, error) { return good.Sign(t.Context(), []byte(`{"sub":"system:admin"}`)) },
		"names no key":           func(c []byte) (string, error) { return part(`{"alg":"ES256"}`) + "." + part(string(c)) + ".c2ln", nil },
		"algorithm that is not": func(c []byte) (string, error) {
			return part(`{"alg":"HS256","kid":"k"}`) + "." + part(string(c)) + ".c2ln", nil
		},
	} {
		w := newWorld(t, serviceaccount.Options{Signer: sign, Keys: keys})
		w.put(accountsOf, "default", "robot", "u1", "")
		answer, err := w.issue(serviceaccount.TokenRequest{})
		if want == "" {
			require.NoError(t, err)
			w.accepts(t, answer.Status.Token)
			continue
		}
		require.ErrorContains(t, errors.Unwrap(err), want, "the cause is for the log")
	}
}

func TestSAT_06_Documents(t *testing.T) {
	one, two, hidden := ecKey(t), ecKey(t), ecKey(t)
	keys, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: one.Public()}, serviceaccount.PublicKey{ID: "second", Key: two.Public()},
		serviceaccount.PublicKey{Key: hidden.Public(), Unpublished: true})
	require.NoError(t, err)
	w := newWorld(t, serviceaccount.Options{Keys: keys})
	serve, err := w.tokens.Documents("https://api.example.dev/openid/v1/jwks")
	require.NoError(t, err)
	h := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	ask := func(method, path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
		return answer
	}
	for path, media := range map[string]string{
		serviceaccount.ConfigurationPath: "application/json", serviceaccount.ConfigurationPath + "/": "application/json",
		serviceaccount.KeysPath: "application/jwk-set+json", serviceaccount.KeysPath + "/": "application/jwk-set+json",
	} {
		answer := ask(http.MethodGet, path)
		require.Equal(t, 200, answer.Code)
		require.Equal(t, media, answer.Header().Get("Content-Type"))
		require.Equal(t, "public, max-age=3600", answer.Header().Get("Cache-Control"))
		require.Equal(t, 405, ask(http.MethodPost, path).Code)
	}
	require.Equal(t, 418, ask(http.MethodGet, "/openid/v1/jwks2").Code)
	require.JSONEq(t, `{"issuer":"https://issuer.example.dev","jwks_uri":"https://api.example.dev/openid/v1/jwks","response_types_supported":["id_token"],
		"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}`, ask(http.MethodGet, serviceaccount.ConfigurationPath).Body.String())
	var set struct{ Keys []map[string]any }
	require.NoError(t, json.Unmarshal(ask(http.MethodGet, serviceaccount.KeysPath).Body.Bytes(), &set))
	require.Len(t, set.Keys, 2)
	require.Equal(t, "second", set.Keys[1]["kid"])
	for _, k := range set.Keys {
		require.Equal(t, []any{"sig", "EC", "ES256", "P-256"}, []any{k["use"], k["kty"], k["alg"], k["crv"]})
		require.NotContains(t, k, "d")
	}

	for _, bad := range []string{"http://x/openid/v1/jwks", "https://x/%zz", ""} {
		_, err := w.tokens.Documents(bad)
		require.Error(t, err, bad)
	}
	for _, bad := range []string{"kubernetes/serviceaccount", "http://x", "https://x?y=z", "https://x#y"} {
		_, err := newWorld(t, serviceaccount.Options{Issuers: []string{bad}, Keys: keys}).tokens.Documents("https://x/openid/v1/jwks")
		require.Error(t, err, bad)
	}
}
