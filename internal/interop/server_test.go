package interop

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// patience bounds every wait for something that happens at once on an idle machine.
const patience = 60 * time.Second

// often is how often a condition is looked at.
const often = 10 * time.Millisecond

type widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            widgetSpec   `json:"spec" doc:"What the widget should be."`
	Status          widgetStatus `json:"status,omitzero" doc:"What the widget is."`
}

type widgetSpec struct {
	Size  int32             `json:"size" minimum:"1" maximum:"1000" column:"Size" doc:"How large the widget is."`
	Color string            `json:"color,omitempty" enum:"red,green,blue" default:"blue" column:"Color" doc:"The paint."`
	Owner string            `json:"owner,omitempty" selectable:"" doc:"Who answers for the widget."`
	Notes map[string]string `json:"notes,omitempty" doc:"Anything worth remembering."`
}

type widgetStatus struct {
	Phase              string            `json:"phase,omitempty" column:"Phase" doc:"One word for where the widget is in its life."`
	ObservedGeneration int64             `json:"observedGeneration,omitempty" doc:"The generation that this status is about."`
	Conditions         []widgetCondition `json:"conditions,omitempty" list:"map,key=type" doc:"What can be said about it in more detail."`
}

type widgetCondition struct {
	Type   string `json:"type" minLength:"1" doc:"What is said, such as Ready."`
	Status string `json:"status" enum:"True,False,Unknown" doc:"Whether it is so."`
}

type gadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Data            map[string]string `json:"data,omitempty" doc:"The data."`
}

type zone struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            zoneSpec `json:"spec" doc:"What the zone is."`
}

type zoneSpec struct {
	Region string `json:"region" minLength:"1" column:"Region" doc:"The region the zone belongs to."`
}

// definitions are the kinds of every server here.
func definitions() []registry.Definition {
	return []registry.Definition{
		kinds.ControlPlane(),
		registry.Kind[widget]{Group: "example.dev", Version: "v1", Plural: "widgets", Name: "Widget", ShortNames: []string{"wd"}, Categories: []string{"all"}},
		registry.Kind[gadget]{Group: "example.dev", Version: "v1", Plural: "gadgets", Name: "Gadget"},
		registry.Kind[zone]{Group: "example.dev", Version: "v1", Plural: "zones", Name: "Zone", ClusterScoped: true},
	}
}

// admin knows every caller as an administrator, save for those who bring a bearer token: the token is their name.
func admin() authn.Authenticator {
	return authn.Func(func(r *http.Request) (authn.User, bool, error) {
		if name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			return authn.User{Name: name, Groups: []string{authn.GroupAuthenticated}}, true, nil
		}
		return authn.User{Name: "admin", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}, true, nil
	})
}

// request is what a server was asked.
type request struct {
	method, path        string
	query               url.Values
	accept, contentType string
}

func (r request) watches() bool { return r.query.Get("watch") == "1" || r.query.Get("watch") == "true" }

// initial tells whether a request asks for the whole of a collection: by LIST, or by a watch that begins with what there is.
func (r request) initial() bool {
	if r.watches() {
		rv := r.query.Get("resourceVersion")
		return r.query.Get("sendInitialEvents") == "true" || rv == "" || rv == "0"
	}
	return r.method == http.MethodGet
}

// door is middleware in front of everything: it keeps a record of all requests, can break off watches, and can hold new ones
// back.
type door struct {
	mu       sync.Mutex
	requests []request
	cuts     map[int]func(path string)
	closed   string        // the path of which watches are held back; "*" is any
	opened   chan struct{} // closed when they may go on
}

func (d *door) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := request{r.Method, r.URL.Path, r.URL.Query(), r.Header.Get("Accept"), r.Header.Get("Content-Type")}
		ctx, cut := context.WithCancel(r.Context())
		defer cut()
		defer d.enter(in, cut)(ctx)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// enter notes a request. The function it returns waits as long as such requests are held back, and returns the one to call at
// the end.
func (d *door) enter(in request, cut func()) func(context.Context) func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests = append(d.requests, in)
	id := len(d.requests)
	if !in.watches() {
		return func(context.Context) func() { return func() {} }
	}
	if d.opened != nil && (d.closed == in.path || d.closed == "*") {
		opened := d.opened
		return func(ctx context.Context) func() {
			select {
			case <-opened:
			case <-ctx.Done():
			}
			return func() {}
		}
	}
	if d.cuts == nil {
		d.cuts = map[int]func(string){}
	}
	d.cuts[id] = func(path string) {
		if path == in.path || path == "*" {
			cut()
		}
	}
	return func(context.Context) func() {
		return func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.cuts, id)
		}
	}
}

// shut breaks the watches of a path off, without a last word, and holds new ones back until the returned function is called.
// The path "*" means all.
func (d *door) shut(path string) (open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.opened = path, make(chan struct{})
	for _, cut := range d.cuts {
		cut(path)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		close(d.opened)
		d.opened = nil
	}
}

// seen returns the requests that match.
func (d *door) seen(match func(request) bool) (out []request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.requests {
		if match(r) {
			out = append(out, r)
		}
	}
	return out
}

// server is a running server in memory, and what clients need to reach it. Nothing about media types is set: clients send
// what they send by default.
type server struct {
	*rest.Config
	*door
	db storage.Backend
}

// serve runs a server with widgets and the built-in kinds.
func serve(t *testing.T, opts ...kindwright.Option) *server {
	t.Helper()
	s := &server{door: &door{}, db: memory.New()}
	opts = append(opts, kindwright.Authenticate(admin()), kindwright.Serve(definitions()...), kindwright.Before("parse", s.middleware))
	srv, err := kindwright.New(s.db, opts...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	web := httptest.NewUnstartedServer(srv)
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(func() {
		cancel()
		web.Close()
		srv.Wait()
		require.NoError(t, s.db.Close())
	})
	s.Config = &rest.Config{Host: web.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	return s
}

// start runs a server for tests that want nothing but its address.
func start(t *testing.T) *rest.Config {
	t.Helper()
	return serve(t).Config
}
