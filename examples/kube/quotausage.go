package kube

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
)

const (
	perStorageClass = ".storageclass.storage.k8s.io/" // between a class and what of it is limited
	requestsPrefix  = corev1.DefaultResourceRequestsPrefix
)

// spending is what a write has to do with quotas.
type spending struct {
	concerns func(corev1.ResourceName) bool // whether a quota of a resource is about this kind
	now      share
	before   *share // what the object used before, nil for a new object

	// missing says what the object must specify where some resources are limited, "" if it does.
	missing func(limited []corev1.ResourceName) string
}

// share is what one object uses.
type share struct {
	used corev1.ResourceList
	in   func(corev1.ScopedResourceSelectorRequirement) bool // whether it is in a scope
}

// inNoScope is for kinds that have no scopes.
func inNoScope(corev1.ScopedResourceSelectorRequirement) bool { return false }

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

func many(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// countOf is the name under which the objects of a resource are spending.
func countOf(gr meta.GroupResource) corev1.ResourceName {
	if gr.Group == "" {
		return corev1.ResourceName("count/" + gr.Resource)
	}
	return corev1.ResourceName("count/" + gr.Resource + "." + gr.Group)
}

// count returns what a write has to do with quotas, nil if it has nothing to do with them.
func count(ctx context.Context, r *admission.Request) (*spending, error) {
	gr := r.GroupResource()
	switch gr {
	case meta.GroupResource{Resource: "pods"}:
		return countPod(r)
	case meta.GroupResource{Resource: "services"}:
		return countWhole(r, countService)
	case meta.GroupResource{Resource: "persistentvolumeclaims"}:
		return countClaim(r)
	case meta.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}:
		return countDeviceClaim(ctx, r)
	}
	if r.Operation != admission.Create || r.Subresource != "" {
		return nil, nil
	}
	used := corev1.ResourceList{countOf(gr): one()}
	if gr.Group == "" && slices.Contains([]string{"configmaps", "resourcequotas", "replicationcontrollers", "secrets"}, gr.Resource) {
		used[corev1.ResourceName(gr.Resource)] = one() // the older name
	}
	return &spending{now: share{used, inNoScope}, concerns: func(name corev1.ResourceName) bool { _, has := used[name]; return has }}, nil
}

// countWhole counts objects that have no scopes, when they are created and when they are replaced.
func countWhole[T any](r *admission.Request, use func(*T) (corev1.ResourceList, func(corev1.ResourceName) bool)) (*spending, error) {
	if r.Subresource != "" {
		return nil, nil
	}
	now, err := decode[T](r.Object)
	if err != nil {
		return nil, err
	}
	used, concerns := use(now)
	out := &spending{concerns: concerns, now: share{used, inNoScope}}
	if r.Operation == admission.Update {
		before, err := decode[T](r.OldObject)
		if err != nil {
			return nil, err
		}
		used, _ := use(before)
		out.before = &share{used, inNoScope}
	}
	return out, nil
}

func countService(s *corev1.Service) (corev1.ResourceList, func(corev1.ResourceName) bool) {
	used := corev1.ResourceList{
		"count/services": one(), corev1.ResourceServices: one(),
		corev1.ResourceServicesNodePorts: many(0), corev1.ResourceServicesLoadBalancers: many(0),
	}
	ports := len(s.Spec.Ports)
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		used[corev1.ResourceServicesNodePorts] = many(ports)
	case corev1.ServiceTypeLoadBalancer:
		used[corev1.ResourceServicesLoadBalancers] = one()
		if a := s.Spec.AllocateLoadBalancerNodePorts; a != nil && !*a {
			ports = 0
			for _, p := range s.Spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
		used[corev1.ResourceServicesNodePorts] = many(ports)
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName:
	}
	return used, func(name corev1.ResourceName) bool { _, has := used[name]; return has }
}

