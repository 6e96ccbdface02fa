package watch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// widget is the object these tests store: a namespace, a name, labels, one declared field and
// something that changes.
type widget struct {
	Namespace, Name string
	Labels          map[string]string
	Color           string
	Size            int
}

type stored struct {
	Metadata struct {
		Labels    map[string]string `json:"labels,omitempty"`
		Name      string            `json:"name"`
		Namespace string            `json:"namespace,omitempty"`
		UID       string            `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		Color   string `json:"color"`
		Padding string `json:"padding,omitempty"`
		Size    int    `json:"size"`
	} `json:"spec"`
}

func (w widget) encode() []byte {
	var s stored
	s.Metadata.Labels, s.Metadata.Name, s.Metadata.Namespace = w.Labels, w.Name, w.Namespace
	s.Metadata.UID = "uid-of-" + w.Name
	s.Spec.Color, s.Spec.Size = w.Color, w.Size
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

var errBroken = errors.New("this record is broken")

// decode makes an entry as the engine would. Records that do not parse are errors.
func decode(r storage.Record) (*watch.Entry, error) {
	var s stored
	if err := json.Unmarshal(r.Value, &s); err != nil {
		return nil, errBroken
	}
	cut := bytes.Index(r.Value, []byte(`"uid"`))
	return watch.NewEntry(r.Key, r.Revision, watch.Body{Prefix: r.Value[:cut], Suffix: r.Value[cut:]}, watch.Facts{
		Namespace: s.Metadata.Namespace,
		Name:      s.Metadata.Name,
		UID:       meta.UID(s.Metadata.UID),
		Labels:    meta.NewLabelSet(s.Metadata.Labels),
		Fields:    []string{s.Spec.Color},
	}), nil
}

func config(storageName string) watch.CacheConfig {
	return watch.CacheConfig{StorageName: storageName, Fields: []string{"spec.color"}, Decode: decode}
}

// world is a store, a dispatcher that follows it, and a model of one kind, "widgets", in it.
type world struct {
	t          *testing.T
	backend    *backend
	store      *storage.Store
	dispatcher *watch.Dispatcher
	cache      *watch.Cache // of widgets
	history    watchtest.History

	mu  sync.Mutex // one commit at a time, so that the model knows what each did
	now map[string]*watch.Entry
}

// newWorld starts a world that ends with the test. Call it in a bubble.
func newWorld(t *testing.T, change ...func(*watch.CacheConfig)) *world {
	return newWorldOver(t, memory.New(memory.WithFirstRevision(100)), change...)
}

func newWorldOver(t *testing.T, under storage.Backend, change ...func(*watch.CacheConfig)) *world {
	w := &world{t: t, backend: &backend{Backend: under}, now: make(map[string]*watch.Entry)}
	w.store = storage.New(w.backend)
	w.dispatcher = watch.NewDispatcher(w.store)
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	w.start(w.dispatcher)
	synctest.Wait()
	cfg := config("widgets")
	for _, f := range change {
		f(&cfg)
	}
	var err error
	w.cache, err = w.dispatcher.Add(t.Context(), cfg)
	require.NoError(t, err)
	return w
}

// start runs a dispatcher until the test ends, and stop is called then or earlier.
func (w *world) start(d *watch.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, storage.ErrClosed) {
			w.t.Errorf("Run ended with %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// put stores a widget, whatever was there, and returns the revision.
func (w *world) put(o widget) storage.Revision {
	return w.commit(storage.Put(storage.ObjectKey("widgets", o.Namespace, o.Name), o.encode(), storage.Any))
}

// remove deletes a widget; 0 when there is none.
func (w *world) remove(namespace, name string) storage.Revision {
	return w.commit(storage.Delete(storage.ObjectKey("widgets", namespace, name), storage.Any))
}

func (w *world) commit(op storage.Op) storage.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	prev := w.now[op.Key]
	if op.Type == storage.OpDelete && prev == nil {
		return 0
	}
	revision, err := w.store.Commit(context.Background(), []storage.Op{op})
	if err != nil {
		w.t.Errorf("commit: %v", err)
		return 0
	}
	var next *watch.Entry
	if op.Type == storage.OpPut {
		if next, err = decode(storage.Record{Key: op.Key, Value: op.Value, Revision: revision}); err != nil {
			w.t.Errorf("decode: %v", err)
		}
	}
	w.history.Add(watchtest.Commit{Revision: revision, Key: op.Key, Next: next})
	w.now[op.Key] = next
	return revision
}

// foreign writes n times to another kind.
func (w *world) foreign(n int) (last storage.Revision) {
	for i := range n {
		key := storage.ObjectKey("gadgets", "ns", fmt.Sprint("g", i%10))
		revision, err := w.store.Commit(w.t.Context(), []storage.Op{storage.Put(key, []byte(`{"foreign":true}`), storage.Any)})
		require.NoError(w.t, err)
		last = revision
	}
	return last
}

// settle waits until the cache shows everything that was committed.
func (w *world) settle() {
	w.t.Helper()
	require.NoError(w.t, w.cache.Fresh(w.t.Context()))
}

func (w *world) compact(at storage.Revision) {
	w.t.Helper()
	require.NoError(w.t, w.store.Compact(w.t.Context(), at))
}

func (w *world) watch(f watch.Filter, after storage.Revision) *watch.Cursor {
	w.t.Helper()
	c, err := w.cache.Watch(w.t.Context(), watch.WatchRequest{Filter: f, After: after})
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

// next returns the next events as one line each: `ADDED ns/name 7`.
func next(t *testing.T, c *watch.Cursor) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := c.Next(ctx, nil)
	require.NoError(t, err)
	return lines(events)
}

// take returns the next n events in the same form, from however many calls of Next.
func take(t *testing.T, c *watch.Cursor, n int) []string {
	t.Helper()
	var got []string
	for len(got) < n {
		got = append(got, next(t, c)...)
	}
	return got
}

func lines(events []watch.Event) []string {
	var out []string
	for _, e := range events {
		name := ""
		if e.Entry != nil {
			f := e.Entry.Facts()
			name = f.Namespace + "/" + f.Name
		}
		out = append(out, fmt.Sprintf("%s %s %s", e.Type, name, e.Revision))
	}
	return out
}

func line(typ meta.EventType, name string, revision storage.Revision) string {
	return fmt.Sprintf("%s %s %s", typ, name, revision)
}

// nothing waits and expects no event.
func nothing(t *testing.T, c *watch.Cursor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	events, err := c.Next(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, lines(events))
}

func labels(t *testing.T, s string) meta.Selector {
	t.Helper()
	selector, err := meta.ParseSelector(s)
	require.NoError(t, err)
	return selector
}

func fields(t *testing.T, s string) meta.FieldSelector {
	t.Helper()
	selector, err := meta.ParseFieldSelector(s)
	require.NoError(t, err)
	return selector
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// backend lets a test watch and disturb what is asked of a store.
type backend struct {
	storage.Backend
	lists, watches, histories, cuts atomic.Int64

	mu    sync.Mutex
	trick trick
}

// trick is how a store is disturbed. The zero trick is not at all.
type trick struct {
	pageLimit int         // bounds pages
	pause     func()      // called before each page
	rest      func()      // called after each page
	fails     func() bool // says before each page whether it cannot be read
	twice     bool        // hands every batch over twice
	cut       func() bool // says before each batch whether the watch breaks now
	hold      func()      // called before a batch is handed over
}

func (b *backend) play(t trick) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trick = t
}

func (b *backend) playing() trick {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trick
}

// everyNth breaks watches before every nth batch.
func everyNth(n int64) func() bool {
	var batches atomic.Int64
	return func() bool { return batches.Add(1)%n == 0 }
}

var errCut = errors.New("connection lost")

func (b *backend) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	b.lists.Add(1)
	t := b.playing()
	if t.pause != nil {
		t.pause()
	}
	if t.pageLimit > 0 {
		r.Limit = min(r.Limit, t.pageLimit)
	}
	if t.fails != nil && t.fails() {
		return storage.Page{}, errCut
	}
	page, err := b.Backend.List(ctx, r)
	if t.rest != nil {
		t.rest()
	}
	return page, err
}

func (b *backend) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	b.histories.Add(1)
	if t := b.playing(); t.cut != nil && t.cut() {
		b.cuts.Add(1)
		return storage.HistoryPage{}, errCut
	}
	return b.Backend.History(ctx, r)
}

func (b *backend) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		b.watches.Add(1)
		for batch, err := range b.Backend.Watch(ctx, prefix, after) {
			t := b.playing()
			if t.cut != nil && t.cut() {
				b.cuts.Add(1)
				yield(storage.Batch{}, errCut)
				return
			}
			if t.hold != nil {
				t.hold()
			}
			if !yield(batch, err) || t.twice && !yield(batch, err) {
				return
			}
		}
	}
}
