package connection_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// write makes a connection file.
func write(t *testing.T, dir, cluster, user string) string {
	t.Helper()
	path := filepath.Join(dir, "connection.yaml")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\npreferences: {}\ncurrent-context: c\n"+
		"contexts: [{name: other, context: {}}, {name: c, context: {cluster: a, user: u}}]\n"+
		"clusters: [{name: a, cluster: {"+cluster+"}}]\nusers: [{name: other, user: {exec: {}}}, {name: u, user: {"+user+"}}]\n"), 0o600))
	return path
}

func TestAWrongConnectionFileSaysWhereItIsWrong(t *testing.T) {
	dir := t.TempDir()
	server := "server: 'https://example.dev'"
	v1 := "apiVersion: client.authentication.k8s.io/v1"
	inline := "certificate-authority-data: aGVsbG8="
	for _, c := range []struct{ want, cluster, user string }{
		{"clusters[0].cluster.server: Required value", "", ""},
		{`clusters[0].cluster.server: Invalid value: "ftp://x": must be a URL`, "server: 'ftp://x'", ""},
		{"clusters[0].cluster.server: Invalid value", "server: 'https://a:b@x'", ""},
		{"clusters[0].cluster.proxy-url: Invalid value: \"<url>\": must be a URL of http, https or socks5", server + ", proxy-url: x", ""},
		{"clusters[0].cluster.proxy-url: Invalid value", server + ", proxy-url: 'ftp://a'", ""},
		{"clusters[0].cluster.certificate-authority-data: Invalid value: \"<data>\": must be base64", server + ", certificate-authority-data: '%'", ""},
		{"certificate-authority: has no PEM", server + ", " + inline, ""},
		{"certificate-authority: ", server + ", certificate-authority: absent.pem", ""},
		{"clusters[0].cluster.insecure-skip-tls-verify: Forbidden: contradicts", server + ", insecure-skip-tls-verify: true, " + inline, ""},
		{"clusters[0].cluster.insecure-skip-tls-verify: Invalid value: 1: must be true or false", server + ", insecure-skip-tls-verify: 1", ""},
		{"users[1].user.exec.apiVersion: Required value", server, "exec: {}"},
		{"users[1].user.exec.apiVersion: Invalid value", server, "exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"},
		{"users[1].user.exec.command: Required value", server, "exec: {apiVersion: client.authentication.k8s.io/v1beta1}"},
		{"users[1].user.exec.interactiveMode: Required value", server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: x}"},
		{"users[1].user.exec.interactiveMode: Invalid value", server, "exec: {" + v1 + ", command: x, interactiveMode: Always}"},
		{"users[1].user.exec.interactiveMode: Invalid value", server, "exec: {" + v1 + ", command: x, interactiveMode: never}"},
		{"users[1].user.exec.env[0].name: Invalid value", server, "exec: {" + v1 + ", command: x, interactiveMode: Never, env: [{name: a=b}]}"},
		{"users[1].user.exec.Command: Forbidden: unknown field", server, "exec: {Command: x}"},
		{"users[1].user.exec: Forbidden: contradicts", server, "token: a, exec: {" + v1 + ", command: x, interactiveMode: Never}"},
		{"users[1].user.token: Forbidden: contradicts username", server, "token: a, username: b"},
		{"users[1].user.token: Forbidden: contradicts username", server, "tokenFile: a, password: b"},
		{"users[1].user.username: Required value: there is a password", server, "password: b"},
		{"users[1].user.token: Invalid value: \"<secret>\": must be a string", server, "token: 12345"},
		{"clusters[0].cluster.certificate-authority-data: Forbidden: contradicts certificate-authority", server + ", certificate-authority: x, " + inline, ""},
		{"users[1].user.client-certificate-data: Forbidden: contradicts client-certificate", server, "client-certificate: x, client-certificate-data: aGVsbG8="},
		{"users[1].user.client-key-data: Forbidden: contradicts client-key", server, "client-key: x, client-key-data: aGVsbG8="},
		{"clusters[0].cluster.extensions: Invalid value", server + ", extensions: {}", ""},
		{"clusters[0].cluster.extensions[0].Name: Forbidden: unknown field", server + ", extensions: [{Name: a}]", ""},
		{"client-certificate: does not fit client-key", server, "client-certificate-data: aGVsbG8="},
	} {
		_, err := connection.Read(write(t, dir, c.cluster, c.user), func(error) {})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "12345")
	}
	const good = "current-context: c\ncontexts: [{name: c, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: 'https://example.dev'}}]"
	for document, want := range map[string]string{
		"text":                            "must be an object",
		"a: [":                            "connection file",
		"kind: Pod\napiVersion: v2":       `kind: Invalid value: "Pod": must be Config`,
		"current-context: x":              `contexts: Not found: "x"`,
		"contexts: 1\ncurrent-context: x": "contexts: Invalid value: 1: must be a list",
		"contexts: []":                    "current-context: Required value",
		"users: [{name: a, user: [s3]}]\ncurrent-context: x\ncontexts: [{name: x, context: {user: a}}]": `users[0].user: Invalid value: "<secret>": must be an object`,
		"users: [{name: b, user: 12345}]\n" + good:                                                      `users[0].user: Invalid value: "<secret>": must be an object`,
		"users: [{name: b, user: {token: 12345}}]\n" + good:                                             `users[0].user.token: Invalid value: "<secret>": must be a string`,
		"users: [{name: b}, {name: b}]\n" + good:                                                        `users[1].name: Duplicate value: "b"`,
		strings.Replace(good, "clusters: [", "clusters: [{name: a},", 1):                                `clusters[1].name: Duplicate value: "a"`,
		strings.Replace(good, "contexts: [", "contexts: [{name: c},", 1):                                `contexts[1].name: Duplicate value: "c"`,
		strings.Replace(good, "clusters: [", "clusters: [{cluster: 1},", 1):                             `clusters[0].cluster: Invalid value: 1: must be an object`,
		"preferences: 1\n" + good:                                                                       `preferences: Invalid value: 1: must be an object`,
		"extensions: 1\n" + good:                                                                        `extensions: Invalid value: 1: must be a list`,
	} {
		path := filepath.Join(dir, "wrong.yaml")
		require.NoError(t, os.WriteFile(path, []byte(document), 0o600))
		_, err := connection.Read(path, func(error) {})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "12345")
		require.NotContains(t, err.Error(), "s3")
		require.Equal(t, 1, strings.Count(err.Error(), want), "it is said once")
	}
	path := filepath.Join(dir, "right.yaml") // what nothing names may have fields of other programs
	require.NoError(t, os.WriteFile(path, []byte("users: [{name: b, user: {auth-provider: {name: gcp}, as: me}}]\n"+good), 0o600))
	_, err := connection.Read(path, func(error) {})
	require.NoError(t, err)
	_, err = connection.Read(filepath.Join(dir, "absent"), func(error) {})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A certificate that is renewed counts for new connections, and a bad one does not.