// countDevices counts the devices that a claim asks for, by their classes: all that could be allocated to
// it in the worst case.
func countDevices(c *resourcev1.ResourceClaim) (corev1.ResourceList, func(corev1.ResourceName) bool) {
	const claims corev1.ResourceName = "count/resourceclaims.resource.k8s.io"
	used := corev1.ResourceList{claims: one()}
	devices := func(class string, mode resourcev1.DeviceAllocationMode, n int64) corev1.ResourceList {
		if mode == resourcev1.DeviceAllocationModeAll {
			n = resourcev1.AllocationResultsMaxSize
		}
		return corev1.ResourceList{corev1.ResourceName(class + corev1.ResourceClaimsPerClass): many(int(n))}
	}
	for _, request := range c.Spec.Devices.Requests {
		if e := request.Exactly; e != nil {
			addAmounts(used, devices(e.DeviceClassName, e.AllocationMode, e.Count))
		}
		most := corev1.ResourceList{}
		for _, f := range request.FirstAvailable {
			raiseAmounts(most, devices(f.DeviceClassName, f.AllocationMode, f.Count))
		}
		addAmounts(used, most)
	}
	return used, func(name corev1.ResourceName) bool {
		return name == claims || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
	}
}

// countPod counts new pods, resized ones, and those that get or lose a deadline, which changes their scope.
func countPod(r *admission.Request) (*spending, error) {
	switch {
	case r.Subresource == "" && r.Operation == admission.Update && ends(r.Object) == ends(r.OldObject):
		return nil, nil
	case r.Subresource != "" && r.Subresource != "resize":
		return nil, nil
	}
	now, err := decode[corev1.Pod](r.Object)
	if err != nil {
		return nil, err
	}
	out := &spending{concerns: concernsPods, now: podShare(now), missing: func(limited []corev1.ResourceName) string { return podMissing(now, limited) }}
	if r.Operation == admission.Update {
		before, err := decode[corev1.Pod](r.OldObject)
		if err != nil {
			return nil, err
		}
		s := podShare(before)
		out.before = &s
	}
	return out, nil
}

// ends reports whether a pod has a deadline.
func ends(pod map[string]any) bool { return at(pod, "spec", "activeDeadlineSeconds") != nil }

// concernsPods reports whether a quota of a resource is about pods.
func concernsPods(name corev1.ResourceName) bool {
	switch name {
	case "count/pods", corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	of, requests := strings.CutPrefix(string(name), requestsPrefix)
	return strings.HasPrefix(of, corev1.ResourceHugePagesPrefix) || requests && isExtended(of)
}

// isExtended reports whether a resource is neither of Kubernetes itself nor of a device class.
func isExtended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(name, resourcev1.ResourceDeviceClassPrefix)
}

func podShare(p *corev1.Pod) share {
	used := corev1.ResourceList{"count/pods": one()}
	if runsStill(p) {
		requests, limits := podTotal(p, false, true), podTotal(p, true, true)
		addAmounts(requests, p.Spec.Overhead)
		for name, more := range p.Spec.Overhead {
			if limit := limits[name]; !limit.IsZero() {
				addAmounts(limits, corev1.ResourceList{name: more})
			}
		}
		used[corev1.ResourcePods] = one()
		copyAmounts(used, amountsForQuota(requests, limits))
	}
	return share{used, func(of corev1.ScopedResourceSelectorRequirement) bool { return podInScope(p, of) }}
}

// runsStill reports whether a pod has not ended. One that has ended uses nothing but its own object.
func runsStill(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return false
	}
	d, grace := p.DeletionTimestamp, p.DeletionGracePeriodSeconds
	return d == nil || grace == nil || !time.Now().After(d.Add(time.Duration(*grace)*time.Second))
}

// amountsForQuota gives amounts the names that they have in quotas.
func amountsForQuota(requests, limits corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, amount := range requests {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			out[name] = amount
			fallthrough
		case isExtended(string(name)):
			out[requestsPrefix+name] = amount
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if amount, has := limits[name]; has {
			out["limits."+name] = amount
		}
	}
	return out
}

