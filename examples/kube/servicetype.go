package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The functions below say which fields the type of a service needs. They follow Kubernetes: an
// update that changes only the type drops what the new type cannot have.

// needsAddress reports whether a service has an address inside the cluster.
func needsAddress(s *corev1.ServiceSpec) bool { return s.Type != corev1.ServiceTypeExternalName }

// needsPorts reports whether a service gets node ports. One that has them keeps them, until a client
// removes them.
func needsPorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort ||
		s.Type == corev1.ServiceTypeLoadBalancer && (s.AllocateLoadBalancerNodePorts == nil || *s.AllocateLoadBalancerNodePorts)
}

// reachedOnNodes reports whether a service may have node ports.
func reachedOnNodes(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer
}

// needsHealthPort reports whether load balancers ask nodes for the health of a service.
func needsHealthPort(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// reachedFromOutside reports whether clients outside the cluster can reach a service.
func reachedFromOutside(s *corev1.ServiceSpec) bool {
	return reachedOnNodes(s) || s.Type == corev1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0
}

// inherit keeps the assigned values of a service that an update leaves out.
func inherit(s, old *corev1.ServiceSpec) {
	if needsAddress(s) && needsAddress(old) {
		set(&s.ClusterIP, old.ClusterIP)
		if len(s.ClusterIPs) == 0 {
			s.ClusterIPs = old.ClusterIPs
		}
	}
	inheritAddresses(s, old)
	if needsPorts(s) && needsPorts(old) {
		inheritPorts(s, old)
	}
	if needsHealthPort(s) && needsHealthPort(old) {
		set(&s.HealthCheckNodePort, old.HealthCheckNodePort)
	}
}

// inheritAddresses keeps the list of addresses in step with the single one, which a client may change
// that does not know the list.
func inheritAddresses(s, old *corev1.ServiceSpec) {
	same := slices.Equal(s.ClusterIPs, old.ClusterIPs)
	switch {
	case s.ClusterIP == old.ClusterIP && len(s.ClusterIPs) == 0:
		s.ClusterIPs = old.ClusterIPs
	case s.ClusterIP == "" && old.ClusterIP != "" && same:
		s.ClusterIPs = nil
	case s.ClusterIP != "" && s.ClusterIP != old.ClusterIP && same:
		s.ClusterIPs = []string{s.ClusterIP}
	}
}

// inheritPorts gives ports without a node port the one that the port of the same name had, unless
// another port has it now.
func inheritPorts(s, old *corev1.ServiceSpec) {
	used := map[int32]bool{}
	for _, p := range s.Ports {
		used[p.NodePort] = true
	}
	before := map[string]int32{}
	for _, p := range old.Ports {
		before[p.Name] = p.NodePort
	}
	for i := range s.Ports {
		if p := &s.Ports[i]; p.NodePort == 0 && !used[before[p.Name]] {
			p.NodePort = before[p.Name]
		}
	}
}

// dropForType drops the fields that the new type of a service does not need, unless the client
// changes them as well. Validation rejects those.
func dropForType(s, old *corev1.ServiceSpec) {
	if needsAddress(old) && !needsAddress(s) {
		if s.ClusterIP == old.ClusterIP && slices.Equal(s.ClusterIPs, old.ClusterIPs) {
			s.ClusterIP, s.ClusterIPs = "", nil
		}
		if slices.Equal(s.IPFamilies, old.IPFamilies) {
			s.IPFamilies = nil
		}
		dropSame(&s.IPFamilyPolicy, old.IPFamilyPolicy)
	}
	if reachedOnNodes(old) && !reachedOnNodes(s) && !newPorts(s, old) {
		for i := range s.Ports {
			s.Ports[i].NodePort = 0
		}
	}
	if needsHealthPort(old) && !needsHealthPort(s) && s.HealthCheckNodePort == old.HealthCheckNodePort {
		s.HealthCheckNodePort = 0
	}
	if reachedFromOutside(old) && !reachedFromOutside(s) && s.ExternalTrafficPolicy == old.ExternalTrafficPolicy {
		s.ExternalTrafficPolicy = ""
	}
	if old.Type == corev1.ServiceTypeLoadBalancer && s.Type != corev1.ServiceTypeLoadBalancer {
		dropSame(&s.LoadBalancerClass, old.LoadBalancerClass)
		dropSame(&s.AllocateLoadBalancerNodePorts, old.AllocateLoadBalancerNodePorts)
	}
}

// newPorts reports whether a service names node ports that it did not have.
func newPorts(s, old *corev1.ServiceSpec) bool {
	known := map[int32]bool{0: true}
	for _, p := range old.Ports {
		known[p.NodePort] = true
	}
	return slices.ContainsFunc(s.Ports, func(p corev1.ServicePort) bool { return !known[p.NodePort] })
}

// dropSame clears an optional field that has not changed.
func dropSame[T comparable](field **T, old *T) {
	if *field != nil && old != nil && **field == *old {
		*field = nil
	}
}
