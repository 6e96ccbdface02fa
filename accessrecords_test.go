package kindwright_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/authn/requestheader"
	"github.com/kindwright/kindwright/authn/token"
	certificates "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/kinds"
)

// gate is a server with every way to prove who asks, over TLS, and its audit log.
type gate struct {
	t       *testing.T
	run     *runner
	records *memo
	issuer  *issuer.Issuer
	mail    *issuer.Issuer             // whose users are called by their addresses
	clients map[string]*http.Transport // by the name of their certificate, "" for none
	users   string                     // the issuer in certificates of users
}

// An attempt is one request to a gate, and what its record must say.
type attempt struct {
	row    string // of the security vectors
	client string // the certificate
	method string // GET if empty
	path   string // gadgetPath if empty
	body   string
	header []string // names and values
	code   int

	user, as    string // the sender, and as whom they act
	how, issuer string // how they proved it, and who vouches for it
	verb        string // list if empty, "-" if none
	on          audit.ObjectReference

	allowed bool // by the authorizers, and refused all the same
}

// passwords are tokens of the gate. No record contains one.
const (
	goodToken  = "password-of-alice"
	widerToken = "password-of-bob"
)

// newGate starts a gate. Its users and its proxies have authorities of their own.
func newGate(t *testing.T, more ...kindwright.Option) *gate {
	t.Helper()
	proxies, err := selfsigned.NewAuthority("proxies")
	require.NoError(t, err)
	return newGateOf(t, proxies, more...)
}

// newGateOf starts a gate whose proxies have this authority; nil stands for the authority of the users.
func newGateOf(t *testing.T, proxies *selfsigned.Authority, more ...kindwright.Option) *gate {
	t.Helper()
	g := &gate{t: t, records: &memo{t: t}, issuer: issuer.New(t), mail: issuer.New(t), clients: map[string]*http.Transport{}}
	people, err := selfsigned.NewAuthority("people")
	require.NoError(t, err)
	if proxies == nil {
		proxies = people
	}
	g.users = people.Certificate().Subject.String()
	pool := func(a *selfsigned.Authority) *certificates.Authenticator {
		p := x509.NewCertPool()
		p.AddCert(a.Certificate())
		proofs, err := certificates.New(p)
		require.NoError(t, err)
		return proofs
	}
	cfg := requestheader.Standard()
	cfg.ProxyNames = []string{"front"}
	front, err := requestheader.New(pool(proxies), cfg)
	require.NoError(t, err)
	tokens, err := token.Read(strings.NewReader(goodToken + ",alice,u1\n" + widerToken + ",bob,u2,\"system:masters\"\n"))
	require.NoError(t, err)
	signed, err := jwt.New(jwt.Configuration{JWT: []jwt.Provider{{
		Issuer:        jwt.Issuer{URL: g.issuer.URL, CertificateAuthority: g.issuer.Authorities, Audiences: []string{issuer.Audience}},
		ClaimMappings: jwt.ClaimMappings{Username: jwt.PrefixedClaimOrExpression{Claim: "sub", Prefix: new(string)}, Groups: jwt.PrefixedClaimOrExpression{Claim: "groups", Prefix: new(string)}},
	}, {
		Issuer:        jwt.Issuer{URL: g.mail.URL, CertificateAuthority: g.mail.Authorities, Audiences: []string{issuer.Audience}},
		ClaimMappings: jwt.ClaimMappings{Username: jwt.PrefixedClaimOrExpression{Claim: "email", Prefix: new(string)}},
	}}}, jwt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, signed.Close()) })

	pair := func(a *selfsigned.Authority, name string, groups ...string) tls.Certificate {
		c, err := a.Client(name, groups...)
		require.NoError(t, err)
		out, err := tls.X509KeyPair(c.Cert, c.Key)
		require.NoError(t, err)
		return out
	}
	others, err := selfsigned.NewAuthority("people") // of the same name, with another key
	require.NoError(t, err)
	for name, own := range map[string][]tls.Certificate{
		"stranger": {pair(others, "alice", "system:masters")}, "nameless": {pair(people, "")}, "account": {pair(people, "system:serviceaccount:kube-system:x")}, "look-alike": {pair(people, "System:masters")},
		"": nil, "alice": {pair(people, "alice")}, "front": {pair(proxies, "front")}, "intruder": {pair(proxies, "intruder", "system:masters")},
	} {
		g.clients[name] = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: own}}
		t.Cleanup(g.clients[name].CloseIdleConnections)
	}
	list := rules{
		{"alice", everyVerb, "gadgets", "default", ""},
		{"alice", "impersonate", "users", "", "carol"},
		{"carol", "list", "gadgets", "default", ""},
		{"lister", "list", "gadgets", "default", ""},
		{"narrow", everyVerb, "gadgets", "default", "x"},
		{"alice", everyVerb, "roles", "default", ""},
		{"alice", everyVerb, "rolebindings", "default", ""},
		{"alice", everyVerb, "secrets", "default", ""},
		{"alice", everyVerb, "knobs", "default", ""},
		{"alice", everyVerb, "knobs/status", "default", ""},
		{"system:serviceaccount:default:robot", "list", "gadgets", "default", ""},
	}
	g.run = startWith(t, append(more,
		kindwright.Serve(gadgets(), places(), kinds.ControlPlane(), kinds.RBAC(), kinds.Secrets()), kindwright.Audit(metadataOnly(), g.records),
		kindwright.Authorize(list, rbac.New("")),
		kindwright.Authenticate(front, pool(people), tokens, signed), kindwright.LogTo(logr.Discard()),
		kindwright.Admit(admission.Plugin{Name: "breaks", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if r.Name == "panics" {
				panic("a rule broke down")
			}
			return nil
		})}),
	), kindwright.Listen("127.0.0.1:0"), kindwright.TLS{Config: &tls.Config{Certificates: []tls.Certificate{certificate(t)}, ClientAuth: tls.RequestClientCert}})
	return g
}

