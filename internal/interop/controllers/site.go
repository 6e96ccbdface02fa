package controllers

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// SiteLabel names the site that a page belongs to.
const SiteLabel = "shop.example.com/site"

// SiteReconciler keeps a config map for each page of a site. It does nothing when a site is
// deleted, because the site owns the pages.
type SiteReconciler struct {
	client.Client
	live client.Reader // bypasses the cache
}

// SetUp adds the controller to a manager.
func (r *SiteReconciler) SetUp(m ctrl.Manager, o controller.Options) error {
	r.live = m.GetAPIReader()
	return ctrl.NewControllerManagedBy(m).For(&Site{}).Owns(&corev1.ConfigMap{}).WithOptions(o).Complete(r)
}

// Reconcile creates missing pages, repairs changed ones, and deletes those that are no longer in
// the spec.
func (r *SiteReconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var s Site
	if err := r.Get(ctx, q.NamespacedName, &s); err != nil || !s.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	for name, text := range s.Spec.Pages {
		if err := r.write(ctx, &s, name, text); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.prune(ctx, &s); err != nil {
		return ctrl.Result{}, err
	}
	is := SiteStatus{Pages: int32(len(s.Spec.Pages)), ObservedGeneration: s.Generation}
	if s.Status == is {
		return ctrl.Result{}, nil
	}
	s.Status = is
	return ctrl.Result{}, r.Status().Update(ctx, &s)
}

func (r *SiteReconciler) write(ctx context.Context, s *Site, name, text string) error {
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-" + name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		if page.UID != "" && !metav1.IsControlledBy(page, s) {
			if err := r.stillThere(ctx, s); err != nil {
				return err
			}
		}
		page.Labels = map[string]string{SiteLabel: s.Name}
		page.Data = map[string]string{"text": text}
		return controllerutil.SetControllerReference(s, page, r.Scheme())
	})
	return err
}

// stillThere reads a site past the cache before a page is adopted. If a site that is being deleted
// adopted orphans, the collector would delete them.
func (r *SiteReconciler) stillThere(ctx context.Context, s *Site) error {
	var now Site
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(s), &now); err != nil {
		return err
	}
	if now.UID != s.UID || !now.DeletionTimestamp.IsZero() {
		return errors.New("the site is going")
	}
	return nil
}

func (r *SiteReconciler) prune(ctx context.Context, s *Site) error {
	var pages corev1.ConfigMapList
	if err := r.List(ctx, &pages, client.InNamespace(s.Namespace), client.MatchingLabels{SiteLabel: s.Name}); err != nil {
		return err
	}
	var problems []error
	for _, page := range pages.Items {
		if _, wanted := s.Spec.Pages[page.Name[len(s.Name)+1:]]; wanted || !metav1.IsControlledBy(&page, s) {
			continue
		}
		problems = append(problems, client.IgnoreNotFound(r.Delete(ctx, &page, client.Preconditions{UID: &page.UID})))
	}
	return errors.Join(problems...)
}
