package kindwright_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// Vault is a kind with a deputy: an action that reads whatever the caller names.
type Vault struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Key string `json:"key,omitempty"`
}

// Peek names the vault to read.
type Peek struct {
	meta.TypeMeta `json:",inline"`

	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

var vaultResource = meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "vaults"}

func vaults() registry.Kind[Vault] {
	return registry.Kind[Vault]{
		Group: "example.dev", Version: "v1", Plural: "vaults",
		Serving: registry.Serving{NoCompression: true},
		Writes:  registry.WriteRules{CreateOnUpdate: true},
		Rules: registry.Rules[Vault]{Validate: func(ctx context.Context, v *Vault, f *status.Fields) {
			if d, err := registry.May(ctx, "bind", registry.Target{Resource: vaultResource, Namespace: v.Namespace, Name: v.Name}); v.Key == "bound" && (err != nil || d != authz.Allow) {
				f.At("key").Forbidden("the caller may not bind")
			}
		}},
		Subresources: []registry.Endpoint{registry.Action[Vault, Peek, Vault]{
			Name: "peek",
			Run: func(ctx context.Context, call *registry.Call[Vault], doc *Peek) (*Vault, error) {
				at := registry.Target{Resource: vaultResource, Namespace: doc.Namespace, Name: doc.Name}
				if err := registry.Require(ctx, "get", at); err != nil {
					return nil, err
				}
				return registry.From[Vault](call.Objects).Get(ctx, doc.Namespace, doc.Name)
			},
		}},
	}
}

// inNamespace allows alice everything in namespace a but the verb bind, fails about namespace
// broken, and allows the masters everything.
var inNamespace = authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	switch {
	case a.Namespace == "broken":
		panic("broken")
	case a.User.Name == "alice" && a.Namespace == "a" && a.Verb != "bind":
		return authz.Allow, "alice lives in a", nil
	}
	return authz.NoOpinion, "", nil
})

// Lamp is a kind that clients connect to.
type Lamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

// Beam are the options of a connection.
type Beam struct {
	meta.TypeMeta `json:",inline"`
}

// The name in the URL of a connection may say more than that of the object. It is what is authorized (Z3).
func TestZ3_ANameThatSaysMoreIsAuthorizedAsItIs(t *testing.T) {
	kind := registry.Kind[Lamp]{Group: "example.dev", Version: "v1", Plural: "lamps", Scope: registry.ClusterScoped, Subresources: []registry.Endpoint{
		connect.Endpoint[Lamp, Beam]{
			Name: "look",
			Object: func(name string) (string, error) {
				if _, after, ok := strings.Cut(name, ":"); ok {
					return after, nil
				}
				return "", status.BadRequest("%s has no side", name)
			},
			Serve: func(w http.ResponseWriter, _ *http.Request, call *registry.Call[Lamp], _ *Beam) error {
				_, err := fmt.Fprintf(w, `{"asked":%q,"object":%q}`, call.Target.Name, call.Object.Name)
				return err
			},
		},
	}}
	h := run(t, kindwright.Serve(kind), kindwright.Authorize(rules{
		{"left", "get", "lamps/look", "", "left:x"}, {"plain", "get", "lamps/look", "", "x"}, {"all", "get", "lamps/look", "", ""},
	}))
	const lamps = "/apis/example.dev/v1/lamps"
	code, _ := h.do("POST", lamps, `{"metadata":{"name":"x"}}`)
	require.Equal(t, 201, code)
	for _, c := range []struct {
		user, name string
		code       int
	}{{"left", "left:x", 200}, {"left", "right:x", 403}, {"plain", "left:x", 403}, {"plain", "x", 400}, {"all", "left:absent", 404}} {
		code, got := h.as(c.user, "GET", lamps+"/"+c.name+"/look", "")
		require.Equal(t, c.code, code, "%s %s: %v", c.user, c.name, got)
		if code == 200 {
			require.Equal(t, map[string]any{"asked": "left:x", "object": "x"}, got)
		}
	}
}

