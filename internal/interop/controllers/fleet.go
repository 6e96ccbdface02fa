package controllers

import (
	"context"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// FleetLabel names the fleet of a ship.
const FleetLabel = "shop.example.com/fleet"

// FleetReconciler adds or removes one ship of a fleet at a time, until the number is right.
type FleetReconciler struct {
	client.Client
	Pause time.Duration // between two ships
}

// SetUp adds the controller to a manager.
func (r *FleetReconciler) SetUp(m ctrl.Manager, o controller.Options) error {
	return ctrl.NewControllerManagedBy(m).For(&Fleet{}).WithOptions(o).Complete(r)
}

// Reconcile changes the number of ships by one, with a patch of the status.
func (r *FleetReconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var f Fleet
	if err := r.Get(ctx, q.NamespacedName, &f); err != nil || !f.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := clone(&f)
	f.Status.Selector = FleetLabel + "=" + f.Name
	switch {
	case f.Status.Replicas < f.Spec.Replicas:
		f.Status.Replicas++
	case f.Status.Replicas > f.Spec.Replicas:
		f.Status.Replicas--
	}
	if f.Status == before.Status {
		return ctrl.Result{}, nil
	}
	// A cache that is behind must not count the same ship twice.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Status().Patch(ctx, &f, patch); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Pause}, nil
}

// Metric returns the present load.
type Metric interface {
	Load(ctx context.Context, fleet types.NamespacedName) (float64, error)
}

// Autoscaler sets the replicas of fleets by their load. It knows only that fleets have a scale.
type Autoscaler struct {
	client.Client
	Metric   Metric
	PerShip  float64       // load that one ship can carry
	Least    int32         // of ships
	Most     int32         // of ships
	Interval time.Duration // between two reads of the metric
	Calm     time.Duration // how long the load must be lower before the fleet shrinks

	mu     sync.Mutex
	advice map[types.NamespacedName][]advice // of the last Calm, the oldest first
}

// advice is the result of one read of the metric.
type advice struct {
	at       time.Time
	replicas int32
}

// SetUp adds the controller to a manager.
func (a *Autoscaler) SetUp(m ctrl.Manager, o controller.Options) error {
	return ctrl.NewControllerManagedBy(m).Named("autoscaler").For(&Fleet{}).WithOptions(o).Complete(a)
}

// Reconcile reads the load of a fleet, and again after the interval.
func (a *Autoscaler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var f Fleet
	f.Namespace, f.Name = q.Namespace, q.Name
	var scale autoscalingv1.Scale
	if err := a.SubResource("scale").Get(ctx, &f, &scale); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	load, err := a.Metric.Load(ctx, q.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	want := a.steady(q.NamespacedName, min(max(int32(load/a.PerShip+0.999), a.Least), a.Most))
	if want != scale.Spec.Replicas {
		scale.Spec.Replicas = want
		if err := a.SubResource("scale").Update(ctx, &f, client.WithSubResourceBody(&scale)); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: a.Interval}, nil
}

// steady returns the highest recent advice, so a short calm does not shrink the fleet.
func (a *Autoscaler) steady(fleet types.NamespacedName, now int32) int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.advice == nil {
		a.advice = map[types.NamespacedName][]advice{}
	}
	kept := a.advice[fleet]
	for len(kept) > 0 && time.Since(kept[0].at) > a.Calm {
		kept = kept[1:]
	}
	kept = append(kept, advice{time.Now(), now})
	a.advice[fleet] = kept
	most := now
	for _, old := range kept {
		most = max(most, old.replicas)
	}
	return most
}
