package conformance

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/internal/jws"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

const (
	accountIssuer = "https://issuer.example.dev"
	accountsPath  = "/api/v1/namespaces/default/serviceaccounts"
	podsPath      = "/api/v1/namespaces/default/pods"
	keptPath      = "/api/v1/namespaces/default/secrets"
	nodesPath     = "/api/v1/nodes"
	whoamiPath    = authenticationPath + "/selfsubjectreviews"
)

// Pod is as much of a pod as tokens are about.
type Pod struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		ServiceAccountName string `json:"serviceAccountName,omitempty"`
		NodeName           string `json:"nodeName,omitempty"`
	} `json:"spec"`
}

// Node is a node of which nothing but its existence matters.
type Node struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

// onEachWithAccounts is onEach for servers with the account robot, and tokens that a key of the test signs.
func onEachWithAccounts(t *testing.T, test func(t *testing.T, s *server, key issuer.Key), opts ...kindwright.Option) {
	t.Helper()
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		t.Helper()
		own, key := withAccounts(t)
		s := start(t, open, append(own, opts...)...)
		s.create(accountsPath, `{"metadata":{"name":"robot"}}`)
		test(t, s, key)
	})
}

// withAccounts returns the options of a server with service accounts, and the key of their tokens.
func withAccounts(t *testing.T) ([]kindwright.Option, issuer.Key) {
	t.Helper()
	key := issuer.ECDSA(t, "")
	var err error
	key.ID, err = jws.KeyID(key.Signer.Public())
	require.NoError(t, err)
	signer, err := serviceaccount.NewSigner(key.Signer)
	require.NoError(t, err)
	keys, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key.Signer.Public()})
	require.NoError(t, err)
	tokens, err := serviceaccount.New(serviceaccount.Options{
		Issuers: []string{accountIssuer, "https://before.example.dev"}, Audiences: []string{"api", "more"}, Signer: signer, Keys: keys, Legacy: true,
	})
	require.NoError(t, err)
	documents, err := tokens.Documents("https://api.example.dev" + serviceaccount.KeysPath)
	require.NoError(t, err)
	return []kindwright.Option{
		kindwright.Serve(
			kinds.Secrets(), kinds.ConfigMaps(), kinds.ServiceAccounts(kinds.IssueTokens(tokens)), registry.Kind[Pod]{Version: "v1", Plural: "pods"},
			registry.Kind[Node]{Version: "v1", Plural: "nodes", Scope: registry.ClusterScoped},
		),
		kindwright.Authenticate(tokens), kindwright.Before("body", documents),
	}, key
}

// tokenFor asks for a token of robot.
func (s *server) tokenFor(spec string) string {
	s.t.Helper()
	return s.do("POST", accountsPath+"/robot/token", `{"spec":{`+spec+`}}`).is(201).text("status", "token")
}

// as sends a request with a token alone.
func (s *server) as(token, method, path, body string) *answer {
	s.t.Helper()
	return s.do(method, path, body, "X-User", "", "X-Groups", "", "Authorization", "Bearer "+token)
}

// whois asks who a token belongs to.
func (s *server) whois(token string) *answer {
	s.t.Helper()
	return s.as(token, "POST", whoamiPath, `{}`)
}

func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	require.NoError(t, err)
	claims := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &claims))
	return claims
}

func boundTo(kind, name string) string {
	return `"boundObjectRef":{"apiVersion":"v1","kind":"` + kind + `","name":"` + name + `"}`
}

// A token is bound to an object of the namespace of its account. A name cannot lead elsewhere.
func TestZ15_ATokenIsBoundWithinItsNamespace(t *testing.T) {
	onEachWithAccounts(t, func(t *testing.T, s *server, _ issuer.Key) {
		s.namespace("other")
		there := func(path string) string { return strings.Replace(path, "default", "other", 1) }
		s.create(there(podsPath), `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot"}}`)
		s.create(there(keptPath), `{"metadata":{"name":"s"}}`)
		for _, kind := range []string{"Pod", "Secret"} {
			for _, name := range []string{"p", "s", "../other/p", "other/p", "../../other/secrets/s", "p\u0000", ".", ".."} {
				body := `{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"` + kind + `","name":"` + name + `","namespace":"other"}}}`
				a := s.do("POST", accountsPath+"/robot/token", body)
				require.Contains(t, []int{400, 404, 422}, a.code, "%s %s: %s", kind, name, a)
			}
		}
	})
}

