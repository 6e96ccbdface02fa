package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The names of what a node shares out follow the conventions of Kubernetes: those without a domain are its own, as
// are those of kubernetes.io, and nobody can promise more of other resources than there is.

// ownResource reports whether a resource is one of Kubernetes itself.
func ownResource(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// hugePages reports whether a resource is memory in large pages.
func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// overcommitted reports whether containers may request less of a resource than they may use.
func overcommitted(name corev1.ResourceName) bool { return ownResource(name) && !hugePages(name) }

// extendedResource reports whether a name is that of a resource of others. Quotas put a prefix before it.
func extendedResource(name corev1.ResourceName) bool {
	return !ownResource(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		meta.CheckQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name)) == ""
}

// standardResource reports whether a name without a domain is one that Kubernetes knows, for pods or for quotas.
func standardResource(name corev1.ResourceName) bool {
	_, of, ok := strings.Cut(string(name), ".")
	if !ok {
		of = string(name)
	}
	switch corev1.ResourceName(of) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return slices.Contains([]string{of, "requests." + of, "limits." + of}, string(name))
	case corev1.ResourceStorage:
		return slices.Contains([]string{of, "requests." + of}, string(name))
	}
	return hugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) ||
		isCount(name) && !strings.HasPrefix(string(name), "count/")
}

// isAmount reports a quantity that a resource cannot have.
func isAmount(at status.Field, name corev1.ResourceName, q resource.Quantity) {
	if q.Sign() < 0 {
		at.Invalid(q.String(), "must be greater than or equal to 0")
	}
	if (extendedResource(name) || isCount(name)) && q.MilliValue()%1000 != 0 {
		at.Invalid(q.String(), "must be an integer")
	}
	if hugePages(name) && !wholePages(name, q) {
		at.Invalid(q.String(), q.String()+" is not positive integer multiple of "+string(name))
	}
}

// wholePages reports whether an amount of memory is a number of large pages, whose size is in the name.
func wholePages(name corev1.ResourceName, q resource.Quantity) bool {
	page, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	return err == nil && page.Sign() > 0 && page.MilliValue()%1000 == 0 && q.Value()%page.Value() == 0
}

// isResource reports a name that no resource has.
func isResource(at status.Field, name corev1.ResourceName) bool {
	if why := meta.CheckQualifiedName(string(name)); why != "" {
		at.Invalid(string(name), why)
		return false
	}
	if !strings.Contains(string(name), "/") && !standardResource(name) {
		at.Invalid(string(name), "must be a standard resource type or fully qualified")
		return false
	}
	return true
}

// checkContainerAmount checks the name of a resource of a container.
func checkContainerAmount(at status.Field, name corev1.ResourceName) {
	isResource(at, name)
	if strings.Contains(string(name), "/") {
		if !ownResource(name) && !extendedResource(name) {
			at.Invalid(string(name), "doesn't follow extended resource name standard")
		}
		return
	}
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
	default:
		if !hugePages(name) {
			at.Invalid(string(name), "must be a standard resource for containers")
		}
	}
}

// checkPodAmount checks the name of a resource of a pod as a whole.
func checkPodAmount(at status.Field, name corev1.ResourceName) {
	if isResource(at, name) && !countsForPod(name) {
		at.NotSupported(string(name), string(corev1.ResourceCPU), corev1.ResourceHugePagesPrefix, string(corev1.ResourceMemory))
	}
}

// checkResources checks what a container or a pod requests, and its limits.
func checkResources(r *corev1.ResourceRequirements, at status.Field, claims map[string]bool,
	isName func(status.Field, corev1.ResourceName),
) {
	small, huge := false, false
	list := func(at status.Field, amounts corev1.ResourceList, also func(corev1.ResourceName, resource.Quantity)) {
		for _, name := range amountNames(amounts) {
			isName(at.Key(string(name)), name)
			isAmount(at.Key(string(name)), name, amounts[name])
			also(name, amounts[name])
			small = small || name == corev1.ResourceCPU || name == corev1.ResourceMemory
			huge = huge || hugePages(name)
		}
	}
	list(at.Child("limits"), r.Limits, func(corev1.ResourceName, resource.Quantity) {})
	list(at.Child("requests"), r.Requests, func(name corev1.ResourceName, request resource.Quantity) {
		limit, has := r.Limits[name]
		switch {
		case !has && !overcommitted(name):
			at.Child("limits").Required("Limit must be set for non overcommitable resources")
		case !has:
		case !overcommitted(name) && request.Cmp(limit) != 0:
			at.Child("requests").Invalid(request.String(), "must be equal to "+string(name)+" limit of "+limit.String())
		case less(limit, request):
			at.Child("requests").Invalid(request.String(), "must be less than or equal to "+string(name)+" limit of "+limit.String())
		}
	})
	if huge && !small {
		at.Forbidden("HugePages require cpu or memory")
	}
	checkClaims(r.Claims, at.Child("claims"), claims)
}

// checkClaims checks which devices of the pod a container sees: a request of a claim, or the whole claim.
func checkClaims(all []corev1.ResourceClaim, at status.Field, claims map[string]bool) {
	whole, part := map[string]bool{}, map[string]bool{}
	for i, claim := range all {
		one := at.Index(i)
		if claim.Name == "" {
			one.Required("")
			continue
		}
		request := claim.Name + "/" + claim.Request
		switch {
		case whole[claim.Name]:
			one.Duplicate(claim.Name)
		case claim.Request == "":
			if part[claim.Name] {
				one.Duplicate(claim.Name)
			}
			whole[claim.Name] = true
		default:
			if why := meta.CheckDNSLabel(claim.Request); why != "" {
				one.Child("request").Invalid(claim.Request, why)
			}
			if part[request] {
				one.Duplicate(request)
			}
			part[request], part[claim.Name] = true, true
		}
		if !claims[claim.Name] {
			one.NotFound(claim.Name)
		}
	}
}

// checkPodResources checks the resources of a pod as a whole against those of its containers.
func (r *podRules) checkPodResources(at status.Field) {
	own := r.spec.Resources
	switch {
	case own == nil:
		return
	case r.spec.OS != nil && r.spec.OS.Name == corev1.Windows:
		at.Forbidden("may not be set for a windows pod")
		return
	}
	if own.Claims != nil {
		at.Child("claims").Forbidden("a pod as a whole has no claims")
	}
	checkResources(own, at, r.claims, checkPodAmount)
	requests, limits := containersTotal(r.spec, false), containersTotal(r.spec, true)
	for _, name := range amountNames(requests) {
		if mine, has := own.Requests[name]; has && less(mine, requests[name]) {
			sum := requests[name]
			at.Child("requests").Key(string(name)).Invalid(mine.String(),
				"must be greater than or equal to aggregate container requests of "+sum.String())
		}
	}
	for _, name := range amountNames(limits) {
		if mine, has := own.Limits[name]; hugePages(name) && has && less(mine, limits[name]) {
			sum := limits[name]
			at.Child("limits").Key(string(name)).Invalid(mine.String(), "must be greater than or equal to aggregate container limits of "+sum.String())
		}
	}
	for i := range r.spec.Containers {
		theirs := r.spec.Containers[i].Resources.Limits
		for _, name := range amountNames(theirs) {
			if mine, has := own.Limits[name]; has && less(mine, theirs[name]) {
				limit := theirs[name]
				// kube-apiserver's path, which is none of the object
				at.Child("containers").Index(i).Key(string(name)).Child("limits").Invalid(limit.String(),
					"must be less than or equal to pod limits of "+mine.String())
			}
		}
	}
}

func less(a, b resource.Quantity) bool { return a.Cmp(b) < 0 }
