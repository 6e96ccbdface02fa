package kindwright_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// rule allows a user some verbs on some resources, as a role does. Empty fields but the namespace
// allow everything.
type rule struct {
	user, verbs, resource, namespace, name string
}

// rules is an authorizer that compares as a role-based one does: names exactly, a resource with its
// subresource.
type rules []rule

func (list rules) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	for _, r := range list {
		sub, any := strings.CutPrefix(r.resource, "*/")
		fits := r.resource == resource || any && sub == a.Subresource || strings.HasSuffix(r.resource, "/*") && a.Subresource != "" && strings.TrimSuffix(r.resource, "/*") == a.Resource
		if a.ResourceRequest && r.user == a.User.Name && fits && strings.Contains(" "+r.verbs+" ", " "+a.Verb+" ") &&
			(r.namespace == "*" || r.namespace == a.Namespace) && (r.name == "" || r.name == a.Name) {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "", nil
}

// Dial is a kind with a status.
type Dial struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Status struct {
		Value string `json:"value,omitempty"`
	} `json:"status,omitempty"`
}

const (
	dialPath  = "/apis/example.dev/v1/namespaces/a/dials"
	everyVerb = "get list watch create update patch delete deletecollection"
)

// dials serves dials to callers with rules, with one dial x in each of the namespaces a and b.
func dials(t *testing.T, list rules, opts ...kindwright.Option) *host {
	t.Helper()
	kind := registry.Kind[Dial]{Group: "example.dev", Version: "v1", Plural: "dials"}
	h := run(t, append(opts, kindwright.Serve(kind), kindwright.Authorize(list))...)
	for _, ns := range []string{"a", "b"} {
		code, _ := h.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"`+ns+`"}}`)
		require.Equal(t, 201, code)
		code, _ = h.do("POST", "/apis/example.dev/v1/namespaces/"+ns+"/dials", `{"metadata":{"name":"x"}}`)
		require.Equal(t, 201, code)
	}
	return h
}

// as sends a request as a user without groups.
func (h *host) as(user, method, path, body string, headers ...string) (int, map[string]any) {
	h.t.Helper()
	return h.do(method, path, body, append([]string{"X-User", user, "X-Groups", ""}, headers...)...)
}

func TestZ3_SubresourcesHaveTheirOwnRights(t *testing.T) {
	h := dials(t, rules{
		{"main", everyVerb, "dials", "a", ""},
		{"sub", everyVerb, "dials/status", "a", ""},
		{"subs", everyVerb, "dials/*", "a", ""},
		{"any", everyVerb, "*/status", "a", ""},
	})
	body := `{"apiVersion":"example.dev/v1","kind":"Dial","metadata":{"name":"x"},"status":{"value":"1"}}`
	merge := []string{"Content-Type", "application/merge-patch+json"}
	for _, c := range []struct {
		user, path string
		code       int
	}{
		{"main", dialPath + "/x", 200},
		{"main", dialPath + "/x/status", 403},
		{"main", dialPath + "/x/unknown", 403},
		{"sub", dialPath + "/x/status", 200},
		{"sub", dialPath + "/x", 403},
		{"subs", dialPath + "/x", 403},
		{"subs", dialPath + "/x/status", 200},
		{"any", dialPath + "/x/status", 200},
		{"any", dialPath + "/x", 403},
	} {
		code, got := h.as(c.user, "PUT", c.path, body)
		require.Equal(t, c.code, code, "%s %s: %v", c.user, c.path, got)
		code, _ = h.as(c.user, "PATCH", c.path, `{}`, merge...)
		require.Equal(t, c.code, code, "%s %s", c.user, c.path)
		code, _ = h.as(c.user, "GET", c.path, "")
		require.Equal(t, c.code, code, "%s %s", c.user, c.path)
	}
}

func TestZ7_ARightToOneNameIsNoRightToCollections(t *testing.T) {
	h := dials(t, rules{{"narrow", everyVerb, "dials", "a", "x"}, {"absent", everyVerb, "dials", "a", "z"}})
	code, _ := h.do("POST", dialPath, `{"metadata":{"name":"y"}}`)
	require.Equal(t, 201, code)
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", dialPath, `{"metadata":{"name":"z"}}`, 403},
		{"POST", dialPath + "?fieldSelector=metadata.name%3Dz", `{"metadata":{"name":"z"}}`, 403},
		{"DELETE", dialPath, "", 403},
		{"DELETE", dialPath + "?labelSelector=a%3Db", "", 403},
		{"GET", dialPath, "", 403},
		{"GET", dialPath + "?fieldSelector=metadata.name%3Dx", "", 200},
		{"GET", dialPath + "?fieldSelector=metadata.name%3D%3Dx", "", 200},
		{"GET", dialPath + "?fieldSelector=metadata.name!%3Dy", "", 403},
		{"GET", dialPath + "?fieldSelector=metadata.name%3Dx,metadata.name%3Dy", "", 200},
		{"GET", dialPath + "?fieldSelector=metadata.namespace%3Da", "", 403},
		{"GET", dialPath + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name!%3Dy", "", 403},
		{"GET", dialPath + "/x", "", 200},
		{"GET", dialPath + "/y", "", 403},
		{"PUT", dialPath + "/x", `{"metadata":{"name":"y"}}`, 400},
	} {
		code, got := h.as("narrow", c.method, c.path, c.body)
		require.Equal(t, c.code, code, "%s %s", c.method, c.path)
		if items, ok := got["items"].([]any); ok {
			for _, item := range items {
				require.Equal(t, "x", field(item, "metadata", "name"))
			}
			require.Equal(t, strings.Contains(c.path, "%3Dy"), len(items) == 0, "both names at once are no object")
		}
	}
	code, _ = h.as("absent", "POST", dialPath, `{"metadata":{"name":"z"}}`)
	require.Equal(t, 403, code, "a name is not known before the object exists")
}

func TestZ8_ARightInANamespaceIsNoRightOverAll(t *testing.T) {
	h := dials(t, rules{{"alice", everyVerb, "dials", "a", ""}})
	all := "/apis/example.dev/v1/dials"
	for _, query := range []string{"", "?fieldSelector=metadata.namespace%3Da", "?fieldSelector=metadata.namespace%3Da,metadata.name%3Dx", "?labelSelector=a%3Db", "?limit=1", "?watch=1", "?namespace=a"} {
		for _, method := range []string{"GET", "DELETE"} {
			code, got := h.as("alice", method, all+query, "")
			if method == "DELETE" { // of which there is none over all namespaces
				require.Contains(t, []int{403, 405}, code)
			} else {
				require.Equal(t, 403, code, "%s %s", method, query)
			}
			require.NotContains(t, got, "items")
		}
	}
	code, got := h.as("alice", "GET", dialPath, "")
	require.Equal(t, 200, code)
	require.Len(t, got["items"], 1)
}

func TestZ9_DebugHandlersAreNotThere(t *testing.T) {
	h := dials(t, rules{})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/profile", "/debug/vars", "/debug/flags/v", "/logs", "/logs/x", "/configz", "/flagz", "/statusz", "/debug/api_priority_and_fairness/dump_requests"} {
		code, got := h.do("GET", path, "", "X-User", "", "X-Groups", "")
		require.Equal(t, 403, code, "anonymous %s", path)
		require.Equal(t, "Status", got["kind"])
		code, _ = h.as("mallory", "GET", path, "")
		require.Equal(t, 403, code, "mallory %s", path)
		require.Equal(t, 404, h.request("GET", path, "").StatusCode, "not even for masters: %s", path)
	}
	for _, path := range []string{"/metrics", "/openapi/v3", "/apis", "/version", "/readyz/etcd"} {
		require.Equal(t, 403, h.request("GET", path, "", "X-User", "", "X-Groups", "").StatusCode, path)
		require.Equal(t, 403, h.request("GET", path, "", "X-User", "mallory", "X-Groups", "").StatusCode, path)
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		res := h.request("GET", path, "", "X-User", "", "X-Groups", "")
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "ok", string(body))
	}
}

func TestZ11_NobodyLearnsWhatExists(t *testing.T) {
	h := dials(t, rules{})
	read := func(method, path, body string, headers ...string) string {
		res := h.request(method, path, body, append([]string{"X-User", "mallory", "X-Groups", "", "Audit-Id", "fixed"}, headers...)...)
		require.Equal(t, 403, res.StatusCode)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		res.Header.Del("Date")
		var head bytes.Buffer
		require.NoError(t, res.Header.Write(&head))
		return head.String() + string(data)
	}
	merge := []string{"Content-Type", "application/merge-patch+json"}
	for _, sub := range []string{"", "/status", "/unknown"} {
		for _, c := range []struct {
			method, body string
			headers      []string
		}{
			{"GET", "", nil},
			{"DELETE", "", nil},
			{"PUT", `{"metadata":{"name":"x"}}`, nil},
			{"PATCH", `{}`, merge},
			{"PATCH", `{`, merge},
		} {
			there := read(c.method, dialPath+"/x"+sub, c.body, c.headers...)
			absent := read(c.method, dialPath+"/q"+sub, c.body, c.headers...)
			require.Equal(t, strings.ReplaceAll(strings.ReplaceAll(there, `"name":"x"`, `"name":"q"`), `\"x\"`, `\"q\"`), absent, "%s %s", c.method, sub)
		}
	}
	swap := func(s string) string { return strings.ReplaceAll(s, "absent-namespace", "a") }
	other := strings.Replace(dialPath, "/a/", "/absent-namespace/", 1)
	withoutLength := func(s string) string {
		head, body, _ := strings.Cut(s, "\r\n\r\n")
		var kept []string
		for line := range strings.SplitSeq(head, "\r\n") {
			if !strings.HasPrefix(line, "Content-Length") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "\n") + body
	}
	require.Equal(t, withoutLength(read("GET", dialPath, "")), withoutLength(swap(read("GET", other, ""))), "nor which namespaces there are")
}

