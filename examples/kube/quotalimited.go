package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/admission"
)

// LimitedResource is something that a namespace may use only under a quota that is about it. Without
// one, [ResourceQuotaPlugin] rejects the write.
type LimitedResource struct {
	Group    string `json:"apiGroup,omitempty"`
	Resource string `json:"resource"`

	// MatchContains are parts of names of amounts, such as "requests.cpu" or
	// "gold.storageclass.storage.k8s.io/". Each amount whose name has one of them needs a quota.
	MatchContains []string `json:"matchContains,omitempty"`

	// MatchScopes are scopes in which an object needs a quota of that scope.
	MatchScopes []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`
}

// limitsOf returns what is limited of the resource of a write.
func (q *quotas) limitsOf(r *admission.Request) (out []LimitedResource) {
	for _, l := range q.limited {
		if gr := r.GroupResource(); l.Group == gr.Group && l.Resource == gr.Resource {
			out = append(out, l)
		}
	}
	return out
}

// uncovered returns why a write is rejected that uses more of what is limited than quotas are about.
func uncovered(r *admission.Request, s *spending, limits []LimitedResource, all []indexed[corev1.ResourceQuota]) error {
	if len(limits) == 0 || !s.spendsMore() {
		return nil
	}
	var names []string
	for _, name := range amountNames(s.now.used) {
		if amount := s.now.used[name]; amount.Sign() > 0 && isLimited(string(name), limits) && !slices.ContainsFunc(all, func(q indexed[corev1.ResourceQuota]) bool { return bounds(q.object, s, name) }) {
			names = append(names, string(name))
		}
	}
	if len(names) > 0 {
		return refused(r, "insufficient quota to consume: "+strings.Join(names, ","))
	}
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, l := range limits {
		for _, scope := range l.MatchScopes {
			if s.now.in(scope) && !slices.ContainsFunc(all, func(q indexed[corev1.ResourceQuota]) bool { return scopesOver(q.object, s, scope.ScopeName) }) {
				scopes = append(scopes, scope)
			}
		}
	}
	if len(scopes) > 0 {
		return failed(fmt.Sprintf("insufficient quota to match these scopes: %v", scopes)) // as in Kubernetes, not a 403
	}
	return nil
}

// spendsMore reports whether the object uses more of anything than before.
func (s *spending) spendsMore() bool {
	for name, amount := range s.now.used {
		amount = amount.DeepCopy()
		if s.before != nil {
			amount.Sub(s.before.used[name])
		}
		if amount.Sign() > 0 {
			return true
		}
	}
	return false
}

func isLimited(name string, limits []LimitedResource) bool {
	return slices.ContainsFunc(limits, func(l LimitedResource) bool {
		return slices.ContainsFunc(l.MatchContains, func(part string) bool { return strings.Contains(name, part) })
	})
}

// bounds reports whether a quota bounds an amount of an object.
func bounds(q *corev1.ResourceQuota, s *spending, name corev1.ResourceName) bool {
	_, has := q.Status.Hard[name]
	return has && inScopes(q, s.now)
}

// scopesOver reports whether a quota names a scope in which the object is.
func scopesOver(q *corev1.ResourceQuota, s *spending, scope corev1.ResourceQuotaScope) bool {
	return slices.ContainsFunc(scopesOf(q), func(of corev1.ScopedResourceSelectorRequirement) bool {
		return of.ScopeName == scope && s.now.in(of)
	})
}

// scopesOf returns the scopes of a quota, of both of its fields.
func scopesOf(q *corev1.ResourceQuota) (out []corev1.ScopedResourceSelectorRequirement) {
	for _, scope := range q.Spec.Scopes {
		out = append(out, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		out = append(out, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return out
}
