package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Widget and Gadget are the kinds of the server as defined by the author of a controller.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec"`
	Status            WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is the desired state of a widget.
type WidgetSpec struct {
	Size  int32  `json:"size"`
	Color string `json:"color,omitempty"`
}

// WidgetStatus is the observed state of a widget.
type WidgetStatus struct {
	Phase              string `json:"phase,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// Gadget is the object that the controller creates for a widget.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Data              map[string]string `json:"data,omitempty"`
}

// GadgetList is a list of gadgets.
type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gadget `json:"items"`
}

// clone copies through JSON, where controllers usually generate code.
func clone[T any](in *T) *T {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		panic(err)
	}
	return out
}

// DeepCopyObject makes *Widget a runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object { return clone(w) }

// DeepCopyObject makes *WidgetList a runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object { return clone(l) }

// DeepCopyObject makes *Gadget a runtime.Object.
func (g *Gadget) DeepCopyObject() runtime.Object { return clone(g) }

// DeepCopyObject makes *GadgetList a runtime.Object.
func (l *GadgetList) DeepCopyObject() runtime.Object { return clone(l) }

const finalizer = "example.dev/tidy"

func newScheme(t *testing.T) *runtime.Scheme {
	scheme := runtime.NewScheme()
	require.NoError(t, clientscheme.AddToScheme(scheme))
	version := schema.GroupVersion{Group: "example.dev", Version: "v1"}
	scheme.AddKnownTypes(version, &Widget{}, &WidgetList{}, &Gadget{}, &GadgetList{})
	metav1.AddToGroupVersion(scheme, version)
	return scheme
}

// reconciler gives every widget a finalizer, a gadget and a status, and deletes the gadget before
// the widget goes.
type reconciler struct {
	client.Client
	scheme *runtime.Scheme

	mu       sync.Mutex
	problems []error
	tidied   int
}

func (r *reconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	err := r.reconcile(ctx, q)
	if err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil { // a conflict is a stale cache
		r.mu.Lock()
		r.problems = append(r.problems, err)
		r.mu.Unlock()
	}
	return ctrl.Result{}, err
}

// done is how many widgets lost their finalizer.
func (r *reconciler) done() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tidied
}

func (r *reconciler) reconcile(ctx context.Context, q ctrl.Request) error {
	var w Widget
	if err := r.Get(ctx, q.NamespacedName, &w); err != nil {
		return client.IgnoreNotFound(err)
	}
	gadget := &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	if !w.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(r.Delete(ctx, gadget, client.Preconditions{})); err != nil {
			return err
		}
		if !controllerutil.RemoveFinalizer(&w, finalizer) {
			return nil
		}
		if err := r.Update(ctx, &w); err != nil {
			return client.IgnoreNotFound(err)
		}
		r.mu.Lock()
		r.tidied++
		r.mu.Unlock()
		return nil
	}
	if controllerutil.AddFinalizer(&w, finalizer) {
		if err := r.Update(ctx, &w); err != nil {
			return err
		}
	}
	write := controllerutil.CreateOrUpdate
	if w.Spec.Size%2 == 0 {
		write = func(ctx context.Context, c client.Client, o client.Object, f controllerutil.MutateFn) (controllerutil.OperationResult, error) {
			return controllerutil.CreateOrPatch(ctx, c, o, f)
		}
	}
	_, err := write(ctx, r.Client, gadget, func() error {
		gadget.Data = map[string]string{"size": fmt.Sprint(w.Spec.Size)}
		return controllerutil.SetControllerReference(&w, gadget, r.scheme)
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if w.Status.Phase == "Ready" && w.Status.ObservedGeneration == w.Generation {
		return nil
	}
	w.Status = WidgetStatus{Phase: "Ready", ObservedGeneration: w.Generation}
	return r.Status().Update(ctx, &w)
}

func manage(t *testing.T, s *server, leaders bool) (manager.Manager, *reconciler) {
	t.Helper()
	scheme, again := newScheme(t), true
	m, err := manager.New(s.Config, manager.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: leaders, LeaderElectionID: "widgets.example.dev", LeaderElectionNamespace: "kube-system", LeaderElectionReleaseOnCancel: true,
		Controller: config.Controller{SkipNameValidation: &again},
	})
	require.NoError(t, err)
	r := &reconciler{Client: m.GetClient(), scheme: scheme}
	require.NoError(t, ctrl.NewControllerManagedBy(m).For(&Widget{}).Owns(&Gadget{}, builder.OnlyMetadata).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).Complete(r))
	return m, r
}

// run starts a manager and returns a function that stops it and waits for its end.
func run(t *testing.T, m manager.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-ended)
		})
	}
	t.Cleanup(stop)
	require.True(t, m.GetCache().WaitForCacheSync(ctx))
	return stop
}

// A controller processes 1,000 widgets: finalizers, owned gadgets, a status, and finally their
// deletion.
func TestManagerWorksThrough1000Widgets(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		m, r := manage(t, s, true)
		stop := run(t, m)
		const total = 1_000
		direct, err := client.New(s.Config, client.Options{Scheme: r.scheme})
		require.NoError(t, err)
		for i := range total {
			require.NoError(t, direct.Create(t.Context(), &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("w%d", i)}, Spec: WidgetSpec{Size: int32(i%900) + 1}}))
		}
		ready := func() bool {
			var list WidgetList
			require.NoError(t, direct.List(t.Context(), &list, client.InNamespace("default")))
			var gadgets GadgetList
			require.NoError(t, direct.List(t.Context(), &gadgets, client.InNamespace("default")))
			sizes := map[string]string{}
			for _, g := range gadgets.Items {
				sizes[g.Name] = g.Data["size"]
			}
			for _, w := range list.Items {
				if w.Status.Phase != "Ready" || w.Status.ObservedGeneration != w.Generation || sizes[w.Name] != fmt.Sprint(w.Spec.Size) {
					return false
				}
			}
			return len(list.Items) == total && len(sizes) == total
		}
		require.Eventually(t, ready, 2*waitLimit, 20*often)

		var w Widget
		require.NoError(t, direct.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "w7"}, &w))
		require.Equal(t, []string{finalizer}, w.Finalizers)
		require.Equal(t, int64(1), w.Generation, "status and finalizers do not change the generation")
		require.Equal(t, "blue", w.Spec.Color)
		var g Gadget
		require.NoError(t, direct.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "w7"}, &g))
		require.True(t, metav1.IsControlledBy(&g, &w))
		for _, size := range []int32{901, 902} { // by update and by patch
			before := w.DeepCopyObject().(*Widget)
			w.Spec.Size = size
			require.NoError(t, direct.Patch(t.Context(), &w, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
			require.True(t, apierrors.IsConflict(direct.Patch(t.Context(), before.DeepCopyObject().(*Widget), client.MergeFromWithOptions(stale(before), client.MergeFromWithOptimisticLock{}))))
			require.Eventually(t, ready, waitLimit, 20*often)
			require.NoError(t, direct.Get(t.Context(), client.ObjectKeyFromObject(&w), &w))
		}
		require.NoError(t, direct.DeleteAllOf(t.Context(), &Widget{}, client.InNamespace("default")))
		require.Eventually(t, func() bool {
			var widgets WidgetList
			require.NoError(t, direct.List(t.Context(), &widgets))
			var gadgets metav1.PartialObjectMetadataList
			gadgets.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "GadgetList"})
			require.NoError(t, direct.List(t.Context(), &gadgets))
			return len(widgets.Items)+len(gadgets.Items) == 0
		}, 2*waitLimit, 20*often)
		// An object is gone before the answer to its last update is here, and stop cancels what waits.
		require.Eventually(t, func() bool { return r.done() == total }, waitLimit, often)
		stop()
		require.Empty(t, r.problems)
		require.Equal(t, total, r.done(), "each finalizer is removed once")
		require.NotEmpty(t, s.seen(func(q *request) bool { return q.watches() && strings.Contains(q.accept, "as=PartialObjectMetadata") }), "gadgets are watched by their metadata")
		for path, caches := range map[string]int{"/apis/example.dev/v1/widgets": 1, "/apis/example.dev/v1/gadgets": 2} { // one for metadata and one for Get, with whole objects
			require.Len(t, s.seen(func(q *request) bool { return q.path == path && q.watches() && q.initial() }), caches)
		}
		require.NotEmpty(t, s.seen(func(q *request) bool {
			return q.method == "PUT" && strings.HasSuffix(q.path, "/leases/widgets.example.dev") && q.contentType == protobufType
		}))
	})
}

func stale(w *Widget) client.Object {
	out := w.DeepCopyObject().(*Widget)
	out.Spec.Size++
	return out
}

// The second of two managers starts working only after the first has stopped. Both record events.
func TestLEASE_ManagersHandOver(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		first, _ := manage(t, s, true)
		second, r := manage(t, s, true)
		stopFirst := run(t, first)
		select {
		case <-first.Elected():
		case <-t.Context().Done():
		}
		run(t, second)
		select {
		case <-second.Elected():
			require.Fail(t, "two managers lead")
		default:
		}
		stopFirst()
		select {
		case <-second.Elected():
		case <-t.Context().Done():
		}
		w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}, Spec: WidgetSpec{Size: 1}}
		require.NoError(t, r.Create(t.Context(), w))
		require.Eventually(t, func() bool {
			require.NoError(t, client.IgnoreNotFound(r.Get(t.Context(), client.ObjectKeyFromObject(w), w))) // read from a cache, which may not have it yet
			return w.Status.Phase == "Ready"
		}, waitLimit, often)
		second.GetEventRecorder("tests").Eventf(w, nil, corev1.EventTypeNormal, "Made", "Making", "It was made.")
		direct, err := client.New(s.Config, client.Options{Scheme: r.scheme})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			var events corev1.EventList
			require.NoError(t, direct.List(t.Context(), &events, client.InNamespace("default"), client.MatchingFields{"involvedObject.uid": string(w.UID)}))
			return len(events.Items) == 1 && events.Items[0].Message == "It was made."
		}, waitLimit, often)
		require.Eventually(t, func() bool { // events about the lease name the leader
			var events corev1.EventList
			require.NoError(t, direct.List(t.Context(), &events, client.InNamespace("kube-system"), client.MatchingFields{"involvedObject.kind": "Lease", "reason": "LeaderElection"}))
			return len(events.Items) >= 2
		}, waitLimit, often)
	})
}
