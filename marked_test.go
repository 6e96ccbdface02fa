package kindwright_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/audit"
	auditwebhook "github.com/kindwright/kindwright/audit/webhook"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/token"
	authnwebhook "github.com/kindwright/kindwright/authn/webhook"
	certificates "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/authz"
	authzwebhook "github.com/kindwright/kindwright/authz/webhook"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// marks are the credentials of a run. Each has a text that occurs nowhere else.
var marks = map[string]string{
	"a token":                          "mark3rTokenGood",
	"a wrong token":                    "mark3rTokenWrong",
	"a token of another server":        "mark3rTokenRemote",
	"a token that the webhook rejects": "mark3rTokenRejected",
	"a signed token":                   "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtYXJrM3IifQ.bWFyazNyU2lnbmF0dXJl",
	"a password":                       "mark3rPassword",
	"the data of a secret":             "mark3rSecretData",
	"the token of a webhook":           "mark3rWebhookToken",
	"the password of a webhook":        "mark3rWebhookPassword",
	"a cookie":                         "mark3rCookie",
}

// found returns the credentials that a text has, as they are or encoded.
func found(text string, more ...string) (out []string) {
	all := slices.Clone(more)
	for _, m := range marks {
		all = append(all, m)
	}
	for _, m := range all {
		encoded := base64.StdEncoding.EncodeToString([]byte(m))
		for _, form := range []string{m, encoded[:len(encoded)-4], url.QueryEscape(m), strings.ToUpper(m)} {
			if strings.Contains(text, form) {
				out = append(out, form)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// growing is a buffer that many goroutines write to.
type growing struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (g *growing) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

// world is a server with credentials of every kind, and everything that it tells.
type world struct {
	t      *testing.T
	run    *runner
	log    *growing // of the program, at the highest verbosity
	audit  *growing // of both sinks
	heard  *growing // answers
	secret string   // the private key of the client, as it is in its file

	plain, proven *http.Transport // without and with the certificate
}

// remote is the other side of the webhooks. It answers by the path, and repeats the token in its
// errors, as a careless one would.
func remote(t *testing.T, w *world) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var review struct {
			Spec struct {
				Token string `json:"token"`
			} `json:"spec"`
		}
		_ = json.Unmarshal(body, &review)
		switch {
		case r.URL.Path == "/audit":
			_, _ = w.audit.Write(append(body, '\n'))
			http.Error(out, "cannot store "+r.Header.Get("Authorization"), http.StatusBadRequest)
		case r.URL.Path == "/authorize":
			http.Error(out, "broken, for "+r.Header.Get("Authorization"), http.StatusBadRequest)
		case review.Spec.Token == marks["a token of another server"]:
			_, _ = io.WriteString(out, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"ann","groups":["system:masters"]}}}`)
		case review.Spec.Token == marks["a token that the webhook rejects"]:
			_, _ = fmt.Fprintf(out, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":false,"error":"no user has the token %s"}}`, review.Spec.Token)
		default:
			http.Error(out, "no such token: "+review.Spec.Token, http.StatusBadRequest)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// connection reads a connection file with a token or with a password.
func (w *world) connection(address, user string) auditwebhook.Connection {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "webhook.yaml")
	require.NoError(w.t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":%s}]}`, address, user), 0o600))
	c, err := auditwebhook.ReadConnection(path)
	require.NoError(w.t, err)
	return c
}

func newWorld(t *testing.T, more ...kindwright.Option) *world {
	t.Helper()
	w := &world{t: t, log: &growing{}, audit: &growing{}, heard: &growing{}}
	log := logr.FromSlogHandler(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.Level(-100)}))
	back := remote(t, w)
	token1 := fmt.Sprintf(`{"token":%q}`, marks["the token of a webhook"])
	sink, err := auditwebhook.New(w.connection(back.URL+"/audit", token1), auditwebhook.Options{Mode: audit.ModeBlocking, InitialBackoff: time.Microsecond, Logger: log})
	require.NoError(t, err)
	asks, err := authnwebhook.New(w.connection(back.URL+"/authenticate", token1), authnwebhook.Options{Version: "v1", Timeout: time.Minute})
	require.NoError(t, err)
	decides, err := authzwebhook.New(w.connection(back.URL+"/authorize", fmt.Sprintf(`{"username":"u","password":%q}`, marks["the password of a webhook"])),
		authzwebhook.Options{Name: "w", Version: "v1", Logger: log})
	require.NoError(t, err)
	tokens, err := token.Read(strings.NewReader(marks["a token"] + ",ann,u1,\"system:masters\"\n"))
	require.NoError(t, err)

	own := certificate(t)
	authority, err := selfsigned.NewAuthority("clients")
	require.NoError(t, err)
	pair, err := authority.Client("carol")
	require.NoError(t, err)
	client, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	w.secret = strings.ReplaceAll(string(pair.Key), "\n", "")[40:]
	w.plain = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	w.proven = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{client}}, ForceAttemptHTTP2: true}
	pool := x509.NewCertPool()
	pool.AddCert(authority.Certificate())
	proofs, err := certificates.New(pool)
	require.NoError(t, err)

	policy := audit.Policy{Rules: []audit.Rule{{Level: audit.LevelMetadata}}}
	w.run = startWith(t, append([]kindwright.Option{
		kindwright.LogTo(log), kindwright.Audit(policy, sink, &copying{w.audit}),
		kindwright.Debug{Profiles: true},
		kindwright.Authenticate(proofs, tokens, asks), kindwright.Authorize(decides),
		kindwright.Admit(admission.Plugin{Name: "breaks", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			switch r.Name {
			case "panics":
				panic(fmt.Sprintf("a rule broke down at %s", r.Name))
			case "fails":
				return errors.New("a rule failed")
			}
			return nil
		})}),
		kindwright.Serve(registry.Kind[gadget]{Group: "example.dev", Version: "v1", Plural: "secretthings", Names: registry.Names{Kind: "SecretThing"}}, kinds.ControlPlane()),
	}, more...), kindwright.Listen("127.0.0.1:0"), kindwright.TLS{Config: &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert, ClientCAs: pool}})
	return w
}

