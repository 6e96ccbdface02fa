package controllers

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// refused waits until a placement reports why it failed.
func (p *place) refused(o *Placement, why metav1.StatusReason) *metav1.Condition {
	p.t.Helper()
	var condition *metav1.Condition
	p.until("the placement is refused: "+string(why), func() bool {
		condition = meta.FindStatusCondition(o.Status.Conditions, PlacedCondition)
		return p.get(o) && condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == string(why)
	})
	return condition
}

func (p *place) placed(o *Placement) {
	p.t.Helper()
	p.until("the fleet is made", func() bool {
		return p.get(o) && meta.IsStatusConditionTrue(o.Status.Conditions, PlacedCondition)
	})
	f := &Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: o.Spec.Target, Name: o.Name}}
	require.True(p.t, p.get(f))
	require.Equal(p.t, o.Spec.Replicas, f.Spec.Replicas)
}

// A temporary rejection is retried, a permanent one is not.
func TestRefusals(t *testing.T) {
	everywhere(t, "refusals", func(t *testing.T, p *place) {
		p.run(func(m ctrl.Manager) error { return (&PlacementReconciler{m.GetClient()}).SetUp(m, p.options()) })
		place := func(name, target string, replicas int32) *Placement {
			o := &Placement{ObjectMeta: p.meta(name), Spec: PlacementSpec{Target: target, Replicas: replicas}}
			require.NoError(t, p.Create(t.Context(), o))
			return o
		}
		early, wrong := place("early", "harbour", 3), place("wrong", p.namespace, 1000)
		require.Contains(t, p.refused(early, metav1.StatusReasonNotFound).Message, `namespaces "harbour" not found`)
		require.Contains(t, p.refused(wrong, metav1.StatusReasonInvalid).Message, `spec.replicas`)
		const inHarbour = "POST /apis/shop.example.com/v1/namespaces/harbour/fleets"
		inOwn := "POST /apis/shop.example.com/v1/namespaces/" + p.namespace + "/fleets"
		p.until("it has been tried some more", func() bool { return p.counts.of(inHarbour) >= 10 })
		require.Equal(t, 1, p.counts.of(inOwn))

		harbour := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "harbour"}}
		require.NoError(t, p.Create(t.Context(), harbour))
		p.placed(early)
		wrong.Spec.Replicas = 100
		require.NoError(t, p.Update(t.Context(), wrong))
		p.placed(wrong)
		require.Equal(t, 2, p.counts.of(inOwn))

		holding := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "anchor", Finalizers: []string{"example.com/hold"}}}
		require.NoError(t, p.Create(t.Context(), holding))
		require.NoError(t, p.Delete(t.Context(), harbour))
		late := place("late", "harbour", 5)
		refused := p.refused(late, metav1.StatusReasonForbidden)
		require.Contains(t, refused.Message, "because it is being terminated")
		if !p.whole {
			return // it never ends
		}
		require.True(t, p.get(harbour))
		require.Equal(t, corev1.NamespaceTerminating, harbour.Status.Phase)
		require.True(t, p.get(holding))
		holding.Finalizers = nil
		require.NoError(t, p.Update(t.Context(), holding))
		p.gone(harbour)
		p.refused(late, metav1.StatusReasonNotFound)
		require.True(t, apierrors.IsNotFound(p.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "c"}})))
		require.NoError(t, p.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "harbour"}}))
		p.placed(late)
		require.False(t, p.get(&Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: "harbour", Name: "early"}}), "it went with the first harbour")
	})
}
