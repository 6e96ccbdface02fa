package extension

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authn "github.com/kindwright/kindwright/authn/delegated"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

const shipsPath = "/apis/fleet.example.com/v1/namespaces/default/ships"

var captain = []string{"X-Remote-User", "ann", "X-Remote-Group", "captains", "X-Remote-Group", "system:authenticated"}

// The rights in the manifests are enough, the host's roles decide, and its namespaces count.
func TestOPS_08_BehindAnAggregator(t *testing.T) {
	w := newWorld(t)
	w.grant()
	s := w.serve(Config{}, nil)
	h := s.aggregator(w.front(w.proxies, "front"))
	s.settle(t, h, 200)

	code, _, body := s.do(h, "POST", shipsPath, `{"metadata":{"name":"a"}}`, captain...)
	require.Equal(t, 201, code, body)
	code, _, _ = s.do(h, "GET", shipsPath+"/a", "", captain...)
	require.Equal(t, 200, code)
	code, _, body = s.do(h, "GET", shipsPath+"/a", "", "X-Remote-User", "bob", "X-Remote-Group", "system:authenticated")
	require.Equal(t, 403, code)
	require.Contains(t, body, `User \"bob\" cannot get resource \"ships\" in API group \"fleet.example.com\" in the namespace \"default\"`)

	code, _, body = s.do(h, "POST", "/apis/fleet.example.com/v1/namespaces/nowhere/ships", `{"metadata":{"name":"a"}}`, captain...)
	require.Equal(t, 404, code)
	require.Contains(t, body, `namespaces \"nowhere\" not found`)
	w.post("/api/v1/namespaces", `{"metadata":{"name":"new"}}`)
	code, _, body = s.do(h, "POST", "/apis/fleet.example.com/v1/namespaces/new/ships", `{"metadata":{"name":"a"}}`, captain...)
	require.Equal(t, 201, code, "a namespace that is not known yet is asked for: %s", body)

	code, _, body = s.do(h, "GET", "/healthz?verbose", "", captain...)
	require.Equal(t, 200, code, body)
	require.Contains(t, body, "[+]host-authentication ok")
	require.Contains(t, body, "[+]api-services ok")

	a, err := w.apis.Get(t.Context(), meta.Key{Name: "v1.fleet.example.com"})
	require.NoError(t, err)
	require.Equal(t, "fleet", a.Spec.Service.Name)
	require.Equal(t, int32(443), *a.Spec.Service.Port)
	require.Equal(t, []int32{1000, 100}, []int32{a.Spec.GroupPriorityMinimum, a.Spec.VersionPriority})
}