// startWith is startRun without an authenticator of its own.
func startWith(t *testing.T, opts []kindwright.Option, runOpts ...kindwright.RunOption) *runner {
	t.Helper()
	b := memory.New()
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	srv, err := kindwright.New(b, opts...)
	require.NoError(t, err)
	return runServer(t, srv, runOpts...)
}

// copying is a sink that copies the records.
type copying struct{ to io.Writer }

func (c *copying) Write(_ context.Context, line []byte) error {
	_, err := c.to.Write(append(line, '\n'))
	return err
}

func (c *copying) Close() error { return nil }

// ask sends one request. Its answer is kept, unless the client asked for what is secret.
func (w *world) ask(own bool, method, path, body string, header http.Header, certificate bool) {
	w.t.Helper()
	transport := w.plain
	if certificate {
		transport = w.proven
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, "https://"+w.run.addr+path, strings.NewReader(body))
	require.NoError(w.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		r.Header[name] = values
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return // refused with the connection
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	if own {
		return
	}
	_, _ = fmt.Fprintf(w.heard, "%s %s: %d %v\n%s\n", method, path, res.StatusCode, res.Header, text)
}

// suite sends requests of every kind with credentials of every kind, or with the last few kinds.
func (w *world) suite(most int) {
	w.t.Helper()
	data := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"data":{"k":%q}}`, name, marks["the data of a secret"])
	}
	const path = "/apis/example.dev/v1/namespaces/default/secretthings"
	basic := base64.StdEncoding.EncodeToString([]byte("ann:" + marks["a password"]))
	headers := []http.Header{
		{"Authorization": {"Basic " + basic}},
		{"Authorization": {"basic " + marks["a password"]}},
		{"Cookie": {"session=" + marks["a cookie"]}},
		{"Authorization": {"Token " + marks["a token"]}},
		{"Authorization": {"Bearer " + marks["a token"], "Bearer " + marks["a wrong token"]}},
		{"Authorization": {"Bearer " + marks["a token"] + " " + marks["a wrong token"]}},
		{"Authorization": {"Bearer " + marks["a token"]}, "Impersonate-User": {"bob"}},
		{"Authorization": {"Bearer " + marks["a token"]}, "Impersonate-Group": {"no user"}},
		{"Authorization": {"Bearer " + marks["a wrong token"]}, "Impersonate-User": {"bob"}},
		{"Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(marks["a token"]))}},
		{"Authorization": {"Bearer " + marks["a token"]}, "X-Long": {strings.Repeat("x", 2<<20)}},
	}
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		if strings.Contains(name, "token") {
			headers = append(headers, http.Header{"Authorization": {"Bearer " + marks[name]}})
		}
	}
	headers = append(headers, http.Header{}) // anonymous
	for i, header := range headers[max(0, len(headers)-most):] {
		for _, q := range []struct {
			own                bool
			method, path, body string
		}{
			{false, "GET", "/apis", ""},
			{true, "GET", path, ""},
			{false, "GET", path + "/absent", ""},
			{false, "GET", path + "?watch=1&timeoutSeconds=0&resourceVersion=x", ""},
			{true, "POST", path, data(fmt.Sprint("good", i))},
			{true, "PUT", path + "/good0", data("good0")},
			{false, "POST", path, data("Bad Name")},
			{false, "POST", path, data("panics")},
			{false, "POST", path, data("fails")},
			{false, "POST", path, strings.Replace(data("x"), `"k":`, `"k":7,"l":{"m":1},"n":`, 1)},
			{false, "POST", path, data("x")[1:]},
			{false, "POST", path, "[" + data("x")},
			{false, "POST", path + "?fieldValidation=Strict", strings.Replace(data("x"), `"data"`, `"dota"`, 1)},
			{false, "PATCH", path + "/good0", data("x")},
			{false, "DELETE", path + "/absent", data("x")},
			{false, "POST", "/apis/example.dev/v1/wrong", data("x")},
			{false, "GET", "/%2e%2e/", ""},
			{false, "GET", "/readyz?verbose", ""},
			{false, "GET", "/debug/pprof/", ""},
			{false, "BREW", path, ""},
			{false, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"},
			{true, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", fmt.Sprintf(`{"spec":{"token":%q}}`, marks["a token"])},
			{false, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}`},
		} {
			w.ask(q.own, q.method, q.path, q.body, header, i%2 == 1)
		}
	}
}

