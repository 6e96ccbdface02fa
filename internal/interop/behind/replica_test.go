package behind

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/delegated"
	"github.com/kindwright/kindwright/extension"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// Ship is a kind of the extension servers in this process.
type Ship struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		Crew int32 `json:"crew,omitempty" minimum:"0"`
	} `json:"spec,omitempty"`
}

// Caller says who asks.
type Caller struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	User   string              `json:"user,omitempty"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

func kinds() []registry.Definition {
	return []registry.Definition{
		registry.Kind[Ship]{Group: "fleet.example.com", Version: "v1", Plural: "ships"},
		registry.VirtualKind[Caller]{Group: "fleet.example.com", Version: "v1", Plural: "callers", Run: func(ctx context.Context, c *Caller) error {
			u, _ := authn.UserFrom(ctx)
			c.User, c.UID, c.Groups, c.Extra = u.Name, u.UID, u.Groups, u.Extra
			return nil
		}},
	}
}

// replica is an extension server in this process.
type replica struct {
	*host
	address string
	by      atomic.Pointer[string] // the authority of the front proxy that sent the last request
	stop    func()
}

// note remembers who has sent a request, unless the test did.
func (r *replica) note(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("X-Direct") == "" && q.TLS != nil && len(q.TLS.PeerCertificates) > 0 {
			key := signer(q.TLS.PeerCertificates[0])
			r.by.Store(&key)
		}
		next.ServeHTTP(w, q)
	})
}

// fingerprint is that of the certificate that is served at an address.
func (h *host) fingerprint(address string) string {
	d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(context.Background(), "tcp", address)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	return string(conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw) //nolint:forcetypeassert // documented
}

// replica starts an extension server behind the host. The address of the Service is that of the first.
func (h *host) replica(kubeconfig, advertise string, b storage.Backend, c extension.Certificate) *replica {
	h.t.Helper()
	host, err := delegated.ReadConnection(kubeconfig, func(err error) { h.t.Log(err) })
	require.NoError(h.t, err)
	l, err := new(net.ListenConfig).Listen(h.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(h.t, err)
	if advertise == "" {
		advertise = l.Addr().String()
	}
	e, err := extension.New(extension.Config{
		Name: "fleet", Namespace: "default", Kinds: kinds(), Host: host, Advertise: advertise, Certificate: c, Log: logr.Discard(),
	})
	require.NoError(h.t, err)
	r := &replica{host: h, address: l.Addr().String()}
	srv, err := kindwright.New(b, append(e.Options(), kindwright.Before("authenticate", r.note))...)
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, srv, kindwright.ListenOn(l)) }()
	stopped := false
	r.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(h.t, <-ended)
		}
	}
	h.t.Cleanup(r.stop)
	return r
}

// direct sends a request to the replica itself, as a front proxy with a certificate of an authority, or
// without one.
func (r *replica) direct(by *selfsigned.Authority, path string, fields ...string) (int, string) {
	r.t.Helper()
	cfg := tlsOf(x509.NewCertPool())
	cfg.InsecureSkipVerify = true
	if by != nil {
		p, err := by.Client("front")
		require.NoError(r.t, err)
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		require.NoError(r.t, err)
		cfg.Certificates = []tls.Certificate{pair}
	}
	h := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}, Timeout: time.Minute}
	q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+r.address+path, http.NoBody)
	require.NoError(r.t, err)
	q.Header.Set("X-Direct", "1")
	for i := 0; i+1 < len(fields); i += 2 {
		q.Header.Add(fields[i], fields[i+1])
	}
	res, err := h.Do(q)
	require.NoError(r.t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res.StatusCode, string(body)
}

// captains lets a group do everything with ships, and ann.
func (h *host) captains() {
	h.t.Helper()
	h.kubectl().pipe(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: captains}
rules: [{apiGroups: [fleet.example.com], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: captains}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: captains}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: captains}]
`, "apply", "--server-side", "-f", "-")
}

