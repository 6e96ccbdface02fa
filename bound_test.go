package kindwright_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/requestheader"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// Pass lets the user of its name read and write gadgets.
type Pass struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

var passes = meta.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "passes"}

func passKind() registry.Kind[Pass] {
	return registry.Kind[Pass]{Group: passes.Group, Version: passes.Version, Plural: passes.Resource, Scope: registry.ClusterScoped}
}

// holders is an observer that knows who has a pass.
type holders struct {
	mu    sync.RWMutex
	names map[string]bool
	upset func() // called first, when set
}

func (h *holders) Filled(_ string, entries iter.Seq[*watch.Entry]) {
	h.disturb()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names = map[string]bool{}
	for e := range entries {
		h.names[e.Name()] = true
	}
}

func (h *holders) Changed(prev, next *watch.Entry) {
	h.disturb()
	h.mu.Lock()
	defer h.mu.Unlock()
	if next != nil {
		h.names[next.Name()] = true
	} else {
		delete(h.names, prev.Name())
	}
}

func (h *holders) disturb() {
	if h.upset != nil {
		h.upset()
	}
}

func (h *holders) have(name string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.names[name]
}

// byPass allows what those with a pass ask for. It knows nobody before it is bound.
type byPass struct{ upset func() }

func (byPass) Name() string { return "passes" }

func (byPass) Authorize(context.Context, authz.Attributes) (authz.Decision, string, error) {
	panic("it is not bound")
}

func (p byPass) Bind(b watch.Binding) (authz.Authorizer, error) {
	h := &holders{upset: p.upset}
	return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if h.have(a.User.Name) {
			return authz.Allow, "they have a pass", nil
		}
		return authz.NoOpinion, "", nil
	}), b.Observe(passes.GroupResource(), h)
}

// passToken authenticates the user of a bearer token who has a pass, which it reads each time.
type passToken struct{}

func (passToken) Name() string { return "pass-token" }

func (passToken) Authenticate(*http.Request) (authn.User, bool, error) { panic("it is not bound") }

func (passToken) Bind(b watch.Binding) (authn.Authenticator, error) {
	return authn.Func(func(r *http.Request) (authn.User, bool, error) {
		token, ok, err := authn.BearerToken(r)
		if !ok || err != nil {
			return authn.User{}, false, err
		}
		if _, err := b.Get(r.Context(), passes, "", token); err != nil {
			return authn.User{}, false, err
		}
		return authn.User{Name: token}, true, nil
	}), b.Observe(passes.GroupResource(), &holders{})
}

// started makes and starts a server that has passes.
func started(t *testing.T, opts ...kindwright.Option) *kindwright.Server {
	t.Helper()
	s, err := kindwright.New(memory.New(), append(opts, kindwright.Serve(passKind()))...)
	require.NoError(t, err)
	begin(t, s)
	return s
}

// begin starts a server until the test ends.
func begin(t *testing.T, s *kindwright.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); s.Wait() })
	require.NoError(t, s.Start(ctx))
}

// asks sends a request with a bearer token, unless that is empty.
func asks(s *kindwright.Server, token, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const passPath = "/apis/shop.example.com/v1/passes"

// give and take change who has a pass, in process.
func give(t *testing.T, s *kindwright.Server, name string) {
	t.Helper()
	_, err := s.Engine().Create(t.Context(), registry.Target{Resource: passes}, fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name), registry.WriteOptions{})
	require.NoError(t, err)
}

func take(t *testing.T, s *kindwright.Server, name string) {
	t.Helper()
	_, err := s.Engine().Delete(t.Context(), registry.Target{Resource: passes, Name: name}, registry.DeleteOptions{})
	require.NoError(t, err)
}

// A right is there when the write that gave it is answered, and gone when the one that took it is, on a fork too.
func TestARevokedRightIsGoneWhenTheRevocationIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // an observer that is slow closes its authorizer
		db := memory.New()
		s, err := kindwright.New(db, kindwright.Serve(passKind()), kindwright.Authenticate(authn.Union(passToken{})), kindwright.Authorize(authz.Union(byPass{})))
		require.NoError(t, err)
		begin(t, s)
		check := func(s *kindwright.Server, name string, code int) {
			t.Helper()
			require.Equal(t, code, asks(s, name, "GET", passPath, "").Code)
		}
		check(s, "ann", http.StatusUnauthorized)
		for range 100 {
			give(t, s, "ann")
			check(s, "ann", http.StatusOK)
			take(t, s, "ann")
			check(s, "ann", http.StatusUnauthorized)
		}
		give(t, s, "bob")
		f, err := s.Fork(func(storage.Revision) (storage.Backend, error) { return db.Fork() })
		require.NoError(t, err)
		begin(t, f)
		check(f, "bob", http.StatusOK)
		take(t, f, "bob")
		check(f, "bob", http.StatusUnauthorized)
		check(s, "bob", http.StatusOK)
		body := asks(s, "bob", "GET", "/readyz?verbose", "").Body.String()
		require.Contains(t, body, "[+]authorizer-passes ok")
		require.Contains(t, body, "[+]authenticator-pass-token ok")
	})
}

