package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// reconciler keeps a config map with the pages of each site.
type reconciler struct{ client.Client }

// setUp adds the controllers to a manager. The program and the tests call it.
func setUp(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).For(&Site{}).Owns(&corev1.ConfigMap{}).Complete(&reconciler{m.GetClient()})
}

// newScheme returns the types that the controllers use.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, addToScheme(s)
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pages := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, pages, func() error {
		pages.Data = map[string]string{}
		for i := range site.Spec.Pages {
			pages.Data[fmt.Sprintf("%d.html", i+1)] = fmt.Sprintf("<h1>%s</h1>", site.Spec.Title)
		}
		return controllerutil.SetControllerReference(&site, pages, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	want := SiteStatus{Pages: site.Spec.Pages, ObservedGeneration: site.Generation}
	if site.Status == want {
		return ctrl.Result{}, nil
	}
	site.Status = want
	return ctrl.Result{}, r.Status().Update(ctx, &site)
}