// Who asks arrives as it is, and the roles of the host decide.
func TestOPS_08_WhoAsks(t *testing.T) {
	h := newHost(t)
	h.captains()
	r := h.replica(h.rights(), "", h.store(t), extension.Certificate{})
	h.available("v1.fleet.example.com")
	const callers = "/apis/fleet.example.com/v1/callers"
	who := func(token string, fields ...string) (int, *Caller) {
		t.Helper()
		code, body := h.do(token, "POST", callers, `{"metadata":{}}`, fields...)
		c := &Caller{}
		if code == http.StatusCreated {
			require.NoError(t, json.Unmarshal([]byte(body), c))
		}
		return code, c
	}
	code, c := who("root-token")
	require.Equal(t, 201, code)
	require.Equal(t, []string{"root", "root-uid"}, []string{c.User, c.UID})
	require.ElementsMatch(t, []string{"system:masters", "system:authenticated"}, c.Groups)

	code, _ = who("ann-token")
	require.Equal(t, 403, code)
	code, body := h.do("ann-token", "GET", fleet+"/a", "")
	require.Equal(t, 403, code)
	require.Contains(t, body, `ships.fleet.example.com \"a\" is forbidden: User \"ann\" cannot get resource \"ships\" in API group \"fleet.example.com\" in the namespace \"default\"`)
	code, _ = h.do("nobody", "GET", fleet, "")
	require.Equal(t, 401, code)

	code, c = who("root-token", "Impersonate-User", "bob", "Impersonate-Uid", "7", "Impersonate-Group", "captains", "Impersonate-Group", "crew",
		"Impersonate-Extra-Example.com%2fScope", "all", "Impersonate-Extra-Example.com%2fScope", "some", "Impersonate-Extra-Odd%25", "ü")
	require.Equal(t, 201, code)
	require.Equal(t, []string{"bob", "7"}, []string{c.User, c.UID})
	require.ElementsMatch(t, []string{"captains", "crew", "system:authenticated"}, c.Groups)
	require.Equal(t, []string{"all", "some"}, c.Extra["example.com/scope"])
	require.Equal(t, []string{"ü"}, c.Extra["odd%"])
	code, _ = who("root-token", "Impersonate-User", "bob", "Impersonate-Group", "crew")
	require.Equal(t, 403, code)

	// Headers that name users end at the host, whoever spells them.
	for _, forged := range [][]string{
		{"X-Remote-User", "root", "X-Remote-Group", "system:masters"},
		{"x_remote_user", "root", "x_remote_group", "system:masters"},
		{"X-REMOTE-EXTRA-scope", "all", "X-Remote-Group", "captains"},
		{"Connection", "X-Remote-User, X-Remote-Group", "X-Remote-User", "root", "X-Remote-Group", "system:masters"},
	} {
		code, _ = who("ann-token", forged...)
		require.Equal(t, 403, code, "%v", forged)
		code, _ = r.direct(nil, fleet, forged...)
		require.Contains(t, []int{401, 403}, code, "%v", forged)
		code, _ = r.direct(authority(t, "others"), fleet, forged...)
		require.Equal(t, 401, code, "%v", forged)
	}

	// A token of the host is good past the host, too, and one that is not is not.
	code, _ = r.direct(nil, fleet, "Authorization", "Bearer root-token")
	require.Equal(t, 200, code)
	code, _ = r.direct(nil, fleet, "Authorization", "Bearer ann-token")
	require.Equal(t, 403, code)
	code, _ = r.direct(nil, fleet, "Authorization", "Bearer rootx-token")
	require.Equal(t, 401, code)
}

// Two replicas share a store and a certificate. The end of one is not noticed by those who ask the other.
func TestTwoReplicas(t *testing.T) {
	h := newHost(t)
	store, kubeconfig := h.store(t), h.rights()
	a := h.replica(kubeconfig, "", store, extension.Certificate{})
	h.available("v1.fleet.example.com")
	b := h.replica(kubeconfig, a.address, store, extension.Certificate{})
	h.must("POST", fleet, `{"metadata":{"name":"a"},"spec":{"crew":1}}`)
	root := []string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"}
	require.Eventually(t, func() bool {
		code, body := b.direct(h.proxies, fleet+"/a", root...)
		return code == 200 && strings.Contains(body, `"crew":1`)
	}, waitLimit, often)
	// Writes through the host to the first one, and straight to the second one, count as one history.
	for i := range 20 {
		h.must("PATCH", fleet+"/a", fmt.Sprintf(`{"spec":{"crew":%d}}`, i+2), "Content-Type", "application/merge-patch+json")
		code, body := b.direct(h.proxies, fleet+"/a", root...)
		require.Equal(t, 200, code)
		require.Contains(t, body, fmt.Sprintf(`"crew":%d`, i+2), "what one has answered, the other shows")
	}
	a.stop()
	h.must("PATCH", "/api/v1/namespaces/default/services/fleet", fmt.Sprintf(`{"spec":{"externalName":"127.0.0.1","ports":[{"name":"https","port":%s}]}}`, port(b.address)),
		"Content-Type", "application/merge-patch+json")
	h.must("PATCH", "/apis/apiregistration.k8s.io/v1/apiservices/v1.fleet.example.com", fmt.Sprintf(`{"spec":{"service":{"port":%s}}}`, port(b.address)),
		"Content-Type", "application/merge-patch+json")
	require.Eventually(t, func() bool {
		code, body := h.do("root-token", "GET", fleet+"/a", "")
		return code == 200 && strings.Contains(body, `"crew":21`)
	}, waitLimit, often)
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }
