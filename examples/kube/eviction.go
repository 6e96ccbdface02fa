package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
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
			return nil, c.evict(ctx, call.Object, options)
		},
	}
}

// evictionTries is how often an eviction looks at a pod that changes.
const evictionTries = 20

// evict deletes a pod if its budget allows that. A pod that may go because it does not run must not have changed
// meanwhile: it would be another one for its budget.
func (c *cluster) evict(ctx context.Context, p *corev1.Pod, o registry.DeleteOptions) error {
	budgets := ctx // plugins judge the change of a budget, as in kube-apiserver
	ctx = hookcontext.WithAdmitted(ctx)
	for tried := 1; ; tried++ {
		name, seen := "", p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil
		if !goesAnyway(p) {
			var err error
			if name, seen, err = c.spare(budgets, p, o.DryRun); err != nil {
				return err
			}
		}
		err := c.remove(ctx, p, o, seen)
		switch {
		case !seen || o.ResourceVersion != 0 || !status.IsConflict(err):
			return err
		case name != "":
			return unsettled(name)
		case tried == evictionTries:
			return err
		}
		now, gone := registry.For[corev1.Pod](ctx).Get(ctx, p.Namespace, p.Name)
		if gone != nil || now.UID != p.UID {
			return cmp.Or(gone, err)
		}
		p = now
	}
}

// remove deletes a pod. If it has been seen, its state must be that of p.
func (c *cluster) remove(ctx context.Context, p *corev1.Pod, o registry.DeleteOptions, seen bool) (err error) {
	if seen && o.ResourceVersion == 0 {
		if o.ResourceVersion, err = storage.ParseRevision(p.ResourceVersion); err != nil {
			return err
		}
	}
	if err := c.disrupt(ctx, p, &o); err != nil {
		return err
	}
	return registry.For[corev1.Pod](ctx).Delete(ctx, p.Namespace, p.Name, o)
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
	if problems := badDeletion(o); len(problems) > 0 {
		return out, status.Invalid(meta.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", problems)
	}
	out.GracePeriod, out.DryRun, out.OrphanDependents = o.GracePeriodSeconds, len(o.DryRun) > 0, orphans(o)
	switch {
	case o.PropagationPolicy != nil:
		out.Propagation = meta.DeletionPropagation(*o.PropagationPolicy)
	case orphans(o) != nil && *orphans(o):
		out.Propagation = meta.DeletePropagationOrphan
	case orphans(o) != nil:
		out.Propagation = meta.DeletePropagationBackground
	}
	if p := o.Preconditions; p != nil {
		return out, out.Require(&meta.Preconditions{UID: (*meta.UID)(p.UID), ResourceVersion: p.ResourceVersion})
	}
	return out, nil
}

// orphans is the field that propagationPolicy has replaced. Old clients send it.
func orphans(o *metav1.DeleteOptions) *bool {
	return o.OrphanDependents //nolint:staticcheck // see above
}

// badDeletion returns what is wrong with the delete options of an eviction. The server has checked dryRun.
func badDeletion(o *metav1.DeleteOptions) []status.FieldError {
	f := &status.Fields{}
	if policy := o.PropagationPolicy; policy != nil {
		at := f.At("propagationPolicy")
		if orphans(o) != nil {
			at.Invalid(*policy, "orphanDependents and deletionPropagation cannot be both set")
		}
		oneOf(at, *policy, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan)
	}
	return f.Errors()
}

// goesAnyway reports whether no budget counts the pod.
func goesAnyway(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodPending
}

// spare takes one disruption from the pod's budget, or returns an error if none is left. It repeats
// when another eviction has changed the budget meanwhile. It returns the name of the budget, and whether it
// does not count the pod because that is not ready.
func (c *cluster) spare(ctx context.Context, p *corev1.Pod, dry bool) (name string, uncounted bool, err error) {
	budget, err := budgetOf(ctx, p)
	if err != nil || budget == nil {
		return "", false, err
	}
	budgets := registry.For[policyv1.PodDisruptionBudget](ctx).Sub("status").With(registry.WriteOptions{
		DryRun:       dry,
		FieldManager: "eviction",
	})
	_, err = budgets.Modify(ctx, budget.Namespace, budget.Name, func(b *policyv1.PodDisruptionBudget) error {
		if uncounted = !isReady(p) && sparesUnready(b); uncounted {
			return nil
		}
		if err := exhausted(b); err != nil {
			return err
		}
		if b.Status.DisruptionsAllowed--; b.Status.DisruptionsAllowed == 0 {
			apimeta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
				Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
				ObservedGeneration: b.Status.ObservedGeneration, LastTransitionTime: metav1.NewTime(c.now()),
			})
		}
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[p.Name] = metav1.NewTime(c.now())
		return nil
	})
	return budget.Name, uncounted, err
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
	const mostUnconfirmed = 2000                                                    // pods that were evicted and that the budget's controller has not counted yet
	budgets := meta.GroupResource{Group: "policy", Resource: "poddisruptionbudget"} // the singular, as Kubernetes has it
	switch s := b.Status; {
	case s.ObservedGeneration < b.Generation:
		return unsettled(b.Name)
	case s.DisruptionsAllowed < 0:
		return status.Forbidden(budgets, b.Name, "pdb disruptions allowed is negative")
	case len(s.DisruptedPods) > mostUnconfirmed:
		return status.Forbidden(budgets, b.Name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
	case s.DisruptionsAllowed == 0:
		return violated(0, fmt.Sprintf("The disruption budget %s %s", b.Name, whyExhausted(&s)))
	}
	return nil
}

// unsettled is the error of a budget that is not known well enough for an eviction.
func unsettled(name string) error {
	return violated(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", name))
}

// whyExhausted says why a budget has no disruption left. Its numbers mean nothing if they could not be counted.
func whyExhausted(s *policyv1.PodDisruptionBudgetStatus) string {
	const no = "does not allow evicting pods currently"
	said := apimeta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	refused := said != nil && said.Status == metav1.ConditionFalse && said.Message != ""
	switch {
	case refused && said.Reason == policyv1.SyncFailedReason:
		return no + " because it failed sync: " + said.Message
	case s.CurrentHealthy <= s.DesiredHealthy:
		return fmt.Sprintf("needs %d healthy pods and has %d currently", s.DesiredHealthy, s.CurrentHealthy)
	case refused:
		return fmt.Sprintf("%s (%s): %s", no, said.Reason, said.Message)
	}
	return no
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
		case err != nil || !selector.Matches(labels.Set(p.Labels)): // an invalid selector matches nothing
		case found != nil:
			return nil, status.Internal(errors.New("more than one budget")).WithMessage("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		default:
			found = b
		}
	}
	return found, nil
}
