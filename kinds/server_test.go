package kinds_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// backends runs a test on every built-in backend.
func backends(t *testing.T, test func(t *testing.T, b storage.Backend)) {
	t.Helper()
	open := func(t *testing.T, b storage.Backend, err error) storage.Backend {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
	t.Run("memory", func(t *testing.T) { test(t, open(t, memory.New(), nil)) })
	t.Run("bbolt", func(t *testing.T) {
		b, err := bbolt.Open(t.TempDir() + "/db")
		test(t, open(t, b, err))
	})
}

// byHeader authenticates by the headers X-User and X-Groups.
var byHeader = authn.Func(func(r *http.Request) (authn.User, bool, error) {
	name := r.Header.Get("X-User")
	return authn.User{Name: name, Groups: strings.Fields(r.Header.Get("X-Groups"))}, name != "", nil
})

// host is a server with the control plane kinds, as seen by clients.
type host struct {
	*kindwright.Server
	t *testing.T
}

// serve starts a server with the control plane kinds and the given options.
func serve(t *testing.T, b storage.Backend, of []kinds.ControlPlaneOption, opts ...kindwright.Option) *host {
	t.Helper()
	base := []kindwright.Option{kindwright.Serve(kinds.ControlPlane(of...)), kindwright.Authenticate(byHeader)}
	srv, err := kindwright.New(b, append(base, opts...)...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	t.Cleanup(func() { cancel(); srv.Wait() })
	return &host{srv, t}
}

func newRequest(ctx context.Context, method, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", authn.GroupMasters)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

// do sends a request and decodes the response. The user is in system:masters unless the headers say
// otherwise.
func (h *host) do(method, path, body string, headers ...string) (int, map[string]any) {
	h.t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(h.t.Context(), method, path, body, headers...))
	var out map[string]any
	require.NoError(h.t, json.Unmarshal(w.Body.Bytes(), &out), "%s %s: %s", method, path, w.Body)
	return w.Code, out
}

// must sends a request and requires a status code.
func (h *host) must(code int, method, path, body string, headers ...string) map[string]any {
	h.t.Helper()
	got, out := h.do(method, path, body, headers...)
	require.Equal(h.t, code, got, "%s %s %s: %v", method, path, body, out)
	return out
}

// refused requires a 422 response that names exactly these fields.
func (h *host) refused(method, path, body string, fields ...string) {
	h.t.Helper()
	out := h.must(422, method, path, body)
	require.Equal(h.t, string(meta.ReasonInvalid), out["reason"])
	causes, _ := at(out, "details", "causes").([]any)
	var got []string
	for _, c := range causes {
		got = append(got, at(c, "field").(string))
		require.Contains(h.t, out["message"], at(c, "field"))
	}
	require.ElementsMatch(h.t, fields, got, "%v", out["message"])
}

// watch watches a collection over HTTP. Each call of next returns one event.
func (h *host) watch(path string) (next func() map[string]any) {
	h.t.Helper()
	web := httptest.NewServer(h)
	h.t.Cleanup(web.Close)
	r := newRequest(h.t.Context(), "GET", web.URL+path, "")
	r.RequestURI = ""
	res, err := web.Client().Transport.RoundTrip(r)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(h.t, 200, res.StatusCode)
	lines := bufio.NewReader(res.Body)
	return func() map[string]any {
		h.t.Helper()
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		require.NoError(h.t, err)
		var event map[string]any
		require.NoError(h.t, json.Unmarshal(line, &event))
		return event
	}
}

// at returns the value at path, or nil.
func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// merged applies a JSON merge patch to object.
func merged(t *testing.T, object, changes string) string {
	t.Helper()
	var a, b map[string]any
	require.NoError(t, json.Unmarshal([]byte(object), &a))
	require.NoError(t, json.Unmarshal([]byte(changes), &b))
	for name, v := range b {
		if a[name] = v; v == nil {
			delete(a, name)
		}
	}
	out, err := json.Marshal(a)
	require.NoError(t, err)
	return string(out)
}
