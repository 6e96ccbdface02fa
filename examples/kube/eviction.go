package kube

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// eviction deletes a pod if its disruption budget allows it.
func (c *cluster) eviction() registry.Endpoint {
	return registry.Action[corev1.Pod, policyv1.Eviction, meta.Status]{
		Name: "eviction", Kind: meta.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"},
		Run: func(ctx context.Context, call *registry.Call[corev1.Pod], e *policyv1.Eviction) (*meta.Status, error) {
			options, err := deletion(e.DeleteOptions)
			if err != nil {
				return nil, err
			}
			options.DryRun = options.DryRun || call.DryRun
			if options.UID == "" {
				options.UID = meta.UID(call.Object.UID)
			}
			if !goesAnyway(call.Object) {
				if err := c.spare(ctx, call.Object, options.DryRun); err != nil {
					return nil, err
				}
			}
			return nil, registry.For[corev1.Pod](ctx).Delete(ctx, call.Object.Namespace, call.Object.Name, options)
		},
	}
}

// deletion reads the delete options of an eviction.
func deletion(o *metav1.DeleteOptions) (registry.DeleteOptions, error) {
	out := registry.DeleteOptions{}
	if o == nil {
		return out, nil
	}
	out.GracePeriod, out.DryRun = o.GracePeriodSeconds, len(o.DryRun) > 0
	if o.PropagationPolicy != nil {
		out.Propagation = meta.DeletionPropagation(*o.PropagationPolicy)
	}
	if p := o.Preconditions; p != nil {
		return out, out.Require(&meta.Preconditions{UID: (*meta.UID)(p.UID), ResourceVersion: p.ResourceVersion})
	}
	return out, nil
}

// goesAnyway reports whether no budget counts the pod.
func goesAnyway(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodPending
}

// spare takes one disruption from the pod's budget, or returns an error if none is left.
func (c *cluster) spare(ctx context.Context, p *corev1.Pod, dry bool) error {
	budget, err := budgetOf(ctx, p)
	if err != nil || budget == nil {
		return err
	}
	budgets := registry.For[policyv1.PodDisruptionBudget](ctx).Sub("status").With(registry.WriteOptions{
		DryRun:       dry,
		FieldManager: "eviction",
	})
	_, err = budgets.Modify(ctx, budget.Namespace, budget.Name, func(b *policyv1.PodDisruptionBudget) error {
		s := &b.Status
		if s.ObservedGeneration < b.Generation || s.DisruptionsAllowed <= 0 {
			return status.TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0).WithCauses(meta.StatusCause{
				Type: "DisruptionBudget",
				Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name,
					s.DesiredHealthy, s.CurrentHealthy),
			})
		}
		s.DisruptionsAllowed--
		if s.DisruptedPods == nil {
			s.DisruptedPods = map[string]metav1.Time{}
		}
		s.DisruptedPods[p.Name] = metav1.NewTime(c.now())
		return nil
	})
	return err
}

// budgetOf finds the budget of a pod, or nil if there is none.
func budgetOf(ctx context.Context, p *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	var found *policyv1.PodDisruptionBudget
	for b, err := range registry.For[policyv1.PodDisruptionBudget](ctx).List(ctx, p.Namespace, registry.ListRequest{}) {
		if err != nil {
			return nil, err
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		switch {
		case err != nil:
			return nil, err
		case !selector.Matches(labels.Set(p.Labels)):
		case found != nil:
			return nil, status.Internal(errors.New("more than one budget")).WithMessage("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		default:
			found = b
		}
	}
	return found, nil
}
