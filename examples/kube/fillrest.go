package kube

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func fillSecret(s *corev1.Secret) {
	set(&s.Type, corev1.SecretTypeOpaque)
	for name, text := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[name] = []byte(text)
	}
	s.StringData = nil // it is write-only
}

func fillVolumeObject(v *corev1.PersistentVolume) {
	set(&v.Status.Phase, corev1.VolumePending)
	set(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	point(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	fillVolumeSpec(&v.Spec)
}

// fillVolumeSpec applies the defaults of a volume that an attachment may bring along.
func fillVolumeSpec(s *corev1.PersistentVolumeSpec) {
	roundUp(s.Capacity)
	if s.HostPath != nil {
		point(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.ISCSI != nil {
		set(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.AzureDisk != nil {
		fillAzure(s.AzureDisk)
	}
}

func fillAttachment(a *storagev1.VolumeAttachment) {
	if s := a.Spec.Source.InlineVolumeSpec; s != nil {
		fillVolumeSpec(s)
	}
}

func fillClaim(c *corev1.PersistentVolumeClaim) {
	point(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(c.Spec.Resources.Requests)
	roundUp(c.Spec.Resources.Limits)
	roundUp(c.Status.Capacity)
	roundUp(c.Status.AllocatedResources)
	set(&c.Status.Phase, corev1.ClaimPending)
}

func fillNode(n *corev1.Node) {
	inStep(&n.Spec.PodCIDR, &n.Spec.PodCIDRs)
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	roundUp(n.Status.Capacity)
	roundUp(n.Status.Allocatable)
}

func fillQuota(q *corev1.ResourceQuota) {
	roundUp(q.Spec.Hard)
	roundUp(q.Status.Hard)
	roundUp(q.Status.Used)
}

func fillEndpoints(e *corev1.Endpoints) { //nolint:staticcheck // it is deprecated, and served
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			set(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

func fillSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		point(&s.Ports[i].Name, "")
		point(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// fillLimitRange derives missing values: the default limit from the maximum, and the default
// request from the default limit or the minimum.
func fillLimitRange(r *corev1.LimitRange) {
	for i := range r.Spec.Limits {
		l := &r.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{l.Max, l.Min, l.Default, l.DefaultRequest, l.MaxLimitRequestRatio} {
			roundUp(list)
		}
		if l.Type != corev1.LimitTypeContainer {
			continue
		}
		for _, fill := range []struct {
			into *corev1.ResourceList
			from corev1.ResourceList
		}{{&l.Default, l.Max}, {&l.DefaultRequest, l.Default}, {&l.DefaultRequest, l.Min}} {
			if *fill.into == nil {
				*fill.into = corev1.ResourceList{}
			}
			from := fill.from
			if fill.into == &l.DefaultRequest && len(from) == 0 {
				from = l.Default
			}
			for name, amount := range from {
				if _, said := (*fill.into)[name]; !said {
					(*fill.into)[name] = amount.DeepCopy()
				}
			}
		}
	}
}

func fillService(s *corev1.Service) {
	spec := &s.Spec
	set(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	set(&spec.Type, corev1.ServiceTypeClusterIP)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		point(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		point(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		point(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		set(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		point(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if reachedFromOutside(spec) {
		set(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		point(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range s.Status.LoadBalancer.Ingress {
			if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" {
				point(&in.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

func fillIngressClass(c *networkingv1.IngressClass) {
	if c.Spec.Parameters != nil {
		point(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func fillNetworkPolicy(p *networkingv1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	for i := range p.Spec.Ingress {
		fillPolicyPorts(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		fillPolicyPorts(p.Spec.Egress[i].Ports)
	}
}

func fillPolicyPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		point(&ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func fillRoleRef(r *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	set(&r.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if s := &subjects[i]; s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			set(&s.APIGroup, rbacv1.GroupName)
		}
	}
}

func fillStorageClass(c *storagev1.StorageClass) {
	point(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	point(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func fillDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	point(&s.AttachRequired, true)
	point(&s.PodInfoOnMount, false)
	point(&s.StorageCapacity, false)
	point(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	point(&s.RequiresRepublish, false)
	point(&s.SELinuxMount, false)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func fillPriorityClass(c *schedulingv1.PriorityClass) {
	point(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
}

func fillFlowSchema(f *flowcontrolv1.FlowSchema) { set(&f.Spec.MatchingPrecedence, 1000) }

func fillPriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) {
	if exempt := p.Spec.Exempt; exempt != nil {
		point(&exempt.NominalConcurrencyShares, 0)
		point(&exempt.LendablePercent, 0)
	}
	l := p.Spec.Limited
	if l == nil {
		return
	}
	point(&l.NominalConcurrencyShares, 30)
	point(&l.LendablePercent, 0)
	if q := l.LimitResponse.Queuing; q != nil {
		set(&q.Queues, 64)
		set(&q.HandSize, 8)
		set(&q.QueueLengthLimit, 50)
	}
}

func fillMutatingWebhooks(c *admissionv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		fillWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, w.ClientConfig.Service)
		point(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		for j := range w.Rules {
			point(&w.Rules[j].Scope, admissionv1.AllScopes)
		}
	}
}

func fillValidatingWebhooks(c *admissionv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		fillWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector, &w.TimeoutSeconds, w.ClientConfig.Service)
		for j := range w.Rules {
			point(&w.Rules[j].Scope, admissionv1.AllScopes)
		}
	}
}

func fillWebhook(failure **admissionv1.FailurePolicyType, match **admissionv1.MatchPolicyType, namespaces, objects **metav1.LabelSelector, timeout **int32, service *admissionv1.ServiceReference) {
	point(failure, admissionv1.Fail)
	point(match, admissionv1.Equivalent)
	point(namespaces, metav1.LabelSelector{})
	point(objects, metav1.LabelSelector{})
	point(timeout, 10)
	if service != nil {
		point(&service.Port, 443)
	}
}

// fillMatch applies the defaults of the resources that an admission policy matches.
func fillMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	point(&m.MatchPolicy, admissionv1.Equivalent)
	point(&m.NamespaceSelector, metav1.LabelSelector{})
	point(&m.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			point(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}

func fillDeviceRequests(requests []resourcev1.DeviceRequest) {
	count := func(mode *resourcev1.DeviceAllocationMode, n *int64) {
		set(mode, resourcev1.DeviceAllocationModeExactCount)
		if *mode == resourcev1.DeviceAllocationModeExactCount {
			set(n, 1)
		}
	}
	for i := range requests {
		if e := requests[i].Exactly; e != nil {
			count(&e.AllocationMode, &e.Count)
			fillTolerations(e.Tolerations)
		}
		for j := range requests[i].FirstAvailable {
			s := &requests[i].FirstAvailable[j]
			count(&s.AllocationMode, &s.Count)
			fillTolerations(s.Tolerations)
		}
	}
}

func fillTolerations(all []resourcev1.DeviceToleration) {
	for i := range all {
		set(&all[i].Operator, resourcev1.DeviceTolerationOpEqual)
	}
}

// qualityOf returns the quality of service of a pod.
func qualityOf(p *corev1.Pod) corev1.PodQOSClass {
	asks, guaranteed := false, true
	count := func(r *corev1.ResourceRequirements) {
		for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			asks = asks || !request.IsZero() || !limit.IsZero()
			guaranteed = guaranteed && !limit.IsZero() && request.Cmp(limit) == 0
		}
	}
	if r := p.Spec.Resources; r != nil { // the resources of the pod as a whole replace those of its containers
		count(r)
	} else {
		for _, all := range [...][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
			for i := range all {
				count(&all[i].Resources)
			}
		}
	}
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
