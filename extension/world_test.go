package extension

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	authn "github.com/kindwright/kindwright/authn/delegated"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// ship is the kind of the tests.
type ship struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		Crew int32 `json:"crew,omitempty"`
	} `json:"spec,omitempty"`
}

var ships = registry.Kind[ship]{Group: "fleet.example.com", Version: "v1", Plural: "ships", Names: registry.Names{Kind: "Ship"}}

// world is a host, and what it needs to be one for extension servers.
type world struct {
	t       *testing.T
	host    *apitest.Server
	proxies *selfsigned.Authority
	away    atomic.Bool
	fails   func(*http.Request) bool // which requests of servers are lost; may be nil
	apis    *client.Client[apiService]
	maps    *client.Client[kinds.ConfigMap]
	secrets *client.Client[secret]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.host = apitest.Config{Options: []kindwright.Option{kindwright.Authorize(rbac.New(""))}}.New(t,
		kinds.RBAC(), kinds.ConfigMaps(), kinds.Secrets(),
		registry.Kind[apiService]{Group: "apiregistration.k8s.io", Version: "v1", Plural: "apiservices", Names: registry.Names{Kind: "APIService"}, Scope: registry.ClusterScoped},
		registry.Kind[service]{Version: "v1", Plural: "services", Names: registry.Names{Kind: "Service"}},
	)
	h := w.host.Client()
	w.apis = client.For(h, client.Resource[apiService]{Group: "apiregistration.k8s.io", Version: "v1", Plural: "apiservices", Kind: "APIService", ClusterScoped: true})
	w.maps = client.For(h, client.Resource[kinds.ConfigMap]{Version: "v1", Plural: "configmaps"})
	w.secrets = client.For(h, client.Resource[secret]{Version: "v1", Plural: "secrets", Kind: "Secret"})
	w.proxies = w.authority()
	w.publish(w.proxies)
	return w
}

func (w *world) authority() *selfsigned.Authority {
	w.t.Helper()
	a, err := selfsigned.NewAuthority("proxies")
	require.NoError(w.t, err)
	return a
}

// publish says whom the host's front proxies are signed by.
func (w *world) publish(authorities ...*selfsigned.Authority) {
	w.t.Helper()
	var bundle string
	for _, a := range authorities {
		bundle += string(a.PEM())
	}
	data := map[string]string{
		"requestheader-client-ca-file": bundle, "requestheader-allowed-names": `["front"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
		"requestheader-uid-headers": `["X-Remote-Uid"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	key := meta.Key{Namespace: "kube-system", Name: "extension-apiserver-authentication"}
	m, err := w.maps.Get(w.t.Context(), key)
	if err == nil {
		m.Data = data
		_, err = w.maps.Update(w.t.Context(), m)
	} else {
		_, err = w.maps.Create(w.t.Context(), &kinds.ConfigMap{ObjectMeta: meta.Named(key.Namespace, key.Name), Data: data})
	}
	require.NoError(w.t, err)
}

// post creates an object as an administrator.
func (w *world) post(path, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.host.URL+path, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := w.host.Client().Do(r)
	require.NoError(w.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusCreated, res.StatusCode, "%s", text)
}

// roundTripper is an http.RoundTripper that is a function.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// as is the host for a user.
func (w *world) as(user string, groups ...string) authn.Connection {
	by := w.host.As(user, groups...).Transport
	return authn.Connection{URL: w.host.URL, Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if w.away.Load() || w.fails != nil && w.fails(r) {
			return nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
		}
		return by.RoundTrip(r)
	})}}
}