// pages reads what the server tells about itself.
func (w *world) pages() {
	w.t.Helper()
	header := http.Header{"Authorization": {"Bearer " + marks["a token"]}}
	for _, path := range []string{
		"/metrics", "/metrics/slis", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs", "/debug/pprof/heap",
		"/debug/pprof/cmdline", "/debug/pprof/mutex?debug=1", "/debug/pprof/threadcreate?debug=1", "/healthz?verbose", "/readyz?verbose", "/version", "/openapi/v2", "/",
	} {
		w.ask(false, "GET", path, "", header, false)
	}
}

func (w *world) end() {
	w.t.Helper()
	w.plain.CloseIdleConnections()
	w.proven.CloseIdleConnections()
	w.run.end(w.t)
}

// leaks returns where credentials are that must not be there.
func (w *world) leaks() map[string][]string {
	w.t.Helper()
	out := map[string][]string{}
	for name, text := range map[string]string{"log": w.log.String(), "audit": w.audit.String(), "answers and pages": w.heard.String()} {
		require.NotEmpty(w.t, text, "%s: nothing was looked at", name)
		if all := found(text, w.secret[20:60]); len(all) > 0 {
			out[name] = all
		}
	}
	return out
}

// TestA5_D2_MarkedCredentialsAreNowhere sends credentials of every kind through requests of every
// kind, good and bad, with back ends that repeat what they are told. No credential is in the log at
// its highest verbosity, in an audit record, a metric, a profile, a page or an answer.
func TestA5_D2_MarkedCredentialsAreNowhere(t *testing.T) {
	w := newWorld(t)
	w.suite(100)
	w.pages()
	require.Empty(t, w.leaks())
	require.Contains(t, w.log.String(), "panic", "the suite made the server log")
	require.Contains(t, w.heard.String(), "goroutine")
	require.Contains(t, w.heard.String(), "apiserver_request_total")
	w.end()
}

// Each of these leaks is found, or the test above would prove nothing.
func TestA5_PlantedLeaksAreFound(t *testing.T) {
	for where, leak := range map[string]kindwright.Option{
		"audit": kindwright.Admit(admission.Plugin{Name: "annotates", Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
			data, _ := r.Object["data"].(map[string]any)
			return r.Annotate(ctx, "example.dev/data", fmt.Sprint(data["k"]))
		})}),
		"log": kindwright.Authenticate(authn.Func(func(r *http.Request) (authn.User, bool, error) {
			return authn.User{}, false, fmt.Errorf("who has %s?", strings.Join(r.Header["Authorization"], ","))
		})),
		"answers and pages": kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			return authz.NoOpinion, "it is no " + marks["a token"], nil
		})),
	} {
		w := newWorld(t, leak)
		w.suite(7)
		require.Contains(t, w.leaks(), where)
		w.end()
	}
}

// The record of each request says how its sender has proved who they are, and never with what.
func TestD11_RecordsNameTheMethodOfAuthentication(t *testing.T) {
	w := newWorld(t)
	token := http.Header{"Authorization": {"Bearer " + marks["a token"]}}
	as := token.Clone()
	as.Set("Impersonate-User", "bob")
	w.ask(false, "GET", "/api", "", token, false)
	w.ask(false, "GET", "/api", "", as, false)
	w.ask(false, "GET", "/api", "", nil, true)
	w.ask(false, "GET", "/api", "", nil, false)
	w.ask(false, "GET", "/api", "", http.Header{"Authorization": {"Bearer " + marks["a token of another server"]}}, false)
	w.ask(false, "GET", "/api", "", http.Header{"Authorization": {"Bearer " + marks["a wrong token"]}}, false)
	w.end()
	methods := map[string]bool{}
	for line := range strings.Lines(w.audit.String()) {
		if strings.Contains(line, `"EventList"`) {
			continue // of the webhook, with the same records
		}
		e, err := audit.ParseEvent([]byte(strings.TrimSpace(line)))
		require.NoError(t, err, line)
		if e.Stage != audit.StageResponseComplete {
			continue
		}
		name := e.User.Username
		if e.ImpersonatedUser != nil {
			name += " as " + e.ImpersonatedUser.Username
		}
		methods[name+" "+e.Annotations["authentication.k8s.io/method"]] = true
	}
	for _, want := range []string{"ann token", "ann as bob token", "ann webhook", "system:anonymous anonymous"} {
		require.True(t, methods[want], "%s: %v", want, methods)
	}
	require.Contains(t, fmt.Sprint(methods), "carol x509:")
	require.True(t, methods[" "], "a wrong token is nobody's: %v", methods)
	require.Empty(t, w.leaks())
}
