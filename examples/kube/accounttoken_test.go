package kube

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/jws"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	issuer    = "https://issuer.example.dev"
	robots    = "/api/v1/namespaces/default/serviceaccounts"
	robotsOwn = robots + "/robot/token"
	secrets   = "/api/v1/namespaces/default/secrets"
	whoami    = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
)

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return key
}

// issuing makes tokens that the first key signs, and that are accepted with all keys.
func issuing(t *testing.T, o serviceaccount.Options, keys ...crypto.Signer) *serviceaccount.Tokens {
	t.Helper()
	var err error
	o.Signer, err = serviceaccount.NewSigner(keys[0])
	require.NoError(t, err)
	var all []serviceaccount.PublicKey
	for _, key := range keys {
		all = append(all, serviceaccount.PublicKey{Key: key.Public()})
	}
	o.Keys, err = serviceaccount.NewKeySet(all...)
	require.NoError(t, err)
	if o.Issuers == nil {
		o.Issuers = []string{issuer}
	}
	tokens, err := serviceaccount.New(o)
	require.NoError(t, err)
	return tokens
}

// withTokens serves clients with tokens of service accounts, and the administrator without one. There is the
// account robot.
func withTokens(t *testing.T, o serviceaccount.Options, keys ...crypto.Signer) *target {
	t.Helper()
	tokens := issuing(t, o, keys...)
	without := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		if authn.HasCredential(r) {
			return authn.User{}, false, nil
		}
		return administrator{}.Authenticate(r)
	})
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Serve(Kinds(Options{Tokens: tokens})), kindwright.Authorize(authz.AlwaysAllow()), kindwright.Authenticate(without, tokens))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	listening := httptest.NewServer(srv)
	t.Cleanup(func() {
		stop()
		srv.Wait()
		listening.CloseClientConnections()
		listening.Close()
		require.NoError(t, db.Close())
	})
	s := &target{url: listening.URL, http: listening.Client()}
	s.must(t, 201, "POST", robots, `{"metadata":{"name":"robot"}}`)
	return s
}

// get asks for a token of robot.
func (s *target) get(t *testing.T, spec string) string {
	t.Helper()
	return word(at(s.must(t, 201, "POST", robotsOwn, `{"spec":{`+spec+`}}`), "status", "token"))
}

// who returns the code and the user of a request with a token.
func (s *target) who(t *testing.T, token string) (int, map[string]any) {
	t.Helper()
	code, got := s.do(t, "POST", whoami, `{}`, "Authorization", "Bearer "+token)
	user, _ := at(got, "status", "userInfo").(map[string]any)
	return code, user
}

func (s *target) requireCode(t *testing.T, code int, token, why string) {
	t.Helper()
	got, _ := s.who(t, token)
	require.Equal(t, code, got, why)
}

// payload returns the claims of a token.
func payload(t *testing.T, token string) map[string]any {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	require.NoError(t, err)
	claims := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &claims))
	return claims
}

