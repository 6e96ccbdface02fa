package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// checkAnnotationUpdate reports changes of annotations that decide how a pod runs. They are those of a new pod.
func checkAnnotationUpdate(p, old *corev1.Pod, f *status.Fields) {
	at := f.At("metadata", "annotations")
	both := maps.Clone(old.Annotations)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, p.Annotations)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		now, has := p.Annotations[key]
		before, had := old.Annotations[key]
		if has == had && now == before {
			continue
		}
		if strings.HasPrefix(key, appArmorPrefix) || key == corev1.MirrorPodAnnotationKey {
			at.Key(key).Forbidden("may not be added, removed or updated")
		}
	}
}

// checkPodStatus reports errors in the status of a pod.
func (c *cluster) checkPodStatus(p, old *corev1.Pod, f *status.Fields) {
	s, at := &p.Status, f.At("status")
	for i, condition := range s.Conditions {
		one := at.Child("conditions").Index(i)
		notNegative(one.Child("observedGeneration"), &condition.ObservedGeneration)
		if why := meta.CheckQualifiedName(string(condition.Type)); why != "" {
			one.Child("Type").Invalid(string(condition.Type), why) // as kube-apiserver spells it
		}
	}
	if name := s.NominatedNodeName; name != "" && name != old.Status.NominatedNodeName {
		if why := meta.CheckDNSSubdomain(name); why != "" {
			at.Child("nominatedNodeName").Invalid(name, why)
		}
		if old.Spec.NodeName != "" {
			at.Child("nominatedNodeName").Forbidden("may not be set on pods that are already bound to a node")
		}
	}
	notNegative(at.Child("observedGeneration"), &s.ObservedGeneration)
	same(at.Child("qosClass"), s.QOSClass == old.Status.QOSClass, string(s.QOSClass))
	checkStates(s.ContainerStatuses, old.Status.ContainerStatuses, &old.Spec, at.Child("containerStatuses"))
	checkStates(s.InitContainerStatuses, old.Status.InitContainerStatuses, &old.Spec, at.Child("initContainerStatuses"))
	checkEnded(s.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, at.Child("ephemeralContainerStatuses"),
		func(*corev1.ContainerStatus) bool { return false })
	checkClaimStatuses(s.ResourceClaimStatuses, p.Spec.ResourceClaims, at.Child("resourceClaimStatuses"))
	checkDeviceStatus(s.ExtendedResourceClaimStatus, &p.Spec, at.Child("extendedResourceClaimStatus"))
	c.checkPodAddresses(s, &old.Status, at)
	checkUsers(s.ContainerStatuses, p.Spec.OS, at.Child("containerStatuses"))
	checkUsers(s.InitContainerStatuses, p.Spec.OS, at.Child("initContainerStatuses"))
	checkUsers(s.EphemeralContainerStatuses, p.Spec.OS, at.Child("ephemeralContainerStatuses"))
	checkAllocated(s.ContainerStatuses, p.Spec.Containers, at.Child("containerStatuses"))
	checkAllocated(s.InitContainerStatuses, p.Spec.InitContainers, at.Child("initContainerStatuses"))
	for i, one := range s.EphemeralContainerStatuses {
		if len(one.AllocatedResourcesStatus) > 0 {
			at.Child("ephemeralContainerStatuses").Index(i).Child("allocatedResourcesStatus").Forbidden("must not be specified in container status")
		}
	}
}

// checkPodAddresses checks the addresses of a pod and its node. Invalid ones that are stored may stay.
func (c *cluster) checkPodAddresses(s, old *corev1.PodStatus, at status.Field) {
	known := map[string]bool{}
	for _, ip := range old.PodIPs {
		known[ip.IP] = true
	}
	var ips []string
	for i, ip := range s.PodIPs {
		if !known[ip.IP] {
			c.isIP(at.Child("podIPs").Index(i), ip.IP)
		}
		ips = append(ips, ip.IP)
	}
	isPerFamily(ips, at.Child("podIPs"))
	known, ips = map[string]bool{}, nil
	for _, ip := range old.HostIPs {
		known[ip.IP] = true
	}
	for i, ip := range s.HostIPs {
		one := at.Child("hostIPs").Index(i)
		if i == 0 && ip.IP != s.HostIP {
			one.Child("ip").Invalid(ip.IP, "must be equal to `hostIP`")
		}
		if !known[ip.IP] {
			c.isIP(one, ip.IP)
		}
		ips = append(ips, ip.IP)
	}
	isPerFamily(ips, at.Child("hostIPs"))
}

