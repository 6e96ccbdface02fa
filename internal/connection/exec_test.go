package connection_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// script is a plugin that prints a file, and adds a line to another with what it was told.
const script = "#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" >> \"$DIR/told\"\ncat \"$DIR/answer\"\n"

// pluginFile makes a plugin in a directory and the user of a connection file that runs it.
func pluginFile(t *testing.T, dir, version, more string) (user string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plugin"), []byte(script), 0o600))
	return fmt.Sprintf("exec: {apiVersion: client.authentication.k8s.io/%s, command: sh, args: ['%s'], env: [{name: DIR, value: '%s'}], %s}",
		version, filepath.Join(dir, "plugin"), dir, more)
}

// answer sets what the plugin prints.
func answer(t *testing.T, dir, version string, status map[string]any) {
	t.Helper()
	document, err := json.Marshal(map[string]any{
		"apiVersion": "client.authentication.k8s.io/" + version, "kind": "ExecCredential", "spec": map[string]any{}, "status": status,
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "answer"), document, 0o600))
}

// told returns the documents that the plugin was given, one a run.
func told(t *testing.T, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "told"))
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// CFG-02 EXEC-01 EXEC-02 EXEC-03 EXEC-04 EXEC-05 EXEC-16 EXEC-17: a plugin is asked for a token in each of
// two versions, and again when the token has expired or was refused.
func TestAPluginGivesATokenUntilItExpiresOrIsRefused(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		dir := t.TempDir()
		var refuse atomic.Bool
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refuse.Load() {
				w.WriteHeader(http.StatusUnauthorized)
			}
			_, _ = fmt.Fprint(w, r.Header.Get("Authorization"))
		}))
		defer srv.Close()
		user := pluginFile(t, dir, version, "interactiveMode: Never")
		c, err := connection.Read(write(t, dir, "server: '"+srv.URL+"'", user), func(error) {})
		require.NoError(t, err)
		defer c.Client.CloseIdleConnections()

		answer(t, dir, version, map[string]any{"token": "first", "expirationTimestamp": time.Now().Add(time.Hour).Format(time.RFC3339)})
		for range 3 {
			said, err := c.Post(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, "Bearer first", string(said))
		}
		require.Equal(t, []string{
			`{"apiVersion":"client.authentication.k8s.io/` + version + `","kind":"ExecCredential","spec":{"interactive":false}}`,
		}, told(t, dir))

		refuse.Store(true)
		_, err = c.Post(t.Context(), nil)
		require.ErrorContains(t, err, "401")
		refuse.Store(false)
		answer(t, dir, version, map[string]any{"token": "second", "expirationTimestamp": time.Now().Add(-time.Hour).Format(time.RFC3339)})
		for range 2 { // it has expired, so the plugin runs each time
			said, err := c.Post(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, "Bearer second", string(said))
		}
		require.Len(t, told(t, dir), 3)
	}
}

// A plugin may be newer than this server. client-go ignores what it does not know, too.
func TestEXEC_05_WhatANewerPluginPrintsIsIgnored(t *testing.T) {
	dir := t.TempDir()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	defer srv.Close()
	c, err := connection.Read(write(t, dir, "server: '"+srv.URL+"'", pluginFile(t, dir, "v1", "interactiveMode: Never")), func(error) {})
	require.NoError(t, err)
	defer c.Client.CloseIdleConnections()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "answer"), []byte(`{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "metadata": {"name": "a"}, "spec": {"interactive": false, "more": 1},
		"status": {"token": "good", "refreshTimestamp": "soon", "Token": "other"}, "more": {}
	}`), 0o600))
	said, err := c.Post(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "Bearer good", string(said))
}

