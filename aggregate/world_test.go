package aggregate_test

import (
	"context"
	"crypto/tls"
	stdx509 "crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/requestheader"
	"github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/leak"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestMain(m *testing.M) { leak.Main(m) }

// byHeader authenticates by the headers X-User, X-Groups and X-Fact.
var byHeader = authn.Func(func(r *http.Request) (authn.User, bool, error) {
	u := authn.User{Name: r.Header.Get("X-User"), UID: r.Header.Get("X-User-Id"), Groups: r.Header["X-Groups"]}
	if fact := r.Header.Get("X-Fact"); fact != "" {
		u.Extra = map[string][]string{"Acme/Fact %": {fact}}
	}
	return u, u.Name != "", nil
})

// noted allows everything but what mallory wants. A user such as only-get-a may do just that
// with the object of that name.
var noted = authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	only, bound := strings.CutPrefix(a.User.Name, "only-")
	if a.User.Name == "mallory" || bound && only != a.Verb+"-"+a.Name {
		return authz.Deny, "", nil
	}
	return authz.Allow, "", nil
})

// world is a server with back ends.
type world struct {
	t       testing.TB
	front   *kindwright.Server
	http    *httptest.Server
	serving *selfsigned.Authority // of back ends
	proxies *selfsigned.Authority // of the front

	open        atomic.Int64 // connections to back ends
	mu          sync.Mutex
	certificate *tls.Certificate
	addresses   map[string]string // of services
	problems    map[string]error
}

func authority(t testing.TB, name string) *selfsigned.Authority {
	t.Helper()
	a, err := selfsigned.NewAuthority(name)
	require.NoError(t, err)
	return a
}

func keyPair(t testing.TB, p selfsigned.Pair, err error) *tls.Certificate {
	t.Helper()
	require.NoError(t, err)
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	require.NoError(t, err)
	return &c
}

// Resolve implements aggregate.Resolver.
func (w *world) Resolve(_ context.Context, namespace, name string, _ int32) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.problems[name]; err != nil {
		return "", err
	}
	if at := w.addresses[name]; at != "" {
		return at, nil
	}
	return "", &aggregate.Problem{Reason: "ServiceNotFound", Message: fmt.Sprintf("service/%s in %q is not present", name, namespace)}
}

// newWorld starts a server without back ends.
func newWorld(t testing.TB, change func(*aggregate.Config), opts ...kindwright.Option) *world {
	t.Helper()
	w := &world{t: t, serving: authority(t, "serving"), proxies: authority(t, "proxies"), addresses: map[string]string{}, problems: map[string]error{}}
	p, err := w.proxies.Client("front")
	w.certificate = keyPair(t, p, err)
	cfg := aggregate.Config{
		Certificate: func() (*tls.Certificate, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.certificate, nil
		},
		Resolver: w, AllowLoopback: true, ProbeEvery: 20 * time.Millisecond, Timeout: 10 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	behind, err := aggregate.New(cfg)
	require.NoError(t, err)
	w.front = w.start(append([]kindwright.Option{
		kindwright.Serve(kinds.ControlPlane()), kindwright.Aggregate(behind), kindwright.Authenticate(byHeader), kindwright.Authorize(noted),
	}, opts...)...)
	w.http = httptest.NewServer(w.front)
	t.Cleanup(w.http.Close)
	return w
}

// start starts a server that ends with the test.
func (w *world) start(opts ...kindwright.Option) *kindwright.Server {
	w.t.Helper()
	db := memory.New()
	srv, err := kindwright.New(db, append(opts, kindwright.LogTo(logr.Discard()))...)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(w.t, srv.Start(ctx))
	w.t.Cleanup(func() { cancel(); srv.Wait(); require.NoError(w.t, db.Close()) })
	return srv
}

// listen lets a handler answer for a service, with a certificate for hosts.
func (w *world) listen(service string, h http.Handler, hosts ...string) *httptest.Server {
	w.t.Helper()
	p, err := w.serving.Serving(hosts...)
	s := httptest.NewUnstartedServer(h)
	clients := stdx509.NewCertPool()
	clients.AddCert(w.proxies.Certificate())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*keyPair(w.t, p, err)}, ClientAuth: tls.RequestClientCert, ClientCAs: clients}
	s.Config.ConnState = func(_ net.Conn, to http.ConnState) {
		switch to {
		case http.StateNew:
			w.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			w.open.Add(-1)
		}
	}
	s.EnableHTTP2, s.Config.ErrorLog = true, slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	w.t.Cleanup(s.Close)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addresses[service] = s.Listener.Addr().String()
	return s
}

// Boat is a kind of the back end.
type Boat struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Sails *int32 `json:"sails,omitempty"`
	} `json:"spec,omitempty"`
}

// echo is a subresource that speaks a protocol of its own.
func echo(w http.ResponseWriter, r *http.Request, _ *registry.Call[Boat], _ *struct{}) error {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(r.Context(), func() { _ = conn.Close() })
	defer stop()
	u, _ := authn.UserFrom(r.Context())
	_, _ = fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n%s\n", u.Name)
	_ = rw.Flush()
	_, _ = io.Copy(conn, rw)
	return nil
}

