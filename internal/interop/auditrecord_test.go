package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/audit/webhook"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// lines is a sink that keeps the records.
type lines struct {
	mu  sync.Mutex
	all [][]byte
}

func (l *lines) Write(_ context.Context, line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, bytes.Clone(line))
	return nil
}

func (l *lines) Close() error { return nil }

// RoundTrip makes it the receiver of a webhook, whose bodies it keeps.
func (l *lines) RoundTrip(r *http.Request) (*http.Response, error) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, l.Write(r.Context(), body.Bytes())
}

// exactly decodes a document, which must not have a field that the type does not know. It returns
// what the type makes of it.
func exactly(t *testing.T, document []byte, into any) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(document))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(into), "%s", document)
	again, err := json.Marshal(into)
	require.NoError(t, err)
	return string(again)
}

// Every record is a document of the published type, and loses nothing when that type reads it.
func TestAUD_01_RecordsAreOfThePublishedType(t *testing.T) {
	file, net := &lines{}, &lines{}
	hook, err := webhook.New(webhook.Connection{URL: "https://audit.example.org/", Client: &http.Client{Transport: net}}, webhook.Options{Mode: audit.ModeBlockingStrict})
	require.NoError(t, err)
	db := memory.New()
	srv, err := kindwright.New(
		db, kindwright.Serve(append(definitions(), kinds.ControlPlane(), kinds.RBAC())...),
		kindwright.Audit(audit.Policy{Rules: []audit.Rule{{Level: audit.LevelRequestResponse}}}, file, hook),
		kindwright.Admit(admission.Plugin{Name: "breaks", Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
			if r.Name == "broken" {
				panic("broken")
			}
			r.Warn(ctx, "careful\n")
			return r.Annotate(ctx, "example.org/why", "because\x1b")
		})}),
		kindwright.Authenticate(authn.Func(func(r *http.Request) (authn.User, bool, error) {
			return authn.User{Name: "admin", UID: "u", Groups: []string{authn.GroupMasters}, Extra: map[string][]string{"a": {"b", "ç"}}}, r.Header.Get("X-Who") != "", nil
		})))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	send := func(method, path, body string, headers ...string) {
		ctx := t.Context()
		if strings.Contains(path, "watch") {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			ctx = ended
		}
		r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Who", "admin")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		defer func() { _ = recover() }() // a broken connection
		srv.ServeHTTP(httptest.NewRecorder(), r)
	}
	const path = "/apis/example.dev/v1/namespaces/default/widgets"
	send("POST", path, `{"metadata":{"name":"a","labels":{"x":"<&>\u2028"}},"spec":{"size":3}}`, "X-Forwarded-For", "10.0.0.1", "User-Agent", "me\x1b[31m")
	send("POST", path, `{"metadata":{"name":"broken"},"spec":{"size":3}}`)
	send("POST", path, `{"metadata":{"name":"B"},"spec":{"size":0}}`)
	send("POST", path, `no JSON`)
	send("PUT", path+"/a", `{"metadata":{"name":"a"},"spec":{"size":4}}`)
	send("PATCH", path+"/a?fieldManager=m&force=true", `{"apiVersion":"example.dev/v1","kind":"Widget","spec":{"size":5}}`, "Content-Type", "application/apply-patch+yaml")
	send("GET", path+"/a", "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	send("GET", path+"?limit=1&labelSelector=x", "")
	send("GET", path+"?watch=true&timeoutSeconds=1", "")
	send("GET", "/healthz?x=%0a", "")
	send("GET", "/apis/example.dev/v1/namespaces/..%2f/widgets/%00", "")
	send("GET", path, "", "X-Who", "")
	send("GET", path, "", "Impersonate-User", "ann", "Impersonate-Group", "g", "Impersonate-Extra-Key", "v")
	send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}`)
	send("DELETE", path+"/a", `{"propagationPolicy":"Foreground"}`)
	send("DELETE", path, "")
	stop()
	srv.Wait()
	require.NoError(t, db.Close())

	seen := map[auditv1.Stage]int{}
	for _, line := range file.all {
		var e auditv1.Event
		require.JSONEq(t, string(line), exactly(t, line, &e))
		require.Equal(t, "audit.k8s.io/v1", e.APIVersion)
		require.Equal(t, "Event", e.Kind)
		require.NotEmpty(t, e.AuditID)
		require.NotEmpty(t, e.Verb)
		seen[e.Stage]++
	}
	require.GreaterOrEqual(t, seen[auditv1.StageRequestReceived], 14)
	require.NotZero(t, seen[auditv1.StageResponseComplete])
	require.Len(t, net.all, len(file.all), "both sinks have each record")
	for _, body := range net.all {
		var list auditv1.EventList
		require.JSONEq(t, string(body), exactly(t, body, &list))
		require.Equal(t, "EventList", list.Kind)
		require.Len(t, list.Items, 1)
	}
}
