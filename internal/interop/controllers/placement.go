package controllers

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// PlacedCondition is the type of the condition that is true when the fleet was created.
const PlacedCondition = "Placed"

// PlacementReconciler creates fleets in other namespaces, where our objects cannot be owners. While
// the namespace is missing or terminating, it retries with growing delays. It tries an invalid
// fleet only once.
type PlacementReconciler struct{ client.Client }

// SetUp adds the controller to a manager.
func (r *PlacementReconciler) SetUp(m ctrl.Manager, o controller.Options) error {
	return ctrl.NewControllerManagedBy(m).For(&Placement{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).WithOptions(o).Complete(r)
}

// Reconcile creates the fleet unless it exists.
func (r *PlacementReconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var p Placement
	if err := r.Get(ctx, q.NamespacedName, &p); err != nil || !p.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	fleet := &Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: p.Spec.Target, Name: p.Name}, Spec: FleetSpec{Replicas: p.Spec.Replicas}}
	problem := client.IgnoreAlreadyExists(r.Create(ctx, fleet))
	placed := metav1.Condition{Type: PlacedCondition, Status: metav1.ConditionTrue, Reason: "Made", ObservedGeneration: p.Generation}
	if problem != nil {
		placed.Status, placed.Reason, placed.Message = metav1.ConditionFalse, string(apierrors.ReasonForError(problem)), problem.Error()
	}
	if meta.SetStatusCondition(&p.Status.Conditions, placed) {
		if err := r.Status().Update(ctx, &p); err != nil {
			return ctrl.Result{}, err
		}
	}
	if apierrors.IsInvalid(problem) {
		problem = reconcile.TerminalError(problem)
	}
	return ctrl.Result{}, problem
}