// A WebSocket client can only GET. What it starts takes the right to create all the same (Z3).
func TestZ3_AConnectionTakesTheVerbsThatItRequires(t *testing.T) {
	served := func(w http.ResponseWriter, _ *http.Request, _ *registry.Call[Lamp], _ *Beam) error {
		_, err := w.Write([]byte("{}"))
		return err
	}
	kind := registry.Kind[Lamp]{Group: "example.dev", Version: "v1", Plural: "lamps", Subresources: []registry.Endpoint{
		connect.Endpoint[Lamp, Beam]{Name: "switch", Requires: []string{"create"}, Serve: served},
		connect.Endpoint[Lamp, Beam]{Name: "look", Serve: served},
	}}
	h := run(t, kindwright.Serve(kind), kindwright.Authorize(rules{
		{"reader", "get", "lamps/switch", "a", ""},
		{"reader", "get", "lamps/look", "a", ""},
		{"writer", "create", "lamps/switch", "a", ""},
		{"both", "get create", "lamps/switch", "a", ""},
		{"elsewhere", "get", "lamps/switch", "a", ""},
		{"elsewhere", "create", "lamps/switch", "b", ""},
		{"parent", "create get", "lamps", "a", ""},
		{"parent", "get", "lamps/switch", "a", ""},
	}))
	code, _ := h.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	require.Equal(t, 201, code)
	const lamps = "/apis/example.dev/v1/namespaces/a/lamps"
	code, _ = h.do("POST", lamps, `{"metadata":{"name":"x"}}`)
	require.Equal(t, 201, code)
	for _, c := range []struct {
		user, method, path string
		code               int
	}{
		{"reader", "GET", "/x/look", 200},
		{"reader", "GET", "/x/switch", 403},
		{"reader", "GET", "/absent/switch", 403}, // whether it is there is not for everybody
		{"reader", "POST", "/x/switch", 403},
		{"elsewhere", "GET", "/x/switch", 403},
		{"parent", "GET", "/x/switch", 403},
		{"writer", "GET", "/x/switch", 403},
		{"writer", "POST", "/x/switch", 200},
		{"both", "GET", "/x/switch", 200},
		{"both", "GET", "/absent/switch", 404},
	} {
		code, got := h.as(c.user, c.method, lamps+c.path, "")
		require.Equal(t, c.code, code, "%s %s %s: %v", c.user, c.method, c.path, got)
	}
	_, got := h.as("reader", "GET", lamps+"/x/switch", "", "Connection", "Upgrade", "Upgrade", "websocket")
	require.Equal(t, `lamps.example.dev "x" is forbidden: User "reader" cannot create resource "lamps/switch" in API group "example.dev" in the namespace "a"`, got["message"])
}

