package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// output collects what a program writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// server is a running kube-apiserver.
type server struct {
	url    string
	log    *output
	stop   func() int
	client *http.Client
}

var serving = regexp.MustCompile(`serving on (https://\S+),`)

// run starts the program and waits until it serves. It stops with the test unless stop was called.
// The bearer token "master" belongs to a member of system:masters, and "user" to an ordinary user. Nobody
// makes service accounts for the pods of tests, so the plugin that asks for them is off, as envtest has it.
func run(t *testing.T, args ...string) *server {
	t.Helper()
	return runAsIs(t, append([]string{"--disable-admission-plugins=ServiceAccount"}, args...)...)
}

// runAsIs is run with all the plugins that are on by default.
func runAsIs(t *testing.T, args ...string) *server {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	require.NoError(t, os.WriteFile(tokens, []byte("master,system:apiserver,u1,\"system:masters\"\nuser,ann,u2,devs\n"), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{log: &output{}, client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}} //nolint:gosec // its own certificate
	ended := make(chan int, 1)
	go func() {
		ended <- command(ctx, append([]string{"--secure-port=0", "--bind-address=127.0.0.1", "--token-auth-file=" + tokens}, args...), io.Discard, s.log)
	}()
	s.stop = sync.OnceValue(func() int {
		s.client.CloseIdleConnections()
		cancel()
		return <-ended
	})
	t.Cleanup(func() { s.stop() })
	require.Eventually(t, func() bool {
		found := serving.FindStringSubmatch(s.log.String())
		if found != nil {
			s.url = found[1]
		}
		return found != nil || len(ended) > 0
	}, time.Minute, time.Millisecond)
	require.NotEmpty(t, s.url, s.log.String())
	return s
}

// text returns the body of the answer to a GET.
func (s *server) text(t *testing.T, token, path string, code int) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := s.client.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, code, answer.StatusCode, "%s: %s", path, body)
	return string(body)
}

func (s *server) do(t *testing.T, token, method, path, body string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return s.answer(t, request)
}

// answer sends a request and returns the code and the document of the answer.
func (s *server) answer(t *testing.T, request *http.Request) (int, map[string]any) {
	t.Helper()
	answer, err := s.client.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	out := map[string]any{}
	_ = json.Unmarshal(text, &out) // /healthz is plain text
	return answer.StatusCode, out
}

// refused runs the program with a command line that it rejects.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log := &output{}
	require.NotZero(t, command(ctx, args, io.Discard, log), "%v", args)
	return log.String()
}

