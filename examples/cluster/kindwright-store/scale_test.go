package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn/token"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/copy"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

var moved = flag.Int("moved", 2000, "how many objects move under informers")

const (
	informers = 50
	writers   = 4
)

type item struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Text            string `json:"text,omitempty"`
}

func items() registry.Kind[item] {
	return registry.Kind[item]{Group: "example.dev", Version: "v1", Plural: "items", Names: registry.Names{Kind: "Item"}}
}

// front is an address behind which servers change. While there is none, clients are told to wait.
type front struct {
	mu  sync.RWMutex
	srv *kindwright.Server
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.RLock()
	srv := f.srv
	if r.Method == http.MethodGet {
		f.mu.RUnlock()
	} else {
		defer f.mu.RUnlock() // a server goes when its writes have been answered
	}
	if srv == nil {
		w.Header().Set("Retry-After", "0")
		http.Error(w, "the store is being moved", http.StatusServiceUnavailable)
		return
	}
	srv.ServeHTTP(w, r)
}

func (f *front) put(srv *kindwright.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.srv = srv
}

// serving is a server over a store.
type serving struct {
	*kindwright.Server
	stop context.CancelFunc
}

func serve(t *testing.T, b storage.Backend) *serving {
	t.Helper()
	users, err := token.Read(strings.NewReader(`secret,admin,1,"system:masters"`))
	require.NoError(t, err)
	srv, err := kindwright.New(b, kindwright.Serve(items()), kindwright.Authenticate(users))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	return &serving{srv, cancel}
}

// bearer shows a token.
type bearer struct{ next http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return b.next.RoundTrip(r)
}

// informer knows a namespace by its watch, and counts what its handlers would be called for.
type informer struct {
	mu       sync.Mutex
	known    map[string]string // versions, by name
	before   map[string]string // what it knew before it lists again
	calls    int               // of handlers, for additions and changes
	repeated int               // events of a version that it had
	back     int               // events of an older version than it had
	resets   int
	synced   bool
	ended    error // why it stopped, which only its context may cause
}

func (i *informer) run(ctx context.Context, c *client.Client[item], namespace string) {
	for event, err := range c.Watch(ctx, client.In(namespace)) {
		if err != nil {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.ended = err
			return
		}
		i.take(event)
	}
}

func (i *informer) take(event client.Event[item]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch event.Type {
	case client.Reset:
		i.before, i.known, i.synced = i.known, map[string]string{}, false
		i.resets++
	case client.Synced:
		i.before, i.synced = nil, true
	case meta.Added, meta.Modified:
		name, version := event.Object.Name, event.Object.ResourceVersion
		had := i.known[name]
		if had == version {
			i.repeated++
		}
		if had == "" {
			had = i.before[name]
		}
		if number(version) < number(had) {
			i.back++
		}
		if had != version { // an informer that lists again tells its handlers of these alone
			i.calls++
		}
		i.known[name] = version
	case meta.Deleted:
		delete(i.known, event.Object.Name)
	}
}

func number(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64) // "" is 0
	return n
}

func (i *informer) has(want map[string]string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.synced || len(i.known) != len(want) {
		return false
	}
	for name, version := range want {
		if i.known[name] != version {
			return false
		}
	}
	return true
}

func (i *informer) String() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return fmt.Sprintf("%d objects, %d resets, synced %v, ended by %v", len(i.known), i.resets, i.synced, i.ended)
}

func namespace(n int) string { return fmt.Sprint("n", n%informers) }

