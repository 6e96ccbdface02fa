package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// checkQuota checks what a quota allows or, in a write of the status, what it says is used.
func checkQuota(ctx context.Context, q *corev1.ResourceQuota, f *status.Fields) {
	if registry.SubresourceFrom(ctx) == "status" {
		checkQuotaAmounts(q.Status.Hard, f.At("status", "hard"))
		checkQuotaAmounts(q.Status.Used, f.At("status", "used"))
		return
	}
	checkQuotaAmounts(q.Spec.Hard, f.At("spec", "hard"))
	checkQuotaScopes(&q.Spec, f.At("spec"))
}

func checkQuotaAmounts(amounts corev1.ResourceList, list status.Field) {
	for _, name := range amountNames(amounts) {
		at := list.Key(string(name))
		if isResource(at, name) && !strings.Contains(string(name), "/") && (name == "storage" || name == "limits.storage") {
			at.Invalid(string(name), "must be a standard resource for quota")
		}
		isCounted(at, name, amounts[name])
	}
}

// isCount reports whether a quota counts objects.
func isCount(name corev1.ResourceName) bool {
	return isNamedCount(name) || strings.HasPrefix(string(name), "count/")
}

// isNamedCount reports whether a quota counts objects under a name of their own.
func isNamedCount(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return false
}

// checkQuotaScopes checks which objects a quota is about: each scope must exist, fit to the amounts, and not contradict
// another one.
func checkQuotaScopes(q *corev1.ResourceQuotaSpec, spec status.Field) {
	if len(q.Scopes) > 0 {
		at, seen := spec.Child("scopes"), map[corev1.ResourceQuotaScope]bool{}
		for _, scope := range q.Scopes {
			if !seen[scope] { // a quota may name one a thousand times, and as many amounts
				checkQuotaScope(scope, at, at, q)
			}
			seen[scope] = true
		}
		checkScopePairs(q.Scopes, at)
	}
	if q.ScopeSelector == nil {
		return
	}
	at := spec.Child("scopeSelector").Child("matchExpressions")
	scopes, seen := make([]corev1.ResourceQuotaScope, 0, len(q.ScopeSelector.MatchExpressions)), map[corev1.ResourceQuotaScope]bool{}
	for i := range q.ScopeSelector.MatchExpressions {
		r := &q.ScopeSelector.MatchExpressions[i]
		if !seen[r.ScopeName] {
			checkQuotaScope(r.ScopeName, at.Child("scopeName"), at, q)
		}
		seen[r.ScopeName] = true
		checkScopeOperator(r, at)
		scopes = append(scopes, r.ScopeName)
	}
	checkScopePairs(scopes, at)
}

// checkQuotaScope reports a scope that does not exist, and the amounts that it does not fit to.
func checkQuotaScope(scope corev1.ResourceQuotaScope, at, amounts status.Field, q *corev1.ResourceQuotaSpec) {
	fits := quotaScopeAmounts(scope)
	if fits == nil {
		at.Invalid(string(scope), "unsupported scope")
		return
	}
	for _, name := range amountNames(q.Hard) {
		if quotaAmount(name) && !slices.Contains(fits, name) {
			amounts.Invalid(string(scope), "unsupported scope applied to resource")
		}
	}
}

// quotaScopeAmounts returns which amounts a scope fits to, nil if it is not a scope.
func quotaScopeAmounts(scope corev1.ResourceQuotaScope) []corev1.ResourceName {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return []corev1.ResourceName{corev1.ResourcePods}
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return []corev1.ResourceName{
			corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
			corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
		}
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}
	}
	return nil
}

// quotaAmount reports whether a quota knows an amount by itself, so that it can say whether a scope fits to it.
func quotaAmount(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return isNamedCount(name) || hugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// checkScopeOperator checks how a scope selects: those that are there or not take no values.
func checkScopeOperator(r *corev1.ScopedResourceSelectorRequirement, at status.Field) {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass:
	default:
		if quotaScopeAmounts(r.ScopeName) != nil && r.Operator != corev1.ScopeSelectorOpExists {
			at.Child("operator").Invalid(string(r.Operator), "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "+
				"ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
		}
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(r.Values) == 0 {
			at.Child("values").Required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			at.Child("values").Invalid(r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
		}
	default:
		at.Child("operator").Invalid(string(r.Operator), "not a valid selector operator")
	}
}

// checkScopePairs reports scopes that exclude each other, so that no object is in both.
func checkScopePairs(scopes []corev1.ResourceQuotaScope, at status.Field) {
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			at.Invalid(string(pair[0]), "conflicting scopes")
		}
	}
}

// checkQuotaUpdate reports a change of the scopes. Their order has no meaning.
func checkQuotaUpdate(q, old *corev1.ResourceQuota, f *status.Fields) {
	same(f.At("spec", "scopes"), slices.Equal(scopeSet(q), scopeSet(old)), q.Spec.Scopes)
}

// scopeSet returns the scopes of a quota in order, each once.
func scopeSet(q *corev1.ResourceQuota) []corev1.ResourceQuotaScope {
	out := slices.Sorted(slices.Values(q.Spec.Scopes))
	return slices.Compact(out)
}
