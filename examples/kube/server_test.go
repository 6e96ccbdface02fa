package kube

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

var (
	peer      = flag.String("peer", "", "URL of a kube-apiserver to compare with; see the Makefile")
	peerToken = flag.String("peer-token", "", "bearer token of a member of system:masters there")
)

// A target is a server that tests talk to.
type target struct {
	url, token string
	http       *http.Client
}

// serve starts a server of all kinds on a free port. It stops with the test.
func serve(t testing.TB, o Options) *target {
	t.Helper()
	return serveOn(t, memory.New(), o)
}

// serveOn is serve with a store, which it closes.
func serveOn(t testing.TB, db storage.Backend, o Options, more ...kindwright.Option) *target {
	t.Helper()
	srv, err := kindwright.New(db, append(more,
		kindwright.Serve(Kinds(o)), kindwright.Authorize(authz.AlwaysAllow()), kindwright.Authenticate(administrator{}))...)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	listening := httptest.NewServer(srv)
	t.Cleanup(func() {
		stop()
		srv.Wait()
		listening.CloseClientConnections()
		listening.Close()
		require.NoError(t, db.Close())
	})
	return &target{url: listening.URL, http: listening.Client()}
}

// thePeer is the kube-apiserver of the command line, or nil if there is none.
func thePeer() *target {
	if *peer == "" {
		return nil
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a server of the one who runs the test, with a certificate it made itself
	return &target{url: strings.TrimSuffix(*peer, "/"), token: *peerToken, http: &http.Client{Transport: transport}}
}

// config is for clients of client-go.
func (s *target) config() *rest.Config { return &rest.Config{Host: s.url, QPS: -1} }

// do makes one request and returns the code and the body.
func (s *target) do(t testing.TB, method, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	answer, out := s.answer(t, method, path, body, headers...)
	return answer.StatusCode, out
}

// answer makes one request and returns the answer and its body, which has been read.
func (s *target) answer(t testing.TB, method, path, body string, headers ...string) (*http.Response, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	answer, err := s.http.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	out := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &out), "%s %s: %s", method, path, text)
	return answer, out
}

// must is do with an expected code.
func (s *target) must(t testing.TB, code int, method, path, body string, headers ...string) map[string]any {
	t.Helper()
	got, out := s.do(t, method, path, body, headers...)
	require.Equal(t, code, got, "%s %s: %v", method, path, out)
	return out
}

// administrator treats every client as a member of system:masters.
type administrator struct{}

// Authenticate implements authn.Authenticator.
func (administrator) Authenticate(*http.Request) (authn.User, bool, error) {
	return authn.User{Name: "admin", UID: "admin", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}, true, nil
}

// PATH-23, UPDATE-05: kinds without named objects have no paths for them, and these kinds can be created
// by PUT, as in kube-apiserver.
func TestPATH_23_UPDATE_05_PathsOfKubernetes(t *testing.T) {
	s := serve(t, Options{})
	const in = "/api/v1/namespaces/default"
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		code, got := s.do(t, method, in+"/bindings/a", `{}`)
		require.Equal(t, 404, code, "%s: %v", method, got)
	}
	code, _ := s.do(t, "GET", in+"/bindings", "")
	require.Equal(t, 405, code)
	for path, body := range map[string]string{
		in + "/limitranges/a":                     `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"a","namespace":"default"},"spec":{"limits":[]}}`,
		"/apis/node.k8s.io/v1/runtimeclasses/gvi": `{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"gvi"},"handler":"runsc"}`,
	} {
		code, got := s.do(t, "PUT", path, body)
		require.Equal(t, 201, code, "%v", got)
		at(got, "metadata").(map[string]any)["labels"] = map[string]any{"a": "b"} // runtime classes need the version, too
		again, err := json.Marshal(got)
		require.NoError(t, err)
		code, got = s.do(t, "PUT", path, string(again))
		require.Equal(t, 200, code, "%v", got)
	}
}
