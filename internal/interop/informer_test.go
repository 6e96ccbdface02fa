package interop

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
)

// counted counts the calls of an informer to its handler.
type counted struct{ added, updated, deleted atomic.Int64 }

func count(t *testing.T, informer cache.SharedIndexInformer) *counted {
	c := &counted{}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.added.Add(1) },
		UpdateFunc: func(any, any) { c.updated.Add(1) },
		DeleteFunc: func(any) { c.deleted.Add(1) },
	})
	require.NoError(t, err)
	return c
}

func (c *counted) are(added, updated, deleted int64) func() bool {
	return func() bool {
		return c.added.Load() == added && c.updated.Load() == updated && c.deleted.Load() == deleted
	}
}

// streamed requires that one watch filled each informer and that none fell back to LIST.
func streamed(t *testing.T, s *server, path string) {
	t.Helper()
	require.Empty(t, s.seen(func(r *request) bool { return r.path == path && r.method == "GET" && !r.watches() }), "a LIST")
	require.Len(t, s.seen(func(r *request) bool { return r.path == path && r.initial() }), 1)
}

func TestWLIST_DynamicInformerFollowsWrites(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		inDefault := client.Resource(widgets).Namespace("default")
		for i := range 20 {
			_, err := inDefault.Create(t.Context(), newWidget(fmt.Sprintf("w%d", i)), metav1.CreateOptions{})
			require.NoError(t, err)
		}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		informer := factory.ForResource(widgets).Informer()
		got := count(t, informer)
		factory.Start(t.Context().Done())
		require.True(t, cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced))
		require.Len(t, informer.GetStore().List(), 20)

		w, err := inDefault.Get(t.Context(), "w0", metav1.GetOptions{})
		require.NoError(t, err)
		require.NoError(t, unstructured.SetNestedField(w.Object, int64(5), "spec", "size"))
		_, err = inDefault.Update(t.Context(), w, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, inDefault.Delete(t.Context(), "w1", metav1.DeleteOptions{}))
		require.Eventually(t, got.are(20, 1, 1), waitLimit, often)
		streamed(t, s, "/apis/example.dev/v1/widgets")
	})
}

func TestWLIST_TypedInformersInProtobuf(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		factory := informers.NewSharedInformerFactory(client, 0)
		spaces, held := factory.Core().V1().Namespaces(), factory.Coordination().V1().Leases()
		older, newer := factory.Core().V1().Events(), factory.Events().V1().Events()
		gotSpaces, gotLeases := count(t, spaces.Informer()), count(t, held.Informer())
		gotOlder, gotNewer := count(t, older.Informer()), count(t, newer.Informer())
		factory.Start(t.Context().Done())
		for typ, synced := range factory.WaitForCacheSync(t.Context().Done()) {
			require.True(t, synced, "%v", typ)
		}
		require.Eventually(t, gotSpaces.are(4, 0, 0), waitLimit, often)

		lease, err := client.CoordinationV1().Leases("default").Create(t.Context(), newLease("l"), metav1.CreateOptions{})
		require.NoError(t, err)
		lease.Spec.HolderIdentity = nil
		lease, err = client.CoordinationV1().Leases("default").Update(t.Context(), lease, metav1.UpdateOptions{})
		require.NoError(t, err)
		_, err = client.EventsV1().Events("default").Create(t.Context(), newEvent("e"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Eventually(t, gotLeases.are(1, 1, 0), waitLimit, often)
		require.Eventually(t, gotOlder.are(1, 0, 0), waitLimit, often)
		require.Eventually(t, gotNewer.are(1, 0, 0), waitLimit, often)
		cached, err := held.Lister().Leases("default").Get("l")
		require.NoError(t, err)
		require.Equal(t, lease, cached)
		require.NoError(t, client.CoordinationV1().Leases("default").Delete(t.Context(), "l", metav1.DeleteOptions{}))
		require.NoError(t, client.CoreV1().Events("default").Delete(t.Context(), "e", metav1.DeleteOptions{}))
		require.Eventually(t, gotLeases.are(1, 1, 1), waitLimit, often)
		require.Eventually(t, gotOlder.are(1, 0, 1), waitLimit, often)
		require.Eventually(t, gotNewer.are(1, 0, 1), waitLimit, often)
		for _, path := range []string{"/api/v1/namespaces", "/api/v1/events", "/apis/events.k8s.io/v1/events", "/apis/coordination.k8s.io/v1/leases"} {
			streamed(t, s, path)
		}
	})
}

