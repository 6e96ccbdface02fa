package interop

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// collection is the source of a reflector.
type collection struct {
	client dynamic.ResourceInterface
	listed bool // by LIST and WATCH, for clients without streaming lists
}

// ListWithContext lists it.
func (c collection) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return c.client.List(ctx, o)
}

// WatchWithContext watches it.
func (c collection) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return c.client.Watch(ctx, o)
}

// List is for older callers.
func (c collection) List(o metav1.ListOptions) (runtime.Object, error) {
	return c.ListWithContext(context.Background(), o)
}

// Watch is for older callers.
func (c collection) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return c.WatchWithContext(context.Background(), o)
}

// IsWatchListSemanticsUnSupported tells a reflector whether it can use a streaming list.
func (c collection) IsWatchListSemanticsUnSupported() bool { return c.listed }

// mirrors reports whether a store has the same objects as the server, at the same versions.
func mirrors(t *testing.T, client dynamic.ResourceInterface, store cache.Store) func() bool {
	return func() bool {
		list, err := client.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return same(list, store)
	}
}

const gadgetsPath = "/apis/example.dev/v1/gadgets"

// A reflector lists a collection, follows it, and lists it again when it has fallen too far behind.
func TestWATCH_ReflectorListsAndFollows(t *testing.T) {
	each(t, func(t *testing.T, s *server) { reflect410(t, s, true) })
}

func TestWLIST_ReflectorStreamsAndFollows(t *testing.T) {
	each(t, func(t *testing.T, s *server) { reflect410(t, s, false) })
}

func reflect410(t *testing.T, s *server, listed bool) {
	const total, page = 120, 50
	client, err := dynamic.NewForConfig(s.Config)
	require.NoError(t, err)
	inDefault := client.Resource(gadgets).Namespace("default")
	fill(t, inDefault, total)
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	reflector := cache.NewReflectorWithOptions(collection{client.Resource(gadgets), listed}, newGadget(""), store, cache.ReflectorOptions{})
	reflector.WatchListPageSize = page
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(ended); reflector.RunWithContext(ctx) }()
	defer func() { cancel(); <-ended }()
	same := mirrors(t, client.Resource(gadgets), store)
	require.Eventually(t, same, waitLimit, often)
	require.Len(t, store.ListKeys(), total)
	startedBy(t, s, 0, listed, (total+page-1)/page)

	write := func(i int) {
		require.NoError(t, inDefault.Delete(t.Context(), fmt.Sprintf("g-%04d", i), metav1.DeleteOptions{}))
		_, err := inDefault.Create(t.Context(), newGadget(fmt.Sprintf("new-%d", i)), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	write(0)
	require.Eventually(t, same, waitLimit, often)
	last := reflector.LastSyncResourceVersion()
	open := s.shut(gadgetsPath)
	write(1)
	s.forget(t)
	before := s.asked()
	open()
	require.Eventually(t, same, waitLimit, often)
	require.Len(t, store.ListKeys(), total)
	startedBy(t, s, before, listed, (total+page-1)/page)
	if listed { // a paged list from a version has exactly that version (LIST-06)
		require.Len(t, s.since(before, func(r *request) bool { return r.query.Get("resourceVersion") != "" && !r.watches() && r.code == 410 }), 1)
	}
	require.NotEmpty(t, s.seen(func(r *request) bool {
		return r.path == gadgetsPath && r.watches() && !r.initial() && r.query.Get("resourceVersion") == last && r.code == 200
	}), "it asked to go on, and was told inside the stream that it cannot")

	write(2)
	require.Eventually(t, same, waitLimit, often)
	startedBy(t, s, before, listed, (total+page-1)/page)
}

// startedBy requires that a collection was read as a whole once since a given request: by LIST in a
// number of pages, or by one watch.
func startedBy(t *testing.T, s *server, since int, listed bool, pages int) {
	t.Helper()
	reflects := func(r *request) bool {
		return r.path == gadgetsPath && r.initial() && r.query.Get("limit") != "" && r.code == 200
	}
	streams := func(r *request) bool { return r.path == gadgetsPath && r.initial() && r.watches() }
	if !listed {
		pages = 0
	}
	require.Len(t, s.since(since, reflects), pages)
	if listed {
		require.Empty(t, s.since(since, streams))
		return
	}
	streamed := s.since(since, streams)
	require.Len(t, streamed, 1)
	require.Equal(t, "NotOlderThan", streamed[0].query.Get("resourceVersionMatch"))
}

// A reflector retries a rejected watch later and lists nothing again.
func TestWATCH_ReflectorResumesAfterAnEnd(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		inDefault := client.Resource(gadgets).Namespace("default")
		fill(t, inDefault, 3)
		seconds := int64(1)
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.Resource(gadgets).List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.TimeoutSeconds = &seconds
				return client.Resource(gadgets).Watch(ctx, o)
			},
		}
		reflector := cache.NewReflectorWithOptions(source, newGadget(""), store, cache.ReflectorOptions{})
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer close(ended); reflector.RunWithContext(ctx) }()
		defer func() { cancel(); <-ended }()
		watches := func(r *request) bool { return r.path == gadgetsPath && r.watches() }
		require.Eventually(t, func() bool { return len(s.seen(watches)) >= 4 }, waitLimit, often)
		_, err = inDefault.Create(t.Context(), newGadget("new"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Eventually(t, mirrors(t, client.Resource(gadgets), store), waitLimit, often)
		require.Len(t, s.seen(func(r *request) bool { return watches(r) && r.initial() }), 1, "each watch ended after a bookmark")
	})
}
