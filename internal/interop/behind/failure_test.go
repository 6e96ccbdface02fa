package behind

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

// bad are servers behind the host that fail. Each has a group of its own.
func bad() map[string]http.HandlerFunc {
	list := func(group string) string {
		return `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"` + group + `.example.org/v1","resources":[{"name":"lies","singularName":"lie","namespaced":true,"kind":"Lie","verbs":["get","list","delete"]}]}`
	}
	endless := func(w http.ResponseWriter, r *http.Request, before string, part []byte) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, before)
		for sent := 0; err == nil && sent < 10<<30 && r.Context().Err() == nil; sent += len(part) {
			_, err = w.Write(part)
		}
	}
	return map[string]http.HandlerFunc{
		"dead":    nil,
		"hanging": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"slow": func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(3 * time.Second):
			case <-r.Context().Done():
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, list("slow"))
		},
		"html": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html><script>alert(1)</script></html>")
		},
		"broken": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		},
		"long": func(w http.ResponseWriter, r *http.Request) { endless(w, r, "", slices.Repeat([]byte("a"), 1<<20)) },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			endless(w, r, strings.TrimSuffix(list("endless"), "]}"), slices.Repeat([]byte(`,{"name":"x","singularName":"","namespaced":true,"kind":"X","verbs":["get"]}`), 1000))
		},
	}
}

// put registers a server behind the host.
func (h *host) put(name string, serves http.HandlerFunc) {
	h.t.Helper()
	by := authority(h.t, name)
	address := freeAddress(h.t)
	if serves != nil {
		p, err := by.Serving(name + ".default.svc")
		address = serveTLS(h.t, serves, p, err)
	}
	h.must("POST", "/api/v1/namespaces/default/services", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"type":"ExternalName","externalName":"127.0.0.1","ports":[{"name":"https","port":%s}]}}`, name, port(address)))
	h.must("POST", "/apis/apiregistration.k8s.io/v1/apiservices", fmt.Sprintf(`{"metadata":{"name":"v1.%[1]s.example.org"},"spec":{"group":"%[1]s.example.org","version":"v1",
		"groupPriorityMinimum":1000,"versionPriority":15,"caBundle":%[2]q,"service":{"namespace":"default","name":%[1]q,"port":%[3]s}}}`,
		name, base64.StdEncoding.EncodeToString(by.PEM()), port(address)))
}

func serveTLS(t testing.TB, serves http.HandlerFunc, p selfsigned.Pair, err error) (address string) {
	t.Helper()
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(serves)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); _ = s.Listener.Close() })
	return s.Listener.Addr().(*net.TCPAddr).String() //nolint:forcetypeassert // it is
}

// resident is the memory of the host, in MiB.
func (h *host) resident() (mib int) {
	h.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.server.Process.Pid))
	require.NoError(h.t, err)
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	_, err = fmt.Sscan(after, &mib)
	require.NoError(h.t, err)
	return mib / 1024
}

// median is how long kubectl takes to get objects of another group with an empty cache.
func (h *host) median() time.Duration {
	h.t.Helper()
	var took []time.Duration
	for range 9 {
		k := h.kubectl()
		began := time.Now()
		k.run("get configmaps -A", `kube-root-ca.crt|extension-apiserver-authentication`)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// Servers behind the host fail in every way. What the host serves itself, and a good extension server,
// go on.
func TestOPS_08_FailuresStayWhereTheyAre(t *testing.T) {
	var more []string
	if *peers == standIn {
		more = []string{"--controllers=namespace"}
	}
	h := newHost(t, more...)
	h.extension()
	h.must("POST", fleet, `{"metadata":{"name":"a"}}`)
	before, memory := h.median(), h.resident()
	for name, serves := range bad() {
		h.put(name, serves)
	}
	time.Sleep(10 * time.Second) // all of them have been asked
	after := h.median()
	t.Logf("kubectl get of another kind: %v before, %v with %d failing servers behind the host (%.2f times); the host had %d MiB at most before, %d since",
		before.Round(time.Millisecond), after.Round(time.Millisecond), len(bad()), float64(after)/float64(before), memory, h.resident())
	for name := range bad() {
		path := "/apis/" + name + ".example.org/v1/namespaces/default/lies/a"
		code, body := h.do("root-token", "GET", path, "")
		if name == "dead" || name == "broken" || name == "redirect" {
			least := 500
			if *peers != standIn {
				least = 404 // until a kube-apiserver has noted the object, which waits for the endless ones
			}
			require.GreaterOrEqual(t, code, least, "%s: %s", name, body)
		}
		require.NotContains(t, []int{301, 302, 307}, code)
	}
	require.Contains(t, h.must("GET", fleet+"/a", ""), `"name":"a"`)
	code, _ := h.do("root-token", "GET", "/readyz", "")
	require.Equal(t, 200, code)
	if *peers != standIn {
		return // no controller ends namespaces beside a lone kube-apiserver
	}
	h.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"brief"}}`)
	h.must("POST", "/api/v1/namespaces/brief/configmaps", `{"metadata":{"name":"a"}}`)
	h.must("DELETE", "/api/v1/namespaces/brief", "")
	require.Eventually(t, func() bool { code, _ := h.do("root-token", "GET", "/api/v1/namespaces/brief", ""); return code == 404 }, waitLimit, often)
}
