package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// countDeviceClaim counts a claim for devices: by their classes, and as the extended resources that pods could
// ask for instead.
func countDeviceClaim(ctx context.Context, r *admission.Request) (*spending, error) {
	out, err := countWhole(r, countDevices)
	if out == nil || err != nil {
		return out, err
	}
	extended := map[corev1.ResourceName]bool{}
	shares := []struct {
		share  *share
		object map[string]any
	}{{&out.now, r.Object}, {out.before, r.OldObject}}
	for _, s := range shares {
		if s.share == nil {
			continue
		}
		more, err := extendedAmounts(ctx, r, s.share.used)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			continue
		}
		paid, err := paidByPod(ctx, r, s.object)
		if err != nil {
			return nil, err
		}
		for name, amount := range more {
			extended[name] = true
			amount.Sub(paid[name])
			if amount.Sign() > 0 {
				s.share.used[name] = amount
			}
		}
	}
	byClass := out.concerns
	out.concerns = func(name corev1.ResourceName) bool { return extended[name] || byClass(name) }
	return out, nil
}

// extendedAmounts are the extended resources that devices of classes are: each class is one by its own name, and may
// have another.
func extendedAmounts(ctx context.Context, r *admission.Request, used corev1.ResourceList) (corev1.ResourceList, error) {
	if r.Server == nil {
		return nil, nil
	}
	out := corev1.ResourceList{}
	for name, amount := range used {
		class, isClass := strings.CutSuffix(string(name), corev1.ResourceClaimsPerClass)
		if !isClass || class == "" {
			continue
		}
		c, err := r.Server.Get(ctx, meta.GroupVersionResource{Group: resourcev1.GroupName, Version: "v1", Resource: "deviceclasses"}, "", class)
		if status.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if extended := word(at(c, "spec", "extendedResourceName")); extended != "" {
			out[corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass+class)] = amount
			out[corev1.ResourceName(requestsPrefix+extended)] = amount
		}
	}
	return out, nil
}

// paidByPod is what the pod of a claim that was made for its extended resources has paid for already. Such a claim has
// an annotation and belongs to its pod, which knows it, or for which it is the first.
func paidByPod(ctx context.Context, r *admission.Request, claim map[string]any) (corev1.ResourceList, error) {
	c, err := decode[resourcev1.ResourceClaim](claim)
	if err != nil || r.Server == nil || c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil, err
	}
	owner := metav1.GetControllerOfNoCopy(c)
	if owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return nil, nil
	}
	object, err := r.Server.Get(ctx, meta.GroupVersionResource{Version: "v1", Resource: "pods"}, r.Namespace, owner.Name)
	if status.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := decode[corev1.Pod](object)
	if err != nil || p.UID != owner.UID {
		return nil, err
	}
	if known := p.Status.ExtendedResourceClaimStatus; known != nil {
		if known.ResourceClaimName != c.Name {
			return nil, nil
		}
	} else if first, err := isFirstClaim(ctx, r, c, owner); !first || err != nil {
		return nil, err
	}
	return podShare(p).used, nil
}

// isFirstClaim reports whether no other claim for the extended resources of a pod is older, or as old and before it by
// name.
func isFirstClaim(ctx context.Context, r *admission.Request, c *resourcev1.ResourceClaim, owner *metav1.OwnerReference) (bool, error) {
	for object, err := range r.Server.List(ctx, meta.GroupVersionResource{Group: resourcev1.GroupName, Version: "v1", Resource: "resourceclaims"}, r.Namespace) {
		if err != nil {
			return false, err
		}
		if at(object, "metadata", "annotations", resourcev1.ExtendedResourceClaimAnnotation) != "true" ||
			!slices.Contains(words(at(object, "metadata", "ownerReferences"), "uid"), string(owner.UID)) {
			continue
		}
		other, err := decode[resourcev1.ResourceClaim](object)
		if err != nil {
			return false, err
		}
		if o := metav1.GetControllerOfNoCopy(other); o == nil || o.UID != owner.UID || other.Name == c.Name {
			continue
		}
		before := other.CreationTimestamp.Time.Compare(c.CreationTimestamp.Time)
		if before < 0 || before == 0 && other.Name < c.Name || c.CreationTimestamp.IsZero() {
			return false, nil
		}
	}
	return true, nil
}
