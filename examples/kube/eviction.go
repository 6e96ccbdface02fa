package kube

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

var budgetResource = meta.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}

// eviction deletes a pod if those who look after it can do without it.
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
				if err := c.spare(ctx, call.Engine, call.Object, options.DryRun); err != nil {
					return nil, err
				}
			}
			_, err = call.Engine.Delete(ctx, registry.Target{Resource: podResource, Namespace: call.Object.Namespace, Name: call.Object.Name}, options)
			return nil, err
		},
	}
}

// deletion reads what an eviction says about the deletion.
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

// goesAnyway tells of pods that nobody counts on.
func goesAnyway(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodPending
}

// spare takes one disruption from the budget that the pod is in, or says that there is none.
func (c *cluster) spare(ctx context.Context, e *registry.Engine, p *corev1.Pod, dry bool) error {
	budget, err := c.budgetOf(ctx, p)
	if err != nil || budget == nil {
		return err
	}
	s := budget.Status
	if s.ObservedGeneration < budget.Generation || s.DisruptionsAllowed <= 0 {
		return status.TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0).WithCauses(meta.StatusCause{
			Type:    "DisruptionBudget",
			Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", budget.Name, s.DesiredHealthy, s.CurrentHealthy),
		})
	}
	patch := map[string]any{
		"metadata": map[string]any{"resourceVersion": budget.ResourceVersion},
		"status": map[string]any{
			"disruptionsAllowed": s.DisruptionsAllowed - 1,
			"disruptedPods":      map[string]any{p.Name: metav1.NewTime(c.now())},
		},
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = e.Patch(ctx, registry.Target{Resource: budgetResource, Namespace: p.Namespace, Name: budget.Name, Subresource: "status"},
		registry.PatchRequest{Type: registry.MergePatch, Body: body}, registry.WriteOptions{DryRun: dry, FieldManager: "eviction"})
	return err
}

// budgetOf finds the budget that a pod is in, nil if there is none.
func (c *cluster) budgetOf(ctx context.Context, p *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	var found []*policyv1.PodDisruptionBudget
	var bad error
	err := each(ctx, c, budgetResource, func(b *policyv1.PodDisruptionBudget) bool {
		if b.Namespace != p.Namespace {
			return true
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			bad = err
			return false
		}
		if selector.Matches(labels.Set(p.Labels)) {
			found = append(found, b)
		}
		return true
	})
	switch {
	case err != nil || bad != nil:
		return nil, errors.Join(err, bad)
	case len(found) > 1:
		return nil, status.Internal(errors.New("more than one budget")).WithMessage("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
	case len(found) == 1:
		return found[0], nil
	}
	return nil, nil
}