func TestSAT_02_SAT_04_ATokenIsItsAccount(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, key := range map[string]crypto.Signer{
		"RSA": rsaKey, "P-256": ecKey(t, elliptic.P256()), "P-384": ecKey(t, elliptic.P384()), "P-521": ecKey(t, elliptic.P521()),
	} {
		t.Run(name, func(t *testing.T) {
			s := withTokens(t, serviceaccount.Options{}, key)
			node := word(at(s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"n"}}`), "metadata", "uid"))
			pod := word(at(s.must(t, 201, "POST", podsPath, podNamed("p", `"serviceAccountName":"robot","nodeName":"n",`)), "metadata", "uid"))
			account := word(at(s.must(t, 200, "GET", robots+"/robot", ""), "metadata", "uid"))

			plain := s.get(t, "")
			claims := payload(t, plain)
			code, user := s.who(t, plain)
			require.Equal(t, 201, code)
			require.Equal(t, map[string]any{
				"username": "system:serviceaccount:default:robot", "uid": account,
				"groups": []any{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
				"extra":  map[string]any{"authentication.kubernetes.io/credential-id": []any{"JTI=" + word(claims["jti"])}},
			}, user)
			require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, claims["jti"])
			require.Equal(t, []any{issuer}, claims["aud"])

			bound := s.get(t, `"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":"`+pod+`"}`)
			require.Equal(t, map[string]any{
				"namespace": "default", "serviceaccount": map[string]any{"name": "robot", "uid": account},
				"pod": map[string]any{"name": "p", "uid": pod}, "node": map[string]any{"name": "n", "uid": node},
			}, payload(t, bound)["kubernetes.io"])
			_, user = s.who(t, bound)
			delete(user["extra"].(map[string]any), "authentication.kubernetes.io/credential-id")
			require.Equal(t, map[string]any{
				"authentication.kubernetes.io/pod-name": []any{"p"}, "authentication.kubernetes.io/pod-uid": []any{pod},
				"authentication.kubernetes.io/node-name": []any{"n"}, "authentication.kubernetes.io/node-uid": []any{node},
			}, user["extra"])
		})
	}
}

func TestSAT_01_WhatIsAskedFor(t *testing.T) {
	s := withTokens(t, serviceaccount.Options{Audiences: []string{"api", "other"}, Extend: true}, ecKey(t, elliptic.P256()))
	uid := word(at(s.must(t, 200, "GET", robots+"/robot", ""), "metadata", "uid"))
	s.must(t, 422, "POST", robotsOwn, `{"spec":{"expirationSeconds":599}}`)
	s.must(t, 422, "POST", robotsOwn, `{"spec":{"expirationSeconds":4294967297}}`)
	s.must(t, 422, "POST", robotsOwn, `{"metadata":{"name":"other"},"spec":{}}`)
	mismatch := s.must(t, 409, "POST", robotsOwn, `{"metadata":{"uid":"earlier"},"spec":{}}`)
	require.Contains(t, mismatch["message"], "the UID in the token request (earlier) does not match the UID of the service account ("+uid+")")
	answer := s.must(t, 201, "POST", robotsOwn, `{"metadata":{"uid":"`+uid+`"},"spec":{}}`)
	require.Equal(t, uid, at(answer, "metadata", "uid"))
	require.Equal(t, "robot", at(answer, "metadata", "name"))
	require.Equal(t, []any{"api", "other"}, at(answer, "spec", "audiences"))
	require.EqualValues(t, 3600, at(answer, "spec", "expirationSeconds"))

	// What nodes ask for is valid for a year, if it is for the server.
	s.must(t, 201, "POST", podsPath, podNamed("p", `"serviceAccountName":"robot",`))
	for _, c := range []struct {
		spec  string
		lasts float64
	}{
		{`"expirationSeconds":3607,"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"}`, 365 * 24 * 3600},
		{`"expirationSeconds":3607,"audiences":["api"],"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"}`, 365 * 24 * 3600},
		{`"expirationSeconds":3607,"audiences":["elsewhere"],"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"}`, 3607},
		{`"expirationSeconds":3608,"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"}`, 3608},
		{`"expirationSeconds":3607`, 3607},
	} {
		answer := s.must(t, 201, "POST", robotsOwn, `{"spec":{`+c.spec+`}}`)
		claims := payload(t, word(at(answer, "status", "token")))
		require.Equal(t, c.lasts, claims["exp"].(float64)-claims["iat"].(float64), c.spec)
		ends, err := time.Parse(time.RFC3339, word(at(answer, "status", "expirationTimestamp")))
		require.NoError(t, err)
		require.EqualValues(t, at(answer, "spec", "expirationSeconds"), float64(ends.Unix())-claims["iat"].(float64), "the status tells what was asked for")
		if warn := at(claims, "kubernetes.io", "warnafter"); c.lasts > 3608 {
			require.Equal(t, 3607.0, warn.(float64)-claims["iat"].(float64))
		} else {
			require.Nil(t, warn, c.spec)
		}
	}
}

// A9: the objects of now count, and their uids.
func TestSAT_03_A9_ATokenEndsWithWhatItIsBoundTo(t *testing.T) {
	s := withTokens(t, serviceaccount.Options{}, ecKey(t, elliptic.P256()))
	pod, secret, node := podNamed("x", `"serviceAccountName":"robot",`), `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x"}}`
	for _, c := range []struct{ kind, path, body string }{{"Pod", podsPath, pod}, {"Secret", secrets, secret}, {"Node", "/api/v1/nodes", node}} {
		s.must(t, 201, "POST", c.path, c.body)
		token := s.get(t, `"boundObjectRef":{"apiVersion":"v1","kind":"`+c.kind+`","name":"x"}`)
		s.requireCode(t, 201, token, c.kind)
		s.must(t, 200, "DELETE", c.path+"/x?gracePeriodSeconds=0", "")
		s.requireCode(t, 401, token, c.kind+" is gone")
		s.must(t, 201, "POST", c.path, c.body)
		s.requireCode(t, 401, token, "another "+c.kind)
		s.requireCode(t, 201, s.get(t, `"boundObjectRef":{"apiVersion":"v1","kind":"`+c.kind+`","name":"x"}`), c.kind)
	}
	free := s.get(t, "")
	s.requireCode(t, 201, free, "not bound")
	s.must(t, 200, "PATCH", robots+"/robot", `{"metadata":{"finalizers":["example.dev/keep"]}}`, "Content-Type", merge)
	s.must(t, 200, "DELETE", robots+"/robot", "")
	s.requireCode(t, 401, free, "the account is being deleted")
	s.must(t, 200, "PATCH", robots+"/robot", `{"metadata":{"finalizers":null}}`, "Content-Type", merge)
	s.requireCode(t, 401, free, "the account is gone")
	s.must(t, 201, "POST", robots, `{"metadata":{"name":"robot"}}`)
	s.requireCode(t, 401, free, "another account")
}