func TestSAT_01_TokenRequest(t *testing.T) {
	onEachWithAccounts(t, func(t *testing.T, s *server, _ issuer.Key) {
		const path = accountsPath + "/robot/token"
		uid := s.get(accountsPath+"/robot").is(200).text("metadata", "uid")
		a := s.do("POST", path, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{},"status":{"token":"mine"}}`).is(201)
		require.Equal(t, "TokenRequest", a.at("kind"))
		require.Equal(t, "authentication.k8s.io/v1", a.at("apiVersion"))
		require.Equal(t, []any{"robot", "default", uid}, []any{a.at("metadata", "name"), a.at("metadata", "namespace"), a.at("metadata", "uid")})
		began, err := time.Parse(time.RFC3339, a.text("metadata", "creationTimestamp"))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), began, time.Minute)
		require.InDelta(t, 3600, a.at("spec", "expirationSeconds"), 0)
		require.Equal(t, []any{"api", "more"}, a.at("spec", "audiences"))
		require.Equal(t, began.Add(time.Hour).UTC().Format(time.RFC3339), a.text("status", "expirationTimestamp"))
		require.Len(t, strings.Split(a.text("status", "token"), "."), 3)

		for seconds, code := range map[string]int{"599": 422, "600": 201, "4294967296": 201, "4294967297": 422, "-1": 422, "0": 422} {
			s.do("POST", path, `{"spec":{"expirationSeconds":`+seconds+`}}`).is(code)
		}
		s.do("POST", path, `{"spec":{"expirationSeconds":599}}`).refused(422, "Invalid", "").
			because("FieldValueInvalid", "spec.expirationSeconds", "may not specify a duration less than 10 minutes")
		s.do("POST", path, `{"metadata":{"uid":"earlier"},"spec":{}}`).refused(409, "Conflict", "does not match the UID of the service account ("+uid+")")
		s.do("POST", path, `{"metadata":{"name":"other"},"spec":{}}`).refused(422, "Invalid", "must match the service account name")
		s.do("POST", path, `{"metadata":{"namespace":"other"},"spec":{}}`).refused(400, "BadRequest", "namespace")
		s.do("POST", path, `{"spec":{"audiences":"api"}}`).is(422)
		s.do("POST", accountsPath+"/none/token", `{"spec":{}}`).refused(404, "NotFound", `serviceaccounts "none" not found`)
		s.get(path).refused(405, "MethodNotAllowed", "")
		s.do("POST", path, `{"spec":{`+boundTo("ConfigMap", "c")+`}}`).refused(400, "BadRequest", "cannot bind token to object of type /v1, Kind=ConfigMap")
		for _, kind := range []string{"Pod", "Secret", "Node"} {
			s.do("POST", path, `{"spec":{`+boundTo(kind, "none")+`}}`).refused(404, "NotFound", `"none" not found`)
		}
		s.create(podsPath, `{"metadata":{"name":"foreign"},"spec":{"serviceAccountName":"other"}}`)
		s.do("POST", path, `{"spec":{`+boundTo("Pod", "foreign")+`}}`).refused(400, "BadRequest", `cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.`)
		s.create(keptPath, `{"metadata":{"name":"s"}}`)
		s.do("POST", path, `{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"s","uid":"earlier"}}}`).refused(409, "Conflict", "The object might have been deleted and then recreated")

		body := encoded[serviceaccount.TokenRequest](t, "authentication.k8s.io/v1", "TokenRequest", `{"spec":{"audiences":["bank"],"expirationSeconds":600}}`)
		out := decoded[serviceaccount.TokenRequest](s.do("POST", path, body, "Content-Type", asProtobuf, "Accept", asProtobuf).is(201))
		token, _ := at(out, "status", "token").(string)
		require.Equal(t, []any{"bank"}, claimsOf(t, token)["aud"])
	})
}

func TestSAT_02_Claims(t *testing.T) {
	onEachWithAccounts(t, func(t *testing.T, s *server, key issuer.Key) {
		account := s.get(accountsPath+"/robot").is(200).text("metadata", "uid")
		node := s.create(nodesPath, `{"metadata":{"name":"n"}}`).text("metadata", "uid")
		pod := s.create(podsPath, `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","nodeName":"n"}}`).text("metadata", "uid")
		secret := s.create(keptPath, `{"metadata":{"name":"s"}}`).text("metadata", "uid")
		s.create(podsPath, `{"metadata":{"name":"lost"},"spec":{"serviceAccountName":"robot","nodeName":"gone"}}`)
		own := func(more map[string]any) map[string]any {
			more["namespace"], more["serviceaccount"] = "default", map[string]any{"name": "robot", "uid": account}
			return more
		}
		ref := func(name, uid string) map[string]any { return map[string]any{"name": name, "uid": uid} }
		for bound, want := range map[string]map[string]any{
			"":                   {},
			boundTo("Pod", "p"):  {"pod": ref("p", pod), "node": ref("n", node)},
			boundTo("Node", "n"): {"node": ref("n", node)},

			boundTo("Secret", "s"): {"secret": ref("s", secret)},
		} {
			token := s.tokenFor(bound)
			claims := claimsOf(t, token)
			id, now := claims["jti"], claims["iat"].(float64)
			require.InDelta(t, time.Now().Unix(), now, 60)
			require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
			require.Equal(t, map[string]any{
				"iss": accountIssuer, "sub": "system:serviceaccount:default:robot", "aud": []any{"api", "more"}, "jti": id,
				"iat": now, "nbf": now, "exp": now + 3600, "kubernetes.io": own(want),
			}, claims)
			text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
			require.NoError(t, err)
			require.JSONEq(t, `{"alg":"ES256","kid":"`+key.ID+`"}`, string(text))
		}
		require.Equal(t, map[string]any{"name": "gone"}, at(claimsOf(t, s.tokenFor(boundTo("Pod", "lost"))), "kubernetes.io", "node"), "a node without an object has no uid")
	})
}