// isPerFamily reports several addresses that are not one of each family.
func isPerFamily(ips []string, at status.Field) {
	if len(ips) < 2 {
		return
	}
	families := map[bool]bool{}
	for i, ip := range ips {
		a, ok := parseIP(ip)
		if !ok {
			families = nil
			at.Internal(fmt.Sprintf("failed to check for dual stack with error:invalid IP[%d]: %s", i, ip))
			break
		}
		families[a.Is4()] = true
	}
	if len(families) != 2 || len(ips) > 2 {
		at.Invalid(ips, "may specify no more than one IP for each IP family")
	}
}

// checkStates reports containers that run again although they ended for good.
func checkStates(now, before []corev1.ContainerStatus, s *corev1.PodSpec, at status.Field) {
	for _, all := range containersOf(s) {
		for i := range all {
			for _, rule := range all[i].RestartPolicyRules {
				if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return // any container may start again
				}
			}
		}
	}
	containers := firstOf(slices.Concat(s.Containers, s.InitContainers), func(c *corev1.Container) string { return c.Name })
	checkEnded(now, before, at, func(old *corev1.ContainerStatus) bool {
		c := containers[old.Name]
		return c != nil && restarts(c, s, old.State.Terminated.ExitCode)
	})
}

// firstOf returns the first item of each name.
func firstOf[T any](all []T, name func(*T) string) map[string]*T {
	out := make(map[string]*T, len(all))
	for i := range all {
		if n := name(&all[i]); out[n] == nil {
			out[n] = &all[i]
		}
	}
	return out
}

// checkEnded reports containers that had ended, have not now, and may not run again.
func checkEnded(now, before []corev1.ContainerStatus, at status.Field, again func(*corev1.ContainerStatus) bool) {
	states := firstOf(now, func(s *corev1.ContainerStatus) string { return s.Name })
	for i := range before {
		old := &before[i]
		if old.State.Terminated == nil {
			continue
		}
		if s := states[old.Name]; s != nil && s.State.Terminated == nil && !again(old) {
			at.Index(i).Child("state").Forbidden("may not be transitioned to non-terminated state")
		}
	}
}

// restarts reports whether a container that ended with a code runs again: by its rules, by its policy, or by that
// of its pod.
func restarts(c *corev1.Container, s *corev1.PodSpec, code int32) bool {
	for _, rule := range c.RestartPolicyRules {
		if rule.ExitCodes == nil {
			continue
		}
		in := slices.Contains(rule.ExitCodes.Values, code)
		if in == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return true
		}
	}
	policy := string(s.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = string(*c.RestartPolicy)
	}
	return policy == string(corev1.RestartPolicyAlways) || policy == string(corev1.RestartPolicyOnFailure) && code != 0
}

func checkClaimStatuses(all []corev1.PodResourceClaimStatus, claims []corev1.PodResourceClaim, at status.Field) {
	names, known := map[string]bool{}, firstOf(claims, func(c *corev1.PodResourceClaim) string { return c.Name })
	for i, s := range all {
		one := at.Index(i)
		if known[s.Name] == nil {
			one.Child("name").Invalid(s.Name, "must match the name of an entry in `spec.resourceClaims`")
		}
		if names[s.Name] {
			one.Child("name").Duplicate(s.Name)
		}
		names[s.Name] = true
		if name := s.ResourceClaimName; name != nil {
			if why := meta.CheckDNSSubdomain(*name); why != "" {
				one.Child("resourceClaimName").Invalid(*name, why)
			}
		}
	}
}