// A pod that has time to end keeps its token until then.
func TestSAT_03_APodThatEndsKeepsItsToken(t *testing.T) {
	s := withTokens(t, serviceaccount.Options{}, ecKey(t, elliptic.P256()))
	s.must(t, 201, "POST", "/api/v1/nodes", `{"metadata":{"name":"n"}}`)
	s.must(t, 201, "POST", podsPath, podNamed("p", `"serviceAccountName":"robot","nodeName":"n",`))
	token := s.get(t, `"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"}`)
	s.must(t, 200, "DELETE", podsPath+"/p?gracePeriodSeconds=3600", "")
	s.requireCode(t, 201, token, "it has an hour")
	s.must(t, 200, "DELETE", podsPath+"/p?gracePeriodSeconds=0", "")
	s.requireCode(t, 401, token, "it is gone")
}

func TestSAT_03_AUTHN_07_08_Audiences(t *testing.T) {
	s := withTokens(t, serviceaccount.Options{}, ecKey(t, elliptic.P256()))
	s.requireCode(t, 201, s.get(t, `"audiences":["x","`+issuer+`"]`), "one is ours")
	elsewhere := s.get(t, `"audiences":["x","`+issuer+`/"]`)
	s.requireCode(t, 401, elsewhere, "none is ours")
	review := s.must(t, 201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"`+elsewhere+`","audiences":["x","y"]}}`)
	require.Equal(t, true, at(review, "status", "authenticated"))
	require.Equal(t, []any{"x"}, at(review, "status", "audiences"))
	require.Equal(t, "system:serviceaccount:default:robot", at(review, "status", "user", "username"))
	review = s.must(t, 201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"`+elsewhere+`"}}`)
	require.Nil(t, at(review, "status", "authenticated"))
}

// forge makes a token that a server might take for one of its own.
func forge(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	require.NoError(t, err)
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return text
}