// A9: the objects of now count, and their uids.
func TestSAT_03_A9_ATokenEndsWithWhatItIsAbout(t *testing.T) {
	onEachWithAccounts(t, func(t *testing.T, s *server, _ issuer.Key) {
		for _, c := range []struct{ kind, path, body string }{
			{"Pod", podsPath, `{"metadata":{"name":"x"},"spec":{"serviceAccountName":"robot"}}`},
			{"Secret", keptPath, `{"metadata":{"name":"x"}}`},
			{"Node", nodesPath, `{"metadata":{"name":"x"}}`},
		} {
			s.create(c.path, c.body)
			token := s.tokenFor(boundTo(c.kind, "x"))
			s.whois(token).is(201)
			s.delete(c.path + "/x").is(200)
			s.whois(token).refused(401, "Unauthorized", "Unauthorized")
			s.create(c.path, c.body)
			s.whois(token).is(401)
			s.whois(s.tokenFor(boundTo(c.kind, "x"))).is(201)
		}
		free := s.tokenFor("")
		s.whois(free).is(201)
		s.patch(accountsPath+"/robot", `{"metadata":{"finalizers":["example.dev/keep"]}}`).is(200)
		s.delete(accountsPath + "/robot").is(200)
		s.whois(free).is(401)
		s.patch(accountsPath+"/robot", `{"metadata":{"finalizers":null}}`).is(200)
		s.whois(free).is(401)
		s.create(accountsPath, `{"metadata":{"name":"robot"}}`)
		s.whois(free).is(401)

		short := s.tokenFor(`"expirationSeconds":600`)
		time.Sleep(590 * time.Second)
		s.whois(short).is(201)
		time.Sleep(11 * time.Second)
		s.whois(short).is(401)

		s.whois(s.tokenFor(`"audiences":["bank","more"]`)).is(201)
		elsewhere := s.tokenFor(`"audiences":["bank","api/","API"]`)
		s.whois(elsewhere).is(401)
		const reviews = authenticationPath + "/tokenreviews"
		a := s.do("POST", reviews, `{"spec":{"token":"`+elsewhere+`","audiences":["shop","bank"]}}`).is(201)
		require.Equal(t, []any{true, []any{"bank"}, "system:serviceaccount:default:robot"},
			[]any{a.at("status", "authenticated"), a.at("status", "audiences"), a.at("status", "user", "username")})
		require.Nil(t, s.do("POST", reviews, `{"spec":{"token":"`+elsewhere+`"}}`).is(201).at("status", "authenticated"))
	}, kindwright.Authorize(authz.AlwaysAllow()))
}

