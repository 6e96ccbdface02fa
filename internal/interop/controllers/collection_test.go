package controllers

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The pages of a site go with it, before it, or not at all.
func TestCollection(t *testing.T) {
	everywhere(t, "collection", func(t *testing.T, p *place) {
		p.run(func(m ctrl.Manager) error { return (&SiteReconciler{Client: m.GetClient()}).SetUp(m, p.options()) })
		background, foreground, orphan := p.site("background"), p.site("foreground"), p.site("orphan")
		require.NoError(t, p.Delete(t.Context(), background, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		require.False(t, p.get(background), "its pages do not hold it")
		held := &corev1.ConfigMap{ObjectMeta: p.meta("foreground-jobs")}
		require.True(t, p.get(held))
		held.Finalizers = []string{"example.com/hold"}
		require.NoError(t, p.Update(t.Context(), held))
		require.NoError(t, p.Delete(t.Context(), foreground, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		require.True(t, p.get(foreground))
		require.Equal(t, []string{metav1.FinalizerDeleteDependents}, foreground.Finalizers)
		require.NoError(t, p.Delete(t.Context(), orphan, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		if !p.whole {
			p.rest()
			require.Len(t, p.pages("background"), 3, "they are not collected")
			return
		}
		p.until("the pages go after the site", func() bool { return len(p.pages("background")) == 0 })
		p.until("the pages go before the site", func() bool { return len(p.pages("foreground")) == 1 })
		p.rest()
		require.True(t, p.get(foreground))
		require.True(t, p.get(held))
		held.Finalizers = nil
		require.NoError(t, p.Update(t.Context(), held))
		p.gone(foreground)
		require.Empty(t, p.pages("foreground"))
		p.gone(orphan)
		left := &corev1.ConfigMap{ObjectMeta: p.meta("orphan-index")}
		require.Len(t, p.pages("orphan"), 3)
		require.True(t, p.get(left))
		require.Empty(t, left.OwnerReferences)
	})
}
