package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// RouteTable is the config map, one in each namespace, with the fleet of every host.
const RouteTable = "routes"

// RouteFinalizer keeps a route until its host is removed from the table.
const RouteFinalizer = "shop.example.com/route"

// AcceptedCondition is the type of the condition that is true when the route has its host.
const AcceptedCondition = "Accepted"

// RouteReconciler applies each route's host to the table of its namespace. Each route has its own
// field manager. The first route that claims a host has it, and other entries of the table stay.
type RouteReconciler struct{ client.Client }

// SetUp adds the controller to a manager. Every change of the table gives all routes of the
// namespace another chance.
func (r *RouteReconciler) SetUp(m ctrl.Manager, o controller.Options) error {
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, table client.Object) (out []reconcile.Request) {
		var routes list[Route]
		if table.GetName() != RouteTable || r.List(ctx, &routes, client.InNamespace(table.GetNamespace())) != nil {
			return nil
		}
		for _, route := range routes.Items {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&route)})
		}
		return out
	})
	return ctrl.NewControllerManagedBy(m).For(&Route{}).Watches(&corev1.ConfigMap{}, all).WithOptions(o).Complete(r)
}

// Reconcile applies the route's entry, or an empty configuration if it has none any more.
func (r *RouteReconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var route Route
	if err := r.Get(ctx, q.NamespacedName, &route); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !route.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.leave(ctx, &route)
	}
	if controllerutil.AddFinalizer(&route, RouteFinalizer) {
		if err := r.Update(ctx, &route); err != nil {
			return ctrl.Result{}, err
		}
	}
	err := r.apply(ctx, &route, map[string]string{route.Spec.Host: route.Spec.Fleet})
	if err != nil && !apierrors.IsConflict(err) {
		return ctrl.Result{}, err
	}
	accepted := metav1.Condition{Type: AcceptedCondition, Status: metav1.ConditionTrue, Reason: "Applied", ObservedGeneration: route.Generation}
	if err != nil {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, "Conflict", err.Error()
	}
	if !meta.SetStatusCondition(&route.Status.Conditions, accepted) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, &route)
}

// leave gives up the host: apply removes what the manager applied before and leaves out now.
func (r *RouteReconciler) leave(ctx context.Context, route *Route) error {
	if !controllerutil.ContainsFinalizer(route, RouteFinalizer) {
		return nil
	}
	if err := r.apply(ctx, route, nil); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(route, RouteFinalizer)
	return client.IgnoreNotFound(r.Update(ctx, route))
}

func (r *RouteReconciler) apply(ctx context.Context, route *Route, hosts map[string]string) error {
	return r.Apply(ctx, coreac.ConfigMap(RouteTable, route.Namespace).WithData(hosts), RouteOwner(route.Name))
}

// RouteOwner is the field manager of a route.
func RouteOwner(route string) client.FieldOwner { return client.FieldOwner("route-" + route) }