func TestS7_AnActionAsksWhetherTheCallerMay(t *testing.T) {
	var mu sync.Mutex
	side := map[string][]kindwright.SideDecision{}
	record := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			side[r.Header.Get("Audit-Id")] = kindwright.RequestFrom(r.Context()).SideDecisions
		})
	}
	h := run(t, kindwright.Serve(vaults()), kindwright.Authorize(inNamespace), kindwright.Before("recover", record))
	for _, ns := range []string{"a", "b"} {
		code, _ := h.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"`+ns+`"}}`)
		require.Equal(t, 201, code)
		code, _ = h.do("POST", "/apis/example.dev/v1/namespaces/"+ns+"/vaults", `{"metadata":{"name":"v"},"key":"secret-of-`+ns+`"}`)
		require.Equal(t, 201, code)
	}
	peek := func(id, ns, name string) (int, map[string]any) {
		return h.do("POST", "/apis/example.dev/v1/namespaces/a/vaults/v/peek", `{"namespace":"`+ns+`","name":"`+name+`"}`, "X-User", "alice", "X-Groups", "", "Audit-Id", id)
	}
	code, got := peek("own", "a", "v")
	require.Equal(t, 201, code)
	require.Equal(t, "secret-of-a", got["key"])
	for _, name := range []string{"v", "absent"} {
		code, got = peek("other-"+name, "b", name)
		require.Equal(t, 403, code)
		require.Equal(t, `vaults.example.dev "`+name+`" is forbidden: User "alice" cannot get resource "vaults" in API group "example.dev" in the namespace "b"`, got["message"])
	}
	code, _ = peek("broken", "broken", "v")
	require.Equal(t, 500, code, "an authorizer without an answer allows nothing")
	for _, bad := range [][2]string{{"../b", "v"}, {"a", "../../b/vaults/v"}} {
		code, _ = peek("bad", bad[0], bad[1])
		require.Equal(t, 400, code, "%q is no namespace or name", bad)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, side["own"], 1)
	require.Equal(t, authz.Allow, side["own"][0].Decision)
	require.Equal(t, "alice lives in a", side["own"][0].Reason)
	require.Equal(t, "alice", side["own"][0].User.Name)
	require.Equal(t, authz.Deny, side["other-v"][0].Decision)
	require.Equal(t, "b", side["other-v"][0].Namespace)
}

func TestS7_ARuleAsksWhetherTheCallerMay(t *testing.T) {
	h := run(t, kindwright.Serve(vaults()), kindwright.Authorize(inNamespace))
	h.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	code, _ := h.do("POST", "/apis/example.dev/v1/namespaces/a/vaults", `{"metadata":{"name":"x"},"key":"bound"}`, "X-User", "alice", "X-Groups", "")
	require.Equal(t, 422, code)
	code, _ = h.do("POST", "/apis/example.dev/v1/namespaces/a/vaults", `{"metadata":{"name":"x"},"key":"bound"}`)
	require.Equal(t, 201, code)
}

func TestS7_TheQuestionsOfTheServerAndOfPluginsAreRecorded(t *testing.T) {
	found := make(chan kindwright.Request, 10)
	record := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			if r.Header.Get("Audit-Id") != "" {
				found <- kindwright.RequestFrom(r.Context())
			}
		})
	}
	asks := admission.Plugin{Name: "asks", Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
		for range 200 {
			_, _, _ = r.Server.Authorizer().Authorize(ctx, authz.Attributes{User: r.User, Verb: "approve", ResourceRequest: true, Resource: "vaults"})
		}
		return nil
	})}
	h := run(t, kindwright.Serve(vaults()), kindwright.Authorize(inNamespace), kindwright.Before("recover", record), kindwright.Admit(asks), kindwright.Access{CheckOwnerReferences: true})
	h.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	owner := `"ownerReferences":[{"apiVersion":"example.dev/v1","kind":"Vault","name":"o","uid":"u-1","blockOwnerDeletion":true}]`
	code, _ := h.do("PUT", "/apis/example.dev/v1/namespaces/a/vaults/x", `{"metadata":{"name":"x",`+owner+`}}`, "X-User", "alice", "X-Groups", "", "Audit-Id", "one")
	require.Equal(t, 201, code)
	var verbs []string
	x := <-found
	for _, d := range x.SideDecisions {
		verbs = append(verbs, d.Verb+" "+d.Resource+"/"+d.Subresource)
	}
	require.Contains(t, verbs, "create vaults/", "what an update finds absent")
	require.Contains(t, strings.Join(verbs, "\n"), "approve vaults/")
	require.Len(t, verbs, 100, "a request remembers so many")
}

func TestS7_OutsideARequestNobodyMay(t *testing.T) {
	h := run(t, kindwright.Serve(vaults()))
	at := registry.Target{Resource: vaultResource, Namespace: "a", Name: "v"}
	_, err := registry.May(t.Context(), "get", at)
	require.Error(t, err)
	require.Equal(t, meta.ReasonInternalError, status.ReasonOf(registry.Require(t.Context(), "get", at)))
	_, err = registry.From[Vault](h.Engine()).Create(authn.WithUser(t.Context(), authn.User{Name: "bob"}), &Vault{ObjectMeta: meta.ObjectMeta{Name: "v", Namespace: "default"}, Key: "bound"})
	require.Equal(t, meta.ReasonInvalid, status.ReasonOf(err), "bob may not bind, who calls in the process")
	_, err = registry.From[Vault](h.Engine()).Create(t.Context(), &Vault{ObjectMeta: meta.ObjectMeta{Name: "v", Namespace: "default"}, Key: "bound"})
	require.Equal(t, meta.ReasonInvalid, status.ReasonOf(err), "nobody may bind")
}

func TestS19_AnswersOfAKindWithSecretsAreNeverCompressed(t *testing.T) {
	h := run(t, kindwright.Serve(vaults()))
	path := "/apis/example.dev/v1/namespaces/default/vaults"
	code, _ := h.do("POST", path, `{"metadata":{"name":"v"},"key":"`+strings.Repeat("x", 10000)+`"}`)
	require.Equal(t, 201, code)
	code, _ = h.do("POST", gadgetPath, `{"metadata":{"name":"g"}}`)
	require.Equal(t, 201, code)
	for _, p := range []string{path, path + "/v", path + "?limit=1", "/apis/example.dev/v1/vaults"} {
		for _, accept := range []string{"application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"} {
			res := h.request("GET", p, "", "Accept-Encoding", "gzip", "Accept", accept)
			require.Equal(t, 200, res.StatusCode)
			require.Empty(t, res.Header.Get("Content-Encoding"), "%s %s", p, accept)
		}
	}
	require.Equal(t, "gzip", h.request("GET", gadgetPath, "", "Accept-Encoding", "gzip").Header.Get("Content-Encoding"))
}
