package interop

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// eventually repeats a check until it succeeds. In a bubble that takes no real time.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !yes(); time.Sleep(often) {
		require.True(t, time.Now().Before(end), "timed out: %s", what)
	}
}

// lives is a client for objects that own each other.
type lives struct {
	client.Client
	t *testing.T
}

func newLives(t *testing.T, s *server) *lives {
	c, err := client.New(s.Config, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	return &lives{c, t}
}

func (l *lives) widget(name string) *Widget {
	l.t.Helper()
	w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: WidgetSpec{Size: 1}}
	require.NoError(l.t, l.Create(l.t.Context(), w))
	return w
}

// owned creates a gadget with hand-written owner references.
func (l *lives) owned(namespace, name string, owners ...metav1.OwnerReference) *Gadget {
	l.t.Helper()
	g := &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners, Labels: map[string]string{"made": "here"}}}
	require.NoError(l.t, l.Create(l.t.Context(), g))
	return g
}

func (l *lives) there(o client.Object) bool {
	l.t.Helper()
	err := l.Get(l.t.Context(), client.ObjectKeyFromObject(o), o)
	require.NoError(l.t, client.IgnoreNotFound(err))
	return err == nil
}

func ref(kind string, o client.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "example.dev/v1", Kind: kind, Name: o.GetName(), UID: o.GetUID()}
}