func TestSAT_03_J1_J2_J4_J6_ForgedTokens(t *testing.T) {
	key, stranger := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P256())
	s := withTokens(t, serviceaccount.Options{Issuers: []string{issuer, "https://before.example.dev"}}, key)
	good := s.get(t, "")
	id, err := jws.KeyID(key.Public())
	require.NoError(t, err)
	with := func(name string, value any) map[string]any {
		c := payload(t, good)
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	now := time.Now().Unix()
	s.requireCode(t, 201, forge(t, jose.ES256, key, id, with("iss", "https://before.example.dev")), "an issuer from before")
	parts := strings.Split(good, ".")
	part := func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) }
	for name, token := range map[string]string{
		"another key":             forge(t, jose.ES256, stranger, id, with("x", 1)),
		"an unknown key":          forge(t, jose.ES256, stranger, "other", with("x", 1)),
		"no key":                  forge(t, jose.ES256, key, "", with("x", 1)),
		"a symmetric key":         forge(t, jose.HS256, []byte(id), id, with("x", 1)),
		"another issuer":          forge(t, jose.ES256, key, id, with("iss", issuer+"/")),
		"no issuer":               forge(t, jose.ES256, key, id, with("iss", nil)),
		"no expiry":               forge(t, jose.ES256, key, id, with("exp", nil)),
		"expired":                 forge(t, jose.ES256, key, id, with("exp", now-1)),
		"expiry as text":          forge(t, jose.ES256, key, id, with("exp", "tomorrow")),
		"not yet":                 forge(t, jose.ES256, key, id, with("nbf", now+3600)),
		"issued in the future":    forge(t, jose.ES256, key, id, with("iat", now+3600)),
		"no audience":             forge(t, jose.ES256, key, id, with("aud", nil)),
		"another subject":         forge(t, jose.ES256, key, id, with("sub", "system:serviceaccount:kube-system:robot")),
		"without private claims":  forge(t, jose.ES256, key, id, with("kubernetes.io", nil)),
		"unsigned":                part(`{"alg":"none"}`) + "." + parts[1] + ".",
		"none with signature":     part(`{"alg":"none","kid":"`+id+`"}`) + "." + parts[1] + "." + parts[2],
		"without a signature":     parts[0] + "." + parts[1] + ".",
		"a changed payload":       parts[0] + "." + part(strings.Replace(fmt.Sprint(string(mustDecode(t, parts[1]))), "robot", "admin", 1)) + "." + parts[2],
		"two parts":               parts[0] + "." + parts[1],
		"four parts":              good + ".x",
		"dots":                    strings.Repeat(".", 4000),
		"nothing that is a token": "x",
	} {
		s.requireCode(t, 401, token, name)
		s.requireCode(t, 401, token, name+", again")
	}
	s.requireCode(t, 201, good, "the good one")
}

func mustDecode(t *testing.T, part string) []byte {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	require.NoError(t, err)
	return text
}

// Keys and issuers are changed without a token that ends early: the old key stays among those that
// are accepted.
func TestSAT_05_KeysRotate(t *testing.T) {
	before, after := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384())
	old := withTokens(t, serviceaccount.Options{}, before)
	claims := payload(t, old.get(t, ""))
	both := withTokens(t, serviceaccount.Options{}, after, before)
	mine := payload(t, both.get(t, ""))
	claims["kubernetes.io"] = mine["kubernetes.io"] // the accounts of two servers have two uids
	id, err := jws.KeyID(before.Public())
	require.NoError(t, err)
	both.requireCode(t, 201, forge(t, jose.ES256, before, id, claims), "signed with the old key")
	both.requireCode(t, 201, both.get(t, ""), "signed with the new key")

	only := withTokens(t, serviceaccount.Options{}, after)
	claims["kubernetes.io"] = payload(t, only.get(t, ""))["kubernetes.io"]
	only.requireCode(t, 401, forge(t, jose.ES256, before, id, claims), "the old key is gone")
}

// Whoever sets the annotation for mountable secrets learns that it is deprecated. Other writes of the
// account say nothing (WARN-01).
func TestMountableSecretsAreDeprecated(t *testing.T) {
	s := serve(t, Options{})
	const accounts = "/api/v1/namespaces/default/serviceaccounts"
	warnings := func(method, path, body string) []string {
		answer, out := s.answer(t, method, path, body, "Content-Type", map[string]string{"POST": "application/json", "PATCH": "application/merge-patch+json"}[method])
		require.Less(t, answer.StatusCode, 300, out)
		return answer.Header.Values("Warning")
	}
	const annotated = `{"metadata":{"name":"a","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}}}`
	require.Contains(t, warnings("POST", accounts, annotated)[0], "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+")
	require.Empty(t, warnings("PATCH", accounts+"/a", `{"metadata":{"labels":{"a":"b"}}}`))
	require.Empty(t, warnings("POST", accounts, `{"metadata":{"name":"b"}}`))
	require.Len(t, warnings("PATCH", accounts+"/b", `{"metadata":{"annotations":{"kubernetes.io/enforce-mountable-secrets":""}}}`), 1)
}
