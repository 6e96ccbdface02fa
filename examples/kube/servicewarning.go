package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kindwright/kindwright/registry"
)

// warnOfService tells a client what a service has that does not do what it seems to, or that will go.
func warnOfService(ctx context.Context, s *corev1.Service) {
	for _, text := range serviceWarnings(s) {
		registry.Warn(ctx, text)
	}
}

func serviceWarnings(s *corev1.Service) (out []string) {
	spec, at := &s.Spec, field.NewPath("spec")
	add := func(is bool, text string) {
		if is {
			out = append(out, text)
		}
	}
	_, hints := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	add(hints, fmt.Sprintf("annotation %s is deprecated, please use %s instead",
		corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	named := spec.Type == corev1.ServiceTypeExternalName
	if !headless && !named {
		for i, ip := range spec.ClusterIPs {
			out = append(out, validation.GetWarningsForIP(at.Child("clusterIPs").Index(i), ip)...)
		}
	}
	add(headless && spec.LoadBalancerIP != "", "spec.loadBalancerIP is ignored for headless services")
	add(headless && len(spec.ExternalIPs) > 0, "spec.externalIPs is ignored for headless services")
	add(headless && spec.SessionAffinity != corev1.ServiceAffinityNone, "spec.SessionAffinity is ignored for headless services")
	for i, ip := range spec.ExternalIPs {
		out = append(out, validation.GetWarningsForIP(at.Child("externalIPs").Index(i), ip)...)
	}
	add(len(spec.ExternalIPs) > 0 && !headless && !named, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	if spec.LoadBalancerIP != "" {
		out = append(out, validation.GetWarningsForIP(at.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		out = append(out, validation.GetWarningsForCIDR(at.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	add(named && len(spec.ExternalIPs) > 0, fmt.Sprintf("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName))
	add(!named && spec.ExternalName != "", fmt.Sprintf("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName))
	d := spec.TrafficDistribution
	add(d != nil && *d == corev1.ServiceTrafficDistributionPreferClose, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q",
		corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone))
	return out
}
