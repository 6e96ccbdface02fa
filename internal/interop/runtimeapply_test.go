package interop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	coordinationac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

func newRuntimeClient(t *testing.T, s *server) client.Client {
	t.Helper()
	c, err := client.New(s.Config, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	return c
}

var widgetKey = client.ObjectKey{Namespace: "default", Name: "w"}

// managersOf returns the manager of each entry of managedFields.
func managersOf(o client.Object) (out []string) {
	for _, e := range o.GetManagedFields() {
		out = append(out, fmt.Sprintf("%s %s %s", e.Manager, e.Operation, e.Subresource))
	}
	return out
}

// controller-runtime's client applies, also to the status, with owners, force and dry runs.
func TestSSA_RuntimeApply(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		c := newRuntimeClient(t, s)
		one := client.WithFieldOwner(c, "one")
		config := func(text string) *unstructured.Unstructured { return widgetOf(t, text) }
		applied := config(`{metadata: {labels: {a: b}}, spec: {size: 1, color: red, notes: {made: here}}}`)
		require.NoError(t, one.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied)))
		require.NotEmpty(t, applied.GetUID(), "the response must be decoded into the configuration")
		var w Widget
		require.NoError(t, c.Get(t.Context(), widgetKey, &w))
		require.Equal(t, WidgetSpec{Size: 1, Color: "red"}, w.Spec)
		require.Equal(t, []string{"one Apply "}, managersOf(&w))

		err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(config(`{spec: {size: 2}}`)), client.FieldOwner("two"))
		requireConflict(t, err, "one", ".spec.size")
		dry := client.NewDryRunClient(c)
		would := config(`{spec: {size: 2}}`)
		require.NoError(t, dry.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(would), client.FieldOwner("two"), client.ForceOwnership))
		require.Equal(t, []string{"one Apply ", "two Apply "}, managersOf(would))
		require.NoError(t, c.Get(t.Context(), widgetKey, &w))
		require.Equal(t, int32(1), w.Spec.Size)
		require.NoError(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(config(`{spec: {size: 2}}`)), client.FieldOwner("two"), client.ForceOwnership))
		require.Error(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(config(`{spec: {size: 2}}`))), "without an owner")

		// The same as an apply patch with a typed object, as before Apply existed.
		patched := &Widget{TypeMeta: metav1.TypeMeta{APIVersion: "example.dev/v1", Kind: "Widget"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}, Spec: WidgetSpec{Size: 3}}
		//nolint:staticcheck // it is deprecated, and what most controllers do
		require.NoError(t, c.Patch(t.Context(), patched, client.Apply, client.FieldOwner("two"), client.ForceOwnership))
		require.Equal(t, int32(3), patched.Spec.Size)
		require.Equal(t, "red", patched.Spec.Color)

		state := config(`{spec: {size: 900}, status: {phase: Ready, conditions: [{type: Ready, status: "True"}]}}`)
		require.NoError(t, one.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(state)))
		require.NoError(t, c.SubResource("status").Apply(t.Context(), client.ApplyConfigurationFromUnstructured(config(`{status: {observedGeneration: 7}}`)), client.FieldOwner("two")))
		requireConflict(t, c.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(config(`{status: {phase: Broken}}`)), client.FieldOwner("two")), "one", ".status.phase")
		require.NoError(t, c.Get(t.Context(), widgetKey, &w))
		require.Equal(t, WidgetStatus{Phase: "Ready", ObservedGeneration: 7}, w.Status)
		require.Equal(t, int32(3), w.Spec.Size)
		require.ElementsMatch(t, []string{"one Apply ", "two Apply ", "one Apply status", "two Apply status"}, managersOf(&w))
		version := w.ResourceVersion
		require.NoError(t, one.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(config(`{status: {phase: Ready, conditions: [{type: Ready, status: "True"}]}}`))))
		require.NoError(t, c.Get(t.Context(), widgetKey, &w))
		require.Equal(t, version, w.ResourceVersion, "applying again changes nothing")

		lease := coordinationac.Lease("l", "default").WithSpec(coordinationac.LeaseSpec().WithHolderIdentity("me"))
		require.NoError(t, one.Apply(t.Context(), lease))
		require.NotNil(t, lease.UID)
		stale := config(`{metadata: {resourceVersion: "1"}, spec: {size: 5}}`)
		require.True(t, apierrors.IsConflict(one.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(stale))), "a version is a precondition")
	})
}