func TestFLAG_FlagsOfEnvtest(t *testing.T) {
	dir := t.TempDir()
	port, err := net.Listen("tcp", "127.0.0.1:0") // envtest, too, looks for a free port and hopes
	require.NoError(t, err)
	require.NoError(t, port.Close())
	number := fmt.Sprint(port.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // it is one
	s := run(t, "--secure-port="+number, "--allow-privileged=true", "--authorization-mode=RBAC", "--cert-dir="+dir, "--data-dir="+t.TempDir(),
		"--disable-admission-plugins=ServiceAccount", "--service-account-issuer=https://127.0.0.1:1/", "--service-cluster-ip-range", "10.0.0.0/24")
	code, _ := s.do(t, "", "GET", "/healthz", "")
	require.Equal(t, 200, code, "anonymously")
	code, _ = s.do(t, "", "GET", "/api/v1/namespaces/default", "")
	require.Equal(t, 403, code)
	code, _ = s.do(t, "master", "GET", "/api/v1/namespaces/default", "")
	require.Equal(t, 200, code)
	code, _ = s.do(t, "user", "GET", "/api/v1/namespaces/default", "")
	require.Equal(t, 403, code, "no role allows it")
	code, _ = s.do(t, "user", "GET", "/apis", "")
	require.Equal(t, 200, code)
	code, me := s.do(t, "user", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	require.Equal(t, 201, code)
	require.Contains(t, fmt.Sprint(me["status"]), "ann")
	require.FileExists(t, filepath.Join(dir, "apiserver.crt"))
	code, out := s.do(t, "master", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		`{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","name":"ann"}]}`)
	require.Equal(t, 201, code, "%v", out)
	code, _ = s.do(t, "user", "GET", "/api/v1/namespaces/default", "")
	require.Equal(t, 200, code, "a role counts at once")
	require.NotContains(t, s.log.String(), "--allow-privileged", "it has an effect")
	require.Zero(t, s.stop())
}

func TestFLAG_WithoutNamespaceLifecycleAnyNamespaceWillDo(t *testing.T) {
	s := run(t, "--disable-admission-plugins=NamespaceLifecycle", "--data-dir="+t.TempDir())
	code, _ := s.do(t, "user", "POST", "/api/v1/namespaces/nowhere/configmaps", `{"metadata":{"name":"c"}}`)
	require.Equal(t, 201, code, "AlwaysAllow is the mode that nobody has to name")
	code, refusal := s.do(t, "user", "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"x","securityContext":{"privileged":true}}]}}`)
	require.Equal(t, 422, code, "%v", refusal)
}

// A lone kube-apiserver ends no namespaces and collects no garbage, and tests rely on that.
func TestFLAG_ControllersRunWhereTheyAreWanted(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	leave := func(s *server) {
		for path, body := range map[string]string{"/api/v1/namespaces": `{"metadata":{"name":"team"}}`, maps: `{"metadata":{"name":"owner"}}`} {
			code, _ := s.do(t, "master", "POST", path, body)
			require.Equal(t, 201, code)
		}
		for _, path := range []string{"/api/v1/namespaces/team", maps + "/owner?propagationPolicy=Orphan"} {
			code, _ := s.do(t, "master", "DELETE", path, "")
			require.Equal(t, 200, code)
		}
	}
	finalizers := func(s *server, path string) (int, any) {
		code, found := s.do(t, "master", "GET", path, "")
		of, _ := found["metadata"].(map[string]any)
		return code, of["finalizers"]
	}

	data := t.TempDir()
	s := run(t, "--data-dir="+data)
	leave(s)
	require.Zero(t, s.stop())
	s = run(t, "--data-dir="+data, "--controllers=")
	code, _ := finalizers(s, "/api/v1/namespaces/team")
	require.Equal(t, 200, code)
	_, held := finalizers(s, maps+"/owner")
	require.Equal(t, []any{"orphan"}, held)
	require.Zero(t, s.stop())

	s = run(t, "--data-dir="+data, "--controllers=namespace,garbage-collector")
	for _, path := range []string{"/api/v1/namespaces/team", maps + "/owner"} {
		require.Eventually(t, func() bool { code, _ := finalizers(s, path); return code == 404 }, time.Minute, 10*time.Millisecond, path)
	}
}

// Clients inside the cluster find the server by its service.
func TestFLAG_AdvertisedAddress(t *testing.T) {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, port.Close())
	number := port.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is one
	s := run(t, fmt.Sprint("--secure-port=", number), "--advertise-address=192.0.2.9", "--data-dir="+t.TempDir())
	code, ends := s.do(t, "master", "GET", "/api/v1/namespaces/default/endpoints/kubernetes", "")
	require.Equal(t, 200, code)
	require.Contains(t, fmt.Sprint(ends["subsets"]), "192.0.2.9")
	require.Contains(t, fmt.Sprint(ends["subsets"]), fmt.Sprint(number))
}

// The same prefix is a restart on the same data; another prefix is another store.
func TestFLAG_PrefixesNameStores(t *testing.T) {
	dir := t.TempDir()
	etcd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/kindwright" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `{"dataDir":%q}`, dir)
	}))
	t.Cleanup(etcd.Close)
	const maps = "/api/v1/namespaces/default/configmaps"
	first := run(t, "--etcd-servers="+etcd.URL, "--etcd-prefix=/a/b")
	code, made := first.do(t, "master", "POST", maps, `{"metadata":{"name":"kept"}}`)
	require.Equal(t, 201, code)
	other := run(t, "--etcd-servers="+etcd.URL, "--etcd-prefix=/a-b")
	code, _ = other.do(t, "master", "GET", maps+"/kept", "")
	require.Equal(t, 404, code)
	require.Zero(t, first.stop())
	again := run(t, "--etcd-servers="+etcd.URL, "--etcd-prefix=a/b/")
	code, found := again.do(t, "master", "GET", maps+"/kept", "")
	require.Equal(t, 200, code)
	require.Equal(t, made["metadata"], found["metadata"])

	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	require.Contains(t, refused(t, "--etcd-servers="+stranger.URL), "--etcd-servers")
}