// proxied is an authenticator of front proxies that has to be bound. Its fields change while it is in use.
type proxied struct{ live *requestheader.Live }

func (proxied) Name() string { return "proxied" }

func (proxied) Authenticate(*http.Request) (authn.User, bool, error) { panic("it is not bound") }

func (p proxied) Bind(watch.Binding) (authn.Authenticator, error) { return p.live, nil }

// A field that names users from now on is one that clients must not be able to hand on from now on.
func TestA1_FieldsOfABoundAuthenticatorThatChangeAreRemoved(t *testing.T) {
	live := &requestheader.Live{}
	var seen http.Header
	s := started(t, kindwright.Authenticate(proxied{live}), kindwright.Before("authorize", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen = r.Header; next.ServeHTTP(w, r) })
	}))
	ask := func() string {
		r := httptest.NewRequest("GET", passPath, http.NoBody)
		r.Header.Set("X-Corp-User", "admin")
		s.ServeHTTP(httptest.NewRecorder(), r)
		return seen.Get("X-Corp-User")
	}
	require.Equal(t, "admin", ask(), "it names nobody yet")
	nobody := authn.Func(func(*http.Request) (authn.User, bool, error) { return authn.User{}, false, nil })
	require.NoError(t, live.Set(nobody, requestheader.Config{UserHeaders: []string{"X-Corp-User"}, ProxyNames: []string{"proxy"}}))
	require.Empty(t, ask())
}

// The authorizer alone takes a right away as well: many ask while it comes and goes.
func TestRightsAreWhatTheyAreWhileManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // an observer that is slow closes its authorizer
		s := started(t, kindwright.Authenticate(authn.Func(func(r *http.Request) (authn.User, bool, error) {
			token, ok, err := authn.BearerToken(r)
			return authn.User{Name: token}, ok, err
		})), kindwright.Authorize(byPass{}))
		var asking sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range 4 {
			asking.Go(func() {
				for ctx.Err() == nil {
					asks(s, "ann", "GET", passPath, "")
				}
			})
		}
		for range 50 {
			give(t, s, "ann")
			require.Equal(t, http.StatusOK, asks(s, "ann", "GET", passPath, "").Code)
			take(t, s, "ann")
			require.Equal(t, http.StatusForbidden, asks(s, "ann", "GET", passPath, "").Code)
		}
		stop()
		asking.Wait()
	})
}

// What an authorizer goes by may be replaced under it: nobody is refused meanwhile, and revocations count from then on.
func TestRightsStayWhileTheirKindIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // an observer that is slow closes its authorizer
		s := started(t, kindwright.Authenticate(authn.Func(func(r *http.Request) (authn.User, bool, error) {
			token, ok, err := authn.BearerToken(r)
			return authn.User{Name: token}, ok, err
		})), kindwright.Authorize(byPass{}))
		give(t, s, "ann")
		ctx, stop := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		var refused atomic.Int32
		asking.Go(func() {
			for ctx.Err() == nil {
				if asks(s, "ann", "GET", passPath+"/ann", "").Code != http.StatusOK {
					refused.Add(1)
				}
			}
		})
		for range 30 {
			require.NoError(t, s.Change(t.Context(), []meta.GroupVersionResource{passes}, passKind()))
		}
		stop()
		asking.Wait()
		require.Zero(t, refused.Load())
		take(t, s, "ann")
		require.Equal(t, http.StatusForbidden, asks(s, "ann", "GET", passPath, "").Code)
	})
}

// While an authorizer does not know what changed, nothing is allowed and the server is not ready; that passes.
func TestABoundAuthorizerIsClosedWhileItsObserverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, upset := range map[string]func(){
			"panics": func() { panic("boom") },
			"blocks": func() { time.Sleep(time.Minute) },
		} {
			var times atomic.Int32
			z := byPass{upset: func() {
				if times.Add(-1) >= 0 {
					upset()
				}
			}}
			s := started(t, kindwright.Authenticate(authn.Func(func(*http.Request) (authn.User, bool, error) {
				return authn.User{Name: "ann"}, true, nil
			})), kindwright.Authorize(z))
			code := func(path string) int { return asks(s, "", "GET", path, "").Code }
			give(t, s, "ann")
			require.Equal(t, http.StatusOK, code(passPath), name)
			times.Store(1)
			take(t, s, "ann")
			for method, path := range map[string]string{"GET": passPath, "PUT": passPath + "/new"} {
				refused := asks(s, "", method, path, `{"metadata":{"name":"new"}}`)
				require.Equal(t, http.StatusServiceUnavailable, refused.Code, name)
				require.Equal(t, "1", refused.Header().Get("Retry-After"))
				require.Contains(t, refused.Body.String(), `"message":"the server cannot authorize requests yet","reason":"ServiceUnavailable"`)
			}
			require.Contains(t, asks(s, "", "GET", "/readyz", "").Body.String(), "[-]authorizer-passes failed", name)
			give(t, s, "bob")
			time.Sleep(2 * time.Minute)
			require.Equal(t, http.StatusOK, code("/readyz"), name)
			require.Equal(t, http.StatusForbidden, code(passPath), "%s: the revocation is not lost", name)
		}
	})
}

