package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// ReadyCondition is the type of the condition that is true when everything is in its desired state.
const ReadyCondition = "Ready"

// Issuer makes certificates.
type Issuer interface {
	Issue(ctx context.Context, host string) (serial int64, err error)
}

// CertificateReconciler issues certificates, and renews them after two thirds of their lifetime.
type CertificateReconciler struct {
	client.Client
	Issuer   Issuer
	Recorder events.EventRecorder
}

// SetUp adds the controller to a manager. It ignores its own changes of a status.
func (r *CertificateReconciler) SetUp(m ctrl.Manager, o controller.Options) error {
	return ctrl.NewControllerManagedBy(m).For(&Certificate{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).WithOptions(o).Complete(r)
}

// Reconcile issues a certificate if it is due or its spec has changed.
func (r *CertificateReconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var c Certificate
	if err := r.Get(ctx, q.NamespacedName, &c); err != nil || !c.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, ReadyCondition)
	due := time.Until(c.Status.NotAfter.Add(-c.Spec.Lifetime.Duration / 3))
	if ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == c.Generation && due > 0 {
		return ctrl.Result{RequeueAfter: due}, nil
	}
	serial, problem := r.Issuer.Issue(ctx, c.Spec.Host)
	if err := r.report(ctx, &c, serial, problem); err != nil {
		return ctrl.Result{}, err
	}
	if problem != nil {
		r.Recorder.Eventf(&c, nil, corev1.EventTypeWarning, "Refused", "Issue", "%v", problem)
		return ctrl.Result{}, problem
	}
	r.Recorder.Eventf(&c, nil, corev1.EventTypeNormal, "Issued", "Issue", "certificate %d for %s", serial, c.Spec.Host)
	return ctrl.Result{RequeueAfter: c.Spec.Lifetime.Duration * 2 / 3}, nil
}

// report writes the status. Others write their own conditions into it, so report reads it again
// after each conflict.
func (r *CertificateReconciler) report(ctx context.Context, c *Certificate, serial int64, problem error) error {
	condition := metav1.Condition{
		Type: ReadyCondition, Status: metav1.ConditionTrue, ObservedGeneration: c.Generation,
		Reason: "Issued", Message: fmt.Sprintf("for %s", c.Spec.Host),
	}
	if problem != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "Refused", problem.Error()
	}
	now, generation := metav1.NowMicro(), c.Generation
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		meta.SetStatusCondition(&c.Status.Conditions, condition)
		if problem == nil {
			c.Status.Serial, c.Status.NotAfter = serial, metav1.NewMicroTime(now.Add(c.Spec.Lifetime.Duration))
		}
		err := r.Status().Update(ctx, c)
		if err != nil {
			// The cache has the version that has just proved too old, or an older one. The next try
			// may well find a newer one.
			if read := r.Get(ctx, client.ObjectKeyFromObject(c), c); read != nil {
				return client.IgnoreNotFound(read)
			}
			if c.Generation != generation {
				return nil // the spec has changed; its own reconcile follows
			}
		}
		return err
	})
}
