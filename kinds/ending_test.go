package kinds_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// endingNamespaces is how many namespaces are deleted under concurrent writers. A thorough run uses
// 1,000, which is slow.
var endingNamespaces = flag.Int("namespaces", 20, "namespaces deleted under concurrent writers")

// histories is the number of random histories.
var histories = flag.Int("histories", 6, "random histories of namespaces")

var (
	leaseType = meta.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	eventType = meta.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
)

// left returns the keys of all stored objects in namespaces with the given name prefix, and of all
// tombstones.
func left(t *testing.T, e *engine.Engine, prefix string) []string {
	t.Helper()
	var out []string
	for _, root := range []string{"/r/", storage.SysKey("namespace-gone")} {
		request := storage.ListRequest{Prefix: root, Limit: 1000}
		for more := true; more; {
			page, err := e.Store().List(t.Context(), request)
			require.NoError(t, err)
			for _, rec := range page.Records {
				_, namespace, _, isObject := storage.SplitObjectKey(rec.Key)
				if strings.HasPrefix(namespace, prefix) && isObject && namespace != "" || !isObject {
					out = append(out, rec.Key)
				}
				request.After = rec.Key
			}
			more = page.More
		}
	}
	return out
}

// creations are the ways to create an object in a namespace.
var creations = []func(ctx context.Context, e *engine.Engine, namespace, name string) error{
	func(ctx context.Context, e *engine.Engine, namespace, name string) error {
		return makeNote(ctx, e, namespace, name)
	},
	func(ctx context.Context, e *engine.Engine, namespace, name string) error { // a PUT may create
		target := registry.Target{Resource: leaseType, Namespace: namespace, Name: name}
		_, err := e.Update(ctx, target, fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name), registry.WriteOptions{})
		return err
	},
	func(ctx context.Context, e *engine.Engine, namespace, name string) error { // so may an apply
		target := registry.Target{Resource: noteType, Namespace: namespace, Name: "applied-" + name}
		body := fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Note","metadata":{"name":%q},"text":"x"}`, target.Name)
		_, err := e.Patch(ctx, target, registry.PatchRequest{Type: meta.ApplyPatch, Body: body}, registry.WriteOptions{FieldManager: "me"})
		return err
	},
	func(ctx context.Context, e *engine.Engine, namespace, name string) error {
		body := fmt.Appendf(nil, `{"metadata":{"name":%q},"eventTime":"2024-05-01T10:00:00.000001Z","action":"a","reason":"r","type":"Normal","reportingController":"c","reportingInstance":"i"}`, name)
		_, err := e.Create(ctx, registry.Target{Resource: eventType, Namespace: namespace}, body, registry.WriteOptions{})
		return err
	},
}

// Writers use every way to create an object while their namespaces are deleted. Requests that start
// after the deletion was acknowledged are rejected, and no object outlives its namespace.
func TestNS_07_NothingIsCreatedAfterTheDeletion(t *testing.T) {
	t.Run("memory", func(t *testing.T) { endAmongWriters(t, memory.New()) })
	t.Run("bbolt", func(t *testing.T) {
		b, err := bbolt.Open(t.TempDir() + "/db")
		require.NoError(t, err)
		endAmongWriters(t, b)
	})
}

