package main

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"

// stones is a server behind ours that says who asks.
func stones(t *testing.T, certificate tls.Certificate) (port string) {
	t.Helper()
	behind := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/apis/stones.example.dev/v1":
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"stones.example.dev/v1","resources":[
				{"name":"stones","singularName":"stone","namespaced":false,"kind":"Stone","verbs":["get"]}]}`)
		case len(r.TLS.PeerCertificates) == 1 && strings.HasPrefix(r.URL.Path, "/apis/"):
			_, _ = fmt.Fprintf(w, `{"by":%q,"user":%q}`, r.TLS.PeerCertificates[0].Subject.CommonName, r.Header.Get("X-Remote-User"))
		default:
			http.NotFound(w, r)
		}
	}))
	behind.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{certificate}}
	behind.StartTLS()
	t.Cleanup(behind.Close)
	return behind.URL[strings.LastIndex(behind.URL, ":")+1:]
}

func TestOPS_08_FLAG_AServerBehindAService(t *testing.T) {
	proxies, _ := authority(t, "proxies")
	serving, _ := authority(t, "serving")
	made, err := serving.Serving("stones.default.svc")
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(made.Cert, made.Key)
	require.NoError(t, err)
	port := stones(t, certificate)
	front, err := proxies.Client("front")
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "proxy.crt"), filepath.Join(dir, "proxy.key")
	require.NoError(t, os.WriteFile(certFile, front.Cert, 0o600))
	require.NoError(t, os.WriteFile(keyFile, front.Key, 0o600))

	s := run(t, "--data-dir="+t.TempDir(), "--proxy-client-cert-file="+certFile, "--proxy-client-key-file="+keyFile, "--aggregator-allow-loopback",
		"--enable-aggregator-routing")
	reason := func(name, want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, body := s.do(t, "master", "GET", apiServices+"/"+name, "")
			return strings.Contains(fmt.Sprint(body), want)
		}, 20*time.Second, 20*time.Millisecond, want)
	}
	reason("v1.apps", "Local")
	create := func(path, body string) {
		t.Helper()
		code, said := s.do(t, "master", "POST", path, body)
		require.Equal(t, 201, code, said)
	}
	create(apiServices, fmt.Sprintf(`{"metadata":{"name":"v1.stones.example.dev"},"spec":{"group":"stones.example.dev","version":"v1","groupPriorityMinimum":1000,
		"versionPriority":15,"caBundle":%q,"service":{"name":"stones","namespace":"default","port":%s}}}`, base64.StdEncoding.EncodeToString(serving.PEM()), port))
	reason("v1.stones.example.dev", "ServiceNotFound")
	create("/api/v1/namespaces/default/services", `{"metadata":{"name":"stones"},"spec":{"ports":[{"name":"https","port":444}]}}`)
	reason("v1.stones.example.dev", "ServicePortError")
	code, said := s.do(t, "master", "DELETE", "/api/v1/namespaces/default/services/stones", "")
	require.Equal(t, 200, code, said)
	create("/api/v1/namespaces/default/services", `{"metadata":{"name":"stones"},"spec":{"ports":[{"name":"https","port":`+port+`}]}}`)
	reason("v1.stones.example.dev", "EndpointsNotFound")
	slice := `{"metadata":{"name":"stones","labels":{"kubernetes.io/service-name":"stones"}},"addressType":"FQDN","ports":[{"name":"https","port":` + port + `,"protocol":"TCP"}],"endpoints":[]}`
	create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice)
	reason("v1.stones.example.dev", "MissingEndpoints")
	code, said = s.do(t, "master", "DELETE", "/api/v1/namespaces/default/services/stones", "")
	require.Equal(t, 200, code, said)
	// Endpoints are never on loopback addresses; the name of a service elsewhere may be.
	create("/api/v1/namespaces/default/services", `{"metadata":{"name":"stones"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
	reason("v1.stones.example.dev", "Passed")
	_, body := s.do(t, "master", "GET", "/apis/stones.example.dev/v1/stones/a", "")
	require.Contains(t, fmt.Sprint(body), "front")
}

func TestFLAG_HalfAKeyPairIsRefused(t *testing.T) {
	require.Contains(t, refused(t, "--proxy-client-cert-file=/x"), "belong together")
	require.Contains(t, refused(t, "--secure-port=0", "--proxy-client-cert-file=/no/such", "--proxy-client-key-file=/no/such"), "--proxy-client-cert-file")
}
