package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// describe returns the description of a definition with one resource.
func describe(t testing.TB, k registry.Kind[widget]) *registry.Resource {
	t.Helper()
	r, err := k.Resource()
	require.NoError(t, err)
	return r
}

func TestAKindIsReplaced(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		strict := false
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		before, _ := e.Set().Lookup(widgetResource)
		cursor, err := e.Follow(t.Context(), inA, registry.WatchRequest{})
		require.NoError(t, err)
		defer cursor.Close()
		kind := widgets()
		kind.Doc = "another description"
		kind.Rules.Validate = func(context.Context, *widget, *status.Fields) { strict = true }
		next := describe(t, kind)

		require.ErrorContains(t, e.Install(t.Context(), next), "is served already")
		require.NoError(t, e.Change(t.Context(), []meta.GroupVersionResource{widgetResource}, []*registry.Resource{next}))
		after, ok := e.Set().Lookup(widgetResource)
		require.True(t, ok)
		require.Equal(t, "another description", after.Resource.Description)
		require.Same(t, before.Cache, after.Cache, "what is stored is shown as before")
		require.Error(t, before.Ended().Err(), "its streams end, to go on with the new kind")
		require.NoError(t, after.Ended().Err())

		_, err = e.Create(t.Context(), inA, body("y", 1, ""), registry.WriteOptions{})
		require.NoError(t, err)
		require.True(t, strict, "the rules are the new ones")
		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.NotNil(t, entry)
	})
}

// A live view that goes on does not keep the kind that it began with, which has schemas and rules.
func TestAReplacedKindIsForgotten(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	replaced := func() weak.Pointer[engine.Kind] {
		before, _ := e.Set().Lookup(widgetResource)
		next := widgets()
		next.Doc = "another description"
		require.NoError(t, e.Change(t.Context(), []meta.GroupVersionResource{widgetResource}, []*registry.Resource{describe(t, next)}))
		after, _ := e.Set().Lookup(widgetResource)
		require.Same(t, before.Cache, after.Cache)
		return weak.Make(before.Kind)
	}()
	create(t, e, "x")
	require.Eventually(t, func() bool {
		runtime.GC()
		return replaced.Value() == nil
	}, time.Minute, time.Millisecond)
}

// gadget is a widget with another schema.
type gadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            gadgetSpec   `json:"spec"`
	Status          widgetStatus `json:"status,omitzero"`
}

type gadgetSpec struct {
	Size   int    `json:"size"`
	Colour string `json:"colour,omitempty" default:"blue" selectable:""`
}