func endAmongWriters(t *testing.T, b storage.Backend) {
	e, stop := start(t, b)
	defer func() { stop(); require.NoError(t, b.Close()) }()
	n := *endingNamespaces
	name := func(i int) string { return fmt.Sprintf("team-%04d", i) }
	deleted := make([]atomic.Bool, n)
	var created, refused atomic.Int64
	attempt := func(i, way, try int) (over bool) {
		late := deleted[i].Load()
		err := creations[way](t.Context(), e, name(i), fmt.Sprintf("n%d-%d", way, try))
		switch {
		case err == nil && late:
			t.Errorf("created in %s after its deletion was acknowledged", name(i))
		case err == nil:
			created.Add(1)
		case status.IsForbidden(err):
			refused.Add(1)
			if causes := status.From(err).Status().Details.Causes; len(causes) != 1 || causes[0].Type != meta.CauseNamespaceTerminating {
				t.Errorf("%v: %v", err, causes)
			}
			return late
		case status.IsNotFound(err):
			return true
		default:
			t.Error(err)
			return true
		}
		return false
	}
	const batch = 20 // small enough that writers are still active when the last namespace of a batch is deleted
	for from := 0; from < n; from += batch {
		to := min(from+batch, n)
		var writers sync.WaitGroup
		for i := from; i < to; i++ {
			makeNamespace(t, e, name(i))
			// A finalizer keeps half of them until their writers were rejected, however fast the
			// others go.
			if i%2 == 1 {
				_, err := e.Create(t.Context(), registry.Target{Resource: noteType, Namespace: name(i)}, []byte(`{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`), registry.WriteOptions{})
				require.NoError(t, err)
			}
			for way := range creations {
				require.NoError(t, creations[way](t.Context(), e, name(i), "first"))
				created.Add(1)
				writers.Go(func() {
					for try := 0; !attempt(i, way, try); try++ {
						if try >= 20 {
							time.Sleep(time.Millisecond) // leave time for the deletion
						}
					}
				})
			}
		}
		for i := from; i < to; i++ {
			_, err := e.Delete(t.Context(), registry.Target{Resource: namespaces, Name: name(i)}, registry.DeleteOptions{})
			require.NoError(t, err)
			deleted[i].Store(true)
		}
		writers.Wait()
		for i := from; i < to; i++ {
			if i%2 == 1 {
				_, err := e.Patch(t.Context(), registry.Target{Resource: noteType, Namespace: name(i), Name: "held"}, registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"metadata":{"finalizers":null}}`)}, registry.WriteOptions{})
				require.NoError(t, err)
			}
		}
	}
	for i := range n {
		gone(t, e, name(i))
		if i%2 == 0 { // recreated at once: new objects stay
			makeNamespace(t, e, name(i))
			require.NoError(t, makeNote(t.Context(), e, name(i), "new"))
		}
	}
	require.Eventually(t, func() bool { return len(left(t, e, "team-")) == (n+1)/2 }, time.Minute, 10*time.Millisecond, "%v", left(t, e, "team-"))
	for _, key := range left(t, e, "team-") {
		require.Contains(t, key, "/new\x01/")
	}
	require.GreaterOrEqual(t, refused.Load(), int64(n/2*len(creations)))
	t.Logf("%d objects came and went, %d were refused", created.Load(), refused.Load())
}

// counting counts reads from a store.
type counting struct {
	storage.Backend
	reads, records atomic.Int64
}

func (c *counting) Unwrap() storage.Backend { return c.Backend }

func (c *counting) Get(ctx context.Context, key string) (storage.Record, error) {
	c.reads.Add(1)
	return c.Backend.Get(ctx, key)
}

func (c *counting) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	c.reads.Add(1)
	page, err := c.Backend.List(ctx, r)
	c.records.Add(int64(len(page.Records)))
	return page, err
}

// The reads needed to delete a namespace depend on the number of kinds, not on other namespaces.
func TestNS_02_DeletingANamespaceDoesNotReadOthers(t *testing.T) {
	read := func(others int) (reads, records int64) {
		synctest.Test(t, func(t *testing.T) {
			c := &counting{Backend: memory.New()}
			e, stop := start(t, c)
			defer func() { stop(); require.NoError(t, c.Close()) }()
			for i := range others {
				makeNamespace(t, e, fmt.Sprint("other-", i))
				for j := range 5 {
					require.NoError(t, makeNote(t.Context(), e, fmt.Sprint("other-", i), fmt.Sprint(j)))
				}
			}
			makeNamespace(t, e, "team")
			for way := range creations {
				require.NoError(t, creations[way](t.Context(), e, "team", "x"))
			}
			synctest.Wait()
			before, had := c.reads.Load(), c.records.Load()
			_, err := e.Delete(t.Context(), registry.Target{Resource: namespaces, Name: "team"}, registry.DeleteOptions{})
			require.NoError(t, err)
			synctest.Wait()
			reads, records = c.reads.Load()-before, c.records.Load()-had
			require.Empty(t, left(t, e, "team"))
		})
		return reads, records
	}
	for _, others := range []int{1, 200} {
		reads, records := read(others)
		require.LessOrEqual(t, reads, int64(12), "one for the tombstone and one per stored kind, at most twice")
		require.LessOrEqual(t, records, int64(40))
		t.Logf("%d reads of the store beside %d other namespaces", reads, others)
	}
}

// racing runs a function after a tombstone was read and before anything is deleted because of it.
type racing struct {
	storage.Backend
	race func()
	once sync.Once
}

func (m *racing) Unwrap() storage.Backend { return m.Backend }

func (m *racing) Get(ctx context.Context, key string) (storage.Record, error) {
	record, err := m.Backend.Get(ctx, key)
	if strings.Contains(key, "namespace-gone") && err == nil {
		m.once.Do(m.race)
	}
	return record, err
}

// Objects that change while their namespace is forced out are deleted too, unless a new namespace
// has taken the name: then changed objects cannot be told from new ones.
func TestNS_02_ObjectsChangedAfterTheEndAreDeleted(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &racing{Backend: memory.New()}
			e, stop := start(t, m)
			defer func() { stop(); require.NoError(t, m.Close()) }()
			makeNamespace(t, e, "team")
			require.NoError(t, makeNote(t.Context(), e, "team", "old"))
			require.NoError(t, makeNote(t.Context(), e, "team", "changed"))
			m.race = func() {
				if recreated {
					makeNamespace(t, e, "team")
					require.NoError(t, makeNote(t.Context(), e, "team", "new"))
					return
				}
				_, err := e.Patch(t.Context(), registry.Target{Resource: noteType, Namespace: "team", Name: "changed"}, registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}, registry.WriteOptions{})
				require.NoError(t, err)
			}
			_, err := e.Update(t.Context(), registry.Target{Resource: namespaces, Name: "team", Subresource: "finalize"}, []byte(`{"metadata":{"name":"team"},"spec":{}}`), registry.WriteOptions{})
			require.NoError(t, err)
			_, err = e.Delete(t.Context(), registry.Target{Resource: namespaces, Name: "team"}, registry.DeleteOptions{})
			require.NoError(t, err)
			time.Sleep(time.Hour)
			names := left(t, e, "team")
			if !recreated {
				require.Empty(t, names)
				return
			}
			require.Len(t, names, 1)
			require.Contains(t, names[0], "new")
		})
	}
}

// model is the state that the server must reach once it is idle.
type model struct {
	namespaces map[string]bool // true while the namespace is terminating
	objects    map[place]*object
	served     map[string]bool // by plural name
}

type place struct{ plural, namespace, name string }

type object struct {
	held, marked bool
	left         bool // its namespace is gone
}

// settle applies everything that the server does in the background.
func (w *model) settle() {
	for again := true; again; {
		again = false
		for p, o := range w.objects {
			if !w.served[p.plural] {
				continue
			}
			if ending, exists := w.namespaces[p.namespace]; o.left || exists && ending {
				o.marked = true
			}
			if o.marked && !o.held {
				delete(w.objects, p)
			}
		}
		for name, ending := range w.namespaces {
			if ending && !slices.ContainsFunc(slices.Collect(maps.Keys(w.objects)), func(p place) bool { return p.namespace == name && w.served[p.plural] }) {
				w.end(name)
				again = true
			}
		}
	}
}

func (w *model) end(namespace string) {
	delete(w.namespaces, namespace)
	for p, o := range w.objects {
		if p.namespace == namespace {
			o.left = true
		}
	}
}

// history applies random changes to a server and to its model.
type history struct {
	*model
	t *testing.T
	e *engine.Engine
	r *rand.Rand
}

func (h *history) kind(plural string) registry.Kind[note] {
	k := notes
	k.Plural, k.Names.Kind = plural, strings.ToUpper(plural[:1])+strings.TrimSuffix(plural[1:], "s")
	return k
}

func (h *history) target(p place) registry.Target {
	return registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: p.plural}, Namespace: p.namespace, Name: p.name}
}

func (h *history) pick(of ...string) string { return of[h.r.IntN(len(of))] }

func (h *history) place() place {
	return place{h.pick("apples", "pears"), h.pick("a", "b", "ab"), h.pick("x", "y", "z")}
}

// expect checks the reason of an error. An empty reason means success.
func (h *history) expect(err error, reason meta.Reason, what string, args ...any) {
	h.t.Helper()
	got := meta.Reason("")
	if err != nil {
		got = status.ReasonOf(err)
	}
	require.Equal(h.t, reason, got, "%s: %v", fmt.Sprintf(what, args...), err)
}

func (h *history) step() {
	h.t.Helper()
	ctx := h.t.Context()
	switch p := h.place(); h.r.IntN(8) {
	case 0, 1:
		h.createNamespace(ctx, p.namespace)
	case 2:
		h.deleteNamespace(ctx, p.namespace)
	case 3, 4, 5:
		h.createObject(ctx, p)
	case 6:
		o := h.objects[p]
		if o == nil || !h.served[p.plural] {
			return
		}
		_, err := h.e.Patch(ctx, h.target(p), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"metadata":{"finalizers":null}}`)}, registry.WriteOptions{})
		h.expect(err, "", "free %v", p)
		o.held = false
	case 7:
		h.disturb(ctx, p)
	}
}