func TestA13_TheServersOwnPowerIsNotOnTheWire(t *testing.T) {
	h := dials(t, rules{})
	_, err := registry.From[Dial](h.Engine()).AsSystem().Create(t.Context(), &Dial{ObjectMeta: meta.ObjectMeta{Name: "own", Namespace: "a"}})
	require.NoError(t, err, "in the process, the server acts for itself")
	for _, token := range []string{"system:apiserver", "system", "loopback", "internal", "00000000-0000-0000-0000-000000000000"} {
		code, _ := h.do("GET", dialPath, "", "X-User", "", "X-Groups", "", "Authorization", "Bearer "+token)
		require.Equal(t, 401, code, token)
	}
	// Nothing that a request holds puts a user into its context but the authenticators.
	for _, header := range []string{"X-Remote-User", "User", "X-Forwarded-User", "X-Kubernetes-User"} {
		code, _ := h.do("GET", dialPath, "", "X-User", "", "X-Groups", "", header, "system:apiserver", "X-Remote-Group", "system:masters")
		require.Equal(t, 403, code, "the caller is anonymous")
	}
}

// journal collects the lines of a log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Whatever a request holds, each record of a log is one line, and no line has a character that a
// terminal obeys.
func TestD1_RequestsForgeNoLogLines(t *testing.T) {
	evil := []string{"x\x1b[2Jx", "x\u2028y", "x\u202ey", "x\xff\xfey", "x\ty", `x" level=ERROR msg="forged`, "x\u0085y"}
	for name, handler := range map[string]func(io.Writer) slog.Handler{
		"JSON": func(w io.Writer) slog.Handler {
			return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.Level(-10)})
		},
		"text": func(w io.Writer) slog.Handler {
			return slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.Level(-10)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &journal{}
			h := dials(t, rules{{"alice", everyVerb, "dials", "*", ""}}, kindwright.LogTo(logr.FromSlogHandler(handler(log))))
			for i, s := range evil {
				escaped := strings.ReplaceAll(fmt.Sprintf("%+q", s), `"`, "")
				path := "/" + strings.NewReplacer("%", "%25", "\x1b", "%1b", "\u2028", "%e2%80%a8", "\u202e", "%e2%80%ae", "\xff\xfe", "%ff%fe", "\t", "%09", "\u0085", "%c2%85", `"`, "%22", " ", "%20").Replace(s)
				for _, user := range []string{"alice", s} {
					for _, to := range []string{path, "/apis/example.dev/v1/namespaces" + path + "/dials", dialPath + path, dialPath + "?labelSelector=" + path[1:], dialPath + "?fieldManager=" + path[1:]} {
						headers := []string{"X-User", user, "X-Groups", "", "User-Agent", strings.ReplaceAll(s, "\x1b", ""), "Audit-Id", escaped}
						func() {
							defer func() { _ = recover() }()
							res := h.maybe("GET", to, headers...)
							if res != nil {
								_ = res.Body.Close()
							}
						}()
					}
				}
				body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": s, "labels": map[string]string{"a": s}}, s: s})
				require.NoError(t, err)
				code, _ := h.as("alice", "POST", dialPath, string(body))
				require.Contains(t, []int{400, 422}, code, "%d", i)
			}
			lines := bufio.NewScanner(strings.NewReader(log.String()))
			n := 0
			for lines.Scan() {
				n++
				line := lines.Text()
				require.False(t, strings.ContainsAny(line, "\x00\x1b\r\u0085\u2028\u2029\u202e") || strings.ToValidUTF8(line, "") != line, "%q", line)
				if name == "JSON" {
					var record map[string]any
					require.NoError(t, json.Unmarshal(lines.Bytes(), &record), line)
					require.NotEqual(t, "forged", record["msg"])
				} else {
					require.Regexp(t, `^time=\S+ level=\S+ msg=`, line)
				}
			}
			require.Positive(t, n, "refused requests are in the log")
		})
	}
}