// grant gives the rights of the manifests to the account of the server, and users the right to ships.
func (w *world) grant() {
	w.t.Helper()
	var out bytes.Buffer
	require.NoError(w.t, WriteManifests(&out, Config{Name: "fleet", Kinds: []registry.Definition{ships}}, Deployment{Image: "fleet:1"}))
	collections := map[string]string{
		"ClusterRole": "/clusterroles", "ClusterRoleBinding": "/clusterrolebindings",
		"Role": "/namespaces/default/roles", "RoleBinding": "/namespaces/default/rolebindings",
	}
	for _, document := range yaml.Documents(out.Bytes()) {
		text, err := yaml.ToJSON(document, 1<<20)
		require.NoError(w.t, err)
		var o struct {
			Kind     string
			Metadata struct{ Namespace string }
		}
		require.NoError(w.t, json.Unmarshal(text, &o))
		if path, ok := collections[o.Kind]; ok {
			if o.Metadata.Namespace == "kube-system" {
				path = strings.Replace(path, "default", "kube-system", 1)
			}
			w.post("/apis/rbac.authorization.k8s.io/v1"+path, string(text))
		}
	}
	w.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"system:auth-delegator"},"rules":[{"verbs":["create"],"apiGroups":["authentication.k8s.io"],"resources":["tokenreviews"]},{"verbs":["create"],"apiGroups":["authorization.k8s.io"],"resources":["subjectaccessreviews"]}]}`)
	w.post("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles", `{"metadata":{"name":"extension-apiserver-authentication-reader"},"rules":[{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["extension-apiserver-authentication"]}]}`)
	w.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"ships"},"rules":[{"verbs":["*"],"apiGroups":["fleet.example.com"],"resources":["*"]}]}`)
	w.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"ships"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"ships"},"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"captains"}]}`)
}

// account is who the server is to the host.
var account = []string{"system:serviceaccount:default:fleet", "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}

// server is a running extension server.
type server struct {
	*world
	ext     *Extension
	address string
	stop    func()
}

// serve starts a server over a store, nil for one in memory, and waits until it listens.
func (w *world) serve(cfg Config, b storage.Backend) *server {
	w.t.Helper()
	cfg.Name, cfg.Namespace, cfg.Kinds, cfg.Log = "fleet", "default", []registry.Definition{ships}, logr.Discard()
	cfg.Host = w.as(account[0], account[1:]...)
	ext, err := New(cfg)
	require.NoError(w.t, err)
	if b == nil {
		own := memory.New()
		w.t.Cleanup(func() { require.NoError(w.t, own.Close()) })
		b = own
	}
	srv, err := kindwright.New(b, ext.Options()...)
	require.NoError(w.t, err)
	listener, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ext.Run(ctx, srv, kindwright.ListenOn(listener)) }()
	s := &server{world: w, ext: ext, address: listener.Addr().String()}
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(w.t, <-done)
		}
	}
	w.t.Cleanup(s.stop)
	return s
}

// front is the host's client certificate of an authority.
func (w *world) front(a *selfsigned.Authority, name string) tls.Certificate {
	w.t.Helper()
	pair, err := a.Client(name)
	require.NoError(w.t, err)
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(w.t, err)
	return cert
}

// bundle waits for the APIService of the server and returns whom the host trusts.
func (w *world) bundle() []byte {
	w.t.Helper()
	kind := client.Resource[apiService]{Group: "apiregistration.k8s.io", Version: "v1", Plural: "apiservices", ClusterScoped: true}
	return apitest.Eventually(w.t.Context(), w.host, kind, meta.Key{Name: "v1.fleet.example.com"}, func(a *apiService) error {
		if len(a.Spec.CABundle) == 0 {
			return errors.New("no bundle yet")
		}
		return nil
	}).Spec.CABundle
}

// aggregator sends requests as the aggregator of the host does.
func (s *server) aggregator(certs ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	require.True(s.t, pool.AppendCertsFromPEM(s.bundle()))
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: "fleet.default.svc", Certificates: certs, MinVersion: tls.VersionTLS12},
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// do sends a request and returns the code, the header and the body.
func (s *server) do(h *http.Client, method, path, body string, fields ...string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "https://"+s.address+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	res, err := h.Do(r)
	require.NoError(s.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return res.StatusCode, res.Header, string(text)
}