// try sends an attempt and checks its record: one, true, and without the credential.
func (g *gate) try(t *testing.T, a attempt) {
	t.Helper()
	method, path := a.method, a.path
	if method == "" {
		method = http.MethodGet
	}
	if path == "" {
		path = gadgetPath
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+g.run.addr+path, strings.NewReader(a.body))
	require.NoError(t, err)
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(a.header); i += 2 {
		if a.header[i] == "Content-Type" {
			r.Header.Del("Content-Type")
		}
		r.Header[a.header[i]] = append(r.Header[a.header[i]], a.header[i+1]) // in this spelling
	}
	res, err := g.clients[a.client].RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, a.code, res.StatusCode)

	g.records.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
	var last []*audit.Event
	g.records.mu.Lock()
	for _, e := range g.records.events {
		if e.AuditID == res.Header.Get("Audit-Id") && e.Stage == audit.StageResponseComplete {
			last = append(last, e)
		}
	}
	g.records.mu.Unlock()
	require.Len(t, last, 1)
	e := last[0]
	require.EqualValues(t, a.code, e.ResponseStatus.Code)
	require.Equal(t, a.user, e.User.Username)
	as := ""
	if e.ImpersonatedUser != nil {
		as = e.ImpersonatedUser.Username
	}
	require.Equal(t, a.as, as)
	require.Equal(t, a.how, e.Annotations["authentication.k8s.io/method"])
	require.Equal(t, a.issuer, e.Annotations["authentication.k8s.io/issuer"])
	switch a.verb {
	case "":
		require.Equal(t, "list", e.Verb)
	case "-":
		require.Empty(t, e.Verb)
	default:
		require.Equal(t, a.verb, e.Verb)
	}
	on := a.on
	if on == (audit.ObjectReference{}) {
		on = audit.ObjectReference{APIGroup: "example.dev", APIVersion: "v1", Resource: "gadgets", Namespace: "default"}
	}
	if on.Resource == "none" {
		require.Nil(t, e.ObjectRef)
	} else {
		require.NotNil(t, e.ObjectRef)
		require.Equal(t, on, *e.ObjectRef)
	}
	switch decision := e.Annotations["authorization.k8s.io/decision"]; {
	case a.allowed:
		require.Equal(t, "allow", decision)
	case a.code == 401, a.code == 400, a.code == 431:
		require.Empty(t, decision)
	case a.code == 403:
		require.Contains(t, []string{"forbid", ""}, decision, "a page of another site is refused before anybody is asked")
	default:
		require.Equal(t, "allow", decision)
	}
	line, err := json.Marshal(e)
	require.NoError(t, err)
	require.NotContains(t, string(line), "password-of-")
	for i := 1; i < len(a.header); i += 2 {
		if parts := strings.Split(a.header[i], "."); len(parts) == 3 && len(parts[2]) > 40 {
			require.NotContains(t, string(line), parts[2], "the signature of a token")
		}
	}
}