func TestFLAG_WhatCannotBeMeantIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		args  []string
		names []string
	}{
		{[]string{"--no-such-flag=1"}, []string{"--no-such-flag"}},
		{[]string{"--insecure-port=0"}, []string{"--insecure-port"}},
		{[]string{"extra"}, []string{`"extra"`}},
		{[]string{"--tls-cert-file=x"}, []string{"--tls-cert-file", "--tls-private-key-file"}},
		{[]string{"--data-dir=x", "--etcd-servers=http://127.0.0.1:1"}, []string{"--data-dir", "--etcd-servers"}},
		{[]string{"--authorization-mode=RBAC", "--authorization-config=x"}, []string{"--authorization-mode", "--authorization-config"}},
		{[]string{"--enable-garbage-collector=false", "--controllers=garbage-collector"}, []string{"--enable-garbage-collector", "--controllers"}},
		{[]string{"--controllers=deployment"}, []string{"--controllers", "deployment", "namespace", "garbage-collector"}},
		{[]string{"--authorization-mode=RBAC,RBAC"}, []string{"--authorization-mode", "RBAC"}},
		{[]string{"--authorization-mode=Guess"}, []string{"--authorization-mode", "Guess"}},
		{[]string{"--authorization-mode=Webhook"}, []string{"--authorization-mode", "Webhook"}},
		{[]string{"--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"}, []string{"--enable-admission-plugins", "--disable-admission-plugins", "Priority"}},
		{[]string{"--enable-admission-plugins=Magic"}, []string{"--enable-admission-plugins", "Magic"}},
		{[]string{"--service-cluster-ip-range=10.0.0.0"}, []string{"--service-cluster-ip-range"}},
		{[]string{"--service-cluster-ip-range=10.0.0.0/31"}, []string{"--service-cluster-ip-range"}},
		{[]string{"--service-cluster-ip-range=10.0.0.0/24,fd00::/127"}, []string{"--service-cluster-ip-range", "fd00::/127"}},
		{[]string{"--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24"}, []string{"--service-cluster-ip-range", "other family"}},
		{[]string{"--service-cluster-ip-range=10.0.0.0/24,fd00::/112,fd01::/112"}, []string{"--service-cluster-ip-range", "more than two"}},
		{[]string{"--service-node-port-range=9-1"}, []string{"--service-node-port-range"}},
		{[]string{"--secure-port=30001"}, []string{"--secure-port", "--service-node-port-range"}},
		{[]string{"--secure-port=70000"}, []string{"--secure-port"}},
		{[]string{"--etcd-prefix=/../x"}, []string{"--etcd-prefix"}},
		{[]string{"--etcd-prefix=/"}, []string{"--etcd-prefix"}},
		{[]string{"--event-ttl=-1s"}, []string{"--event-ttl"}},
		{[]string{"--watch-cache=perhaps"}, []string{"--watch-cache"}},
		{[]string{"--max-requests-inflight=many"}, []string{"--max-requests-inflight"}},
		{[]string{"--service-account-signing-key-file=x"}, []string{"--service-account-signing-key-file", "--service-account-issuer"}},
		{[]string{"--feature-gates=NoSuchFeature=true"}, []string{"--feature-gates", "NoSuchFeature"}},
		{[]string{"--feature-gates=WatchLst=true"}, []string{"WatchLst", "did you mean WatchList?"}},
		{[]string{"--feature-gates=SideCarContainer=true"}, []string{"did you mean SidecarContainers?"}},
		{[]string{"--feature-gates=SidecarContainers=false"}, []string{"SidecarContainers", "locked to true"}},
		{[]string{"--feature-gates=GangScheduling=perhaps"}, []string{"GangScheduling", "perhaps"}},
		{[]string{"--runtime-config=app/v1=true"}, []string{"--runtime-config", `"app"`, "did you mean apps?"}},
		{[]string{"--runtime-config=example.dev/v1=true"}, []string{"--runtime-config", "example.dev"}},
		{[]string{"--runtime-config=apps=true"}, []string{"--runtime-config"}},
		{[]string{"--tls-sni-cert-key=a.crt"}, []string{"--tls-sni-cert-key", "a.crt"}},
		{[]string{"--tls-sni-cert-key=a.crt,a.key:"}, []string{"--tls-sni-cert-key", "a.key"}},
		{[]string{"--tls-sni-cert-key=a.crt,a.key", "--cert-dir="}, []string{"--tls-sni-cert-key", "--cert-dir"}},
		{[]string{"--tls-curve-preferences=7"}, []string{"--tls-curve-preferences", "7"}},
		{[]string{"--tls-min-version=VersionTLS14"}, []string{"--tls-min-version", "VersionTLS14"}},
		{[]string{"--tls-cipher-suites=TLS_AES_128_GCM_SHA25"}, []string{"--tls-cipher-suites", "did you mean TLS_AES_128_GCM_SHA256?"}},
		{[]string{"--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA"}, []string{"--tls-cipher-suites", "HTTP/2"}},
		{[]string{"--strict-transport-security-directives=max-age=soon"}, []string{"--strict-transport-security-directives", "max-age"}},
		{[]string{"--max-object-bytes=1"}, []string{"--max-object-bytes"}},
		{[]string{"--service-account-max-token-expiration=1m"}, []string{"--service-account-max-token-expiration"}},
		{[]string{"--client-ca-file=/no/such/file"}, []string{"--client-ca-file"}},
		{[]string{"--token-auth-file=/no/such/file"}, []string{"--token-auth-file"}},
	} {
		said := refused(t, c.args...)
		for _, name := range c.names {
			require.Contains(t, said, name, "%v", c.args)
		}
	}
}