func TestTABLE_10_MetadataClientAndInformer(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		widget := newWidget("x")
		widget.SetLabels(map[string]string{"a": "b"})
		made, err := client.Resource(widgets).Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{})
		require.NoError(t, err)
		partial, err := metadata.NewForConfig(s.Config)
		require.NoError(t, err)
		factory := metadatainformer.NewSharedInformerFactory(partial, 0)
		informer, ofNamespaces := factory.ForResource(widgets).Informer(), factory.ForResource(namespaces).Informer()
		got := count(t, informer)
		factory.Start(t.Context().Done())
		require.True(t, cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced, ofNamespaces.HasSynced))
		require.Len(t, ofNamespaces.GetStore().List(), 4)
		require.Len(t, informer.GetStore().List(), 1)
		require.Equal(t, made.GetUID(), informer.GetStore().List()[0].(*metav1.PartialObjectMetadata).UID)

		inDefault := partial.Resource(widgets).Namespace("default")
		read, err := inDefault.Get(t.Context(), "x", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "b"}, read.Labels)
		list, err := inDefault.List(t.Context(), metav1.ListOptions{Limit: 1})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		require.NotEmpty(t, list.ResourceVersion)
		patched, err := inDefault.Patch(t.Context(), "x", types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "b", "c": "d"}, patched.Labels)
		require.Eventually(t, got.are(1, 1, 0), waitLimit, often)
		require.NoError(t, inDefault.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "c"}))
		require.Eventually(t, got.are(1, 1, 1), waitLimit, often)
		streamed(t, s, "/apis/example.dev/v1/widgets")
	})
}

// fill creates gadgets g-0000, g-0001 and so on.
func fill(t *testing.T, client dynamic.ResourceInterface, total int) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range total {
		group.Go(func() error {
			_, err := client.Create(t.Context(), newGadget(fmt.Sprintf("g-%04d", i)), metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(t, group.Wait())
}

// newGadget returns an empty gadget.
func newGadget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": map[string]any{"name": name}}}
}

// An informer whose version has expired during an interruption starts over and catches up.
func TestWATCH_27_InformerStartsOverAfter410(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		inDefault := client.Resource(gadgets).Namespace("default")
		create := func(name string) *unstructured.Unstructured {
			made, err := inDefault.Create(t.Context(), newGadget(name), metav1.CreateOptions{})
			require.NoError(t, err)
			return made
		}
		create("stays")
		create("goes")
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		informer := factory.ForResource(gadgets).Informer()
		got := count(t, informer)
		factory.Start(t.Context().Done())
		require.True(t, cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced))
		last := create("seen") // client-go treats a watch without events within a second as a failure
		require.Eventually(t, got.are(3, 0, 0), waitLimit, often)

		const path = "/apis/example.dev/v1/gadgets"
		open := s.shut(path)
		before := s.asked()
		require.NoError(t, inDefault.Delete(t.Context(), "goes", metav1.DeleteOptions{}))
		create("new")
		s.forget(t)
		open()
		require.Eventually(t, func() bool { return got.added.Load() == 4 && got.deleted.Load() == 1 }, waitLimit, often)
		require.Len(t, informer.GetStore().List(), 3)
		again := s.since(before, func(r *request) bool { return r.path == path && r.method == "GET" && r.code == 200 })
		require.False(t, again[0].initial(), "it must first try to resume")
		require.Equal(t, last.GetResourceVersion(), again[0].query.Get("resourceVersion"))
		require.Len(t, s.since(before, func(r *request) bool { return r.path == path && r.initial() }), 1)
	})
}

// Rule 16: a watch from an expired version receives the error in the stream, which then ends.
func TestRule16_RetryWatcherEndsFromAnExpiredVersion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		made, err := client.Resource(gadgets).Namespace("default").Create(t.Context(), newGadget("old"), metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = client.Resource(gadgets).Namespace("default").Create(t.Context(), newGadget("new"), metav1.CreateOptions{})
		require.NoError(t, err)
		s.forget(t)
		watcher, err := watchtools.NewRetryWatcherWithContext(t.Context(), made.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return client.Resource(gadgets).Watch(ctx, options)
			},
		})
		require.NoError(t, err)
		select {
		case event := <-watcher.ResultChan():
			require.Equal(t, watch.Error, event.Type)
			require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%+v", event.Object)
		case <-time.After(waitLimit):
			require.Fail(t, "the watcher sends nothing")
		}
		select {
		case <-watcher.Done():
		case <-time.After(waitLimit):
			require.Fail(t, "the watcher has not ended")
		}
	})
}