// The deletion options of controller-runtime's client take effect.
func TestDEL_ControllerRuntimeDeletes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		l := newLives(t, s)
		a := l.widget("a")
		wrong, old := types.UID("wrong"), "1"
		require.True(t, apierrors.IsConflict(l.Delete(t.Context(), a, client.Preconditions{UID: &wrong})))
		require.True(t, apierrors.IsConflict(l.Delete(t.Context(), a, client.Preconditions{UID: &a.UID, ResourceVersion: &old})))
		require.NoError(t, l.Delete(t.Context(), a, client.DryRunAll))
		require.True(t, l.there(a))
		require.NoError(t, l.Delete(t.Context(), a, client.Preconditions{UID: &a.UID, ResourceVersion: &a.ResourceVersion}, client.GracePeriodSeconds(30)))
		require.False(t, l.there(a))
		require.True(t, apierrors.IsInvalid(l.Delete(t.Context(), l.widget("a"), client.PropagationPolicy("Sideways"))))

		owners := []*Widget{l.widget("background"), l.widget("foreground"), l.widget("orphan")}
		owned := []*Gadget{}
		for _, w := range owners {
			g := &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: w.Name}}
			require.NoError(t, controllerutil.SetControllerReference(w, g, newScheme(t)))
			require.NoError(t, l.Create(t.Context(), g))
			owned = append(owned, g)
		}
		for i, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
			require.NoError(t, l.Delete(t.Context(), owners[i], client.PropagationPolicy(policy)))
		}
		eventually(t, "widgets and what they own go", func() bool {
			return !l.there(owners[0]) && !l.there(owners[1]) && !l.there(owners[2]) && !l.there(owned[0]) && !l.there(owned[1])
		})
		require.True(t, l.there(owned[2]))
		require.Empty(t, owned[2].OwnerReferences)

		for i := range 20 {
			w := l.widget(fmt.Sprint("w", i))
			w.Labels = map[string]string{"half": fmt.Sprint(i % 2)}
			require.NoError(t, l.Update(t.Context(), w))
			l.owned("default", w.Name, ref("Widget", w))
		}
		here := client.InNamespace("default")
		require.NoError(t, l.DeleteAllOf(t.Context(), &Widget{}, here, client.MatchingLabels{"half": "0"}, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		require.NoError(t, l.DeleteAllOf(t.Context(), &Widget{}, here, client.MatchingLabels{"half": "1"}, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		eventually(t, "half of the gadgets go", func() bool {
			var widgets WidgetList
			var gadgets GadgetList
			require.NoError(t, l.List(t.Context(), &widgets, here, client.HasLabels{"half"}))
			require.NoError(t, l.List(t.Context(), &gadgets, here, client.HasLabels{"made"}))
			return len(widgets.Items) == 0 && len(gadgets.Items) == 10
		})
	})
}

// Invalid ownership: the collector deletes what it must, keeps what it cannot decide, and comes to
// rest.
func TestGC_InvalidOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInProcess(t)
		l := newLives(t, s)
		rest := func() { time.Sleep(time.Hour); synctest.Wait() }

		// Two objects that own each other, and one that owns itself: they stay until one of them is
		// deleted.
		a, b := l.owned("default", "a"), l.owned("default", "b")
		a.OwnerReferences = []metav1.OwnerReference{ref("Gadget", b)}
		b.OwnerReferences = []metav1.OwnerReference{ref("Gadget", a)}
		self := l.owned("default", "self")
		self.OwnerReferences = []metav1.OwnerReference{ref("Gadget", self)}
		for _, g := range []*Gadget{a, b, self} {
			require.NoError(t, l.Update(t.Context(), g))
		}
		rest()
		require.True(t, l.there(a) && l.there(b) && l.there(self))
		require.NoError(t, l.Delete(t.Context(), self, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		blocking := true
		a.OwnerReferences[0].BlockOwnerDeletion, b.OwnerReferences[0].BlockOwnerDeletion = &blocking, &blocking
		require.NoError(t, l.Update(t.Context(), a))
		require.NoError(t, l.Update(t.Context(), b))
		require.NoError(t, l.Delete(t.Context(), a, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		rest()
		require.False(t, l.there(a) || l.there(b) || l.there(self), "a circle does not block its deletion")

		// An owner in another namespace does not count. controller-runtime refuses to write such a
		// reference, but other clients do not.
		far := l.owned("kube-public", "far")
		require.ErrorContains(t, controllerutil.SetOwnerReference(far, &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}, newScheme(t)), "cross-namespace")
		lost := l.owned("default", "lost", ref("Gadget", far))
		kept := l.owned("default", "kept", ref("Gadget", far), ref("Widget", l.widget("near")))
		rest()
		require.True(t, l.there(far))
		require.False(t, l.there(lost), "its owner is not in its namespace")
		require.True(t, l.there(kept))

		// Owners with another uid, of an unserved kind, and missing ones.
		near := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "near"}}
		require.True(t, l.there(near))
		mistaken, unknown := ref("Widget", near), ref("Widget", near)
		mistaken.UID = "another"
		unknown.APIVersion = "elsewhere.example.com/v1"
		wrong, foreign := l.owned("default", "wrong", mistaken), l.owned("default", "foreign", unknown)
		rest()
		require.False(t, l.there(wrong), "the owner is another object of that name")
		require.True(t, l.there(foreign), "an owner of an unserved kind keeps it")
		require.True(t, apierrors.IsInvalid(l.Create(t.Context(), &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nobody", OwnerReferences: []metav1.OwnerReference{{Kind: "Widget"}}}})))

		// While an object is terminating, finalizers can be removed but not added.
		near.Finalizers = []string{"example.dev/one", "example.dev/two"}
		require.NoError(t, l.Update(t.Context(), near))
		require.NoError(t, l.Delete(t.Context(), near))
		require.True(t, l.there(near))
		more := near.DeepCopyObject().(*Widget)
		more.Finalizers = append(more.Finalizers, "example.dev/three")
		err := l.Update(t.Context(), more)
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		err = l.Patch(t.Context(), near.DeepCopyObject().(*Widget), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.dev/one","example.dev/four"]}}`)))
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		near.Finalizers = near.Finalizers[1:]
		require.NoError(t, l.Update(t.Context(), near))
		require.True(t, l.there(near))
		near.Finalizers = nil
		require.NoError(t, l.Update(t.Context(), near))
		rest()
		require.False(t, l.there(near) || l.there(kept))
	})
}

// What external garbage collectors and backup tools do: metadata informers of every resource.
func TestWLIST_MetadataInformersOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveKinds(t, shirtKind(), ships(), crates())
		l := newLives(t, s)
		disco, err := discovery.NewDiscoveryClientForConfig(s.Config)
		require.NoError(t, err)
		all, err := discovery.ServerPreferredResources(disco)
		require.NoError(t, err)
		watched := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch", "delete"}}, all)
		resources, err := discovery.GroupVersionResources(watched)
		require.NoError(t, err)
		partial, err := metadata.NewForConfig(s.Config)
		require.NoError(t, err)
		factory := metadatainformer.NewSharedInformerFactory(partial, 0)
		stores := map[schema.GroupVersionResource]cache.Store{}
		for gvr := range resources {
			stores[gvr] = factory.ForResource(gvr).Informer().GetStore()
		}
		require.Contains(t, stores, shirtsV1)
		require.NotContains(t, stores, shirtsBeta)
		require.Greater(t, len(stores), 7)
		ctx, stop := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		defer stop()
		for gvr, synced := range factory.WaitForCacheSync(ctx.Done()) {
			require.True(t, synced, "%v", gvr)
		}
		owner := l.widget("owner")
		for i := range 100 {
			l.owned("default", fmt.Sprint("g", i), ref("Widget", owner))
		}
		synctest.Wait()
		require.Len(t, stores[gadgets].List(), 100)
		require.Equal(t, owner.UID, stores[gadgets].List()[0].(*metav1.PartialObjectMetadata).OwnerReferences[0].UID)
		require.NoError(t, l.Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Empty(t, stores[gadgets].List())
		require.Empty(t, stores[widgets].List())
		require.Len(t, stores[namespaces].List(), 4)
		for gvr := range resources {
			path := "/apis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
			require.Empty(t, s.seen(func(r *request) bool { return r.path == path && r.method == "GET" && !r.watches() }), "a LIST of %v", gvr)
		}
	})
}
