package interop

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var widgetKind = schema.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "Widget"}

func partialOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(kind)
	return out
}

// A metadata cache of selected widgets is filled and updated by one watch that only transfers
// metadata. Reads from it do not reach the server.
func TestTABLE_10_PartialMetadataCache(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		c, err := cache.New(s.Config, cache.Options{
			Scheme: newScheme(t), DefaultNamespaces: map[string]cache.Config{"default": {}},
			ByObject: map[client.Object]cache.ByObject{partialOf(widgetKind): {Label: labels.SelectorFromSet(labels.Set{"app": "shop"})}},
		})
		require.NoError(t, err)
		direct, err := client.New(s.Config, client.Options{Scheme: newScheme(t)})
		require.NoError(t, err)
		in := func(name string) *Widget {
			return &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "shop"}}, Spec: WidgetSpec{Size: 1}}
		}
		first := in("first")
		require.NoError(t, direct.Create(t.Context(), first))
		other := in("other")
		other.Labels["app"] = "elsewhere"
		require.NoError(t, direct.Create(t.Context(), other))

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		defer func() { cancel(); require.NoError(t, <-ended) }()
		informer, err := c.GetInformer(ctx, partialOf(widgetKind))
		require.NoError(t, err)
		var added, updated, deleted atomic.Int64
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { added.Add(1) }, UpdateFunc: func(any, any) { updated.Add(1) }, DeleteFunc: func(any) { deleted.Add(1) },
		})
		require.NoError(t, err)
		told := func(a, u, d int64) func() bool {
			return func() bool { return added.Load() == a && updated.Load() == u && deleted.Load() == d }
		}
		require.True(t, c.WaitForCacheSync(ctx))
		require.Eventually(t, told(1, 0, 0), waitLimit, often)

		asked := s.asked()
		got := partialOf(widgetKind)
		require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(first), got))
		require.Equal(t, first.UID, got.UID)
		require.Equal(t, first.ResourceVersion, got.ResourceVersion)
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(widgetKind.GroupVersion().WithKind("WidgetList"))
		require.NoError(t, c.List(ctx, list, client.InNamespace("default")))
		require.Len(t, list.Items, 1)
		require.Equal(t, asked, s.asked(), "all reads came from the cache")

		first.Labels["tier"] = "front"
		require.NoError(t, direct.Update(ctx, first))
		require.Eventually(t, told(1, 1, 0), waitLimit, often)
		other.Labels["app"] = "shop" // enters the selection …
		require.NoError(t, direct.Update(ctx, other))
		require.Eventually(t, told(2, 1, 0), waitLimit, often)
		first.Labels["app"] = "elsewhere" // … and leaves it
		require.NoError(t, direct.Update(ctx, first))
		require.Eventually(t, told(2, 1, 1), waitLimit, often)
		require.NoError(t, direct.Delete(ctx, other))
		require.Eventually(t, told(2, 1, 2), waitLimit, often)

		const path = "/apis/example.dev/v1/namespaces/default/widgets"
		watches := s.seen(func(r *request) bool { return r.path == path && r.method == "GET" })
		require.Len(t, watches, 1)
		require.True(t, watches[0].watches())
		require.Equal(t, "app=shop", watches[0].query.Get("labelSelector"))
		require.Contains(t, watches[0].accept, "as=PartialObjectMetadata")
	})
}

// A controller watches the metadata of one kind and reconciles another.
func TestTABLE_10_ControllerWatchesMetadata(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		again := true
		m, err := manager.New(s.Config, manager.Options{
			Scheme: newScheme(t), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &again},
		})
		require.NoError(t, err)
		reconciled := make(chan string, 1_000)
		toWidget := func(_ context.Context, o client.Object) []reconcile.Request {
			if o.GetAnnotations()["widget"] == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: o.GetAnnotations()["widget"]}}}
		}
		require.NoError(t, ctrl.NewControllerManagedBy(m).Named("metadata").For(&Widget{}, builder.OnlyMetadata).
			Watches(&Gadget{}, handler.EnqueueRequestsFromMapFunc(toWidget), builder.OnlyMetadata).
			Complete(reconcile.Func(func(_ context.Context, q reconcile.Request) (reconcile.Result, error) {
				reconciled <- q.Name
				return reconcile.Result{}, nil
			})))
		run(t, m)
		direct, err := client.New(s.Config, client.Options{Scheme: newScheme(t)})
		require.NoError(t, err)
		require.NoError(t, direct.Create(t.Context(), &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}, Spec: WidgetSpec{Size: 1}}))
		awaitName(t, reconciled, "w")
		g := &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", Annotations: map[string]string{"widget": "from-gadget"}}}
		require.NoError(t, direct.Create(t.Context(), g))
		awaitName(t, reconciled, "from-gadget")
		g.Annotations["widget"] = "from-changed-gadget"
		require.NoError(t, direct.Update(t.Context(), g))
		awaitName(t, reconciled, "from-changed-gadget")
		for _, r := range s.seen(func(r *request) bool { return r.watches() && strings.HasPrefix(r.path, "/apis/example.dev/") }) {
			require.Contains(t, r.accept, "as=PartialObjectMetadata", "%+v", r)
		}
	})
}

// awaitName waits until a name arrives.
func awaitName(t *testing.T, names <-chan string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for {
		select {
		case name := <-names:
			if name == want {
				return
			}
		case <-ctx.Done():
			require.FailNow(t, "the object was not reconciled", want)
		}
	}
}
