package kindwright_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/token"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

type gadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Data            map[string]string `json:"data,omitempty"`
}

func gadgets() registry.Kind[gadget] {
	return registry.Kind[gadget]{Group: "example.dev", Version: "v1", Plural: "gadgets", Names: registry.Names{Kind: "Gadget"}}
}

func places() registry.Kind[gadget] {
	return registry.Kind[gadget]{Group: "example.dev", Version: "v1", Plural: "places", Names: registry.Names{Kind: "Place"}, Scope: registry.ClusterScoped}
}

// header authenticates whoever the header X-User names, with the groups of X-Groups.
var header = authn.Func(func(r *http.Request) (authn.User, bool, error) {
	name := r.Header.Get("X-User")
	return authn.User{Name: name, Groups: strings.Fields(r.Header.Get("X-Groups"))}, name != "", nil
})

const gadgetPath = "/apis/example.dev/v1/namespaces/default/gadgets"

// host is a server under test and the HTTP server it is mounted in.
type host struct {
	*kindwright.Server
	url  string
	t    *testing.T
	dial func(ctx context.Context, network, address string) (net.Conn, error) // nil for the network
}

func run(t *testing.T, opts ...kindwright.Option) *host {
	t.Helper()
	b := memory.New()
	base := []kindwright.Option{kindwright.Serve(gadgets(), places(), kinds.ControlPlane()), kindwright.Authenticate(header)}
	srv, err := kindwright.New(b, append(base, opts...)...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	web := httptest.NewServer(srv)
	t.Cleanup(func() {
		cancel()
		web.Close()
		srv.Wait()
		require.NoError(t, b.Close())
	})
	return &host{Server: srv, url: web.URL, t: t}
}

// request sends a request as a member of system:masters unless the headers say otherwise.
func (h *host) request(method, path, body string, headers ...string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	require.NoError(h.t, err)
	req.Header.Set("X-User", "admin")
	req.Header.Set("X-Groups", "system:masters")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := h.transport().RoundTrip(req)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// transport returns a transport that follows no redirect and shares no connection with other tests.
func (h *host) transport() http.RoundTripper {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: h.dial}
	h.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// do sends a request and decodes its JSON answer.
func (h *host) do(method, path, body string, headers ...string) (int, map[string]any) {
	h.t.Helper()
	res := h.request(method, path, body, headers...)
	data, err := io.ReadAll(res.Body)
	require.NoError(h.t, err)
	var out map[string]any
	require.NoError(h.t, json.Unmarshal(data, &out), "%s %s: %s", method, path, data)
	return res.StatusCode, out
}

func field(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func TestMODEL_01_TheVerbsWorkOverHTTP(t *testing.T) {
	h := run(t)
	code, got := h.do("POST", gadgetPath, `{"metadata":{"name":"x"},"data":{"a":"b"}}`)
	require.Equal(t, 201, code, "%v", got)
	code, got = h.do("GET", gadgetPath+"/x", "")
	require.Equal(t, 200, code)
	require.Equal(t, "b", field(got, "data", "a"))
	code, got = h.do("PATCH", gadgetPath+"/x", `{"data":{"c":"d"}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, 200, code)
	require.Equal(t, "d", field(got, "data", "c"))
	code, _ = h.do("PATCH", gadgetPath+"/x", `[{"op":"test","path":"/data/a","value":"z"}]`, "Content-Type", "application/json-patch+json")
	require.Equal(t, 422, code, "PATCH-07")
	code, _ = h.do("PATCH", gadgetPath+"/x", `{}`, "Content-Type", "application/json")
	require.Equal(t, 415, code, "PATCH-12")
	code, got = h.do("PUT", gadgetPath+"/x", `{"metadata":{"name":"x"},"data":{"only":"this"}}`)
	require.Equal(t, 200, code)
	require.Equal(t, map[string]any{"only": "this"}, got["data"])
	code, got = h.do("GET", gadgetPath, "")
	require.Equal(t, 200, code)
	require.Equal(t, "GadgetList", got["kind"])
	require.Len(t, got["items"], 1)
	code, got = h.do("DELETE", gadgetPath+"/x", "")
	require.Equal(t, 200, code)
	require.Equal(t, "Success", got["status"])
	require.Equal(t, "x", field(got, "details", "name"), "DEL-14")
	code, got = h.do("GET", gadgetPath+"/x", "")
	require.Equal(t, 404, code)
	require.Equal(t, `gadgets.example.dev "x" not found`, got["message"])
	code, got = h.do("DELETE", gadgetPath, "")
	require.Equal(t, 200, code)
	require.Equal(t, "Status", got["kind"], "READ-04")
	_, got = h.do("GET", gadgetPath, "")
	require.Equal(t, []any{}, got["items"], "COLL-12")
}

func TestERR_19_EveryErrorIsAStatus(t *testing.T) {
	h := run(t)
	for _, c := range []struct {
		method, path, body string
		code               int
		reason             meta.Reason
		headers            []string
	}{
		{"GET", gadgetPath + "/absent", "", 404, meta.ReasonNotFound, nil},
		{"GET", "/apis/example.dev/v1/namespaces/default/nothing", "", 404, meta.ReasonNotFound, nil},
		{"GET", "/apis/nobody.dev/v1/things", "", 404, meta.ReasonNotFound, nil},
		{"POST", gadgetPath, `{`, 400, meta.ReasonBadRequest, nil},
		{"POST", gadgetPath, ``, 400, meta.ReasonBadRequest, nil},
		{"POST", gadgetPath, `{"kind":"Place"}`, 400, meta.ReasonBadRequest, nil},
		{"POST", gadgetPath, `{"metadata":{"name":"A B"}}`, 422, meta.ReasonInvalid, nil},
		{"POST", gadgetPath, `{}`, 415, meta.ReasonUnsupportedMediaType, []string{"Content-Type", "text/plain"}},
		{"GET", gadgetPath, ``, 406, meta.ReasonNotAcceptable, []string{"Accept", "image/png"}},
		{"GET", gadgetPath + "?labelSelector=((", "", 400, meta.ReasonBadRequest, nil},
		{"GET", gadgetPath + "?fieldSelector=spec.x%3D1", "", 400, meta.ReasonBadRequest, nil},
		{"GET", gadgetPath + "?limit=x", "", 400, meta.ReasonBadRequest, nil},
		{"GET", gadgetPath + "?resourceVersion=01", "", 400, meta.ReasonBadRequest, nil},
		{"GET", gadgetPath + "?resourceVersionMatch=Exact", "", 422, meta.ReasonInvalid, nil},
		{"GET", gadgetPath + "?continue=x", "", 400, meta.ReasonBadRequest, nil},
		{"POST", gadgetPath + "?dryRun=Some", `{}`, 422, meta.ReasonInvalid, nil},
		{"DELETE", gadgetPath + "/x;y?a;b", "", 400, meta.ReasonBadRequest, nil},
		{"POST", "/apis/example.dev/v1/gadgets", `{"metadata":{"name":"x"}}`, 405, meta.ReasonMethodNotAllowed, nil},
		{"GET", "/apis/example.dev/v1/namespaces/default/places/x", "", 404, meta.ReasonNotFound, nil},
		{"PROPFIND", gadgetPath, "", 405, meta.ReasonMethodNotAllowed, nil},
		{"POST", "/apis/example.dev/v1/namespaces/nowhere/gadgets", `{"metadata":{"name":"x"}}`, 404, meta.ReasonNotFound, nil},
		{"DELETE", "/api/v1/namespaces/default", "", 403, meta.ReasonForbidden, nil},
		{"GET", gadgetPath, "", 403, meta.ReasonForbidden, []string{"X-Groups", ""}},
	} {
		code, got := h.do(c.method, c.path, c.body, c.headers...)
		name := c.method + " " + c.path
		require.Equal(t, c.code, code, "%s: %v", name, got)
		require.Equal(t, "Status", got["kind"], name)
		require.Equal(t, "v1", got["apiVersion"], name)
		require.Equal(t, "Failure", got["status"], name)
		require.Equal(t, string(c.reason), got["reason"], name)
		require.InDelta(t, c.code, got["code"], 0, name)
		require.NotEmpty(t, got["message"], name)
	}
}

func TestDesign6_APanicIsA500WithAnAuditIDAndTheServerGoesOn(t *testing.T) {
	kind := gadgets()
	kind.Rules.Validate = func(_ context.Context, g *gadget, _ *status.Fields) {
		if g.Data["panic"] != "" {
			panic("secret text")
		}
	}
	kind.Plural, kind.Names.Kind = "traps", "Trap"
	h := run(t, kindwright.Serve(kind))
	res := h.request("POST", "/apis/example.dev/v1/namespaces/default/traps", `{"metadata":{"name":"x"},"data":{"panic":"1"}}`)
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, 500, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Audit-Id"))
	require.Contains(t, string(data), `"InternalError"`)
	require.NotContains(t, string(data), "secret text")
	code, _ := h.do("POST", "/apis/example.dev/v1/namespaces/default/traps", `{"metadata":{"name":"x"}}`)
	require.Equal(t, 201, code)
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	h := run(t)
	for _, path := range []string{"/", "/healthz", gadgetPath, "/nothing", gadgetPath + "/%2e%2e"} {
		res := h.request("GET", path, "", "Audit-ID", "my-id")
		require.Equal(t, "my-id", res.Header.Get("Audit-Id"), path)
		require.NotEmpty(t, res.Header.Get("Cache-Control"), path)
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), path)
	}
	require.Len(t, h.request("GET", "/healthz", "", "Audit-ID", "bad id!").Header.Get("Audit-Id"), 32)
}

func TestSection6_WithoutAnAuthorizerOnlyMastersAreServed(t *testing.T) {
	h := run(t)
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 200, gadgetPath: 403, "/apis": 403, "/healthz/ping": 403} {
		res := h.request("GET", path, "", "X-User", "", "X-Groups", "")
		require.Equal(t, want, res.StatusCode, path)
	}
	h = run(t, kindwright.Access{NoAnonymous: true})
	require.Equal(t, 401, h.request("GET", gadgetPath, "", "X-User", "", "X-Groups", "").StatusCode)
	h = run(t, kindwright.Authorize(authz.AlwaysAllow()))
	require.Equal(t, 200, h.request("GET", gadgetPath, "", "X-Groups", "").StatusCode)
}

func TestReviews(t *testing.T) {
	h := run(t, kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Resource == "gadgets" && a.Verb == "delete" {
			return authz.Deny, "never", nil
		}
		return authz.Allow, "", nil
	})))
	code, got := h.do("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, "X-User", "eve", "X-Groups", "g")
	require.Equal(t, 201, code, "%v", got)
	require.Equal(t, "eve", field(got, "status", "userInfo", "username"))
	require.Equal(t, []any{"g", "system:authenticated"}, field(got, "status", "userInfo", "groups"))
	ask := func(verb string) (bool, any) {
		code, got := h.do("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			fmt.Sprintf(`{"spec":{"resourceAttributes":{"verb":%q,"group":"example.dev","resource":"gadgets","namespace":"default"}}}`, verb), "X-Groups", "g")
		require.Equal(t, 201, code)
		return field(got, "status", "allowed") == true, field(got, "status", "reason")
	}
	allowed, _ := ask("get")
	require.True(t, allowed)
	allowed, why := ask("delete")
	require.False(t, allowed)
	require.Equal(t, "never", why)
	code, _ = h.do("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{}}`)
	require.Equal(t, 422, code, "REVIEW-01")
	code, _ = h.do("PATCH", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x", "{}", "Content-Type", "application/apply-patch+yaml")
	require.Equal(t, 404, code, "SSA-10: no object of the kind has a path, so the content type is not looked at")
	code, _ = h.do("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "")
	require.Equal(t, 405, code, "MODEL-21")
}

func TestNS_01_TheNamespacesOfAStartedServer(t *testing.T) {
	h := run(t)
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		code, got := h.do("GET", "/api/v1/namespaces/"+name, "")
		require.Equal(t, 200, code)
		require.Equal(t, "Active", field(got, "status", "phase"))
		require.Equal(t, []any{"kubernetes"}, field(got, "spec", "finalizers"), "NS-06")
		require.Equal(t, name, field(got, "metadata", "labels", "kubernetes.io/metadata.name"))
		require.Nil(t, field(got, "metadata", "namespace"))
	}
}

// stream reads the events of a watch.
func (h *host) stream(path string, headers ...string) (next func() map[string]any) {
	h.t.Helper()
	res := h.request("GET", path, "", headers...)
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

func TestNS_02_06_ADeletedNamespaceTakesItsContentAlong(t *testing.T) {
	h := run(t)
	code, _ := h.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
	require.Equal(t, 201, code)
	for i := range 20 {
		code, got := h.do("POST", "/apis/example.dev/v1/namespaces/team/gadgets", fmt.Sprintf(`{"metadata":{"name":"g%d"}}`, i))
		require.Equal(t, 201, code, "%v", got)
	}
	code, _ = h.do("POST", "/apis/example.dev/v1/namespaces/team/gadgets", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
	require.Equal(t, 201, code)
	next := h.stream("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dteam")
	require.Equal(t, "ADDED", next()["type"])

	code, got := h.do("DELETE", "/api/v1/namespaces/team", "")
	require.Equal(t, 200, code)
	require.Equal(t, "Terminating", field(got, "status", "phase"))
	code, got = h.do("POST", "/apis/example.dev/v1/namespaces/team/gadgets", `{"metadata":{"name":"late"}}`)
	require.Equal(t, 403, code, "NS-07")
	require.Contains(t, fmt.Sprint(got["details"]), "NamespaceTerminating")

	for { // until the conditions say what is left (NS-09)
		event := next()
		require.Equal(t, "MODIFIED", event["type"])
		if strings.Contains(fmt.Sprint(event), "example.dev/hold in 1 resource instances") {
			break
		}
	}
	_, got = h.do("GET", "/apis/example.dev/v1/namespaces/team/gadgets", "")
	require.Len(t, got["items"], 1)
	code, _ = h.do("PATCH", "/apis/example.dev/v1/namespaces/team/gadgets/held", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, 200, code)
	for event := next(); event["type"] != "DELETED"; event = next() {
		require.Equal(t, "MODIFIED", event["type"])
	}
	code, _ = h.do("GET", "/api/v1/namespaces/team", "")
	require.Equal(t, 404, code)
	code, _ = h.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
	require.Equal(t, 201, code, "the name is free again")
	_, got = h.do("GET", "/apis/example.dev/v1/namespaces/team/gadgets", "")
	require.Empty(t, got["items"])
}

func TestWatchOverHTTP(t *testing.T) {
	h := run(t, kindwright.Watches{BookmarkEvery: 20 * time.Millisecond})
	h.do("POST", gadgetPath, `{"metadata":{"name":"x"}}`)
	next := h.stream(gadgetPath + "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	event := next()
	require.Equal(t, "ADDED", event["type"])
	require.Len(t, event, 2, "WATCH-14")
	event = next()
	require.Equal(t, "BOOKMARK", event["type"])
	require.Equal(t, "true", field(event, "object", "metadata", "annotations", "k8s.io/initial-events-end"), "WLIST-06")
	require.Equal(t, "Gadget", field(event, "object", "kind"))
	h.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"foreign"}}`)
	_, list := h.do("GET", gadgetPath, "")
	for { // a bookmark follows what happens elsewhere (WATCH-22)
		event = next()
		require.Equal(t, "BOOKMARK", event["type"])
		if field(event, "object", "metadata", "resourceVersion") == field(list, "metadata", "resourceVersion") {
			break
		}
	}
	h.do("DELETE", gadgetPath+"/x", "")
	for event["type"] == "BOOKMARK" {
		event = next()
	}
	require.Equal(t, "DELETED", event["type"])
	_, list = h.do("GET", gadgetPath, "")
	require.Equal(t, field(list, "metadata", "resourceVersion"), field(event, "object", "metadata", "resourceVersion"), "WATCH-26")

	next = h.stream(gadgetPath + "?watch=1&timeoutSeconds=1")
	require.Nil(t, next(), "WATCH-20: a clean end")
	next = h.stream(gadgetPath + "?watch=1&resourceVersion=1")
	event = next()
	require.Equal(t, "ERROR", event["type"])
	require.InDelta(t, 410, field(event, "object", "code"), 0, "READ-01")
	require.Nil(t, next())
}

func TestTableAndPartialMetadataOverHTTP(t *testing.T) {
	h := run(t)
	h.do("POST", gadgetPath, `{"metadata":{"name":"x"},"data":{"a":"b"}}`)
	code, got := h.do("GET", gadgetPath, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	require.Equal(t, 200, code)
	require.Equal(t, "Table", got["kind"])
	require.Equal(t, "meta.k8s.io/v1", got["apiVersion"])
	require.Len(t, got["rows"], 1)
	_, got = h.do("GET", gadgetPath+"/x", "", "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	require.Equal(t, "PartialObjectMetadata", got["kind"])
	require.Nil(t, got["data"])
	require.Equal(t, "x", field(got, "metadata", "name"))
	_, got = h.do("GET", gadgetPath, "", "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	require.Equal(t, "PartialObjectMetadataList", got["kind"])
	next := h.stream(gadgetPath+"?watch=1", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	event := next()
	require.Equal(t, "Table", field(event, "object", "kind"), "WATCH-33")
}

func TestUPDATE_10_CreateOnUpdateNeedsTheRightToCreate(t *testing.T) {
	kind := places()
	kind.Plural, kind.Names.Kind, kind.Writes.CreateOnUpdate = "spots", "Spot", true
	h := run(t, kindwright.Serve(kind), kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "update" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})))
	code, got := h.do("PUT", "/apis/example.dev/v1/spots/x", `{"metadata":{"name":"x"}}`, "X-Groups", "")
	require.Equal(t, 403, code)
	require.Contains(t, got["message"], "cannot create resource")
	code, _ = h.do("PUT", "/apis/example.dev/v1/spots/x", `{"metadata":{"name":"x"}}`)
	require.Equal(t, 201, code, "UPDATE-05")
}

// Whoever may patch learns of what is absent, and makes nothing, until they may create too.
func TestSSA_AnApplyThatCreatesNeedsTheRightToCreate(t *testing.T) {
	h := run(t, kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "patch" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})))
	const applied = `{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":"x"},"data":{"a":"b"}}`
	apply := func(query string, headers ...string) (int, map[string]any) {
		return h.do("PATCH", gadgetPath+"/x?fieldManager=m"+query, applied, append(headers, "Content-Type", "application/apply-patch+yaml")...)
	}
	for _, query := range []string{"", "&dryRun=All", "&force=true"} {
		code, got := apply(query, "X-Groups", "")
		require.Equal(t, 403, code, query)
		require.Contains(t, got["message"], "cannot create resource")
	}
	code, _ := apply("")
	require.Equal(t, 201, code)
	code, _ = apply("", "X-Groups", "")
	require.Equal(t, 200, code)
}

func TestNewReportsEverythingThatIsWrong(t *testing.T) {
	_, err := kindwright.New(nil)
	require.ErrorContains(t, err, "storage backend is required")
	b := memory.New()
	defer func() { require.NoError(t, b.Close()) }()
	_, err = kindwright.New(b, kindwright.HTTP{PathPrefix: "shop"}, kindwright.Watches{History: -1}, kindwright.Serve(nil))
	require.ErrorContains(t, err, "HTTP.PathPrefix")
	require.ErrorContains(t, err, "Watches.History")
	require.ErrorContains(t, err, "definition 0 is nil")
	_, err = kindwright.New(b, kindwright.Serve(gadgets(), gadgets()))
	require.ErrorContains(t, err, "gadgets.example.dev")
	_, err = kindwright.New(b, kindwright.Before("nothing", func(h http.Handler) http.Handler { return h }))
	require.ErrorContains(t, err, `no such link`)
	_, err = kindwright.New(b, kindwright.Serve(kinds.ControlPlane(), kinds.Namespaces()))
	require.ErrorContains(t, err, "kinds.Namespaces()")
}

// A nil pointer in an interface is what is left of an error that nobody looked at.
func TestNewFindsWhatIsNil(t *testing.T) {
	var file *bbolt.DB
	for name, b := range map[string]storage.Backend{
		"nil": nil, "a nil pointer": file, "a view of nil": storage.Prefix(nil, "red"), "a view of a nil pointer": storage.Prefix(file, "red"),
	} {
		_, err := kindwright.New(b, kindwright.HTTP{PathPrefix: "shop"})
		require.ErrorContains(t, err, "storage backend is required", name)
		require.ErrorContains(t, err, "HTTP.PathPrefix", name)
	}
	b := memory.New()
	defer func() { require.NoError(t, b.Close()) }()
	var tokens *token.File
	var kind *registry.Kind[gadget]
	_, err := kindwright.New(storage.Prefix(b, "red"), kindwright.Serve(kind),
		kindwright.Authenticate(authn.Anonymous(), tokens), kindwright.Authorize(authz.Func(nil)))
	require.ErrorContains(t, err, "Serve: definition 0 is nil")
	require.ErrorContains(t, err, "Authenticate: authenticator 1 is nil")
	require.ErrorContains(t, err, "Authorize: authorizer 0 is nil")
	require.ErrorContains(t, run(t).Install(t.Context(), nil), "definition 0 is nil")
}

func TestTwoServersShareNothing(t *testing.T) {
	a, b := run(t), run(t)
	a.do("POST", gadgetPath, `{"metadata":{"name":"x"}}`)
	code, _ := b.do("GET", gadgetPath+"/x", "")
	require.Equal(t, 404, code)
}

func TestBeforeStartAndAfterTheEnd503(t *testing.T) {
	b := memory.New()
	defer func() { require.NoError(t, b.Close()) }()
	srv, err := kindwright.New(b, kindwright.Serve(gadgets()), kindwright.Authenticate(header))
	require.NoError(t, err)
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-User", "admin")
		r.Header.Set("X-Groups", "system:masters")
		srv.ServeHTTP(w, r)
		return w
	}
	require.Equal(t, 503, ask(gadgetPath).Code)
	require.Contains(t, ask(gadgetPath).Body.String(), "it has not been started")
	require.Equal(t, "1", ask(gadgetPath).Header().Get("Retry-After"))
	require.Equal(t, 500, ask("/readyz").Code)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, srv.Start(ctx))
	require.Equal(t, 200, ask(gadgetPath).Code)
	require.Equal(t, 200, ask("/readyz").Code)
	require.Error(t, srv.Start(ctx), "a server starts once")
	cancel()
	srv.Wait()
	require.Equal(t, 503, ask(gadgetPath).Code)
	require.NotContains(t, ask(gadgetPath).Body.String(), "started")
	require.Equal(t, 500, ask("/readyz").Code)
}

// failing is a store whose disk has failed: it reads, and refuses every commit from then on.
type failing struct {
	storage.Backend
	broken atomic.Bool
}

var errDisk = errors.New("fdatasync: input/output error on /secret/path")

func (f *failing) Unwrap() storage.Backend { return f.Backend }

func (f *failing) Healthy() error {
	if f.broken.Load() {
		return errDisk
	}
	return nil
}

func (f *failing) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if f.broken.Load() {
		return 0, errDisk
	}
	return f.Backend.Commit(ctx, ops)
}

func TestSTORE_08_AFailedDiskFailsReadyzAndWritesAndReadsGoOn(t *testing.T) {
	b := &failing{Backend: memory.New()}
	srv, err := kindwright.New(b, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	web := httptest.NewServer(srv)
	t.Cleanup(func() { cancel(); web.Close(); srv.Wait(); require.NoError(t, b.Close()) })
	h := &host{Server: srv, url: web.URL, t: t}
	code, _ := h.do("POST", gadgetPath, `{"metadata":{"name":"x"}}`)
	require.Equal(t, 201, code)
	require.Equal(t, 200, h.request("GET", "/readyz", "").StatusCode)
	b.broken.Store(true)
	code, got := h.do("POST", gadgetPath, `{"metadata":{"name":"y"}}`)
	require.Equal(t, 500, code)
	require.Equal(t, "ServerTimeout", got["reason"])
	require.NotContains(t, fmt.Sprint(got), "secret")
	require.Equal(t, 500, h.request("GET", "/readyz", "").StatusCode)
	require.Equal(t, 200, h.request("GET", "/livez", "").StatusCode, "a restart would not mend the disk")
	code, _ = h.do("GET", gadgetPath+"/x", "")
	require.Equal(t, 200, code)
	code, _ = h.do("GET", gadgetPath+"/y", "")
	require.Equal(t, 404, code)
}

// A client may be too busy sending to see the answer before the connection ends, so this one has no connection.
func TestCREATE_07_ABodyAboveTheLimitIs413(t *testing.T) {
	h := run(t)
	for _, announced := range []int64{3<<20 + 1, -1} {
		r := httptest.NewRequest("POST", gadgetPath, strings.NewReader(strings.Repeat(" ", 3<<20+1)))
		r.ContentLength = announced
		r.Header.Set("X-User", "admin")
		r.Header.Set("X-Groups", "system:masters")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 413, w.Code)
		require.Contains(t, w.Body.String(), "limit is 3145728")
	}
}