func TestAReplacementWithAnotherSchemaShowsWhatIsStored(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		old, _ := e.Set().Lookup(widgetResource)
		began, err := e.Resolve("patch", named("x"))
		require.NoError(t, err)
		require.NoError(t, old.Cache.Fresh(t.Context()))
		at := old.Cache.Revision()
		next, err := registry.Kind[gadget]{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget"}}.Resource()
		require.NoError(t, err)
		require.NoError(t, e.Change(t.Context(), []meta.GroupVersionResource{widgetResource}, []*registry.Resource{next}))

		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.Contains(t, string(entry.AppendJSON(nil)), `"colour":"blue"`, "what the new schema fills in")
		blue, err := meta.ParseFieldSelector("spec.colour=blue")
		require.NoError(t, err)
		list, err := e.List(t.Context(), inA, registry.ListRequest{Fields: blue})
		require.NoError(t, err)
		require.Equal(t, 1, count(t, list))

		_, err = began.Patch(t.Context(), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"size":9}}`)}, registry.WriteOptions{})
		require.NoError(t, err, "a request that is under way ends with the kind that it began with")
		entry, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.Contains(t, string(entry.AppendJSON(nil)), `"size":9`)

		cursor, err := e.Follow(t.Context(), inA, registry.WatchRequest{After: at})
		require.NoError(t, err, "watches go on from where they were")
		defer cursor.Close()
		events, err := cursor.Next(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, meta.Modified, events[0].Type)
	})
}

func count(t *testing.T, l *registry.List) int {
	t.Helper()
	n := 0
	for _, err := range l.Items {
		require.NoError(t, err)
		n++
	}
	return n
}

func TestAReplacementThatCannotBeIsRefused(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	create(t, e, "x")
	generation := e.Set().Generation()
	for want, change := range map[string]func(*registry.Kind[widget]){
		"another scope":        func(k *registry.Kind[widget]) { k.Scope = registry.ClusterScoped },
		"storage name":         func(k *registry.Kind[widget]) { k.StorageName = "elsewhere" },
		"are stored as":        func(k *registry.Kind[widget]) { k.Names.Kind = "Gizmo" },
		"means something else": func(k *registry.Kind[widget]) { k.Plural, k.StorageName = "status", "example.dev/widgets" },
	} {
		kind := widgets()
		change(&kind)
		r, err := kind.Resource()
		if err == nil {
			err = e.Change(t.Context(), []meta.GroupVersionResource{widgetResource}, []*registry.Resource{r})
		}
		require.ErrorContains(t, err, want)
		require.Equal(t, generation, e.Set().Generation(), "nothing has changed")
	}
	later := widgets()
	later.Version = "v2"
	err := e.Change(t.Context(), []meta.GroupVersionResource{widgetResource}, []*registry.Resource{describe(t, later)})
	require.ErrorContains(t, err, "example.dev/v1", "objects are stored in a version that is not described any more")
	require.Equal(t, generation, e.Set().Generation())
	_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
	require.NoError(t, err)
}

// A change of several kinds fails as a whole when the objects of one cannot be read.
func TestAChangeThatFailsHalfWayChangesNothing(t *testing.T) {
	b := oldGears(t, 3)
	alpha := zones()
	alpha.Version = "v1alpha1"
	earlier, stop, err := run(t, b, nil, alpha)
	require.NoError(t, err)
	_, err = earlier.Create(t.Context(), registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1alpha1", Resource: "zones"}},
		[]byte(`{"metadata":{"name":"z"},"spec":{"size":1}}`), registry.WriteOptions{})
	require.NoError(t, err)
	stop()

	gearKind := countedGears{countedCalls: &countedCalls{}}
	e, _, err := run(t, b, unmigrated, gearKind)
	require.NoError(t, err)
	require.NoError(t, e.Install(t.Context(), describe(t, widgets())))
	create(t, e, "x")
	before := e.Set()
	require.NoError(t, before.All()[0].Cache.Fresh(t.Context()))
	cursor, err := e.Follow(t.Context(), inA, registry.WatchRequest{After: before.All()[0].Cache.Revision()})
	require.NoError(t, err)
	defer cursor.Close()

	larger, err := registry.Kind[gadget]{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget"}}.Resource()
	require.NoError(t, err)
	others, err := gearKind.Define(registry.Env{})
	require.NoError(t, err)
	books := widgets()
	books.Plural, books.Names = "books", registry.Names{Kind: "Book"}
	replaced := []meta.GroupVersionResource{widgetResource, gearAt("v1", "").Resource, gearAt("v1beta1", "").Resource}
	next := append([]*registry.Resource{larger, describe(t, books)}, others.Resources...)
	err = e.Change(t.Context(), replaced, append(next, describe(t, zones())))
	require.ErrorContains(t, err, `load zones.example.dev`)
	require.ErrorContains(t, err, `the object "z" was written as a "Zone" of "example.dev/v1alpha1"`)

	require.Same(t, before, e.Set())
	for _, one := range before.All() {
		require.NoError(t, one.Ended().Err(), "watches go on")
	}
	create(t, e, "y")
	events, err := cursor.Next(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "y", events[len(events)-1].Entry.Name())
	require.NotContains(t, string(events[len(events)-1].Entry.AppendJSON(nil)), "colour", "by the schema that is served")
	require.Len(t, listed(t, e, "v1beta1", registry.ListRequest{}), 3)
	require.Zero(t, gearKind.since(), "records are still in the form that is served")

	require.NoError(t, e.Change(t.Context(), replaced, next), "nothing is left of the change that failed")
	entry, err := e.Get(t.Context(), named("y"), registry.ListRequest{})
	require.NoError(t, err)
	require.Contains(t, string(entry.AppendJSON(nil)), `"colour":"blue"`)
	require.Len(t, listed(t, e, "v1beta1", registry.ListRequest{}), 3)
	require.Zero(t, gearKind.since())
}

// A request that began before its kind was replaced reads records as those after it do.
func TestARequestOfAReplacedKindDoesNotConvertMore(t *testing.T) {
	gearKind := countedGears{countedCalls: &countedCalls{}}
	e, _, err := run(t, oldGears(t, 3), unmigrated, gearKind)
	require.NoError(t, err)
	began, err := e.Resolve("list", gearAt("v1beta1", ""))
	require.NoError(t, err)
	bundle, err := gearKind.Define(registry.Env{})
	require.NoError(t, err)
	require.NoError(t, e.Change(t.Context(), []meta.GroupVersionResource{gearAt("v1", "").Resource, gearAt("v1beta1", "").Resource}, bundle.Resources))
	list, err := began.List(t.Context(), registry.ListRequest{})
	require.NoError(t, err)
	require.Equal(t, 3, count(t, &list.List))
	require.Zero(t, gearKind.since())
}

func TestAChangeCompilesOnlyTheRulesOfItsKinds(t *testing.T) {
	const kinds = 50
	e := start(t, memory.New(), nil, widgets(), gears())
	rules := func() map[string]any {
		out := map[string]any{}
		for one := range e.Set().Stored() {
			out[one.Kind.Plural] = one.Rules()
		}
		return out
	}
	change := func(remove []meta.GroupVersionResource, add ...*registry.Resource) (compiled []string) {
		before := rules()
		require.NoError(t, e.Change(t.Context(), remove, add))
		for plural, now := range rules() {
			if had, ok := before[plural]; !ok || had != now {
				compiled = append(compiled, plural)
			}
		}
		return compiled
	}
	for n := range kinds {
		k := widgets()
		k.Plural, k.Names = fmt.Sprintf("widgets%d", n), registry.Names{Kind: fmt.Sprintf("Widget%d", n)}
		require.Equal(t, []string{k.Plural}, change(nil, describe(t, k)))
	}
	require.Len(t, rules(), kinds+2)
	require.Equal(t, []string{"widgets"}, change([]meta.GroupVersionResource{widgetResource}, describe(t, widgets())))
	require.Equal(t, []string{"gears"}, change([]meta.GroupVersionResource{gearAt("v1beta1", "").Resource}), "whose other form has gone")
	require.Empty(t, change([]meta.GroupVersionResource{widgetResource}))
	require.Len(t, rules(), kinds+1)
}

var long = flag.Duration("long", 0, "how long the model of changing kinds runs with 50 writers, 50 readers and 100 informers; 0 for some changes under a few clients")

// Kinds are replaced, come and go under writers, readers and watchers. The widgets are there all the time: no request about them
// fails, and every watcher that goes on from where it was ends up with what there is.
func TestKindsChangeUnderLoad(t *testing.T) {
	m := &changing{t: t, e: start(t, memory.New(), nil, widgets()), clients: 3}
	if *long > 0 {
		m.clients = 50
	}
	m.informers = make([]informer, 2*m.clients)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working, following sync.WaitGroup
	for n := range m.clients {
		working.Go(func() { m.write(ctx, fmt.Sprintf("w%d", n)) })
		working.Go(func() { m.read(ctx) })
	}
	watchers := m.informers
	for i := range watchers {
		following.Go(func() { watchers[i].follow(m) })
	}
	changes, least := 0, 100
	if *long > 0 {
		least = 1
	}
	for end := time.Now().Add(*long); changes < least || time.Now().Before(end); changes++ {
		changeOnce(t, m.e, changes)
		m.pause(1)
		for m.behind() > most/2 {
			m.pause(1)
		}
	}
	stop()
	working.Wait()
	create(t, m.e, "last")
	following.Wait()
	want := map[string]string{}
	list, err := m.e.List(t.Context(), inA, registry.ListRequest{})
	require.NoError(t, err)
	for entry, err := range list.Items {
		require.NoError(t, err)
		want[entry.Name()] = size(t, entry)
	}
	for i := range watchers {
		require.Equal(t, want, watchers[i].seen)
		require.Zero(t, watchers[i].relists)
	}
	t.Logf("%d changes, %d writes, %d lists, %d watches, %d events", changes, m.writes.Load(), m.lists.Load(), m.watches.Load(), m.events.Load())
}

// changing is the load on an engine whose kinds change. It waits for its informers, so that it is no more than a machine bears.
type changing struct {
	t         *testing.T
	e         *engine.Engine
	clients   int
	informers []informer

	writes, lists, watches, events atomic.Int64
}

// most is how many changes an informer may lack.
const most = 1000

// behind returns how many revisions the slowest informer lacks.
func (m *changing) behind() uint64 {
	served, _ := m.e.Set().Lookup(widgetResource)
	now := uint64(served.Cache.Revision())
	least := now
	for i := range m.informers {
		least = min(least, m.informers[i].reached.Load())
	}
	return now - least
}

// pause waits for some milliseconds for each client.
func (m *changing) pause(most int) {
	time.Sleep(rand.N(time.Duration(most*m.clients) * time.Millisecond)) //nolint:gosec // any time
}

// changeOnce replaces the widgets, by a kind of another schema now and then, and lets another kind come or go.
func changeOnce(t *testing.T, e *engine.Engine, n int) {
	var next *registry.Resource
	var err error
	if n%3 == 0 {
		next, err = registry.Kind[gadget]{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget"}, Doc: fmt.Sprint(n)}.Resource()
	} else {
		kind := widgets()
		kind.Doc = fmt.Sprint(n)
		next, err = kind.Resource()
	}
	if err == nil {
		err = e.Change(context.Background(), []meta.GroupVersionResource{widgetResource}, []*registry.Resource{next})
	}
	if err == nil && n%2 == 0 {
		err = e.Install(context.Background(), describe(t, zones()))
	} else {
		e.Remove(zoneResource.GroupResource())
	}
	if err != nil {
		t.Errorf("change %d: %v", n, err)
	}
}

func (m *changing) write(ctx context.Context, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		var err error
		switch n % 4 {
		case 0:
			_, err = m.e.Create(context.Background(), inA, body(name, n%1000+1, ""), registry.WriteOptions{})
		case 3:
			_, err = m.e.Delete(context.Background(), named(name), registry.DeleteOptions{})
		default:
			_, err = merge(context.Background(), m.e, named(name), fmt.Sprintf(`{"spec":{"size":%d}}`, rand.IntN(1000)+1)) //nolint:gosec // any number
		}
		if err != nil {
			m.t.Errorf("write %d of %s: %v", n, name, err)
			return
		}
		m.writes.Add(1)
		m.pause(8)
		for ctx.Err() == nil && m.behind() > most {
			m.pause(8)
		}
	}
}

func (m *changing) read(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := m.e.List(context.Background(), inA, registry.ListRequest{})
		if err == nil {
			for _, err = range list.Items {
				if err != nil {
					break
				}
			}
		}
		if err != nil {
			m.t.Errorf("list: %v", err)
			return
		}
		m.lists.Add(1)
		m.pause(8)
	}
}

// informer keeps what a watch tells, and goes on from its last version when it ends.
type informer struct {
	at      storage.Revision
	seen    map[string]string
	relists int
	reached atomic.Uint64 // at, for others
}

// follow follows the widgets until it sees the one that is written last.
func (i *informer) follow(m *changing) {
	i.seen = map[string]string{}
	defer i.reached.Store(math.MaxUint64) // nobody waits for it any more
	for i.seen["last"] == "" {
		m.watches.Add(1)
		if err := i.watch(m); err != nil {
			m.t.Errorf("watch from %d: %v", i.at, err)
			return
		}
	}
}

// watch follows until the kind is replaced or the last object is seen.
func (i *informer) watch(m *changing) error {
	at, err := m.e.Resolve("watch", inA)
	if err != nil {
		return err
	}
	cursor, err := at.Follow(context.Background(), registry.WatchRequest{After: i.at})
	if errors.Is(err, watch.ErrGone) {
		return nil // it was replaced in this moment
	}
	if err != nil {
		return err
	}
	defer cursor.Close()
	for i.seen["last"] == "" {
		events, err := cursor.Next(at.Served.Ended(), nil)
		for _, event := range events {
			i.note(m.t, event)
		}
		m.events.Add(int64(len(events)))
		i.reached.Store(uint64(i.at))
		switch {
		case err == nil:
		case watch.Expired(err):
			i.relists++
			return err
		case at.Served.Ended().Err() != nil, errors.Is(err, watch.ErrGone):
			if cursor.Walking() {
				i.at, i.seen = 0, map[string]string{} // a part of the initial events has no version
			}
			return nil
		default:
			return err
		}
	}
	return nil
}

func (i *informer) note(t *testing.T, event watch.Event) {
	i.at = max(i.at, event.Revision)
	switch event.Type {
	case meta.Added, meta.Modified:
		i.seen[event.Entry.Name()] = size(t, event.Entry)
	case meta.Deleted:
		delete(i.seen, event.Entry.Name())
	}
}

func size(t *testing.T, entry *watch.Entry) string {
	var object struct {
		Spec struct{ Size int }
	}
	if err := json.Unmarshal(entry.AppendJSON(nil), &object); err != nil {
		t.Error(err)
	}
	return fmt.Sprint(object.Spec.Size)
}

// BenchmarkInstall is one more kind on a server that has some already.
func BenchmarkInstall(b *testing.B) {
	for _, have := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(have), func(b *testing.B) {
			e, err := engine.New(engine.Config{Store: storage.New(memory.New())})
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(context.Background())
			defer func() { cancel(); e.Wait() }()
			require.NoError(b, e.Start(ctx))
			base := describe(b, widgets())
			made := atomic.Int64{}
			one := func() *registry.Resource {
				n := made.Add(1)
				r := *base
				r.Group = fmt.Sprintf("g%d.example.dev", n%100)
				r.Plural = fmt.Sprintf("widgets%d", n)
				r.Names = registry.Names{Kind: fmt.Sprintf("Widget%d", n), Singular: fmt.Sprintf("widget%d", n)}
				r.StorageName = ""
				return &r
			}
			all := make([]*registry.Resource, have)
			for i := range all {
				all[i] = one()
			}
			require.NoError(b, e.Install(ctx, all...))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, e.Install(ctx, one()))
			}
		})
	}
}