// Objects move from a file to etcd and back under informers and writers. In the end each informer
// has what there is. It was told of every version of an object once at most.
func TestOPS_ObjectsMoveUnderInformers(t *testing.T) {
	endpoint := etcdtest.Start(t, 1, etcdtest.Options{QuotaBytes: 8 << 30}).Endpoints()[0]
	dir := t.TempDir()
	file, err := bbolt.Open(filepath.Join(dir, "first.db"))
	require.NoError(t, err)
	back, err := bbolt.Open(filepath.Join(dir, "second.db"))
	require.NoError(t, err)
	inEtcd := openEtcd(t, endpoint, "/moved")

	f := &front{}
	web := httptest.NewServer(f)
	defer web.Close()
	c := client.For(&http.Client{Transport: bearer{&http.Transport{MaxIdleConnsPerHost: 2 * informers}}}, items(), client.At(web.URL))
	srv := serve(t, file)
	f.put(srv.Server)
	var filling sync.WaitGroup
	text := strings.Repeat("x", 500)
	failed := make(chan error, writers)
	for w := range writers {
		filling.Go(func() {
			for n := w; n < *moved; n += writers {
				object := &item{ObjectMeta: meta.ObjectMeta{Namespace: namespace(n), Name: fmt.Sprint("i", n)}, Text: text}
				if _, err := c.Create(t.Context(), object); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	filling.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop() // before web is closed, which waits for the streams of the informers
	var running sync.WaitGroup
	all := make([]*informer, informers)
	for n := range all {
		all[n] = &informer{known: map[string]string{}}
		running.Go(func() { all[n].run(ctx, c, namespace(n)) })
	}
	settled := func() {
		t.Helper()
		for n, i := range all {
			want := map[string]string{}
			list, err := c.List(t.Context(), client.In(namespace(n)))
			require.NoError(t, err)
			for _, object := range list.Items {
				want[object.Name] = object.ResourceVersion
			}
			require.Eventually(t, func() bool { return i.has(want) }, 2*time.Minute, 10*time.Millisecond, "informer %d: %v", n, i)
		}
	}
	settled()

	for _, step := range []struct{ from, to storage.Backend }{{file, inEtcd}, {inEtcd, back}} {
		var written atomic.Int64
		working, rest := context.WithCancel(ctx)
		var changing sync.WaitGroup
		for w := range writers {
			changing.Go(func() {
				for n := w; working.Err() == nil; n += writers {
					object := &item{ObjectMeta: meta.ObjectMeta{Namespace: namespace(n), Name: fmt.Sprint("i", n%*moved)}, Text: fmt.Sprint("changed ", n)}
					// Not with working: a write that nobody waits for may be stored after all have settled.
					if _, err := c.Update(ctx, object); err == nil {
						written.Add(1)
					}
				}
			})
		}
		copying, err := copy.Begin(t.Context(), step.from, step.to, copy.Options{})
		require.NoError(t, err)
		keeping, enough := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		go func() { kept <- copying.Keep(keeping) }()
		some := written.Load() + 100
		require.Eventually(t, func() bool { return written.Load() >= some }, 2*time.Minute, time.Millisecond)

		begin := time.Now()
		f.put(nil)
		srv.stop()
		srv.Wait()
		stopped := time.Now()
		enough()
		require.NoError(t, <-kept)
		result, err := copying.Finish(t.Context())
		require.NoError(t, err)
		require.True(t, result.KeptRevisions)
		finished := time.Now()
		srv = serve(t, step.to)
		f.put(srv.Server)
		t.Logf("%d objects, %d changes while they were copied: stopped in %v, finished in %v, started in %v", *moved, result.Changes,
			stopped.Sub(begin), finished.Sub(stopped), time.Since(finished))
		some = written.Load() + 100
		require.Eventually(t, func() bool { return written.Load() >= some }, 2*time.Minute, time.Millisecond)
		rest()
		changing.Wait()
		settled()
	}
	stop()
	running.Wait()
	calls := 0
	for n, i := range all {
		require.Zero(t, i.repeated+i.back, "informer %d: %d repeated, %d went back", n, i.repeated, i.back)
		calls += i.calls
	}
	t.Logf("%d calls of handlers in all", calls)
	srv.stop()
	srv.Wait()
	for _, b := range []storage.Backend{file, inEtcd, back} {
		require.NoError(t, b.Close())
	}
}