func (h *history) createNamespace(ctx context.Context, name string) {
	want := meta.Reason("")
	if _, exists := h.namespaces[name]; exists {
		want = meta.ReasonAlreadyExists
	} else {
		h.namespaces[name] = false
	}
	_, err := h.e.Create(ctx, registry.Target{Resource: namespaces}, fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name), registry.WriteOptions{})
	h.expect(err, want, "create namespace %s", name)
}

func (h *history) deleteNamespace(ctx context.Context, name string) {
	want := meta.Reason("")
	if _, exists := h.namespaces[name]; exists {
		h.namespaces[name] = true
	} else {
		want = meta.ReasonNotFound
	}
	_, err := h.e.Delete(ctx, registry.Target{Resource: namespaces, Name: name}, registry.DeleteOptions{})
	h.expect(err, want, "delete namespace %s", name)
}

func (h *history) createObject(ctx context.Context, p place) {
	held := h.r.IntN(2) == 0
	want := meta.Reason("")
	ending, exists := h.namespaces[p.namespace]
	switch {
	case !h.served[p.plural], !exists:
		want = meta.ReasonNotFound
	case ending:
		want = meta.ReasonForbidden
	case h.objects[p] != nil:
		want = meta.ReasonAlreadyExists
	default:
		h.objects[p] = &object{held: held}
	}
	body := fmt.Appendf(nil, `{"metadata":{"name":%q}}`, p.name)
	if held {
		body = fmt.Appendf(nil, `{"metadata":{"name":%q,"finalizers":["example.dev/hold"]}}`, p.name)
	}
	t := h.target(p)
	t.Name = ""
	_, err := h.e.Create(ctx, t, body, registry.WriteOptions{})
	h.expect(err, want, "create %v", p)
}

