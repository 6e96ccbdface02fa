package kindwright_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestHEALTH_21_OpenPathsReplaceTheList(t *testing.T) {
	h := run(t, kindwright.Access{OpenPaths: []string{"/version", "/healthz/*"}})
	for path, want := range map[string]int{"/version": 200, "/healthz/ping": 200, "/healthz": 403, "/readyz": 403} {
		require.Equal(t, want, h.request("GET", path, "", "X-User", "").StatusCode, path)
	}
	_, err := kindwright.New(nil, kindwright.Access{OpenPaths: []string{"version"}})
	require.ErrorContains(t, err, `Access.OpenPaths[0]: "version"`)
}

func TestMODEL_15_AProgramSetsItsOwnVersion(t *testing.T) {
	h := run(t, kindwright.Kubernetes{Version: kindwright.VersionInfo{Major: "7", Minor: "3", GitVersion: "v7.3.1"}})
	code, got := h.do("GET", "/version", "")
	require.Equal(t, 200, code)
	require.Equal(t, "v7.3.1", got["gitVersion"])
}

func TestTheClockAndTheRandomnessCanBeGiven(t *testing.T) {
	now := time.Date(2031, 2, 3, 4, 5, 6, 7, time.FixedZone("x", 3600))
	h := run(t, kindwright.Sources{Now: func() time.Time { return now }}, kindwright.Sources{Rand: zeros{}})
	_, got := h.do("POST", gadgetPath, `{"metadata":{"generateName":"x-"}}`)
	require.Equal(t, "2031-02-03T03:05:06Z", field(got, "metadata", "creationTimestamp"), "META-05")
	require.Equal(t, "00000000-0000-4000-8000-000000000000", field(got, "metadata", "uid"))
	require.Equal(t, "x-bbbbb", field(got, "metadata", "name"))
}

// zeros is a poor source of randomness.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestCheckHealthFailsTheHealthEndpoints(t *testing.T) {
	h := run(t, kindwright.CheckHealth(health.All, health.Check{Name: "quota", Check: func(context.Context) error { return errors.New("none left") }}))
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		res := h.request("GET", path, "")
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, 500, res.StatusCode, path)
		require.Contains(t, string(body), "[-]quota failed: reason withheld")
	}
	require.Equal(t, 200, h.request("GET", "/readyz?exclude=quota", "").StatusCode)
}

func TestSection7_UnmatchedGroupsGoToTheFallbackAuthorized(t *testing.T) {
	h := run(t, kindwright.HTTP{Fallback: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })})
	require.Equal(t, http.StatusTeapot, h.request("GET", "/apis/elsewhere.dev/v1/things", "").StatusCode)
	require.Equal(t, 404, h.request("GET", "/apis/example.dev/v1/things", "").StatusCode, "a group of ours is ours alone")
	require.Equal(t, 403, h.request("GET", "/apis/elsewhere.dev/v1/things", "", "X-Groups", "").StatusCode)
}

func TestERR_26_SlowRequestsEndWith504(t *testing.T) {
	kind := gadgets()
	kind.Plural, kind.Names.Kind = "slugs", "Slug"
	kind.Rules.Default = func(ctx context.Context, _ *gadget) { <-ctx.Done() }
	h := run(t, kindwright.Serve(kind), kindwright.HTTP{RequestTimeout: 50 * time.Millisecond})
	code, got := h.do("POST", "/apis/example.dev/v1/namespaces/default/slugs", `{"metadata":{"name":"x"}}`)
	require.Equal(t, 504, code)
	require.Equal(t, "Timeout", got["reason"])
}

func TestWATCH_28_WatchesEndByThemselves(t *testing.T) {
	h := run(t, kindwright.Watches{MinDuration: 20 * time.Millisecond})
	next := h.stream(gadgetPath + "?watch=1")
	require.Nil(t, next())
}