func TestACertificateIsFollowed(t *testing.T) {
	dir := t.TempDir()
	authority, err := selfsigned.NewAuthority("clients")
	require.NoError(t, err)
	renew := func(name string) {
		pair, err := authority.Client(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pair.Key, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), pair.Cert, 0o600))
	}
	renew("first")
	var asked atomic.Value
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	defer srv.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	failures := make(chan error, 100)
	c, err := connection.Read(write(t, dir, "server: '"+srv.URL+"', certificate-authority-data: "+ca, "client-certificate: tls.crt, client-key: tls.key"),
		func(err error) { failures <- err })
	require.NoError(t, err)
	defer c.Client.CloseIdleConnections()
	post := func() string {
		_, err := c.Post(t.Context(), nil)
		require.NoError(t, err)
		return asked.Load().(string)
	}
	require.Equal(t, "first", post())
	renew("second")
	require.Eventually(t, func() bool { return post() == "second" }, time.Minute, 50*time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("nothing"), 0o600))
	require.Eventually(t, func() bool { require.Equal(t, "second", post()); return len(failures) > 0 }, time.Minute, 50*time.Millisecond)
	require.ErrorContains(t, <-failures, "client-certificate")
}

func TestInClusterConfig(t *testing.T) {
	dir := t.TempDir()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.URL.Path, r.Header.Get("Authorization"))
	}))
	defer srv.Close()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := connection.InCluster(dir, "/x", func(error) {})
	require.ErrorContains(t, err, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined")
	at, err := url.Parse(srv.URL)
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(at.Host)
	require.NoError(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	_, err = connection.InCluster(dir, "/x", func(error) {})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("marked\n"), 0o600))
	c, err := connection.InCluster(dir, "/x", func(error) {})
	require.NoError(t, err)
	defer c.Client.CloseIdleConnections()
	answer, err := c.Post(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "/x Bearer marked", string(answer))
}

// A lying webhook takes neither memory nor the sender anywhere else.
func TestAHostileAnswerIsAnError(t *testing.T) {
	var elsewhere atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/elsewhere":
			elsewhere.Store(true)
		case "/endless", "/endless-error":
			if r.URL.Path == "/endless-error" {
				w.WriteHeader(http.StatusBadRequest)
			}
			for chunk := make([]byte, 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/head":
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		case "/packed":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("packed"))
		}
	}))
	defer srv.Close()
	post := func(path string) ([]byte, error) {
		c := connection.Connection{URL: srv.URL + path}.WithClient()
		c.Client.Transport = &http.Transport{MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true, DisableCompression: true}
		return c.Post(t.Context(), []byte("{}"))
	}
	_, err := post("/redirect")
	require.ErrorContains(t, err, "307")
	require.False(t, elsewhere.Load())
	_, err = post("/endless")
	require.ErrorIs(t, err, connection.ErrLongAnswer)
	_, err = post("/endless-error")
	require.ErrorContains(t, err, "400 Bad Request")
	_, err = post("/head")
	require.ErrorContains(t, err, "header")
	_, err = post("/cut")
	require.Error(t, err)
	answer, err := post("/packed")
	require.NoError(t, err)
	require.Equal(t, "packed", string(answer), "nothing is unpacked")
}

func TestRetryRepeatsWhatMaySucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := connection.DefaultBackoff()
		for _, c := range []struct {
			err   error
			calls int
		}{
			{nil, 1},
			{errors.New("no"), 1},
			{&connection.CodeError{Code: 400}, 1},
			{&connection.CodeError{Code: 403}, 1},
			{&connection.CodeError{Code: 302}, 1},
			{&connection.CodeError{Code: 503}, 1},
			{&connection.CodeError{Code: 503, After: true}, 5},
			{&connection.CodeError{Code: 429}, 5},
			{&connection.CodeError{Code: 500}, 5},
			{&connection.CodeError{Code: 504}, 5},
			{fmt.Errorf("read: %w", syscall.ECONNRESET), 5},
			{connection.ErrLongAnswer, 1},
		} {
			calls := 0
			start := time.Now()
			err := connection.Retry(t.Context(), b, func() error { calls++; return c.err })
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.calls, calls, "%v", c.err)
			if calls == 5 { // 0.5, 0.75, 1.125 and 1.6875 s, each up to a fifth longer
				require.InDelta(t, 4.5, time.Since(start).Seconds(), 0.5)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls := 0
		err := connection.Retry(ctx, b, func() error { calls++; return &connection.CodeError{Code: 500} })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "500")
		require.Equal(t, 2, calls)
	})
}