// A bound plugin judges by what it has observed, and admits nothing when its resource is gone.
func TestABoundPluginSeesItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // an observer that is slow closes its authorizer
		byHolder := admission.Plugin{
			Name: "holders", Rules: []admission.Rule{{Resources: []string{"gadgets"}}},
			Bind: func(b watch.Binding) (admission.Mutator, admission.Validator, error) {
				h := &holders{}
				return admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
						return admission.Patched(r, admission.Set("yes", "metadata", "labels", "seen"))
					}), admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
						if !h.have(r.Name) {
							return admission.Denied(r, "it has no pass")
						}
						return nil
					}), b.Observe(passes.GroupResource(), h)
			},
		}
		s := started(t, kindwright.Admit(byHolder), kindwright.Serve(gadgets()))
		make := func(name string) error {
			_, err := s.Engine().Create(t.Context(), registry.Target{
				Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "gadgets"}, Namespace: "default",
			}, fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name), registry.WriteOptions{})
			return err
		}
		require.Equal(t, meta.ReasonForbidden, status.ReasonOf(make("a")))
		give(t, s, "a")
		require.NoError(t, make("a"))
		give(t, s, "b")
		s.Remove(passes.GroupResource())
		require.Equal(t, meta.ReasonServiceUnavailable, status.ReasonOf(make("b")))
		require.NoError(t, s.Install(t.Context(), passKind()))
		require.NoError(t, make("b"))
	})
}

// unlucky is an authorizer that cannot be bound.
type unlucky struct {
	byPass
	bind func(b watch.Binding) (authz.Authorizer, error)
}

func (f unlucky) Bind(b watch.Binding) (authz.Authorizer, error) { return f.bind(b) }

func TestWhatCannotBeBoundIsRefused(t *testing.T) {
	for want, z := range map[string]unlucky{
		`authorizer "passes": no luck`:                      {bind: func(watch.Binding) (authz.Authorizer, error) { return nil, errors.New("no luck") }},
		`authorizer "passes": the method Bind returned nil`: {bind: func(watch.Binding) (authz.Authorizer, error) { return nil, nil }},
		"observes passes.shop.example.com, which":           {bind: byPass{}.Bind},
		"passes.shop.example.com: the observer is ": {bind: func(b watch.Binding) (authz.Authorizer, error) {
			return authz.AlwaysDeny(), b.Observe(passes.GroupResource(), nil)
		}},
	} {
		_, err := kindwright.New(memory.New(), kindwright.Serve(gadgets()), kindwright.Authorize(z))
		require.ErrorContains(t, err, want)
	}
	_, err := kindwright.New(memory.New(), kindwright.Admit(admission.Plugin{
		Name: "both", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) { return admission.Allowed(r) }),
		Bind: func(watch.Binding) (admission.Mutator, admission.Validator, error) { return nil, nil, nil },
	}))
	require.ErrorContains(t, err, `"both" has Bind and a side`)
	_, err = kindwright.New(memory.New(), kindwright.Admit(admission.Plugin{
		Name: "neither", Bind: func(watch.Binding) (admission.Mutator, admission.Validator, error) { return nil, nil, nil },
	}))
	require.ErrorContains(t, err, `"neither" neither mutates nor validates`)
}

// closing is both sides of a plugin, and says when it is closed.
type closing struct {
	admission.Validator
	closed chan struct{}
	panics bool
}

func (c closing) Mutate(_ context.Context, r *admission.Request) (map[string]any, error) {
	return r.Object, nil
}

func (c closing) Close() error {
	c.closed <- struct{}{}
	if c.panics {
		panic("a plugin that cannot be closed")
	}
	return errors.New("it does not like to be closed")
}

// What a plugin has made for a server is closed once, when the server has ended. What the plugin has from
// elsewhere is not the server's to close.
func TestADM_24_PluginsAreClosed(t *testing.T) {
	allow := admission.ValidatorFunc(func(context.Context, *admission.Request) error { return nil })
	made := []*closing{{allow, make(chan struct{}, 2), true}, {allow, make(chan struct{}, 2), false}}
	given := closing{allow, make(chan struct{}, 2), false}
	plugins := []admission.Plugin{{Name: "given", Validator: given}}
	for i, name := range []string{"first", "second"} {
		plugins = append(plugins, admission.Plugin{Name: name, Bind: func(watch.Binding) (admission.Mutator, admission.Validator, error) {
			return made[i], made[i], nil // two sides that are one value
		}})
	}
	s, err := kindwright.New(memory.New(), kindwright.Serve(passKind()), kindwright.Admit(plugins...), kindwright.LogTo(logr.Discard()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, s.Start(ctx))
	require.Empty(t, made[0].closed, "the server still runs")
	cancel()
	s.Wait()
	require.Len(t, made[0].closed, 1)
	require.Len(t, made[1].closed, 1)
	require.Empty(t, given.closed, "the program may still need it")
}