// disturb installs or removes a kind, or forces a namespace out by removing its finalizer.
func (h *history) disturb(ctx context.Context, p place) {
	if ending := h.namespaces[p.namespace]; ending && h.r.IntN(2) == 0 {
		t := registry.Target{Resource: namespaces, Name: p.namespace, Subresource: "finalize"}
		_, err := h.e.Update(ctx, t, fmt.Appendf(nil, `{"metadata":{"name":%q},"spec":{}}`, p.namespace), registry.WriteOptions{})
		h.expect(err, "", "force the end of %s", p.namespace)
		h.end(p.namespace)
		return
	}
	if h.served[p.plural] {
		h.e.Remove(meta.GroupResource{Group: "example.dev", Resource: p.plural})
	} else {
		r, err := h.kind(p.plural).Resource()
		require.NoError(h.t, err)
		require.NoError(h.t, h.e.Install(ctx, r))
		h.checkLeftovers(ctx, p.plural)
	}
	h.served[p.plural] = !h.served[p.plural]
}

// checkLeftovers checks a newly installed kind before anything else can run: objects whose
// namespace is gone must not look alive.
func (h *history) checkLeftovers(ctx context.Context, plural string) {
	h.t.Helper()
	list, err := h.e.List(ctx, h.target(place{plural: plural}), registry.ListRequest{})
	require.NoError(h.t, err)
	for entry, err := range list.Items {
		require.NoError(h.t, err)
		f := entry.Facts()
		if o := h.objects[place{plural, f.Namespace, f.Name}]; o.left {
			require.NotNil(h.t, f.Deleted, "%s/%s belongs to a deleted namespace but is not being deleted", f.Namespace, f.Name)
		}
	}
}

