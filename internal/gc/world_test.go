package gc

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const group = "shop.example.com"

// Part is an object of every kind in these tests.
type Part struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Text string `json:"text,omitempty"`
}

// kind returns a resource. Names in capitals are cluster-scoped.
func kind(t testing.TB, name string, change ...func(*registry.Kind[Part])) *registry.Resource {
	k := registry.Kind[Part]{
		Group: group, Version: "v1", Plural: strings.ToLower(name) + "s", Names: registry.Names{Kind: strings.ToUpper(name[:1]) + name[1:]},
	}
	if name == strings.ToUpper(name) {
		k.Scope = registry.ClusterScoped
	}
	for _, f := range change {
		f(&k)
	}
	r, err := k.Resource()
	require.NoError(t, err)
	return r
}

// counted is a store that counts its calls.
type counted struct {
	storage.Backend
	lists, gets, commits atomic.Int64

	reads atomic.Int64 // remaining reads until the hook is called
	hook  atomic.Pointer[func()]
}

// before calls hook once, just before the nth request for the current revision from now on. Each
// read starts with such a request.
func (c *counted) before(n int, hook func()) {
	c.reads.Store(int64(n))
	c.hook.Store(&hook)
}

func (c *counted) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	if hook := c.hook.Load(); hook != nil && c.reads.Add(-1) == 0 {
		(*hook)()
	}
	return c.Backend.Sync(ctx, prefix)
}

func (c *counted) Unwrap() storage.Backend { return c.Backend }

// Exclusive implements storage.Exclusive: hooks ask the server, and must not wait for a call of their own.
func (c *counted) Exclusive() bool { return true }

func (c *counted) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	c.lists.Add(1)
	return c.Backend.List(ctx, r)
}

func (c *counted) Get(ctx context.Context, key string) (storage.Record, error) {
	c.gets.Add(1)
	return c.Backend.Get(ctx, key)
}

func (c *counted) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	c.commits.Add(1)
	return c.Backend.Commit(ctx, ops)
}

// world is an engine with a collector.
type world struct {
	t         testing.TB
	backend   *counted
	engine    *engine.Engine
	collector *Collector
	stop      func()
}

// newWorld starts an engine with these kinds over a store. It stops at the end of the test or by
// stop.
func newWorld(t testing.TB, under storage.Backend, resources ...*registry.Resource) *world {
	return newWorldWith(t, under, engine.Config{}, resources...)
}

func newWorldWith(t testing.TB, under storage.Backend, cfg engine.Config, resources ...*registry.Resource) *world {
	w := &world{t: t, backend: &counted{Backend: under}, collector: New()}
	cfg.Store, cfg.Observer = storage.New(w.backend), w.collector
	var err error
	w.engine, err = engine.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, w.engine.Start(ctx))
	require.NoError(t, w.engine.Install(ctx, resources...))
	var running sync.WaitGroup
	running.Go(func() { w.collector.Run(ctx, w.engine) })
	w.stop = sync.OnceFunc(func() { cancel(); running.Wait(); w.engine.Wait() })
	t.Cleanup(func() { w.stop() })
	return w
}

func target(path string) registry.Target {
	plural, rest, _ := strings.Cut(path, "/")
	r := registry.Target{Resource: meta.GroupVersionResource{Group: group, Version: "v1", Resource: plural}}
	if ns, name, ok := strings.Cut(rest, "/"); ok {
		r.Namespace, r.Name = ns, name
	} else {
		r.Name = rest
	}
	return r
}

func asAdmin() context.Context {
	return authn.WithUser(context.Background(), authn.User{Name: "admin", Groups: []string{authn.GroupMasters}})
}

// make creates an object at a path such as "as/ns/name", or "ZONEs/name".
func (w *world) make(path string, owners ...meta.OwnerReference) *Part {
	w.t.Helper()
	return w.makeWith(path, nil, owners...)
}

func (w *world) makeWith(path string, finalizers []string, owners ...meta.OwnerReference) *Part {
	w.t.Helper()
	return w.makeAt(target(path), finalizers, owners...)
}

func (w *world) makeAt(to registry.Target, finalizers []string, owners ...meta.OwnerReference) *Part {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": to.Name, "ownerReferences": owners, "finalizers": finalizers}})
	require.NoError(w.t, err)
	to.Name = ""
	result, err := w.engine.Create(asAdmin(), to, body, registry.WriteOptions{})
	require.NoError(w.t, err)
	return decoded(w.t, result)
}

func decoded(t testing.TB, r *registry.Result) *Part {
	p := &Part{}
	require.NoError(t, json.Unmarshal(r.Entry.AppendJSON(nil), p))
	return p
}

func (w *world) get(path string) *Part {
	e, err := w.engine.Get(asAdmin(), target(path), registry.ListRequest{})
	if err != nil {
		return nil
	}
	p := &Part{}
	require.NoError(w.t, json.Unmarshal(e.AppendJSON(nil), p))
	return p
}

func (w *world) delete(path string, policy meta.DeletionPropagation) {
	w.t.Helper()
	_, err := w.engine.Delete(asAdmin(), target(path), registry.DeleteOptions{Propagation: policy})
	require.NoError(w.t, err)
}

// patch changes metadata of an object.
func (w *world) patch(path string, metadata map[string]any) {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	require.NoError(w.t, err)
	_, err = w.engine.Patch(asAdmin(), target(path), registry.PatchRequest{Type: meta.MergePatch, Body: body}, registry.WriteOptions{})
	require.NoError(w.t, err)
}

// ref refers to an object.
func ref(p *Part) meta.OwnerReference {
	return meta.OwnerReference{APIVersion: p.APIVersion, Kind: p.Kind, Name: p.Name, UID: p.UID}
}

// blockingRef is ref with blockOwnerDeletion.
func blockingRef(p *Part) meta.OwnerReference {
	r, yes := ref(p), true
	r.BlockOwnerDeletion = &yes
	return r
}

// all returns all objects, sorted, with the names of their owners.
func (w *world) all(plurals ...string) []string {
	w.t.Helper()
	out := []string{}
	for _, plural := range plurals {
		l, err := w.engine.List(asAdmin(), registry.Target{Resource: meta.GroupVersionResource{Group: group, Version: "v1", Resource: plural}}, registry.ListRequest{})
		require.NoError(w.t, err)
		for e, err := range l.Items {
			require.NoError(w.t, err)
			p := &Part{}
			require.NoError(w.t, json.Unmarshal(e.AppendJSON(nil), p))
			out = append(out, line(plural, p))
		}
	}
	sort.Strings(out)
	return out
}

func line(plural string, p *Part) string {
	names := []string{}
	for _, o := range p.OwnerReferences {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	l := plural + "/" + p.Namespace + "/" + p.Name
	if len(names) > 0 {
		l += fmt.Sprint(" of ", names)
	}
	if p.DeletionTimestamp != nil {
		l += " ending"
	}
	return l
}

// rest waits until only items that wait for a kind are left.
func rest() {
	synctest.Wait()
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// inBubble runs a test in virtual time over a memory store.
func inBubble(t *testing.T, test func(t *testing.T, db storage.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		test(t, db)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
	})
}

// quiet returns a logger that discards everything, for tests that provoke errors.
func quiet() logr.Logger { return logr.Discard() }

func removeAll(path string) error { return os.RemoveAll(path) }
