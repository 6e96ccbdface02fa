package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// eviction deletes a pod if its disruption budget allows it.
func (c *cluster) eviction() registry.Endpoint {
	return registry.Action[corev1.Pod, policyv1.Eviction, meta.Status]{
		Name: "eviction", Kind: meta.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"},
		Alike: []string{"policy/v1beta1"}, // which old clients send
		Named: true,
		Run: func(ctx context.Context, call *registry.Call[corev1.Pod], e *policyv1.Eviction) (*meta.Status, error) {
			options, err := deletion(conditioned(e))
			if err != nil {
				return nil, err
			}
			options.DryRun = options.DryRun || call.DryRun
			if options.UID == "" {
				options.UID = meta.UID(call.Object.UID)
			}
			budgets := ctx // plugins judge the change of a budget, as in kube-apiserver
			ctx = hookcontext.WithAdmitted(ctx)
			if !goesAnyway(call.Object) {
				if err := c.spare(budgets, call.Object, options.DryRun); err != nil {
					return nil, err
				}
			}
			if err := c.disrupt(ctx, call.Object, &options); err != nil {
				return nil, err
			}
			return nil, registry.For[corev1.Pod](ctx).Delete(ctx, call.Object.Namespace, call.Object.Name, options)
		},
	}
}

// disrupt records in a pod that it is being evicted, before it is deleted: a pod with finalizers
// or a grace period stays, and its controller reads there why it ends. A version that the pod must
// have becomes that of the recorded state.
func (c *cluster) disrupt(ctx context.Context, p *corev1.Pod, o *registry.DeleteOptions) error {
	if o.DryRun || o.Unmet != "" {
		return nil
	}
	pods := registry.For[corev1.Pod](ctx).Sub("status").With(registry.WriteOptions{FieldManager: "eviction"})
	now, err := pods.Modify(ctx, p.Namespace, p.Name, func(now *corev1.Pod) error {
		if (o.UID != "" && string(o.UID) != string(now.UID)) || (o.ResourceVersion != 0 && o.ResourceVersion.String() != now.ResourceVersion) {
			return errUnmet
		}
		setPodCondition(&now.Status, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.now()),
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		})
		return nil
	})
	switch {
	case errors.Is(err, errUnmet):
		return nil // the deletion says which one
	case err != nil:
		return err
	case o.ResourceVersion != 0:
		o.ResourceVersion, err = storage.ParseRevision(now.ResourceVersion)
	}
	return err
}

// errUnmet is that of a pod which is not the one that a request names.
var errUnmet = errors.New("a precondition is not met")

// conditioned returns the delete options of an eviction. The version in its metadata is one that the
// pod must have when it is deleted.
func conditioned(e *policyv1.Eviction) *metav1.DeleteOptions {
	if e.ResourceVersion == "" || e.DeleteOptions != nil && e.DeleteOptions.Preconditions != nil && e.DeleteOptions.Preconditions.ResourceVersion != nil {
		return e.DeleteOptions
	}
	out := e.DeleteOptions.DeepCopy()
	if out == nil {
		out = &metav1.DeleteOptions{}
	}
	if out.Preconditions == nil {
		out.Preconditions = &metav1.Preconditions{}
	}
	out.Preconditions.ResourceVersion = &e.ResourceVersion
	return out
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

// spare takes one disruption from the pod's budget, or returns an error if none is left. It repeats
// when another eviction has changed the budget meanwhile.
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
		if !isReady(p) && sparesUnready(b) {
			return nil
		}
		if err := exhausted(b); err != nil {
			return err
		}
		b.Status.DisruptionsAllowed--
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[p.Name] = metav1.NewTime(c.now())
		return nil
	})
	return err
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(one corev1.PodCondition) bool {
		return one.Type == corev1.PodReady && one.Status == corev1.ConditionTrue
	})
}

// sparesUnready reports whether pods that are not ready may go without being counted.
func sparesUnready(b *policyv1.PodDisruptionBudget) bool {
	if policy := b.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// exhausted returns why a budget allows no disruption, or nil if it does.
func exhausted(b *policyv1.PodDisruptionBudget) error {
	const mostUnconfirmed = 2000 // pods that were evicted and that the budget's controller has not counted yet
	budgets := meta.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}
	switch s := b.Status; {
	case s.ObservedGeneration < b.Generation:
		return violated(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case s.DisruptionsAllowed < 0:
		return status.Forbidden(budgets, b.Name, "pdb disruptions allowed is negative")
	case len(s.DisruptedPods) > mostUnconfirmed:
		return status.Forbidden(budgets, b.Name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
	case s.DisruptionsAllowed == 0:
		return violated(0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy))
	}
	return nil
}

// violated is the error that clients wait on and repeat the eviction after.
func violated(retryAfter int, why string) error {
	return status.TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter).WithCauses(meta.StatusCause{
		Type: "DisruptionBudget", Message: why,
	})
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