// The usual helpers of controllers: create or update, create or patch, and the status, with owners
// and finalizers.
func TestUPDATE_RuntimeWriters(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		plain := newRuntimeClient(t, s)
		c := client.WithFieldOwner(client.WithFieldValidation(plain, client.FieldValidation(metav1.FieldValidationStrict)), "keeper")
		w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}}
		size := func(n int32) controllerutil.MutateFn {
			return func() error {
				w.Spec.Size = n
				controllerutil.AddFinalizer(w, finalizer)
				return nil
			}
		}
		ready := func() error {
			w.Status.Phase = "Ready"
			return size(3)()
		}
		results := []controllerutil.OperationResult{}
		note := func(r controllerutil.OperationResult, err error) {
			require.NoError(t, err)
			results = append(results, r)
		}
		note(controllerutil.CreateOrUpdate(t.Context(), c, w, size(1)))
		note(controllerutil.CreateOrUpdate(t.Context(), c, w, size(1)))
		note(controllerutil.CreateOrUpdate(t.Context(), c, w, size(2)))
		note(controllerutil.CreateOrPatch(t.Context(), c, w, size(2)))
		note(controllerutil.CreateOrPatch(t.Context(), c, w, size(3)))
		note(controllerutil.CreateOrPatch(t.Context(), c, w, ready))
		require.Equal(t, []controllerutil.OperationResult{"created", "unchanged", "updated", "unchanged", "updated", "updatedStatusOnly"}, results)
		require.Equal(t, "Ready", w.Status.Phase)
		require.Equal(t, int64(3), w.Generation)
		require.ElementsMatch(t, []string{"keeper Update ", "keeper Update status"}, managersOf(w))

		g := &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}
		own := func() error {
			g.Data = map[string]string{"a": "b"}
			return controllerutil.SetControllerReference(w, g, plain.Scheme())
		}
		note(controllerutil.CreateOrPatch(t.Context(), c, g, own))
		require.True(t, metav1.IsControlledBy(g, w))
		other := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Spec: WidgetSpec{Size: 1}}
		require.NoError(t, c.Create(t.Context(), other))
		require.NoError(t, controllerutil.SetOwnerReference(other, g, plain.Scheme()))
		require.NoError(t, c.Update(t.Context(), g))
		require.Len(t, g.OwnerReferences, 2)
		yes := true
		g.OwnerReferences[1].Controller = &yes
		require.True(t, apierrors.IsInvalid(c.Update(t.Context(), g)), "an object has at most one controller")
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(g), g))
		require.NoError(t, controllerutil.RemoveControllerReference(w, g, plain.Scheme()))
		require.NoError(t, c.Update(t.Context(), g))
		require.Len(t, g.OwnerReferences, 1)

		old := w.DeepCopyObject().(*Widget)
		w.Status.ObservedGeneration = w.Generation
		require.NoError(t, c.Status().Update(t.Context(), w))
		require.True(t, apierrors.IsConflict(c.Status().Update(t.Context(), old)))
		require.True(t, apierrors.IsConflict(c.Update(t.Context(), old)))
		before := w.DeepCopyObject().(*Widget)
		w.Status.Phase, w.Spec.Size = "Broken", 9
		require.NoError(t, c.Status().Patch(t.Context(), w, client.MergeFrom(before)))
		require.Equal(t, []any{"Broken", int32(3)}, []any{w.Status.Phase, w.Spec.Size}, "only the status must change")
		before = w.DeepCopyObject().(*Widget)
		w.Status.Phase = "Ready"
		require.NoError(t, c.SubResource("status").Patch(t.Context(), w, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
		require.True(t, apierrors.IsConflict(c.SubResource("status").Patch(t.Context(), before, client.MergeFromWithOptions(stale(before), client.MergeFromWithOptimisticLock{}))))
		require.NoError(t, c.Patch(t.Context(), w, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/size","value":4}]`))))
		require.Equal(t, int32(4), w.Spec.Size)
		require.NoError(t, c.Get(t.Context(), widgetKey, w))
		require.Equal(t, WidgetStatus{Phase: "Ready", ObservedGeneration: 3}, w.Status)

		odd := widgetOf(t, `{spec: {size: 1, colour: red}}`)
		odd.SetName("odd")
		require.ErrorContains(t, c.Create(t.Context(), odd), `strict decoding error: unknown field "spec.colour"`)
		require.NoError(t, plain.Create(t.Context(), odd))
		dry := client.NewDryRunClient(c)
		draft := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "draft"}, Spec: WidgetSpec{Size: 1}}
		require.NoError(t, dry.Create(t.Context(), draft))
		require.Equal(t, []any{"blue", ""}, []any{draft.Spec.Color, draft.ResourceVersion})
		w.Status.Phase = "Dry"
		require.NoError(t, dry.Status().Update(t.Context(), w))
		require.NoError(t, dry.Delete(t.Context(), w))
		require.NoError(t, dry.DeleteAllOf(t.Context(), &Widget{}, client.InNamespace("default")))
		require.NoError(t, c.Get(t.Context(), widgetKey, w))
		require.Equal(t, "Ready", w.Status.Phase)
		require.True(t, w.DeletionTimestamp.IsZero())

		require.NoError(t, c.Delete(t.Context(), w))
		require.NoError(t, c.Get(t.Context(), widgetKey, w))
		require.False(t, w.DeletionTimestamp.IsZero())
		require.True(t, controllerutil.RemoveFinalizer(w, finalizer))
		require.NoError(t, c.Update(t.Context(), w))
		require.True(t, apierrors.IsNotFound(c.Get(t.Context(), widgetKey, w)))
	})
}