// maybe sends a request that the client itself may refuse to send.
func (h *host) maybe(method, path string, headers ...string) *http.Response {
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, nil)
	if err != nil {
		return nil
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header[headers[i]] = []string{headers[i+1]}
	}
	res, err := h.transport().RoundTrip(req)
	if err != nil {
		return nil
	}
	return res
}

func TestD3_RequestsMakeNoSeries(t *testing.T) {
	m := &memo{t: t}
	h := dials(t, rules{}, kindwright.Audit(metadataOnly(), m))
	asked := map[string]string{} // by the id of their record
	series := func() map[string]bool {
		res := h.request("GET", "/metrics", "")
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		out := map[string]bool{}
		for line := range strings.Lines(string(data)) {
			out[line[:max(strings.LastIndex(line, " "), 0)]] = true
		}
		return out
	}
	methods := []string{"GET", "POST", "PUT", "DELETE", "PATCH", "PROPFIND", "M-%d", "HEAD", "OPTIONS"}
	round := func(n int) {
		for i := range n {
			for _, m := range methods {
				if strings.Contains(m, "%d") {
					m = fmt.Sprintf(m, i)
				}
				for _, p := range []string{"/apis/g%d.dev/v1/rs%d", "/apis/example.dev/v%d/dials", "/apis/example.dev/v1/namespaces/n%d/dials/x%d", "/x%d/y%d", dialPath + "/x/sub%d", dialPath + "?dryRun=%d&watch=%d"} {
					path := strings.ReplaceAll(p, "%d", fmt.Sprint(i))
					res := h.maybe(m, path, "User-Agent", fmt.Sprintf("agent-%d/1", i), "Content-Type", fmt.Sprintf("x/%d", i), "X-User", "admin", "X-Groups", "system:masters")
					require.NotNil(t, res)
					require.NoError(t, res.Body.Close())
					asked[res.Header.Get("Audit-Id")] = path
				}
			}
		}
	}
	series() // which is a request too
	round(2)
	before := series()
	round(20)
	for one := range series() {
		require.True(t, before[one], one)
	}
	records := m.whole(t)
	for id, path := range asked {
		require.Contains(t, records, id, path)
		require.Equal(t, path, records[id].RequestURI)
	}
}