// check compares the server with the model.
func (h *history) check(ctx context.Context) {
	h.t.Helper()
	spaces := map[string]bool{}
	list, err := h.e.List(ctx, registry.Target{Resource: namespaces}, registry.ListRequest{})
	require.NoError(h.t, err)
	for entry, err := range list.Items {
		require.NoError(h.t, err)
		if name := entry.Name(); len(name) <= 2 {
			spaces[name] = entry.Deleting()
		}
	}
	require.Equal(h.t, h.namespaces, spaces)
	want, got := map[place]object{}, map[place]object{}
	for p, o := range h.objects {
		if h.served[p.plural] {
			want[p] = object{held: o.held, marked: o.marked}
		}
	}
	for plural, served := range h.served {
		if !served {
			continue
		}
		list, err := h.e.List(ctx, h.target(place{plural: plural}), registry.ListRequest{})
		require.NoError(h.t, err)
		for entry, err := range list.Items {
			require.NoError(h.t, err)
			var obj note
			require.NoError(h.t, json.Unmarshal(entry.AppendJSON(nil), &obj))
			got[place{plural, obj.Namespace, obj.Name}] = object{held: len(obj.Finalizers) > 0, marked: obj.DeletionTimestamp != nil}
		}
	}
	require.Equal(h.t, want, got)
}

// Namespaces and kinds come and go in random order, finalizers hold objects, and namespaces are
// forced out. After each step the server matches a simple model.
func TestNS_02_RandomHistories(t *testing.T) {
	for seed := range uint64(*histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New()
				e, stop := start(t, db)
				defer func() { stop(); require.NoError(t, db.Close()) }()
				h := &history{t: t, e: e, r: rand.New(rand.NewPCG(seed, 0))}
				h.model = &model{namespaces: map[string]bool{}, objects: map[place]*object{}, served: map[string]bool{"apples": false, "pears": false}}
				for range 300 {
					h.step()
					h.settle()
					synctest.Wait()
					h.check(t.Context())
				}
				// Finally, everything can be deleted.
				for plural, served := range h.served {
					if !served {
						r, err := h.kind(plural).Resource()
						require.NoError(t, err)
						require.NoError(t, e.Install(t.Context(), r))
						h.served[plural] = true
					}
				}
				for name := range h.namespaces {
					h.deleteNamespace(t.Context(), name)
				}
				synctest.Wait()
				h.settle()
				for p, o := range h.objects {
					require.True(t, o.held)
					_, err := e.Patch(t.Context(), h.target(p), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"metadata":{"finalizers":null}}`)}, registry.WriteOptions{})
					require.NoError(t, err)
				}
				synctest.Wait()
				for _, name := range []string{"a", "b", "ab"} {
					require.Empty(t, left(t, e, name))
				}
			})
		})
	}
}
