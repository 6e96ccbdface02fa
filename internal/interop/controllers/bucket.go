package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// BucketFinalizer keeps a bucket until the provider has released it.
const BucketFinalizer = "shop.example.com/provider"

// Provider stores buckets. Both of its methods do nothing if there is nothing to do, so they can be
// retried.
type Provider interface {
	Make(ctx context.Context, id types.UID, region string) (address string, err error)
	Remove(ctx context.Context, id types.UID) error
}

// BucketReconciler makes a provider create a bucket for each Bucket, and remove it before the
// Bucket goes.
type BucketReconciler struct {
	client.Client
	Provider Provider
}

// SetUp adds the controller to a manager.
func (r *BucketReconciler) SetUp(m ctrl.Manager, o controller.Options) error {
	return ctrl.NewControllerManagedBy(m).For(&Bucket{}).WithOptions(o).Complete(r)
}

// Reconcile creates wanted buckets and removes the others. It adds the finalizer before it creates
// anything.
func (r *BucketReconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var b Bucket
	if err := r.Get(ctx, q.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !b.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.remove(ctx, &b)
	}
	if controllerutil.AddFinalizer(&b, BucketFinalizer) {
		if err := r.Update(ctx, &b); err != nil {
			return ctrl.Result{}, err
		}
	}
	address, err := r.Provider.Make(ctx, b.UID, b.Spec.Region)
	if err != nil || address == b.Status.Address {
		return ctrl.Result{}, err
	}
	b.Status.Address = address
	return ctrl.Result{}, r.Status().Update(ctx, &b)
}

func (r *BucketReconciler) remove(ctx context.Context, b *Bucket) error {
	if !controllerutil.ContainsFinalizer(b, BucketFinalizer) {
		return nil
	}
	if err := r.Provider.Remove(ctx, b.UID); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(b, BucketFinalizer)
	return client.IgnoreNotFound(r.Update(ctx, b))
}