// kindwright lets another server of ours answer for boats of a version, for users that proxies name.
func (w *world) kindwright(service, version string, opts ...kindwright.Option) *kindwright.Server {
	w.t.Helper()
	pool := stdx509.NewCertPool()
	pool.AddCert(w.proxies.Certificate())
	proxies, err := x509.New(pool)
	require.NoError(w.t, err)
	cfg := requestheader.Standard()
	cfg.ProxyNames = []string{"front"}
	users, err := requestheader.New(proxies, cfg)
	require.NoError(w.t, err)
	srv := w.start(append([]kindwright.Option{
		kindwright.Serve(registry.Kind[Boat]{
			Group: "boats.example.dev", Version: version, Plural: "boats", Names: registry.Names{ShortNames: []string{"bt"}},
			Subresources: []registry.Endpoint{connect.Endpoint[Boat, struct{}]{Name: "exec", Upgrade: true, Serve: echo}},
		}),
		kindwright.Authenticate(users), kindwright.Authorize(noted),
		kindwright.Access{NoAnonymous: true},
	}, opts...)...)
	w.listen(service, srv, service+".default.svc")
	return srv
}

// register creates an APIService for a version of boats.
func (w *world) register(service, version string, changes ...string) {
	w.t.Helper()
	w.registerAs("boats.example.dev", service, version, changes...)
}

// boatsAndDead registers a back end that answers, and a group whose service there is not.
func (w *world) boatsAndDead() {
	w.t.Helper()
	w.kindwright("boats", "v1")
	w.register("boats", "v1")
	w.registerAs("dead.example.dev", "dead", "v1")
	w.await("v1.boats.example.dev", "Passed")
	w.await("v1.dead.example.dev", "ServiceNotFound")
}

func (w *world) registerAs(group, service, version string, changes ...string) {
	w.t.Helper()
	object := fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"%s.%s"},"spec":{"group":%q,"version":%q,
		"service":{"namespace":"default","name":%q},"caBundle":%q,"groupPriorityMinimum":2000,"versionPriority":15}}`,
		version, group, group, version, service, base64.StdEncoding.EncodeToString(w.serving.PEM()))
	for i := 0; i+1 < len(changes); i += 2 {
		require.Contains(w.t, object, changes[i])
		object = strings.ReplaceAll(object, changes[i], changes[i+1])
	}
	code, body := w.do("POST", services, object)
	require.Equal(w.t, 201, code, body)
}

const services = "/apis/apiregistration.k8s.io/v1/apiservices"

// send sends a request as alice, unless the headers name somebody else.
func (w *world) send(method, path, body string, headers ...string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, w.http.URL+path, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("X-User", "alice")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	res, err := w.http.Client().Transport.RoundTrip(r)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (w *world) do(method, path, body string, headers ...string) (int, string) {
	w.t.Helper()
	res := w.send(method, path, body, headers...)
	data, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	return res.StatusCode, string(data)
}

// available returns the status and the reason of the condition of an APIService.
func (w *world) available(name string) (status, reason, message string) {
	w.t.Helper()
	code, body := w.do("GET", services+"/"+name, "")
	require.Equal(w.t, 200, code, body)
	var s aggregate.APIService
	require.NoError(w.t, json.Unmarshal([]byte(body), &s))
	for _, c := range s.Status.Conditions {
		if c.Type == aggregate.Available {
			return c.Status, c.Reason, c.Message
		}
	}
	return "", "", ""
}

// await waits until the condition of an APIService has a reason.
func (w *world) await(name, reason string) (message string) {
	w.t.Helper()
	return w.awaitMessage(name, reason, "")
}

// awaitMessage waits until it also has a message that contains a text.
func (w *world) awaitMessage(name, reason, text string) (message string) {
	w.t.Helper()
	require.Eventuallyf(w.t, func() bool {
		_, is, m := w.available(name)
		message = m
		return is == reason && strings.Contains(m, text)
	}, time.Minute, 5*time.Millisecond, "%s: %s: %s", name, reason, text)
	return message
}

// inPath authenticates by the header X-Who, such as name=bob, in which + stands for a blank.
type inPath struct{}

// Authenticate implements authn.Authenticator.
func (inPath) Authenticate(r *http.Request) (authn.User, bool, error) {
	what, value, ok := strings.Cut(r.Header.Get("X-Who"), "=")
	value = strings.ReplaceAll(value, "+", " ")
	u := authn.User{Name: "bob"}
	switch what {
	case "name":
		u.Name = value
	case "group":
		u.Groups = []string{value}
	case "uid":
		u.UID = value
	case "extra":
		u.Extra = map[string][]string{"fact": {value}}
	}
	return u, ok, nil
}

func keyPairFunc(w *world) func() (*tls.Certificate, error) {
	return func() (*tls.Certificate, error) { return w.certificate, nil }
}
