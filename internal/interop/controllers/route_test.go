package controllers

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// accepted waits until a route reports whether it has its host.
func (p *place) accepted(r *Route, is metav1.ConditionStatus) *metav1.Condition {
	p.t.Helper()
	p.until("the route knows", func() bool {
		return p.get(r) && meta.IsStatusConditionPresentAndEqual(r.Status.Conditions, AcceptedCondition, is)
	})
	return meta.FindStatusCondition(r.Status.Conditions, AcceptedCondition)
}

// Routes and users share a table, and each owns what it applied.
func TestApply(t *testing.T) {
	everywhere(t, "apply", func(t *testing.T, p *place) {
		table := func() map[string]string {
			c := &corev1.ConfigMap{ObjectMeta: p.meta(RouteTable)}
			p.get(c)
			return c.Data
		}
		byHand := func(hosts map[string]string, o ...client.ApplyOption) error {
			return p.Apply(t.Context(), coreac.ConfigMap(RouteTable, p.namespace).WithData(hosts), append(o, client.FieldOwner("people"))...)
		}
		require.NoError(t, byHand(map[string]string{"static.example.com": "files"}))
		p.run(func(m ctrl.Manager) error { return (&RouteReconciler{m.GetClient()}).SetUp(m, p.options()) })
		route := func(name, host string) *Route {
			r := &Route{ObjectMeta: p.meta(name), Spec: RouteSpec{Host: host, Fleet: name}}
			require.NoError(t, p.Create(t.Context(), r))
			return r
		}
		a, b := route("a", "a.example.com"), route("b", "b.example.com")
		p.accepted(a, metav1.ConditionTrue)
		p.accepted(b, metav1.ConditionTrue)
		late := route("late", "a.example.com")
		refused := p.accepted(late, metav1.ConditionFalse)
		require.Equal(t, "Conflict", refused.Reason)
		require.Contains(t, refused.Message, `conflict with "route-a"`)
		require.Contains(t, refused.Message, "a.example.com")
		require.Equal(t, map[string]string{"static.example.com": "files", "a.example.com": "a", "b.example.com": "b"}, table())

		require.NoError(t, p.Delete(t.Context(), a))
		p.accepted(late, metav1.ConditionTrue) // triggered only by the table's change
		p.gone(a)
		require.Equal(t, map[string]string{"static.example.com": "files", "a.example.com": "late", "b.example.com": "b"}, table())

		late.Spec.Host = "new.example.com"
		require.NoError(t, p.Update(t.Context(), late))
		p.until("the host has changed", func() bool {
			return equal(table(), map[string]string{"static.example.com": "files", "new.example.com": "late", "b.example.com": "b"})
		})

		mine := map[string]string{"static.example.com": "files", "b.example.com": "nobody"}
		require.True(t, apierrors.IsConflict(byHand(mine)))
		require.NoError(t, byHand(mine, client.ForceOwnership))
		require.Contains(t, p.accepted(b, metav1.ConditionFalse).Message, `conflict with "people"`)
		c := &corev1.ConfigMap{ObjectMeta: p.meta(RouteTable)}
		require.True(t, p.get(c))
		managers := map[string]metav1.ManagedFieldsOperationType{}
		for _, entry := range c.ManagedFields {
			managers[entry.Manager] = entry.Operation
		}
		require.Equal(t, map[string]metav1.ManagedFieldsOperationType{"people": "Apply", "route-late": "Apply"}, managers, "managers without fields have no entry")

		require.NoError(t, p.DeleteAllOf(t.Context(), &Route{}, client.InNamespace(p.namespace)))
		p.gone(b)
		p.gone(late)
		require.Equal(t, mine, table())
	})
}