func TestSAT_04_Identity(t *testing.T) {
	onEachWithAccounts(t, func(t *testing.T, s *server, _ issuer.Key) {
		account := s.get(accountsPath+"/robot").is(200).text("metadata", "uid")
		node := s.create(nodesPath, `{"metadata":{"name":"n"}}`).text("metadata", "uid")
		pod := s.create(podsPath, `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","nodeName":"n"}}`).text("metadata", "uid")
		const extra = "authentication.kubernetes.io/"
		for bound, want := range map[string]map[string]any{
			"": {},
			boundTo("Pod", "p"): {
				extra + "pod-name": []any{"p"}, extra + "pod-uid": []any{pod}, extra + "node-name": []any{"n"}, extra + "node-uid": []any{node},
			},
			boundTo("Node", "n"): {extra + "node-name": []any{"n"}, extra + "node-uid": []any{node}},
		} {
			token := s.tokenFor(bound)
			id, _ := claimsOf(t, token)["jti"].(string)
			want[extra+"credential-id"] = []any{"JTI=" + id}
			require.Equal(t, map[string]any{
				"username": "system:serviceaccount:default:robot", "uid": account, "extra": want,
				"groups": []any{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
			}, s.whois(token).is(201).at("status", "userInfo"))
		}
	}, kindwright.Authorize(authz.AlwaysAllow()))
}

func TestSAT_06_IssuerDiscovery(t *testing.T) {
	rules := []kindwright.Option{kindwright.Serve(kinds.RBAC()), kindwright.Authorize(rbac.New(""))}
	onEachWithAccounts(t, func(t *testing.T, s *server, key issuer.Key) {
		token := s.tokenFor("")
		a := s.as(token, "GET", "/.well-known/openid-configuration", "").is(200)
		require.Equal(t, []string{"application/json", "public, max-age=3600"}, []string{a.header.Get("Content-Type"), a.header.Get("Cache-Control")})
		require.Equal(t, map[string]any{
			"issuer": accountIssuer, "jwks_uri": "https://api.example.dev/openid/v1/jwks", "response_types_supported": []any{"id_token"},
			"subject_types_supported": []any{"public"}, "id_token_signing_alg_values_supported": []any{"ES256"},
		}, a.doc)
		a = s.as(token, "GET", "/openid/v1/jwks", "").is(200)
		require.Equal(t, []string{"application/jwk-set+json", "public, max-age=3600"}, []string{a.header.Get("Content-Type"), a.header.Get("Cache-Control")})
		keys, err := jws.ParseKeys(a.body, 1)
		require.NoError(t, err)
		_, err = jws.Verify(token, keys, []string{"ES256"})
		require.NoError(t, err, "what others do with the documents")
		require.Equal(t, key.ID, at(a.doc["keys"].([]any)[0], "kid"))
		for _, path := range []string{"/.well-known/openid-configuration/", "/openid/v1/jwks/"} {
			s.as(token, "GET", path, "").is(200)
		}
		for _, path := range []string{"/.well-known/openid-configuration", "/openid/v1/jwks"} {
			s.do("GET", path, "", "X-User", "alice", "X-Groups", "").refused(403, "Forbidden", "")
			s.do("GET", path, "", "X-User", "", "X-Groups", "").refused(403, "Forbidden", "system:anonymous")
			s.do("POST", path, "{}").is(405)
		}
	}, rules...)
}

// Rows J of the security vectors, against the running server.
func TestJ1_J2_J3_J4_J5_J6_J7_ForgedTokensOfAccounts(t *testing.T) {
	onEachWithAccounts(t, func(t *testing.T, s *server, key issuer.Key) {
		good := s.tokenFor("")
		s.whois(good).is(201)
		parts := strings.Split(good, ".")
		claims := claimsOf(t, good)
		with := func(name string, value any) map[string]any {
			out := map[string]any{}
			for k, v := range claims {
				out[k] = v
			}
			if out[name] = value; value == nil {
				delete(out, name)
			}
			return out
		}
		raw := func(text string) []byte { return []byte(text) }
		part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		payload, err := json.Marshal(claims)
		require.NoError(t, err)
		header := map[string]any{"alg": "ES256", "kid": key.ID}
		stranger, now := issuer.ECDSA(t, key.ID), time.Now().Unix()
		der, err := x509.MarshalPKIXPublicKey(key.Signer.Public())
		require.NoError(t, err)
		secrets := map[string][]byte{"der": der, "pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "kid": []byte(key.ID)}

		for why, token := range map[string]string{
			"an issuer from before": key.Sign(header, with("iss", "https://before.example.dev")),
			"a number as jti":       key.Sign(header, with("jti", 7)),
			"a list as jti":         key.Sign(header, with("jti", []string{"a"})),
			"an unknown claim":      key.Sign(header, with("x", map[string]any{"y": 1})),
			"one audience as text":  key.Sign(header, with("aud", "api")),
			"a time with fraction":  key.Sign(header, with("exp", float64(now)+60.5)),
		} {
			s.whois(token).is(201)
			require.Equal(t, "system:serviceaccount:default:robot", s.whois(token).text("status", "userInfo", "username"), why)
		}
		bad := map[string]string{
			"another key":           stranger.Sign(header, claims),
			"no kid":                key.Sign(map[string]any{"alg": "ES256"}, claims),
			"another issuer":        key.Sign(header, with("iss", accountIssuer+"/")),
			"another scheme":        key.Sign(header, with("iss", "http://issuer.example.dev")),
			"no issuer":             key.Sign(header, with("iss", nil)),
			"two issuers":           key.Sign(header, raw(`{"iss":"`+accountIssuer+`",`+string(payload[1:]))),
			"two subjects":          key.Sign(header, raw(`{"sub":"system:admin",`+string(payload[1:]))),
			"two expiries":          key.Sign(header, raw(`{"exp":9999999999,`+string(payload[1:]))),
			"claims in other case":  key.Sign(header, raw(strings.Replace(string(payload), `"exp"`, `"EXP"`, 1))),
			"claims and more":       key.Sign(header, raw(string(payload)+`{}`)),
			"claims that are deep":  key.Sign(header, raw(`{"x":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`,`+string(payload[1:]))),
			"no expiry":             key.Sign(header, with("exp", nil)),
			"expired":               key.Sign(header, with("exp", now-1)),
			"an expiry as text":     key.Sign(header, with("exp", "tomorrow")),
			"an expiry in ms":       key.Sign(header, with("exp", (now+60)*1000_000)),
			"a negative expiry":     key.Sign(header, with("exp", -1)),
			"not yet":               key.Sign(header, with("nbf", now+600)),
			"issued in the future":  key.Sign(header, with("iat", now+600)),
			"no audience":           key.Sign(header, with("aud", nil)),
			"an empty audience":     key.Sign(header, with("aud", []string{})),
			"an audience in a map":  key.Sign(header, with("aud", map[string]string{"api": "api"})),
			"a prefix of ours":      key.Sign(header, with("aud", "ap")),
			"ours as azp":           key.Sign(header, with("aud", "x")),
			"another subject":       key.Sign(header, with("sub", "system:serviceaccount:kube-system:robot")),
			"no subject":            key.Sign(header, with("sub", nil)),
			"system:masters":        key.Sign(header, with("sub", "system:admin")),
			"no private claims":     key.Sign(header, with("kubernetes.io", nil)),
			"private claims as one": key.Sign(header, with("kubernetes.io", "x")),
			"unsigned":              part(`{"alg":"none","kid":"`+key.ID+`"}`) + "." + parts[1] + ".",
			"without a signature":   parts[0] + "." + parts[1] + ".",
			"a changed payload":     parts[0] + "." + part(strings.Replace(string(payload), "robot", "admin", 1)) + "." + parts[2],
			"another header":        part(`{"alg":"ES256","kid":"`+key.ID+`","x":1}`) + "." + parts[1] + "." + parts[2],
			"two parts":             parts[0] + "." + parts[1],
			"four parts":            good + ".x",
			"five parts":            part(`{"alg":"dir","enc":"A256GCM","zip":"DEF"}`) + "..AAAA.AAAA.AAAA",
			"padding":               parts[0] + "=." + parts[1] + "." + parts[2],
			"JSON form":             `{"payload":"` + parts[1] + `"}`,
			"dots":                  strings.Repeat(".", 4000),
			"oversize":              key.Sign(header, with("x", strings.Repeat("x", 70_000))),
			"another legacy token":  key.Sign(header, with("iss", serviceaccount.LegacyIssuer)),
		}
		for _, alg := range []any{"none", "None", "nOnE", "", nil, 1, []string{"ES256"}, "HS256", "RS256", "ES384", "PS256"} {
			bad["alg "+string(marshalled(t, alg))] = key.Sign(map[string]any{"alg": alg, "kid": key.ID}, claims)
		}
		for name, secret := range secrets {
			signed := part(`{"alg":"HS256","kid":"`+key.ID+`"}`) + "." + parts[1]
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(signed))
			bad["the key as a secret, "+name] = signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		}
		for name, value := range map[string]any{
			"jwk": map[string]string{"kty": "EC"}, "jku": "https://127.0.0.1:1/keys", "x5u": "https://127.0.0.1:1/cert", "x5c": []string{"AAAA"},
			"kid": "../../dev/null", "crit": []string{"b64"},
		} {
			of := map[string]any{"alg": "ES256", "kid": key.ID, name: value}
			bad["header "+name] = stranger.Sign(of, claims)
		}
		for _, kid := range []any{"' OR 1=1 --", "https://127.0.0.1:1", strings.Repeat("k", 10_000), 7, []string{key.ID}} {
			bad["kid "+string(marshalled(t, kid))] = key.Sign(map[string]any{"alg": "ES256", "kid": kid}, claims)
		}
		for why, token := range bad {
			for range 2 { // a failure is not remembered as a success
				a := s.whois(token)
				require.Contains(t, []int{http.StatusUnauthorized, http.StatusRequestHeaderFieldsTooLarge}, a.code, why)
				require.NotContains(t, string(a.body), "robot", why)
			}
		}
		s.whois(good).is(201)
	}, kindwright.Authorize(authz.AlwaysAllow()))
}

func marshalled(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// A token in a Secret counts as long as the Secret has it and nothing says that it is invalid. The Secret
// has the day of its last use.
func TestSAT_03_LegacyTokens(t *testing.T) {
	onEachWithAccounts(t, func(t *testing.T, s *server, key issuer.Key) {
		account := s.get(accountsPath+"/robot").is(200).text("metadata", "uid")
		token := key.Sign(map[string]any{"alg": "ES256"}, map[string]any{
			"iss": serviceaccount.LegacyIssuer, "sub": "system:serviceaccount:default:robot",
			"kubernetes.io/serviceaccount/namespace": "default", "kubernetes.io/serviceaccount/secret.name": "old",
			"kubernetes.io/serviceaccount/service-account.name": "robot", "kubernetes.io/serviceaccount/service-account.uid": account,
		})
		secret := `{"metadata":{"name":"old","annotations":{"kubernetes.io/service-account.name":"robot"}},"type":"kubernetes.io/service-account-token",
			"data":{"token":"` + base64.StdEncoding.EncodeToString([]byte(token)) + `"}}`
		s.whois(token).is(401)
		s.create(keptPath, secret)
		user := s.whois(token).is(201)
		require.Equal(t, "system:serviceaccount:default:robot", user.text("status", "userInfo", "username"))
		require.Empty(t, user.header.Values("Warning"))
		time.Sleep(time.Second) // the label is written beside the request
		require.Equal(t, time.Now().UTC().Format(time.DateOnly), s.get(keptPath+"/old").is(200).at("metadata", "labels", serviceaccount.LastUsedLabel))
		s.patch(accountsPath+"/robot", `{"secrets":[{"name":"old"}]}`).is(200)
		require.Contains(t, s.whois(token).is(201).header.Get("Warning"), "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.")

		s.patch(keptPath+"/old", `{"metadata":{"labels":{"`+serviceaccount.InvalidSinceLabel+`":"2000-01-02"}}}`).is(200)
		s.whois(token).is(401)
		s.patch(keptPath+"/old", `{"metadata":{"labels":{"`+serviceaccount.InvalidSinceLabel+`":null}}}`).is(200)
		s.whois(token).is(201)
		s.delete(keptPath + "/old").is(200)
		s.whois(token).is(401)
		s.create(keptPath, secret)
		s.whois(token).is(201)
		s.delete(accountsPath + "/robot").is(200)
		s.whois(token).is(401)
	}, kindwright.Authorize(authz.AlwaysAllow()))
}