// A proxy may read the one, and the server the other.
func TestB17_APatchHasOneContentType(t *testing.T) {
	h := dials(t, rules{})
	for _, types := range [][]string{
		{"application/merge-patch+json", "application/json-patch+json"},
		{"application/merge-patch+json", "application/merge-patch+json"},
		{"application/merge-patch+json, application/json-patch+json"},
		{"", "application/merge-patch+json"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "PATCH", h.url+dialPath+"/x", strings.NewReader(`{"metadata":{"labels":{"a":"b"}}}`))
		require.NoError(t, err)
		req.Header["X-User"], req.Header["X-Groups"], req.Header["Content-Type"] = []string{"admin"}, []string{"system:masters"}, types
		res, err := h.transport().RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 415, res.StatusCode, "%q", types)
	}
	_, got := h.do("GET", dialPath+"/x", "")
	require.Nil(t, field(got, "metadata", "labels"))
}

func TestP11_KindsWithImpossibleNamesAreRefused(t *testing.T) {
	kind := func(group, version, plural string) registry.Kind[Dial] {
		return registry.Kind[Dial]{Group: group, Version: version, Plural: plural}
	}
	for _, k := range []registry.Kind[Dial]{
		kind("example.dev", "v1", "../secrets"), kind("example.dev", "v1", "a/b"), kind("example.dev", "v1", ""), kind("example.dev", "v1", "Dials"),
		kind("example.dev", "v1", "dials.x"), kind("example.dev", "v1", "di\x00als"), kind("x/y", "v1", "dials"), kind("..", "v1", "dials"), kind("Example.dev", "v1", "dials"),
		kind("example.dev", "v1/../v2", "dials"), kind("example.dev", "", "dials"), kind("example.dev", "..", "dials"), kind("example.dev", "v 1", "dials"), kind("example.dev", "V1", "dials"),
		{Group: "example.dev", Version: "v1", Plural: "dials", StorageName: "../secrets"},
		{Group: "example.dev", Version: "v1", Plural: "dials", StorageName: "a//b"},
		{Group: "example.dev", Version: "v1", Plural: "dials", StorageName: "/a"},
		{Group: "example.dev", Version: "v1", Plural: "dials", Names: registry.Names{Kind: "../x"}},
		{Group: "example.dev", Version: "v1", Plural: "dials", Names: registry.Names{ShortNames: []string{"a/b"}}},
		{Group: "example.dev", Version: "v1", Plural: "dials", Names: registry.Names{Singular: "a/b"}},
	} {
		_, err := kindwright.New(memory.New(), kindwright.Serve(k))
		require.Error(t, err, "%+v", k)
	}
	_, err := kindwright.New(memory.New(), kindwright.Serve(kind("example.dev", "v1", "dials"), kind("example.dev", "v1", "dials")))
	require.ErrorContains(t, err, "dials", "two kinds of one name")
	h := dials(t, rules{})
	require.Error(t, h.Install(t.Context(), kind("example.dev", "v1", "dials")), "nor later")
	require.Error(t, h.Install(t.Context(), registry.Kind[Vault]{Group: "other.dev", Version: "v1", Plural: "dials", StorageName: "example.dev/dials"}), "two kinds in one place of the store")
	require.Equal(t, 200, h.request("GET", dialPath+"/x", "").StatusCode)
}