// Traps 19 and 20: what the aggregator itself asks for.
func TestDISC_09_TheAggregatorsRequests(t *testing.T) {
	w := newWorld(t)
	w.grant()
	s := w.serve(Config{}, nil)
	h := s.aggregator(w.front(w.proxies, "front"))
	code, _, _ := s.do(h, "GET", "/apis/fleet.example.com/v1", "", "X-Remote-User", "system:kube-aggregator", "X-Remote-Group", "system:masters")
	require.Equal(t, 200, code)
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/apis/fleet.example.com/v1"} {
		code, header, body := s.do(h, "GET", path, "", "X-Remote-User", "system:aggregator")
		require.Equal(t, 200, code, "%s: %s", path, body)
		tag := header.Get("Etag")
		require.NotEmpty(t, tag, path)
		code, _, body = s.do(h, "GET", path, "", "X-Remote-User", "system:aggregator", "If-None-Match", tag)
		require.Equal(t, 304, code, path)
		require.Empty(t, body)
	}
	code, header, body := s.do(h, "GET", "/apis", "", append([]string{"Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}, captain...)...)
	require.Equal(t, 200, code)
	require.Contains(t, body, `"kind":"APIGroupDiscoveryList"`)
	require.NotEmpty(t, header.Get("Etag"))
	s.settle(t, h, 200)
	code, _, _ = s.do(h, "GET", shipsPath, "", "X-Remote-User", "system:aggregator")
	require.Equal(t, 403, code)
}

// Whoever comes past the aggregator is nobody, whatever the fields say.
func TestA1_A2_PastTheAggregator(t *testing.T) {
	w := newWorld(t)
	w.grant()
	s := w.serve(Config{}, nil)
	front := s.aggregator(w.front(w.proxies, "front"))
	s.settle(t, front, 200) // the port is open before the store is read
	masters := []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"}
	for name, c := range map[string]struct {
		certs []tls.Certificate
		want  int
	}{
		"no certificate":    {nil, 403}, // anonymous
		"another authority": {[]tls.Certificate{w.front(w.authority(), "front")}, 401},
		"another name":      {[]tls.Certificate{w.front(w.proxies, "mallory")}, 401},
	} {
		code, _, body := s.do(s.aggregator(c.certs...), "GET", shipsPath, "", masters...)
		require.Equal(t, c.want, code, "%s: %s", name, body)
	}
	for _, fields := range [][]string{
		{"X_Remote_User", "root", "X_Remote_Group", "system:masters"},
		{"X-Remote-User", "ann", "X-Remote-User", "root", "X-Remote-Group", "system:masters"},
		{"X-Remote-User", "", "X-Remote-Group", "system:masters"},
	} {
		code, _, body := s.do(front, "GET", shipsPath, "", fields...)
		require.Equal(t, 401, code, "%v: %s", fields, body)
	}
	code, _, _ := s.do(front, "GET", shipsPath, "", "X-Remote-User", "bob", "X_Remote_Group", "captains", "Impersonate-User", "ann")
	require.Equal(t, 403, code)
}

// An old authority of front proxies is refused on connections that are open (trap 18).
func TestOPS_01_RotationOfFrontProxies(t *testing.T) {
	w := newWorld(t)
	w.grant()
	s := w.serve(Config{}, nil)
	old := s.aggregator(w.front(w.proxies, "front"))
	s.settle(t, old, 200)
	next := w.authority()
	fresh := s.aggregator(w.front(next, "front"))
	code, _, _ := s.do(fresh, "GET", shipsPath, "", captain...)
	require.Equal(t, 401, code)
	w.publish(w.proxies, next)
	s.settle(t, fresh, 200)
	code, _, _ = s.do(old, "GET", shipsPath, "", captain...)
	require.Equal(t, 200, code)
	w.publish(next)
	s.settle(t, old, 401)
	code, _, _ = s.do(fresh, "GET", shipsPath, "", captain...)
	require.Equal(t, 200, code)
}

// settle sends requests until the answer has a code.
func (s *server) settle(t *testing.T, h *http.Client, want int) {
	t.Helper()
	for {
		code, _, _ := s.do(h, "GET", shipsPath, "", captain...)
		if code == want {
			return
		}
		require.NoError(t, t.Context().Err())
		time.Sleep(time.Millisecond)
	}
}

func TestTheHostIsAway(t *testing.T) {
	w := newWorld(t)
	w.grant()
	s := w.serve(Config{}, nil)
	h := s.aggregator(w.front(w.proxies, "front"))
	s.settle(t, h, 200)
	w.away.Store(true)
	code, _, _ := s.do(h, "GET", shipsPath, "", captain...)
	require.Equal(t, 200, code, "what is remembered counts")
	code, header, _ := s.do(h, "DELETE", shipsPath+"/a", "", captain...)
	require.Equal(t, 503, code)
	require.NotEmpty(t, header.Get("Retry-After"))
	code, _, _ = s.do(h, "GET", "/apis/fleet.example.com/v1", "", "X-Remote-User", "system:kube-aggregator", "X-Remote-Group", "system:masters")
	require.Equal(t, 200, code)
	code, _, _ = s.do(s.aggregatorOffline(h), "GET", shipsPath, "", "Authorization", "Bearer x")
	require.Equal(t, 401, code)
	code, _, _ = s.do(h, "POST", "/apis/fleet.example.com/v1/namespaces/unknown/ships", `{"metadata":{"name":"a"}}`, "X-Remote-User", "root", "X-Remote-Group", "system:masters")
	require.Equal(t, 503, code, "nobody knows whether the namespace exists")
	code, _, _ = s.do(h, "POST", shipsPath, `{"metadata":{"name":"b"}}`, "X-Remote-User", "root", "X-Remote-Group", "system:masters")
	require.Equal(t, 201, code)
}

// aggregatorOffline is h without its certificate, on connections of its own.
func (s *server) aggregatorOffline(h *http.Client) *http.Client {
	transport := h.Transport.(*http.Transport).Clone() //nolint:forcetypeassert // made so
	transport.TLSClientConfig.Certificates = nil
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestTwoReplicasShareACertificate(t *testing.T) {
	w := newWorld(t)
	w.grant()
	store := memory.New()
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	a, b := w.serve(Config{}, store), w.serve(Config{}, store)
	for _, s := range []*server{a, b} {
		s.settle(t, s.aggregator(w.front(w.proxies, "front")), 200)
	}
	require.Len(t, certificatesOf(w.bundle()), 1)
}

func TestBadConfigurations(t *testing.T) {
	good := func() Config {
		return Config{Name: "fleet", Kinds: []registry.Definition{ships}, Host: authn.Connection{URL: "https://kube.example"}}
	}
	for want, change := range map[string]func(*Config){
		"Name":                  func(c *Config) { c.Name = "Fleet" },
		"Kinds: there are none": func(c *Config) { c.Kinds = nil },
		"belongs to the host": func(c *Config) {
			c.Kinds = []registry.Definition{registry.Kind[ship]{Version: "v1", Plural: "ships", Names: registry.Names{Kind: "Ship"}}}
		},
		"Namespace":                     func(c *Config) { c.Namespace = "a/b" },
		"Listen":                        func(c *Config) { c.Listen = "6443" },
		"Advertise":                     func(c *Config) { c.Advertise = "here" },
		"is no port":                    func(c *Config) { c.Advertise = "here:0" },
		"ExternalName":                  func(c *Config) { c.Advertise = "[::1]:6443" },
		"GroupPriority":                 func(c *Config) { c.GroupPriority = 20_001 },
		"VersionPriority":               func(c *Config) { c.VersionPriority = -1 },
		"Host":                          func(c *Config) { c.Host.URL = "" },
		"CertFile, KeyFile and CAFile":  func(c *Config) { c.Certificate.CertFile = "x" },
		"Get and CABundle":              func(c *Config) { c.Certificate.CABundle = func() []byte { return nil } },
		"not both":                      func(c *Config) { c.Certificate.CABundle, c.Certificate.CAFile = func() []byte { return nil }, "x" },
		"must be at least twelve times": func(c *Config) { c.Certificate.Lifetime = time.Minute },
		"Overlap may be negative":       func(c *Config) { c.Certificate.Overlap = -1 },
		"no such file":                  func(c *Config) { c.Certificate = Certificate{CertFile: "x", KeyFile: "y", CAFile: "z"} },
	} {
		cfg := good()
		change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
	_, err := New(good())
	require.NoError(t, err)
}