func TestFLAG_HelpListsWhatThereIs(t *testing.T) {
	out := &output{}
	require.Zero(t, command(t.Context(), []string{"--help"}, out, io.Discard))
	for _, flag := range []string{"etcd-servers", "cert-dir", "requestheader-client-ca-file", "proxy-client-cert-file", "endpoint-reconciler-type", "storage-media-type", "watch-cache", "feature-gates"} {
		require.Regexp(t, `(?m)^\s*--`+flag+`\b`, out.String())
	}
	require.NotRegexp(t, `(?m)^\s*--insecure-port\b`, out.String(), "those who start servers look for it")
	version := &output{}
	require.Zero(t, command(t.Context(), []string{"--version"}, version, io.Discard))
	require.Contains(t, version.String(), gitVersion)
}

// Providers report a version of their own, and Kubernetes' suite of kubectl starts the server so.
func TestFLAG_VersionThatIsReported(t *testing.T) {
	for _, wrong := range []string{"v1.36.4", "v1.37.0", "v1.36.3_x", "v1.36.3+", "v1.36", "vanilla", "sometimes", ""} {
		log := &output{}
		require.Equal(t, exitUsage, command(t.Context(), []string{"--version=" + wrong}, io.Discard, log), wrong)
		require.Contains(t, log.String(), "version")
	}
	all := &output{}
	require.Zero(t, command(t.Context(), []string{"--version=raw"}, all, io.Discard))
	require.Contains(t, all.String(), `Major:"1", Minor:"36"`)
	for _, version := range []string{"v1.36.3", "v1.36.3-shop.4", gitVersion + "-custom"} {
		s := run(t, "--data-dir="+t.TempDir(), "--version="+version)
		require.Contains(t, s.text(t, "master", "/version", 200), `"gitVersion":"`+version+`"`)
		require.Zero(t, s.stop())
	}
}

func TestFLAG_WhatHasNoEffectIsSaid(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir(), "--watch-cache", "--storage-media-type=application/json", "--endpoint-reconciler-type", "none",
		"--requestheader-username-headers=X-Remote-User", "--feature-gates=WatchList=false", "--runtime-config=autoscaling/v1=false")
	for _, said := range []string{"--watch-cache", "--storage-media-type", "--endpoint-reconciler-type", "--requestheader-username-headers"} {
		require.Contains(t, s.log.String(), said)
	}
	require.NotContains(t, s.log.String(), "--feature-gates")
	require.NotContains(t, s.log.String(), "--runtime-config")
	code, _ := s.do(t, "master", "GET", "/apis/autoscaling/v1", "")
	require.Equal(t, 404, code)
	code, _ = s.do(t, "master", "GET", "/apis/autoscaling/v2", "")
	require.Equal(t, 200, code)
}
