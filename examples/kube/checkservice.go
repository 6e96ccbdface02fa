package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// longestAffinity is how many seconds a service may send a client to the same endpoint.
const longestAffinity = 86400

// checkService checks a service. A write of the status is not refused for what else the service has.
func checkService(ctx context.Context, s *corev1.Service, f *status.Fields) {
	if registry.SubresourceFrom(ctx) == "status" {
		return
	}
	spec := f.At("spec")
	headless := isHeadless(&s.Spec)
	if len(s.Spec.Ports) == 0 && !headless && s.Spec.Type != corev1.ServiceTypeExternalName {
		spec.Child("ports").Required("")
	}
	oneOf(spec.Child("type"), s.Spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	switch t := s.Spec.Type; {
	case t == corev1.ServiceTypeExternalName:
		checkExternalName(s, spec)
	case headless && (t == corev1.ServiceTypeLoadBalancer || t == corev1.ServiceTypeNodePort):
		spec.Child("clusterIPs").Index(0).Invalid(s.Spec.ClusterIPs[0], fmt.Sprintf("may not be set to 'None' for %s services", t))
	}
	checkLabels(spec.Child("selector"), s.Spec.Selector)
	checkSessions(&s.Spec, spec)
	checkServicePorts(s, spec.Child("ports"))
	checkServiceType(s, spec)
	checkDistribution(s, f)
}

// checkExternalName checks a service that is another name and has no addresses. Other services had their
// addresses checked before they got any.
func checkExternalName(s *corev1.Service, spec status.Field) {
	const why = "may not be set for ExternalName services"
	if len(s.Spec.ClusterIPs) > 0 {
		spec.Child("clusterIPs").Forbidden(why)
	}
	if len(s.Spec.IPFamilies) > 0 {
		spec.Child("ipFamilies").Forbidden(why)
	}
	if s.Spec.IPFamilyPolicy != nil {
		spec.Child("ipFamilyPolicy").Forbidden(why)
	}
	name := strings.TrimSuffix(s.Spec.ExternalName, ".") // which says that it is complete
	if name == "" {
		spec.Child("externalName").Required("")
	} else if why := meta.CheckDNSSubdomain(name); why != "" {
		spec.Child("externalName").Invalid(name, why)
	}
}

// checkSessions checks how long a service sends a client to the same endpoint.
func checkSessions(s *corev1.ServiceSpec, spec status.Field) {
	oneOf(spec.Child("sessionAffinity"), s.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	config := s.SessionAffinityConfig
	if s.SessionAffinity != corev1.ServiceAffinityClientIP || config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return // defaults leave none of these out
	}
	if n := *config.ClientIP.TimeoutSeconds; n <= 0 || n > longestAffinity {
		spec.Child("sessionAffinityConfig").Child("clientIP").Child("timeoutSeconds").Invalid(n,
			fmt.Sprintf("must be greater than 0 and less than %d", longestAffinity))
	}
}

// checkDistribution checks which endpoints a service prefers. An annotation once said it under another name.
func checkDistribution(s *corev1.Service, f *status.Fields) {
	if d := s.Spec.TrafficDistribution; d != nil {
		oneOf(f.At("spec", "trafficDistribution"), *d, corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
	const older = corev1.DeprecatedAnnotationTopologyAwareHints
	before, hasBefore := s.Annotations[older]
	mode, has := s.Annotations[corev1.AnnotationTopologyMode]
	if has && hasBefore && mode != before {
		f.At("metadata", "annotations").Key(corev1.AnnotationTopologyMode).Invalid(mode,
			"must match annotations["+older+"] when both are specified")
	}
}

// checkServiceType rejects fields that the type of a service cannot have.
func checkServiceType(s *corev1.Service, spec status.Field) {
	policy, at := s.Spec.ExternalTrafficPolicy, spec.Child("externalTrafficPolicy")
	if reachedFromOutside(&s.Spec) {
		oneOf(at, policy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	} else if policy != "" {
		at.Invalid(policy, "may only be set for externally-accessible services")
	}
	if inside := s.Spec.InternalTrafficPolicy; inside != nil {
		oneOf(spec.Child("internalTrafficPolicy"), *inside, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.Spec.HealthCheckNodePort != 0 && !needsHealthPort(&s.Spec) {
		spec.Child("healthCheckNodePort").Invalid(s.Spec.HealthCheckNodePort,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	}
	class := s.Spec.LoadBalancerClass
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		isQualifiedIf(spec.Child("loadBalancerClass"), class)
		return
	}
	if s.Spec.AllocateLoadBalancerNodePorts != nil {
		spec.Child("allocateLoadBalancerNodePorts").Forbidden(whyBalanced)
	}
	if class != nil {
		spec.Child("loadBalancerClass").Forbidden(whyBalanced)
	}
}

// whyBalanced is said of fields that only services with load balancers have.
const whyBalanced = "may only be used when `type` is 'LoadBalancer'"

// checkServicePorts checks the ports of a service. Two of them may differ by their protocol alone.
func checkServicePorts(s *corev1.Service, at status.Field) {
	type place struct {
		protocol corev1.Protocol
		port     int32
	}
	names, places, onNodes := unique{}, map[place]bool{}, map[place]bool{}
	for i, p := range s.Spec.Ports {
		one := at.Index(i)
		here, onNode := place{p.Protocol, p.Port}, place{p.Protocol, p.NodePort}
		if places[here] {
			one.Duplicate(fmt.Sprintf("%s/%d", p.Protocol, p.Port))
		}
		if p.NodePort != 0 && onNodes[onNode] {
			one.Child("nodePort").Duplicate(p.NodePort)
		}
		places[here], onNodes[onNode] = true, true
		switch {
		case p.Name == "" && len(s.Spec.Ports) > 1:
			one.Child("name").Required("")
		case p.Name != "":
			isLabel(one.Child("name"), p.Name)
			names.check(one.Child("name"), p.Name)
		}
		isPort(one.Child("port"), p.Port)
		oneOf(one.Child("protocol"), p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		isPortOrName(one.Child("targetPort"), p.TargetPort)
		isQualifiedIf(one.Child("appProtocol"), p.AppProtocol)
		if s.Spec.Type == corev1.ServiceTypeClusterIP && p.NodePort != 0 {
			one.Child("nodePort").Forbidden("may not be used when `type` is 'ClusterIP'")
		}
	}
}

// isQualifiedIf reports an optional text that is not a name with an optional domain.
func isQualifiedIf(at status.Field, text *string) {
	if text != nil {
		isQualified(at, *text)
	}
}

func checkServiceUpdate(s, old *corev1.Service, f *status.Fields) {
	checkAddressUpdate(s, old, f)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == s.Spec.Type &&
		!reflect.DeepEqual(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		f.At("spec", "loadBalancerClass").Invalid(s.Spec.LoadBalancerClass, "may not change once set")
	}
	if needsHealthPort(&s.Spec) && needsHealthPort(&old.Spec) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		f.At("spec", "healthCheckNodePort").Forbidden("field is immutable")
	}
}

// checkServiceAddresses checks the addresses outside the cluster that a service is reached at, and from. Those that are
// stored may stay.
func (c *cluster) checkServiceAddresses(s, old *corev1.Service, f *status.Fields) {
	known := map[string]bool{}
	if old != nil {
		for _, text := range slices.Concat(old.Spec.ExternalIPs, old.Spec.LoadBalancerSourceRanges) {
			known[strings.TrimSpace(text)] = true
		}
	}
	for i, ip := range s.Spec.ExternalIPs {
		if !known[ip] {
			c.isEndpoint(f.At("spec", "externalIPs").Index(i), ip)
		}
	}
	if len(s.Spec.LoadBalancerSourceRanges) == 0 {
		c.checkRangeAnnotation(s, old, f)
		return
	}
	at := f.At("spec", "LoadBalancerSourceRanges") // as kube-apiserver spells it
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		at.Forbidden(whyBalanced)
	}
	for i, cidr := range s.Spec.LoadBalancerSourceRanges {
		if cidr = strings.TrimSpace(cidr); !known[cidr] {
			c.isCIDR(at.Index(i), cidr)
		}
	}
}

// checkRangeAnnotation checks the annotation that counts if a service does not say in its spec from where it is reached.
func (c *cluster) checkRangeAnnotation(s, old *corev1.Service, f *status.Fields) {
	text, said := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !said {
		return
	}
	at := f.At("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		at.Forbidden(whyBalanced)
	}
	if old != nil && old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] == text || strings.TrimSpace(text) == "" {
		return
	}
	for cidr := range strings.SplitSeq(text, ",") {
		c.isCIDR(at, strings.TrimSpace(cidr))
	}
}

// checkServiceStatus checks where the load balancer of a service is reached. Addresses that are stored may stay.
func (c *cluster) checkServiceStatus(s, old *corev1.Service, f *status.Fields) {
	all, at := s.Status.LoadBalancer.Ingress, f.At("status", "loadBalancer", "ingress")
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if len(all) > 0 {
			at.Forbidden("may only be used when `spec.type` is 'LoadBalancer'")
		}
		return
	}
	known := map[string]bool{}
	for _, in := range old.Status.LoadBalancer.Ingress {
		known[in.IP] = true
	}
	for i, in := range all {
		c.checkBalancer(at.Index(i), in.IP, in.Hostname, known)
		mode := at.Index(i).Child("ipMode")
		switch {
		case in.IPMode == nil && in.IP != "":
			mode.Required("must be specified when `ip` is set")
		case in.IPMode == nil:
		case in.IP == "":
			mode.Forbidden("may not be specified when `ip` is not set")
		default:
			oneOf(mode, *in.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)
		}
	}
}

// checkBalancer checks an address of a load balancer, unless it is known, and its name.
func (c *cluster) checkBalancer(at status.Field, ip, host string, known map[string]bool) {
	if ip != "" && !known[ip] {
		c.isIP(at.Child("ip"), ip)
	}
	if host == "" {
		return
	}
	if why := meta.CheckDNSSubdomain(host); why != "" {
		at.Child("hostname").Invalid(host, why)
	}
	isNoAddress(at.Child("hostname"), host)
}

// isNoAddress reports a name of a host that is an address.
func isNoAddress(at status.Field, host string) {
	if _, is := parseIP(host); is {
		at.Invalid(host, "must be a DNS name, not an IP address")
	}
}