// gadgetNamed is the reference of one gadget.
func gadgetNamed(name string) audit.ObjectReference {
	return audit.ObjectReference{APIGroup: "example.dev", APIVersion: "v1", Resource: "gadgets", Namespace: "default", Name: name}
}

// signature replaces the parts of a signed token.
func signature(header, payload, signed string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + payload + "." + signed
}

func presenting(credential string) []string { return []string{"Authorization", "Bearer " + credential} }

// AUD-36: whoever tries whatever, the record says who it was, how they proved it, what they wanted and
// what they got.
func TestD11_EveryAttemptIsRecorded(t *testing.T) {
	g := newGate(t)
	good := g.issuer.Token(nil)
	parts := strings.Split(good, ".")
	claims := func(c map[string]any) []string { return presenting(g.issuer.Token(c)) }
	mail := func(verified any) []string {
		return presenting(g.mail.Token(map[string]any{"email": "ann@example.dev", "email_verified": verified}))
	}
	none := audit.ObjectReference{Resource: "none"}
	remote := []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"}
	anonymous := attempt{code: 403, user: "system:anonymous", how: "anonymous"}
	unknown := attempt{code: 401}
	ann := attempt{code: 200, user: "alice", how: "token", header: presenting(goodToken)}
	with := func(a attempt, row string, change func(*attempt)) attempt {
		a.row = row
		change(&a)
		return a
	}
	all := []attempt{
		with(anonymous, "A1", func(a *attempt) { a.header = remote }),
		with(anonymous, "A1", func(a *attempt) { a.header = []string{"x-remote-user", "root", "X-REMOTE-GROUP", "system:masters"} }),
		with(ann, "A1", func(a *attempt) { a.header = append(presenting(goodToken), remote...) }),
		{row: "A1", client: "alice", header: remote, code: 200, user: "alice", how: "x509", issuer: g.users},
		with(unknown, "A2", func(a *attempt) { a.client, a.header = "intruder", remote }),
		with(unknown, "A2", func(a *attempt) { a.client = "intruder" }),
		{row: "A2", client: "front", header: []string{"X-Remote-User", "alice"}, code: 200, user: "alice", how: "requestheader", issuer: "front"},
		{row: "A2", client: "front", header: []string{"X-Remote-User", "alice", "X-Remote-User", "bob"}, code: 401},
		with(unknown, "A2", func(a *attempt) { a.client = "front" }),
		with(anonymous, "A6", func(a *attempt) { a.header = []string{"Cookie", "token=" + goodToken} }),
		with(unknown, "A6", func(a *attempt) { a.header = []string{"Authorization", "Basic YWxpY2U6cGFzcw=="} }),
		with(anonymous, "A6", func(a *attempt) { a.path = gadgetPath + "?access_token=" + goodToken }),
		with(anonymous, "A6", func(a *attempt) {
			a.path = gadgetPath + "?limit=1&Access%5fToken=" + goodToken + "&token=" + widerToken + "&API_key=" + goodToken + "&X-Amz-Signature=" + goodToken + "&jwt=" + goodToken
		}),
		with(anonymous, "A5", func(a *attempt) { a.header = []string{"X-Auth-Token", goodToken, "Cookie", "token=" + goodToken} }),
		with(unknown, "A5", func(a *attempt) { a.header = presenting("password-of-" + strings.Repeat("a", 5000)) }),
		with(unknown, "A6", func(a *attempt) {
			const offer = "base64url.bearer.authorization.k8s.io."
			a.header = []string{"Sec-Websocket-Protocol", offer + base64.RawURLEncoding.EncodeToString([]byte(goodToken)) + ", v5"}
		}),
		with(unknown, "A7", func(a *attempt) { a.header = append(presenting(goodToken), presenting(widerToken)...) }),
		with(unknown, "A7", func(a *attempt) { a.header = presenting("") }),
		with(unknown, "A7", func(a *attempt) { a.header = presenting(goodToken + " b") }),
		{row: "A7", client: "alice", header: presenting(widerToken), code: 200, user: "alice", how: "x509", issuer: g.users},
		with(unknown, "A8", func(a *attempt) { a.header = presenting("password-of-nobody") }),
		{row: "J", header: presenting(good), code: 200, user: "alice", how: "jwt", issuer: g.issuer.URL},
		with(unknown, "J1", func(a *attempt) { a.header = presenting(signature(`{"alg":"none"}`, parts[1], "")) }),
		with(unknown, "J1", func(a *attempt) { a.header = presenting(signature(`{"alg":"nOnE","kid":"first"}`, parts[1], parts[2])) }),
		with(unknown, "J2", func(a *attempt) {
			a.header = presenting(signature(`{"alg":"HS256","kid":"first"}`, parts[1], parts[2]))
		}),
		with(unknown, "J3", func(a *attempt) {
			a.header = presenting(signature(`{"alg":"RS256","jku":"https://127.0.0.1:1/keys"}`, parts[1], parts[2]))
		}),
		with(unknown, "J4", func(a *attempt) { a.header = claims(map[string]any{"exp": nil}) }),
		with(unknown, "J4", func(a *attempt) { a.header = claims(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}) }),
		with(unknown, "J5", func(a *attempt) { a.header = claims(map[string]any{"aud": "kindwrigh"}) }),
		with(unknown, "J6", func(a *attempt) { a.header = claims(map[string]any{"iss": g.issuer.URL + "/"}) }),
		with(unknown, "J7", func(a *attempt) { a.header = presenting(good + ".AA.AA") }),
		with(unknown, "J8", func(a *attempt) { a.header = presenting(strings.Repeat(".", 20_000)) }),
		with(unknown, "J9", func(a *attempt) { a.header = claims(map[string]any{"groups": []string{"system:masters"}}) }),
		with(unknown, "J9", func(a *attempt) { a.header = claims(map[string]any{"sub": "system:serviceaccount:kube-system:x"}) }),
		with(unknown, "J3", func(a *attempt) {
			a.header = presenting(signature(`{"alg":"RS256","kid":"../../dev/null","x5u":"https://127.0.0.1:1/"}`, parts[1], parts[2]))
		}),
		with(unknown, "J4", func(a *attempt) { a.header = claims(map[string]any{"exp": "9999999999"}) }),
		with(unknown, "J4", func(a *attempt) { a.header = claims(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}) }),
		with(unknown, "J5", func(a *attempt) { a.header = claims(map[string]any{"aud": []string{}}) }),
		with(unknown, "J10", func(a *attempt) { a.header = mail(false) }),
		with(unknown, "J10", func(a *attempt) { a.header = mail("true") }),
		with(unknown, "J10", func(a *attempt) { a.header = mail(1) }),
		{row: "J10", header: mail(true), code: 403, user: "ann@example.dev", how: "jwt", issuer: g.mail.URL},
		{row: "A13", header: []string{"X-Remote-User", "system:apiserver", "Authorization", "Bearer system:apiserver"}, code: 401},
		with(unknown, "J11", func(a *attempt) {
			a.header = claims(map[string]any{
				"_claim_names":   map[string]any{"groups": "s"},
				"_claim_sources": map[string]any{"s": map[string]any{"endpoint": "http://169.254.169.254/", "access_token": "password-of-endpoint"}},
			})
		}),
		with(unknown, "J12", func(a *attempt) {
			a.header = presenting(signature(`{"alg":"RS256","kid":"unknown"}`, parts[1], parts[2]))
		}),

		with(unknown, "A7", func(a *attempt) { a.header = []string{"Authorization", "Bearer\t" + goodToken} }),
		with(unknown, "A7", func(a *attempt) { a.header = presenting("\u00a0" + goodToken) }),
		with(unknown, "A7", func(a *attempt) { a.header = append(presenting(goodToken), "authorization", "Bearer "+widerToken) }),
		with(unknown, "A7", func(a *attempt) { a.header = append(presenting(goodToken), "Authorization", "") }),
		with(unknown, "A8", func(a *attempt) { a.header = []string{"Authorization", ""} }),
		with(unknown, "A11", func(a *attempt) { a.client = "stranger" }),
		with(unknown, "A11", func(a *attempt) { a.client = "nameless" }),
		with(unknown, "A11", func(a *attempt) { a.client = "account" }),
		with(unknown, "A11", func(a *attempt) { a.client = "look-alike" }),
		with(unknown, "J3", func(a *attempt) {
			a.header = presenting(signature(`{"alg":"RS256","kid":"first","crit":["b64"],"b64":false}`, parts[1], parts[2]))
		}),
		with(unknown, "J3", func(a *attempt) {
			a.header = presenting(signature(`{"alg":"RS256","kid":["first"]}`, parts[1], parts[2]))
		}),
		with(unknown, "J4", func(a *attempt) { a.header = claims(map[string]any{"exp": 1e300}) }),
		with(unknown, "J4", func(a *attempt) { a.header = claims(map[string]any{"exp": -1}) }),
		with(unknown, "J7", func(a *attempt) { a.header = presenting(signature(`{"alg":"RS256","cty":"JWT"}`, parts[1], parts[2])) }),

		with(ann, "Z", func(a *attempt) {
			a.method, a.body, a.code, a.verb, a.on = "POST", `{"metadata":{"name":"x"}}`, 201, "create", gadgetNamed("x")
		}),
		{row: "Z1", header: claims(map[string]any{"sub": "lister"}), path: gadgetPath + "?watch=1", code: 403, user: "lister", how: "jwt", issuer: g.issuer.URL, verb: "watch"},
		{row: "Z2", header: claims(map[string]any{"sub": "lister"}), method: "DELETE", code: 403, user: "lister", how: "jwt", issuer: g.issuer.URL, verb: "deletecollection"},
		with(ann, "Z3", func(a *attempt) {
			a.path, a.code, a.verb, a.on = gadgetPath+"/x/status", 403, "get", gadgetNamed("x")
			a.on.Subresource = "status"
		}),
		{row: "Z7", header: claims(map[string]any{"sub": "narrow"}), code: 403, user: "narrow", how: "jwt", issuer: g.issuer.URL},
		{row: "Z7", header: claims(map[string]any{"sub": "narrow"}), path: gadgetPath + "?fieldSelector=metadata.name%3Dx", code: 200, user: "narrow", how: "jwt", issuer: g.issuer.URL, on: gadgetNamed("x")},
		{row: "Z7", header: claims(map[string]any{"sub": "narrow"}), method: "DELETE", path: gadgetPath, code: 403, user: "narrow", how: "jwt", issuer: g.issuer.URL, verb: "deletecollection"},
		{row: "Z7", header: claims(map[string]any{"sub": "narrow"}), method: "POST", body: `{"metadata":{"name":"x"}}`, code: 403, user: "narrow", how: "jwt", issuer: g.issuer.URL, verb: "create"},
		with(ann, "Z8", func(a *attempt) {
			a.path, a.code, a.on = "/apis/example.dev/v1/gadgets", 403, audit.ObjectReference{APIGroup: "example.dev", APIVersion: "v1", Resource: "gadgets"}
		}),
		with(ann, "Z9", func(a *attempt) { a.path, a.code, a.verb, a.on = "/debug/pprof/", 403, "get", none }),
		{row: "Z11", header: claims(map[string]any{"sub": "mallory"}), path: gadgetPath + "/x", code: 403, user: "mallory", how: "jwt", issuer: g.issuer.URL, verb: "get", on: gadgetNamed("x")},
		{row: "Z11", header: claims(map[string]any{"sub": "mallory"}), path: gadgetPath + "/y", code: 403, user: "mallory", how: "jwt", issuer: g.issuer.URL, verb: "get", on: gadgetNamed("y")},
		with(ann, "Z12", func(a *attempt) { a.path, a.code, a.verb, a.on = "/healthz/ping", 403, "get", none }),
		with(ann, "Z13", func(a *attempt) { a.method, a.code, a.verb = "TRACE", 403, "-" }),
		with(ann, "Z14", func(a *attempt) { a.header, a.as = append(presenting(goodToken), "Impersonate-User", "carol"), "carol" }),
		with(ann, "Z14", func(a *attempt) { a.header, a.code = append(presenting(goodToken), "Impersonate-User", "bob"), 403 }),
		with(ann, "Z14", func(a *attempt) {
			a.header, a.code = append(presenting(goodToken), "Impersonate-Group", "system:masters"), 400
		}),
		with(ann, "Z14", func(a *attempt) {
			a.header, a.code = append(presenting(goodToken), "Impersonate-User", "carol", "Impersonate-Group", "system:masters"), 403
		}),
		with(ann, "Z13", func(a *attempt) { a.method, a.code, a.verb = "get", 403, "-" }),
		with(ann, "Z13", func(a *attempt) { a.header = append(presenting(goodToken), "X-HTTP-Method-Override", "DELETE") }),
		with(ann, "Z14", func(a *attempt) {
			a.header, a.code = append(presenting(goodToken), "Impersonate_User", "carol"), 400
		}),
		with(ann, "Z14", func(a *attempt) {
			a.header, a.code = append(presenting(goodToken), "Impersonate-User", "carol", "impersonate-user", "bob"), 400
		}),
		with(ann, "H7", func(a *attempt) {
			a.header, a.code, a.user, a.how, a.verb, a.on = presenting(goodToken), 431, "", "", "get", none // nobody is asked who it is
			for n := range 2000 {
				a.header = append(a.header, fmt.Sprintf("X-%d", n), "")
			}
		}),
		with(anonymous, "H9", func(a *attempt) {
			a.header = []string{"Origin", "https://attacker.example", "Sec-Fetch-Site", "cross-site"}
		}),
		with(ann, "H11", func(a *attempt) {
			a.header = append(presenting(goodToken), "Connection", "Upgrade", "Upgrade", "h2c", "Http2-Settings", "AAMAAABkAAQAAP__")
		}),
		with(ann, "H12", func(a *attempt) {
			a.method, a.body, a.code, a.verb, a.on = "POST", `{"metadata":{"name":"panics"}}`, 500, "create", gadgetNamed("panics")
		}),
		with(ann, "H10", func(a *attempt) {
			a.header = append(presenting(goodToken), "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
			a.method, a.body, a.code, a.verb, a.user, a.how, a.on = "POST", `{"metadata":{"name":"h"}}`, 403, "create", "", "", gadgetNamed("")
		}),
		with(ann, "H8", func(a *attempt) { a.header = append(presenting(goodToken), "Origin", "https://good.example.evil.com") }),
		with(ann, "H8", func(a *attempt) { a.header = append(presenting(goodToken), "Origin", "null") }),
		with(ann, "D1", func(a *attempt) {
			a.path, a.code, a.verb, a.on = gadgetPath+"/a%0d%0a%1b%5b31m", 400, "get", none // nobody is asked whether she may
		}),
		with(ann, "D1", func(a *attempt) {
			a.header = append(presenting(goodToken), "User-Agent", "a\u2028b")
		}),
	}
	for _, a := range all {
		t.Run(a.row, func(t *testing.T) { g.try(t, a) })
	}
}