// A RetryWatcher resumes where its stream was interrupted and reports every change once.
func TestWATCH_RetryWatcherResumes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		made, err := client.Resource(widgets).Namespace("default").Create(t.Context(), newWidget("x"), metav1.CreateOptions{})
		require.NoError(t, err)
		watcher, err := watchtools.NewRetryWatcherWithContext(t.Context(), made.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return client.Resource(widgets).Watch(ctx, options)
			},
		})
		require.NoError(t, err)
		defer watcher.Stop()
		for i := range 3 {
			open := s.shut("*")
			want, err := client.Resource(widgets).Namespace("default").Patch(t.Context(), "x", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"size":%d}}`, i+10), metav1.PatchOptions{})
			require.NoError(t, err)
			open()
			select {
			case event := <-watcher.ResultChan():
				require.Equal(t, watch.Modified, event.Type)
				require.Equal(t, want, event.Object)
			case <-time.After(waitLimit):
				require.Fail(t, "an event is missing")
			}
		}
	})
}

func TestWATCH_UntilAndUntilWithSync(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := kubernetes.NewForConfig(s.Config)
		require.NoError(t, err)
		spaces := client.CoreV1().Namespaces()
		made, err := spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		lw := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return spaces.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return spaces.Watch(ctx, o)
			},
		}
		gone := func(event watch.Event) (bool, error) {
			space, ok := event.Object.(*corev1.Namespace)
			return ok && event.Type == watch.Deleted && space.Name == "team", nil
		}
		require.NoError(t, spaces.Delete(ctx, "team", metav1.DeleteOptions{}))
		event, err := watchtools.Until(ctx, made.ResourceVersion, lw, gone)
		require.NoError(t, err)
		require.Equal(t, corev1.NamespaceTerminating, event.Object.(*corev1.Namespace).Status.Phase)
		_, err = watchtools.UntilWithSync(ctx, lw, &corev1.Namespace{}, nil, func(event watch.Event) (bool, error) {
			return event.Object.(*corev1.Namespace).Name == "kube-system", nil
		})
		require.NoError(t, err)
	})
}

// A pager reads a large collection in pages of 500 at one version.
func TestPAGE_PagerOver2500Objects(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		inDefault := client.Resource(gadgets).Namespace("default")
		const total = 2_500
		fill(t, inDefault, total)
		pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.Continue != "" { // changes between two pages are not visible
				_ = inDefault.Delete(ctx, fmt.Sprintf("g-%04d", total-1), metav1.DeleteOptions{})
			}
			return inDefault.List(ctx, o)
		})
		all, paged, err := pages.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.True(t, paged)
		require.Equal(t, total, meta.LenList(all))
		require.Len(t, s.seen(func(r *request) bool { return r.query.Get("limit") == "500" }), 5)
		var names []string
		require.NoError(t, pages.EachListItem(t.Context(), metav1.ListOptions{}, func(o runtime.Object) error {
			names = append(names, o.(metav1.Object).GetName())
			return nil
		}))
		require.Len(t, names, total-1)
		require.IsIncreasing(t, names)

		partial, err := metadata.NewForConfig(s.Config)
		require.NoError(t, err)
		first, err := partial.Resource(gadgets).Namespace("default").List(t.Context(), metav1.ListOptions{Limit: 10})
		require.NoError(t, err)
		require.Len(t, first.Items, 10)
		require.Equal(t, int64(total-11), *first.RemainingItemCount)
	})
}

// A pager whose version expires between two pages starts over and still returns everything.
func TestPAGE_08_PagerStartsOverAfterExpiry(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := dynamic.NewForConfig(s.Config)
		require.NoError(t, err)
		inDefault := client.Resource(gadgets).Namespace("default")
		fill(t, inDefault, 30)
		expired := false
		pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out, err := inDefault.List(ctx, o)
			if err == nil && !expired && o.Limit > 0 {
				expired = true
				require.NoError(t, inDefault.Delete(ctx, "g-0001", metav1.DeleteOptions{}))
				s.forget(t)
			}
			return out, err
		})
		pages.PageSize = 10
		all, _, err := pages.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, 29, meta.LenList(all), "all objects have the later version")
		require.True(t, expired)
		require.NotEmpty(t, s.seen(func(r *request) bool { return r.query.Get("continue") != "" && r.code == 410 }))
	})
}