// podMissing says which containers lack a request or a limit that a quota asks for.
func podMissing(p *corev1.Pod, limited []corev1.ResourceName) string {
	if r := p.Spec.Resources; r != nil {
		for _, all := range []corev1.ResourceList{r.Requests, r.Limits} {
			for name := range all {
				if countsForPod(name) {
					return ""
				}
			}
		}
	}
	var out []string
	for _, name := range limited {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
			corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
		default:
			continue
		}
		var lacking []string
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			if _, has := amountsForQuota(c.Resources.Requests, c.Resources.Limits)[name]; !has {
				lacking = append(lacking, c.Name)
			}
		}
		if len(lacking) > 0 {
			slices.Sort(lacking)
			out = append(out, string(name)+" for: "+strings.Join(slices.Compact(lacking), ","))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "must specify " + strings.Join(out, "; ")
}

func podInScope(p *corev1.Pod, of corev1.ScopedResourceSelectorRequirement) bool {
	best := cmp.Or(p.Status.QOSClass, qualityOf(p)) == corev1.PodQOSBestEffort
	terminates := p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0
	switch of.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminates
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminates
	case corev1.ResourceQuotaScopeBestEffort:
		return best
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !best
	case corev1.ResourceQuotaScopePriorityClass:
		if p.Spec.PriorityClassName == "" {
			return selects(of, nil)
		}
		return selects(of, []string{p.Spec.PriorityClassName})
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return looksElsewhere(p.Spec.Affinity)
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
	}
	return false
}

// selects reports whether a requirement selects an object by the classes that it names.
func selects(of corev1.ScopedResourceSelectorRequirement, classes []string) bool {
	in := func(class string) bool { return slices.Contains(of.Values, class) }
	switch of.Operator {
	case corev1.ScopeSelectorOpExists:
		return len(classes) > 0
	case corev1.ScopeSelectorOpDoesNotExist:
		return len(classes) == 0
	case corev1.ScopeSelectorOpIn:
		return slices.ContainsFunc(classes, in)
	case corev1.ScopeSelectorOpNotIn:
		return len(classes) == 0 || slices.ContainsFunc(classes, func(c string) bool { return !in(c) })
	}
	return false
}

// looksElsewhere reports whether a pod is placed by pods of other namespaces.
func looksElsewhere(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, w := range preferred {
			terms = append(terms, w.PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

// countClaim counts claims for volumes, and what they have been given meanwhile.
func countClaim(r *admission.Request) (*spending, error) {
	if r.Subresource != "" && r.Subresource != "status" {
		return nil, nil
	}
	now, err := decode[corev1.PersistentVolumeClaim](r.Object)
	if err != nil {
		return nil, err
	}
	out := &spending{concerns: concernsClaims, now: claimShare(now)}
	if r.Operation == admission.Update {
		before, err := decode[corev1.PersistentVolumeClaim](r.OldObject)
		if err != nil {
			return nil, err
		}
		s := claimShare(before)
		out.before = &s
	}
	return out, nil
}

func concernsClaims(name corev1.ResourceName) bool {
	if _, of, has := strings.Cut(string(name), perStorageClass); has {
		name = corev1.ResourceName(of)
	} else if name == "count/persistentvolumeclaims" {
		return true
	}
	return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
}

func claimShare(c *corev1.PersistentVolumeClaim) share {
	used := corev1.ResourceList{"count/persistentvolumeclaims": one(), corev1.ResourcePersistentVolumeClaims: one()}
	size, asked := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if given, has := c.Status.AllocatedResources[corev1.ResourceStorage]; asked && has && given.Cmp(size) > 0 {
		size = given
	}
	if asked {
		size = size.DeepCopy()
		size.RoundUp(0) // a quota counts whole bytes
		used[corev1.ResourceRequestsStorage] = size
	}
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	if old, has := c.Annotations[corev1.BetaStorageClassAnnotation]; has {
		class = old
	}
	if class != "" {
		for _, name := range []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage} {
			if amount, has := used[name]; has {
				used[corev1.ResourceName(class+perStorageClass)+name] = amount
			}
		}
	}
	return share{used, func(of corev1.ScopedResourceSelectorRequirement) bool {
		return of.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass && selects(of, attributesClasses(c))
	}}
}

// attributesClasses are the classes of attributes that a claim has, wants or is on the way to.
func attributesClasses(c *corev1.PersistentVolumeClaim) (all []string) {
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			all = append(all, *name)
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		all = append(all, m.TargetVolumeAttributesClassName)
	}
	return all
}