// AUD-36: rights that a writer gives away, and objects with secrets. alice may write roles and bindings, and
// has no role herself.
func TestD11_EveryGrantIsRecorded(t *testing.T) {
	const group = "rbac.authorization.k8s.io"
	const roles, bindings, secrets = "/apis/" + group + "/v1/namespaces/default/roles", "/apis/" + group + "/v1/namespaces/default/rolebindings", "/api/v1/namespaces/default/secrets"
	const reads = `"rules":[{"apiGroups":["example.dev"],"resources":["gadgets"],"verbs":["get"]}]`
	bound := func(name, kind, role string) string {
		return `{"metadata":{"name":"` + name + `"},"roleRef":{"apiGroup":"` + group + `","kind":"` + kind + `","name":"` + role + `"},"subjects":[{"apiGroup":"` + group + `","kind":"User","name":"mallory"}]}`
	}
	of := func(apiGroup, resource, name string) audit.ObjectReference {
		return audit.ObjectReference{APIGroup: apiGroup, APIVersion: "v1", Resource: resource, Namespace: "default", Name: name}
	}
	alice := func(row, method, path, body string, code int, verb string, on audit.ObjectReference) attempt {
		return attempt{row: row, header: presenting(goodToken), user: "alice", how: "token", method: method, path: path, body: body, code: code, verb: verb, on: on, allowed: true}
	}
	bob := func(row, method, path, body string, code int, verb string, on audit.ObjectReference) attempt {
		a := alice(row, method, path, body, code, verb, on)
		a.header, a.user = presenting(widerToken), "bob"
		return a
	}
	merge := func(a attempt) attempt {
		a.header = append(a.header, "Content-Type", "application/merge-patch+json")
		return a
	}
	g := newGate(t)
	for _, a := range []attempt{
		alice("Z5", "POST", roles, `{"metadata":{"name":"wide"},`+reads+`}`, 403, "create", of(group, "roles", "wide")),
		alice("Z5", "POST", roles, `{"metadata":{"name":"empty"}}`, 201, "create", of(group, "roles", "empty")),
		merge(alice("Z5", "PATCH", roles+"/empty", `{`+reads+`}`, 403, "patch", of(group, "roles", "empty"))),
		alice("Z5", "PUT", roles+"/empty", `{"metadata":{"name":"empty"},`+reads+`}`, 403, "update", of(group, "roles", "empty")),
		bob("Z5", "POST", roles, `{"metadata":{"name":"wide"},`+reads+`}`, 201, "create", of(group, "roles", "wide")),
		alice("Z6", "POST", bindings, bound("give", "Role", "wide"), 403, "create", of(group, "rolebindings", "give")),
		alice("Z6", "POST", bindings, bound("absent", "Role", "nobody"), 404, "create", of(group, "rolebindings", "absent")),
		alice("Z6", "POST", bindings, bound("give", "Role", "empty"), 201, "create", of(group, "rolebindings", "give")),
		merge(bob("Z6", "PATCH", bindings+"/give", `{"roleRef":{"apiGroup":"`+group+`","kind":"Role","name":"wide"}}`, 422, "patch", of(group, "rolebindings", "give"))),
		bob("Z15", "POST", bindings, bound("far", "Role", "../other/wide"), 422, "create", of(group, "rolebindings", "far")),
		bob("Z15", "POST", bindings, bound("far", "Secret", "wide"), 422, "create", of(group, "rolebindings", "far")),
		alice("D2", "POST", secrets, `{"metadata":{"name":"s"},"stringData":{"a":"password-of-data"}}`, 201, "create", of("", "secrets", "s")),
		alice("D2", "PUT", secrets+"/s", `{"metadata":{"name":"s"},"stringData":{"a":"password-of-data`, 400, "update", of("", "secrets", "s")),
		merge(alice("D2", "PATCH", secrets+"/s", `{"data":{"a":"password-of-data"}}`, 422, "patch", of("", "secrets", "s"))),
		alice("D2", "GET", secrets+"/s", "", 200, "get", of("", "secrets", "s")),
		alice("D2", "GET", secrets+"?fieldSelector=metadata.name%3Ds", "", 200, "list", of("", "secrets", "s")),
		alice("D2", "DELETE", secrets+"/s", "", 200, "delete", of("", "secrets", "s")),
	} {
		t.Run(a.row, func(t *testing.T) { g.try(t, a) })
	}
}