// checkDeviceStatus checks which claim stands for the extended resources of a pod.
func checkDeviceStatus(s *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec, at status.Field) {
	if s == nil {
		return
	}
	if len(s.RequestMappings) == 0 {
		at.Child("requestMappings").Required("at least one request mapping is required")
	}
	requests := map[string]corev1.ResourceList{}
	for _, all := range containersOf(spec) {
		for i := range all {
			requests[all[i].Name] = all[i].Resources.Requests
			if requests[all[i].Name] == nil {
				requests[all[i].Name] = corev1.ResourceList{}
			}
		}
	}
	seen := map[corev1.ContainerExtendedResourceRequest]bool{}
	for i, m := range s.RequestMappings {
		one := at.Child("requestMappings").Index(i)
		of := requests[m.ContainerName]
		if _, has := of[corev1.ResourceName(m.ResourceName)]; of == nil {
			one.Child("containerName").Invalid(m.ContainerName, "must be the name of a container")
		} else if !has {
			one.Child("resourceName").Invalid(m.ResourceName, "must be a resource that the container requests")
		}
		if why := meta.CheckDNSLabel(m.RequestName); why != "" {
			at.Child("requestName").Invalid(m.RequestName, why) // as kube-apiserver names it
		}
		if seen[m] {
			one.Child("containerName").Duplicate(m.ContainerName)
			one.Child("resourceName").Duplicate(m.ResourceName)
			one.Child("requestName").Duplicate(m.RequestName)
		}
		seen[m] = true
	}
	isSubdomain(at.Child("resourceClaimName"), s.ResourceClaimName)
}

// checkUsers checks as whom containers run.
func checkUsers(all []corev1.ContainerStatus, os *corev1.PodOS, at status.Field) {
	for i := range all {
		u := all[i].User
		if u == nil || u.Linux == nil {
			continue
		}
		one := at.Index(i).Child("user").Child("linux")
		if os != nil && os.Name == corev1.Windows {
			one.Forbidden("cannot be set for a windows pod")
			continue
		}
		isID(one.Child("uid"), &u.Linux.UID)
		isID(one.Child("gid"), &u.Linux.GID)
		for g := range u.Linux.SupplementalGroups {
			isID(one.Child("supplementalGroups").Index(g), &u.Linux.SupplementalGroups[g])
		}
	}
}

// checkAllocated checks the health of what containers have been given. Containers that are unknown are let go.
func checkAllocated(all []corev1.ContainerStatus, containers []corev1.Container, at status.Field) {
	known, requested := firstOf(containers, func(c *corev1.Container) string { return c.Name }), map[string]map[corev1.ResourceName]bool{}
	for name, c := range known {
		requested[name] = requestedBy(c)
	}
	for i := range all {
		for j, allocated := range all[i].AllocatedResourcesStatus {
			one := at.Index(i).Child("allocatedResourcesStatus").Index(j)
			if known[all[i].Name] != nil && !requested[all[i].Name][allocated.Name] {
				one.Child("name").Invalid(string(allocated.Name), "must be a resource or a claim of the container")
			}
			ids := map[corev1.ResourceID]bool{}
			for k, r := range allocated.Resources {
				each := one.Child("resources").Index(k)
				oneOf(each.Child("health"), r.Health, corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy,
					corev1.ResourceHealthStatusUnknown)
				if r.Message != nil && *r.Message == "" {
					each.Child("message").Required("must be non-empty if specified")
				} else if r.Message != nil && len(*r.Message) > corev1.ResourceHealthMessageMaxLength {
					each.Child("message").TooLong(corev1.ResourceHealthMessageMaxLength)
				}
				if ids[r.ResourceID] {
					each.Child("resourceID").Duplicate(string(r.ResourceID))
				}
				ids[r.ResourceID] = true
			}
		}
	}
}

// requestedBy returns the resources that a container requests, and its claims with "claim:" before them.
func requestedBy(c *corev1.Container) map[corev1.ResourceName]bool {
	out := map[corev1.ResourceName]bool{}
	for name := range c.Resources.Requests {
		if !strings.HasPrefix(string(name), claimPrefix) {
			out[name] = true
		}
	}
	for _, r := range c.Resources.Claims {
		name := claimPrefix + r.Name
		if r.Request != "" {
			name += "/" + r.Request
		}
		out[corev1.ResourceName(name)] = true
	}
	return out
}

// claimPrefix begins the name of a claim among those of resources.
const claimPrefix = "claim:"