func TestGZIP_01_03_CompressionIsNegotiatedAndCanBeTurnedOff(t *testing.T) {
	h := run(t)
	res := h.request("GET", gadgetPath, "", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
	require.Contains(t, res.Header.Values("Vary"), "Accept-Encoding")
	plain, err := gzip.NewReader(res.Body)
	require.NoError(t, err)
	var list map[string]any
	require.NoError(t, json.NewDecoder(plain).Decode(&list))
	require.Equal(t, "GadgetList", list["kind"])
	require.Empty(t, h.request("GET", gadgetPath, "", "Accept-Encoding", "identity").Header.Get("Content-Encoding"), "GZIP-04")
	h = run(t, kindwright.HTTP{CompressFrom: -1})
	require.Empty(t, h.request("GET", gadgetPath, "", "Accept-Encoding", "gzip").Header.Get("Content-Encoding"))
	h = run(t, kindwright.HTTP{CompressFrom: 1 << 20})
	require.Empty(t, h.request("GET", gadgetPath, "", "Accept-Encoding", "gzip").Header.Get("Content-Encoding"), "GZIP-05")
}

// hooked is a definition with a start hook that waits.
type hooked struct{ proceed chan struct{} }

func (d hooked) Define(registry.Env) (registry.Bundle, error) {
	return registry.Bundle{Hooks: []registry.Hook{{Name: "slow", Start: func(ctx context.Context, _ registry.Objects) error {
		select {
		case <-d.proceed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}}}, nil
}

func TestHEALTH_03_16_StartHooksAndTheirGrace(t *testing.T) {
	for _, grace := range []time.Duration{time.Nanosecond, time.Hour} {
		proceed := make(chan struct{})
		h := unstarted(t, kindwright.Serve(hooked{proceed}), kindwright.HTTP{LivezGrace: grace})
		started := make(chan error, 1)
		go func() { started <- h.Start(h.ctx) }()
		require.Eventually(t, func() bool {
			res := h.request("GET", "/readyz?verbose", "")
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			return res.StatusCode == 500 && grepped(string(body), "[-]poststarthook/slow")
		}, 30*time.Second, 10*time.Millisecond)
		want := 500
		if grace == time.Hour {
			want = 200
		}
		// The hook is listed before the grace period begins, and /livez passes until then.
		require.Eventually(t, func() bool { return h.request("GET", "/livez", "").StatusCode == want }, 30*time.Second, time.Millisecond, grace)
		require.Equal(t, 503, h.request("GET", gadgetPath, "").StatusCode, "not before it is ready")
		close(proceed)
		require.NoError(t, <-started)
		require.Equal(t, 200, h.request("GET", "/readyz", "").StatusCode)
	}
}

// The log in memory is a matter of memory: a watch that it no longer reaches goes on from the store.
func TestREAD_39_WatchLogBytesBoundMemoryAndNotHistory(t *testing.T) {
	b := memory.New()
	defer func() { require.NoError(t, b.Close()) }()
	_, err := kindwright.New(b, kindwright.Watches{LogBytes: -1})
	require.ErrorContains(t, err, "Watches.LogBytes: -1 must not be negative")
	h := run(t, kindwright.Watches{LogBytes: 1})
	code, first := h.do("POST", gadgetPath, `{"metadata":{"name":"x0"}}`)
	require.Equal(t, 201, code)
	for _, name := range []string{"x1", "x2", "x3"} {
		code, _ = h.do("POST", gadgetPath, `{"metadata":{"name":"`+name+`"}}`)
		require.Equal(t, 201, code)
	}
	served, ok := h.Engine().(*engine.Engine).Set().Lookup(meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "gadgets"})
	require.True(t, ok)
	require.Equal(t, 1, served.Cache.Statistics().Changes, "the newest alone")
	next := h.stream(gadgetPath + "?watch=1&resourceVersion=" + field(first, "metadata", "resourceVersion").(string))
	for _, name := range []string{"x1", "x2", "x3"} {
		require.Equal(t, name, field(next(), "object", "metadata", "name"))
	}
}

// An option that would have no effect, or another one than it says, is refused by its field.
func TestOPS_06_OptionsThatCannotBeMeant(t *testing.T) {
	through := func(to http.Handler) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler { return to }
	}
	for want, o := range map[string]kindwright.Option{
		"Limits.ReadsPerUser: 11 must not be above Limits.Reads, which is 10":     kindwright.Limits{Reads: 10, ReadsPerUser: 11},
		"Limits.WritesPerUser: 201 must not be above Limits.Writes, which is 200": kindwright.Limits{WritesPerUser: 201},
		"HTTP.StrictTransport: max-age is required once, and is given 0 times":    kindwright.HTTP{StrictTransport: []string{"preload"}},
		"HTTP.StrictTransport: max-age is required once, and is given 2 times":    kindwright.HTTP{StrictTransport: []string{"max-age=1", "max-age=2"}},
		`Access.Hosts[1]: "https://a.example"`:                                    kindwright.Access{Hosts: []string{"a.example:80", "https://a.example"}},
		`Access.Hosts[0]: "*.example"`:                                            kindwright.Access{Hosts: []string{"*.example"}},
		`Access.Hosts[0]: ""`:                                                     kindwright.Access{Hosts: []string{""}},
		`Before("authorize"): the middleware returned nil`:                        kindwright.Before("authorize", through(nil)),
		"the field Scope: unknown scope 7":                                        kindwright.Serve(registry.Kind[memo]{Group: "example.dev", Version: "v1", Plural: "memos", Names: registry.Names{Kind: "Memo"}, Scope: 7}),
		"Watches.History: -1ns must not be negative":                              kindwright.Watches{History: -1},
	} {
		_, err := kindwright.New(memory.New(), o)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n", "each problem is told once")
	}
	_, err := kindwright.New(memory.New(), kindwright.Limits{ReadsPerUser: 500}, kindwright.Limits{Reads: 600},
		kindwright.Access{Hosts: []string{"*", "a.example", "a.example:80"}})
	require.NoError(t, err, "all options together count")
}

// What a program forgot to give is an error that says so, not a panic elsewhere.
func TestWhatIsNilIsTold(t *testing.T) {
	var none context.Context
	srv, err := kindwright.New(memory.New(), kindwright.Serve(gadgets()))
	require.NoError(t, err)
	require.EqualError(t, srv.Start(none), "kindwright: Start: the context is nil")
	require.EqualError(t, srv.Run(none), "kindwright: Run: the context is nil")
	require.EqualError(t, srv.Install(none, gadgets()), "kindwright: Change: the context is nil")
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); srv.Wait() })
	_, err = kindwright.New(memory.New(), kindwright.Authenticate(authn.Union(nil)))
	require.EqualError(t, err, "kindwright: Authenticate: a union has the nil authenticator 0")
	_, err = kindwright.New(memory.New(), kindwright.Authorize(authz.Union(authz.AlwaysDeny(), nil)))
	require.EqualError(t, err, "kindwright: Authorize: a union has the nil authorizer 1")

	front := registry.From[gadget](srv.Engine())
	_, err = front.Get(ctx, "default", "x")
	require.EqualError(t, err, "registry: the server has no kind of Go type kindwright_test.gadget; give it to kindwright.Serve, and start the server first")
	require.NoError(t, srv.Start(ctx))
	_, err = front.Get(ctx, "default", "x")
	require.True(t, status.IsNotFound(err), "a Front that was made before the start: %v", err)

	_, err = registry.From[gadget](nil).Get(ctx, "default", "x")
	require.EqualError(t, err, "registry: From: the objects are nil; give it Server.Engine")
	_, err = front.Get(none, "default", "x")
	require.EqualError(t, err, "registry: the context is nil")
	_, err = front.AsSystem().Create(none, &gadget{})
	require.EqualError(t, err, "registry: the context is nil")
	_, err = front.Create(ctx, nil)
	require.EqualError(t, err, "registry: the *kindwright_test.gadget to write is nil")
	_, err = front.Modify(ctx, "default", "x", nil)
	require.EqualError(t, err, "registry: Modify: the function is nil")
}

// A struct whose metadata cannot hold what a server stores there would make every read by Go code fail.
func TestMetadataOfAnotherTypeAreRefused(t *testing.T) {
	type odd struct {
		meta.TypeMeta `json:",inline"`
		Metadata      map[string]string `json:"metadata"`
	}
	type some struct {
		meta.TypeMeta `json:",inline"`
		Metadata      struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels,omitempty"`
		} `json:"metadata"`
	}
	names := registry.Names{Kind: "Memo"}
	_, err := kindwright.New(memory.New(), kindwright.Serve(registry.Kind[odd]{Group: "example.dev", Version: "v1", Plural: "memos", Names: names}))
	require.ErrorContains(t, err, "odd: its field metadata cannot hold the metadata of objects: embed meta.ObjectMeta")
	_, err = kindwright.New(memory.New(), kindwright.Serve(registry.Kind[some]{Group: "example.dev", Version: "v1", Plural: "memos", Names: names}))
	require.NoError(t, err, "a part of the metadata")
}