// CVE-2023-44487: somebody unknown gets one request out of an HTTP/2 connection.
func TestHTTP2ConnectionsOfTheUnknownEndAfterOneRequest(t *testing.T) {
	who := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		switch name := r.Header.Get("Authorization"); name {
		case "":
			return authn.User{}, false, nil
		case "alice":
			return authn.User{Name: name}, true, nil
		}
		return authn.User{}, false, errors.New("unknown")
	})
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Authenticate(who), kindwright.Access{OpenPaths: []string{"/version"}}, kindwright.Authorize(authz.AlwaysAllow()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	t.Cleanup(func() {
		cancel()
		srv.Wait()
		require.NoError(t, db.Close())
	})
	for _, c := range []struct {
		credential  string
		major, code int
		ends        bool
	}{{"", 2, 200, true}, {"mallory", 2, 401, true}, {"alice", 2, 200, false}, {"", 1, 200, false}, {"mallory", 1, 401, false}} {
		r := httptest.NewRequest("GET", "/version", nil)
		r.ProtoMajor = c.major
		if c.credential != "" {
			r.Header.Set("Authorization", c.credential)
		}
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)
		require.Equal(t, c.code, w.Code)
		require.Equal(t, c.ends, w.Header().Get("Connection") == "close", "%q over HTTP/%d", c.credential, c.major) // net/http makes a GOAWAY of it
	}
}
