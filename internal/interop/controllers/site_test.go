package controllers

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// pages returns the text of each existing page of a site.
func (p *place) pages(site string) map[string]string {
	p.t.Helper()
	var all corev1.ConfigMapList
	require.NoError(p.t, p.List(p.t.Context(), &all, client.InNamespace(p.namespace), client.MatchingLabels{SiteLabel: site}))
	out := map[string]string{}
	for _, page := range all.Items {
		out[page.Name] = page.Data["text"]
	}
	return out
}

// shows waits until a site has its desired state, and reports it.
func (p *place) shows(s *Site, pages map[string]string) {
	p.t.Helper()
	p.until("the site is there", func() bool {
		return p.get(s) && s.Status == SiteStatus{Pages: int32(len(pages)), ObservedGeneration: s.Generation} && equal(p.pages(s.Name), pages)
	})
}

func equal(a, b map[string]string) bool {
	for name, text := range a {
		if b[name] != text {
			return false
		}
	}
	return len(a) == len(b)
}

func (p *place) site(name string) *Site {
	p.t.Helper()
	s := &Site{ObjectMeta: p.meta(name), Spec: SiteSpec{Pages: map[string]string{"about": "us", "index": "welcome", "jobs": "none"}}}
	require.NoError(p.t, p.Create(p.t.Context(), s))
	p.shows(s, map[string]string{name + "-about": "us", name + "-index": "welcome", name + "-jobs": "none"})
	return s
}

// Pages follow their site, whatever others do to them.
func TestChildren(t *testing.T) {
	everywhere(t, "children", func(t *testing.T, p *place) {
		p.run(func(m ctrl.Manager) error { return (&SiteReconciler{Client: m.GetClient()}).SetUp(m, p.options()) })
		s := p.site("shop")
		index := &corev1.ConfigMap{ObjectMeta: p.meta("shop-index")}
		require.True(t, p.get(index))
		require.True(t, metav1.IsControlledBy(index, s))
		require.True(t, *index.OwnerReferences[0].BlockOwnerDeletion)

		index.Data["text"] = "closed"
		require.NoError(t, p.Update(t.Context(), index))
		require.NoError(t, p.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: p.meta("shop-jobs")}))
		p.shows(s, map[string]string{"shop-about": "us", "shop-index": "welcome", "shop-jobs": "none"})

		s.Spec.Pages = map[string]string{"index": "hello", "prices": "low"}
		require.NoError(t, p.Update(t.Context(), s))
		p.shows(s, map[string]string{"shop-index": "hello", "shop-prices": "low"})
		require.Equal(t, int64(2), s.Generation)

		foreign := &corev1.ConfigMap{ObjectMeta: p.meta("shop-foreign")}
		foreign.Labels = map[string]string{SiteLabel: "shop"}
		require.NoError(t, p.Create(t.Context(), foreign))
		p.rest()
		require.True(t, p.get(foreign), "it has no owner")
		taken := p.meta("shop-taken")
		taken.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&corev1.ConfigMap{ObjectMeta: index.ObjectMeta}, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
		require.Error(t, controllerutil.SetControllerReference(s, &corev1.ConfigMap{ObjectMeta: taken}, p.scheme), "it has another")
		elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "page"}}
		require.ErrorContains(t, controllerutil.SetControllerReference(s, elsewhere, p.scheme), "cross-namespace owner references are disallowed")
	})
}
