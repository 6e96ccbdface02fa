package interop

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// restarts is how often a test restarts its server.
const restarts = 20

// followers are informers of every kind of client, with the events that they received.
type followers struct {
	widgets, spaces, partial *counted
	stores                   map[string]cache.Store
}

func follow(t *testing.T, cfg *rest.Config) *followers {
	t.Helper()
	plain, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	typed, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	partial, err := metadata.NewForConfig(cfg)
	require.NoError(t, err)
	a := dynamicinformer.NewDynamicSharedInformerFactory(plain, 0)
	b := informers.NewSharedInformerFactory(typed, 0)
	c := metadatainformer.NewSharedInformerFactory(partial, 0)
	ofWidgets, ofSpaces, ofGadgets := a.ForResource(widgets).Informer(), b.Core().V1().Namespaces().Informer(), c.ForResource(gadgets).Informer()
	f := &followers{
		widgets: count(t, ofWidgets), spaces: count(t, ofSpaces), partial: count(t, ofGadgets),
		stores: map[string]cache.Store{"widgets": ofWidgets.GetStore(), "namespaces": ofSpaces.GetStore(), "gadgets": ofGadgets.GetStore()},
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		a.Shutdown()
		b.Shutdown()
		c.Shutdown()
	})
	a.Start(ctx.Done())
	b.Start(ctx.Done())
	c.Start(ctx.Done())
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), ofWidgets.HasSynced, ofSpaces.HasSynced, ofGadgets.HasSynced))
	return f
}

// followed are the collections that followers follow.
var followed = []string{"/apis/example.dev/v1/widgets", "/api/v1/namespaces", "/apis/example.dev/v1/gadgets"}

// neverStartedOver requires that every collection was read as a whole only once, at the beginning.
func neverStartedOver(t *testing.T, s *server) {
	t.Helper()
	for _, path := range followed {
		whole := s.seen(func(r *request) bool { return r.path == path && r.initial() })
		require.Len(t, whole, 1, "%s was read again: %+v", path, whole)
	}
}

// restart restarts the server and waits until a client has returned for every collection, to resume
// or to start over.
func restart(t *testing.T, s *server) {
	t.Helper()
	s.stop(t)
	before := s.granted()
	s.start(t)
	require.Eventually(t, func() bool {
		paths := map[string]bool{}
		for _, r := range s.grants(before) {
			if r.method == http.MethodGet && slices.Contains(followed, r.path) {
				paths[r.path] = true
			}
		}
		return len(paths) == len(followed)
	}, 3*time.Minute, often)
}

// outlive restarts the server again and again. It calls before each time.
func outlive(t *testing.T, s *server, before func()) {
	t.Helper()
	for range restarts {
		before()
		restart(t, s)
		neverStartedOver(t, s)
	}
	require.NotEmpty(t, s.seen(func(r *request) bool { return r.watches() && r.code == http.StatusTooManyRequests }),
		"who came back before the server was gone was told to wait")
}

// Rule 18: informers survive 20 restarts of an idle server without listing again.
func TestRule18_IdleInformersSurviveRestarts(t *testing.T) {
	t.Parallel()
	s := serveProgram(t)
	f := follow(t, s.Config)
	require.Eventually(t, f.spaces.are(4, 0, 0), waitLimit, often)
	outlive(t, s, func() {})
	require.True(t, f.spaces.are(4, 0, 0)())

	client, err := kubernetes.NewForConfig(s.Config)
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, f.spaces.are(5, 0, 0), waitLimit, often)
	neverStartedOver(t, s)
}

// Rule 18, under heavy writes: informers miss nothing, see nothing twice and never start over.
func TestRule18_BusyInformersSurviveRestarts(t *testing.T) {
	t.Parallel()
	s := serveProgram(t)
	f := follow(t, s.Config)
	client, err := dynamic.NewForConfig(s.Config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer cancel()
	for w := range 2 {
		writers.Go(func() { toil(ctx, client, fmt.Sprintf("w%d", w)) })
	}
	outlive(t, s, func() {
		told := f.widgets.added.Load()
		require.Eventually(t, func() bool { return f.widgets.added.Load() > told+5 }, waitLimit, often)
	})
	cancel()
	writers.Wait()
	neverStartedOver(t, s)
	for _, c := range []struct {
		store   cache.Store
		what    *counted
		objects dynamic.ResourceInterface
	}{{f.stores["widgets"], f.widgets, client.Resource(widgets)}, {f.stores["gadgets"], f.partial, client.Resource(gadgets)}} {
		require.Eventually(t, func() bool { // an unacknowledged write may still take effect
			list, err := c.objects.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			return same(list, c.store) && int64(len(list.Items)) == c.what.added.Load()-c.what.deleted.Load()
		}, waitLimit, often)
	}
}

// toil creates widgets and gadgets and deletes every other one, until ctx ends. It ignores errors
// while the server is down.
func toil(ctx context.Context, client dynamic.Interface, prefix string) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		for _, o := range []*unstructured.Unstructured{newWidget(name), newGadget(name)} {
			resource := client.Resource(widgets)
			if o.GetKind() == "Gadget" {
				resource = client.Resource(gadgets)
			}
			if _, err := resource.Namespace("default").Create(ctx, o, metav1.CreateOptions{}); err != nil {
				select {
				case <-time.After(20 * time.Millisecond): // the server is down
				case <-ctx.Done():
				}
			}
			if i%2 == 1 {
				_ = resource.Namespace("default").Delete(ctx, fmt.Sprintf("%s-%d", prefix, i-1), metav1.DeleteOptions{})
			}
		}
	}
}

// same reports whether a store has the objects of a list, at the same versions.
func same(list *unstructured.UnstructuredList, store cache.Store) bool {
	have := map[string]string{}
	for _, o := range store.List() {
		have[o.(metav1.Object).GetName()] = o.(metav1.Object).GetResourceVersion()
	}
	for _, o := range list.Items {
		if have[o.GetName()] != o.GetResourceVersion() {
			return false
		}
	}
	return len(have) == len(list.Items)
}