// EXEC-06 EXEC-07 EXEC-09 EXEC-10 EXEC-11 EXEC-12 EXEC-14 EXEC-15: a plugin learns about the server
// and gives a certificate. Another certificate makes new connections.
func TestAPluginGivesACertificateAndConnectionsFollowIt(t *testing.T) {
	dir := t.TempDir()
	authority, err := selfsigned.NewAuthority("clients")
	require.NoError(t, err)
	renew := func(name string) {
		pair, err := authority.Client(name)
		require.NoError(t, err)
		answer(t, dir, "v1", map[string]any{
			"clientCertificateData": string(pair.Cert), "clientKeyData": string(pair.Key), "expirationTimestamp": "2001-01-01T00:00:00Z",
		})
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName, r.Header.Get("Accept-Encoding"))
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	defer srv.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	user := pluginFile(t, dir, "v1", "interactiveMode: IfAvailable, provideClusterInfo: true")
	c, err := connection.Read(write(t, dir, "server: '"+srv.URL+"', tls-server-name: example.com, disable-compression: true, "+
		"certificate-authority-data: "+ca+", extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: a, count: [1]}}]", user),
		func(error) {})
	require.NoError(t, err)
	defer c.Client.CloseIdleConnections()
	for _, name := range []string{"first", "second"} {
		renew(name)
		said, err := c.Post(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, name, string(said))
	}
	require.JSONEq(t, `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false,"cluster":{
		"server":"`+srv.URL+`","tls-server-name":"example.com","disable-compression":true,"certificate-authority-data":"`+ca+`",
		"config":{"audience":"a","count":[1]}}}}`, told(t, dir)[0])
}

// EXEC-08: what a plugin prints is in no error.
func TestAPluginThatFailsSendsNothing(t *testing.T) {
	dir := t.TempDir()
	var asked atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer srv.Close()
	head := `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"`
	read := func(user string) connection.Connection {
		c, err := connection.Read(write(t, dir, "server: '"+srv.URL+"'", user), func(error) {})
		require.NoError(t, err)
		return c
	}
	c := read(pluginFile(t, dir, "v1", "interactiveMode: Never"))
	for printed, want := range map[string]string{
		"marked": "must print an ExecCredential",
		`{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"marked"}}`: "must print an ExecCredential of client.authentication.k8s.io/v1",
		head + `,"status":{"token":"marked","token":"b"}}`:                                                          "must print an ExecCredential",
		head + `,"status":{"token":"marked","expirationTimestamp":"marked"}}`:                                       "must print an ExecCredential",
		head + `}`:             "it printed no status",
		head + `,"status":{}}`: "neither a token nor a certificate",
		head + `,"status":{"token":"marked","clientKeyData":"marked"}}`:                 "belong together",
		head + `,"status":{"clientCertificateData":"marked","clientKeyData":"marked"}}`: "does not fit",
		head + `,"status":{"token":"` + strings.Repeat("marked", 1<<20) + `"}}`:         "printed more than",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "answer"), []byte(printed), 0o600))
		_, err := c.Post(t.Context(), nil)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "marked")
	}
	absent := "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ./absent, installHint: get it at example.dev}"
	_, err := read(absent).Post(t.Context(), nil)
	require.ErrorContains(t, err, "it is not installed: get it at example.dev")
	require.False(t, asked.Load())
}

// EXEC-13: connections go through the proxy of the file, and a plugin is told of it. EXEC-11: so it is
// about a certificate that nobody checks.
func TestConnectionsGoThroughTheProxyOfTheFile(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Header.Get("Authorization")) }))
	defer srv.Close()
	var through atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through.Store(r.Method + " " + r.Host + " " + r.Header.Get("Authorization"))
		out, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = out.Close() }()
		in, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = in.Close() }()
		_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		ended := make(chan struct{})
		go func() { defer close(ended); _, _ = io.Copy(out, in); _ = out.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(in, out)
		_ = in.Close()
		<-ended
	}))
	defer proxy.Close()
	dir := t.TempDir()
	answer(t, dir, "v1", map[string]any{"token": "marked"})
	user := pluginFile(t, dir, "v1", "interactiveMode: Never, provideClusterInfo: true")
	c, err := connection.Read(write(t, dir, "server: 'https://server.example.dev', insecure-skip-tls-verify: true, proxy-url: '"+proxy.URL+"'", user), func(error) {})
	require.NoError(t, err)
	said, err := c.Post(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "Bearer marked", string(said))
	require.Equal(t, "CONNECT server.example.dev:443 ", through.Load(), "the proxy does not see the token")
	require.JSONEq(t, `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false,"cluster":{
		"server":"https://server.example.dev","insecure-skip-tls-verify":true,"proxy-url":"`+proxy.URL+`"}}}`, told(t, dir)[0])
	c.Client.CloseIdleConnections()
}
