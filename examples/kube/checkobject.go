package kube

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"

	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/entries"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func checkConfigMap(m *corev1.ConfigMap, f *status.Fields) {
	entries.CheckConfigMap(f, m.Data, m.BinaryData)
}

func checkConfigMapUpdate(m, old *corev1.ConfigMap, f *status.Fields) {
	entries.Sealed(f, old.Immutable, m.Immutable, map[string]bool{
		"data": maps.Equal(m.Data, old.Data), "binaryData": entries.Equal(m.BinaryData, old.BinaryData),
	})
}

func checkSecret(s *corev1.Secret, f *status.Fields) {
	entries.CheckSecret(f, string(s.Type), s.Data, s.Annotations)
}

func checkSecretUpdate(s, old *corev1.Secret, f *status.Fields) {
	same(f.At("type"), s.Type == old.Type, string(s.Type))
	entries.Sealed(f, old.Immutable, s.Immutable, map[string]bool{"data": entries.Equal(s.Data, old.Data)})
}

func checkService(s *corev1.Service, f *status.Fields) {
	spec := f.At("spec")
	headless := isHeadless(&s.Spec)
	if len(s.Spec.Ports) == 0 && !headless && s.Spec.Type != corev1.ServiceTypeExternalName {
		spec.Child("ports").Required("")
	}
	oneOf(spec.Child("type"), s.Spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	oneOf(spec.Child("sessionAffinity"), s.Spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	switch t := s.Spec.Type; {
	case t == corev1.ServiceTypeExternalName:
		checkExternalName(s, spec)
	case headless && (t == corev1.ServiceTypeLoadBalancer || t == corev1.ServiceTypeNodePort):
		spec.Child("clusterIPs").Index(0).Invalid(s.Spec.ClusterIPs[0], fmt.Sprintf("may not be set to 'None' for %s services", t))
	}
	checkLabels(spec.Child("selector"), s.Spec.Selector)
	checkServicePorts(s, spec.Child("ports"))
	checkServiceType(s, spec)
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
	if s.Spec.ExternalName == "" {
		spec.Child("externalName").Required("")
	} else if why := meta.CheckDNSSubdomain(strings.TrimSuffix(s.Spec.ExternalName, ".")); why != "" {
		spec.Child("externalName").Invalid(s.Spec.ExternalName, why)
	}
}

// checkServiceType rejects fields that the type of a service cannot have.
func checkServiceType(s *corev1.Service, spec status.Field) {
	if s.Spec.ExternalTrafficPolicy != "" && !reachedFromOutside(&s.Spec) {
		spec.Child("externalTrafficPolicy").Invalid(s.Spec.ExternalTrafficPolicy, "may only be set for externally-accessible services")
	}
	if s.Spec.HealthCheckNodePort != 0 && !needsHealthPort(&s.Spec) {
		spec.Child("healthCheckNodePort").Invalid(s.Spec.HealthCheckNodePort,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return
	}
	if s.Spec.AllocateLoadBalancerNodePorts != nil {
		spec.Child("allocateLoadBalancerNodePorts").Forbidden("may only be used when `type` is 'LoadBalancer'")
	}
	if s.Spec.LoadBalancerClass != nil {
		spec.Child("loadBalancerClass").Forbidden("may only be used when `type` is 'LoadBalancer'")
	}
}

func checkServicePorts(s *corev1.Service, at status.Field) {
	names, places := unique{}, unique{}
	known := slices.Contains([]corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort}, s.Spec.Type)
	for i, p := range s.Spec.Ports {
		one := at.Index(i)
		places.check(one, fmt.Sprintf("%s/%d", p.Protocol, p.Port))
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
		if !reachedOnNodes(&s.Spec) && p.NodePort != 0 && known {
			one.Child("nodePort").Forbidden(fmt.Sprintf("may not be used when `type` is '%s'", s.Spec.Type))
		}
	}
}

func checkServiceUpdate(s, old *corev1.Service, f *status.Fields) {
	checkAddressUpdate(s, old, f)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == s.Spec.Type &&
		!reflect.DeepEqual(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		f.At("spec", "loadBalancerClass").Invalid(s.Spec.LoadBalancerClass, "may not change once set")
	}
	if needsHealthPort(&s.Spec) && needsHealthPort(&old.Spec) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		f.At("spec", "healthCheckNodePort").Invalid(s.Spec.HealthCheckNodePort,
			"cannot change healthCheckNodePort on loadBalancer service with externalTraffic=Local during update")
	}
}

func checkVolumeObject(v *corev1.PersistentVolume, f *status.Fields) {
	spec := f.At("spec")
	checkModes(v.Spec.AccessModes, spec.Child("accessModes"))
	if len(v.Spec.Capacity) == 0 {
		spec.Child("capacity").Required("")
	}
	if _, has := v.Spec.Capacity[corev1.ResourceStorage]; !has || len(v.Spec.Capacity) > 1 {
		spec.Child("capacity").NotSupported(v.Spec.Capacity, string(corev1.ResourceStorage))
	} else if q := v.Spec.Capacity[corev1.ResourceStorage]; q.Sign() <= 0 {
		spec.Child("capacity").Key("storage").Invalid(q.String(), "must be greater than zero")
	}
	if atMostOne(reflect.ValueOf(v.Spec.PersistentVolumeSource), spec) == 0 {
		spec.Required("must specify a volume type")
	}
	checkHostPath(v.Spec.HostPath, spec.Child("hostPath"))
	oneOf(spec.Child("persistentVolumeReclaimPolicy"), v.Spec.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
}

func checkVolumeObjectUpdate(v, old *corev1.PersistentVolume, f *status.Fields) {
	if !reflect.DeepEqual(v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource) {
		f.At("spec", "persistentvolumesource").Forbidden("spec.persistentvolumesource is immutable after creation")
	}
}

func checkModes(modes []corev1.PersistentVolumeAccessMode, at status.Field) {
	if len(modes) == 0 {
		at.Required("at least 1 access mode is required")
	}
	for _, m := range modes {
		oneOf(at, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
	}
	other := slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadWriteOncePod })
	if slices.Contains(modes, corev1.ReadWriteOncePod) && other {
		at.Forbidden("may not use ReadWriteOncePod with other access modes")
	}
}

func checkClaim(p *corev1.PersistentVolumeClaim, f *status.Fields) {
	checkClaimSpec(&p.Spec, f.At("spec"))
}

func checkClaimUpdate(p, old *corev1.PersistentVolumeClaim, f *status.Fields) {
	now, before := p.Spec.DeepCopy(), old.Spec.DeepCopy()
	now.Resources.Requests, now.VolumeAttributesClassName = before.Resources.Requests, before.VolumeAttributesClassName
	if before.VolumeName == "" {
		now.VolumeName = "" // it is being bound
	}
	if before.StorageClassName == nil {
		now.StorageClassName = nil
	}
	if !reflect.DeepEqual(now, before) {
		f.At("spec").Forbidden("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")
	}
	is, was := p.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if is.Cmp(was) < 0 {
		f.At("spec", "resources", "requests", "storage").Forbidden("field can not be less than status.capacity")
	}
}

func checkLimitRange(r *corev1.LimitRange, f *status.Fields) {
	types := unique{}
	for i, l := range r.Spec.Limits {
		one := f.At("spec", "limits").Index(i)
		types.check(one.Child("type"), string(l.Type))
		checkLimitType(string(l.Type), one.Child("type"))
		names := map[corev1.ResourceName]bool{}
		for _, list := range []corev1.ResourceList{l.Max, l.Min, l.Default, l.DefaultRequest} {
			for name := range list {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			below := func(what string, a, b corev1.ResourceList, than string) {
				x, hasX := a[name]
				y, hasY := b[name]
				if hasX && hasY && x.Cmp(y) > 0 {
					one.Child(what).Key(string(name)).Invalid(x.String(),
						what+" value "+x.String()+" is greater than "+than+" value "+y.String())
				}
			}
			below("min", l.Min, l.Max, "max")
			below("defaultRequest", l.DefaultRequest, l.Max, "max")
			below("default", l.Default, l.Max, "max")
			if x, has := l.Default[name]; has {
				if m, hasMin := l.Min[name]; hasMin && x.Cmp(m) < 0 {
					one.Child("default").Key(string(name)).Invalid(m.String(),
						"min value "+m.String()+" is greater than default value "+x.String())
				}
			}
			if x, has := l.DefaultRequest[name]; has {
				if m, hasMin := l.Min[name]; hasMin && x.Cmp(m) < 0 {
					one.Child("defaultRequest").Key(string(name)).Invalid(m.String(),
						"min value "+m.String()+" is greater than default request value "+x.String())
				}
				if d, hasDefault := l.Default[name]; hasDefault && x.Cmp(d) > 0 {
					one.Child("defaultRequest").Key(string(name)).Invalid(x.String(),
						"default request value "+x.String()+" is greater than default limit value "+d.String())
				}
			}
		}
	}
}

// checkLimitType requires a type of ours, or one with a domain.
func checkLimitType(name string, at status.Field) {
	if why := meta.CheckQualifiedName(name); why != "" {
		at.Invalid(name, why)
		return
	}
	switch corev1.LimitType(name) {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
	default:
		if !strings.Contains(name, "/") {
			at.Invalid(name, "must be a standard limit type or fully qualified")
		}
	}
}

// checkAmountsOfNode checks what a node has.
func checkAmountsOfNode(list corev1.ResourceList, at status.Field) {
	for _, name := range amountNames(list) {
		if q := list[name]; q.Sign() < 0 {
			at.Child(string(name)).Invalid(q.String(), "must be greater than or equal to 0")
		}
	}
}

func (c *cluster) checkNode(n *corev1.Node, f *status.Fields) {
	checkAmountsOfNode(n.Status.Capacity, f.At("status", "capacity"))
	checkAmountsOfNode(n.Status.Allocatable, f.At("status", "allocatable"))
	for i, cidr := range n.Spec.PodCIDRs {
		c.isCIDR(f.At("spec", "podCIDRs").Index(i), cidr)
	}
	for i, t := range n.Spec.Taints {
		one := f.At("metadata", "taints").Index(i)
		if why := meta.CheckLabelKey(t.Key); why != "" {
			one.Child("key").Invalid(t.Key, why)
		}
		if t.Effect == "" {
			one.Child("effect").Required("")
			continue
		}
		oneOf(one.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	}
}

func (c *cluster) checkEndpoints(e *corev1.Endpoints, f *status.Fields) { //nolint:staticcheck // it is deprecated, and served
	for i, s := range e.Subsets {
		one := f.At("subsets").Index(i)
		if len(s.Addresses)+len(s.NotReadyAddresses) == 0 {
			one.Required("must specify `addresses` or `notReadyAddresses`")
		}
		for j, a := range s.Addresses {
			c.isEndpoint(one.Child("addresses").Index(j).Child("ip"), a.IP)
		}
		for j, a := range s.NotReadyAddresses {
			c.isEndpoint(one.Child("notReadyAddresses").Index(j).Child("ip"), a.IP)
		}
		for j, p := range s.Ports {
			at := one.Child("ports").Index(j)
			if p.Name == "" && len(s.Ports) > 1 {
				at.Child("name").Required("")
			}
			isPort(at.Child("port"), p.Port)
			oneOf(at.Child("protocol"), p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
	}
}

func (c *cluster) checkSlice(s *discoveryv1.EndpointSlice, f *status.Fields) {
	if s.AddressType == "" {
		f.At("addressType").Required("")
		return
	}
	oneOf(f.At("addressType"), s.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	for i, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			f.At("endpoints").Index(i).Child("addresses").Required("must contain at least 1 address")
		}
		for j, a := range e.Addresses {
			at := f.At("endpoints").Index(i).Child("addresses")
			if s.AddressType == discoveryv1.AddressTypeFQDN {
				continue
			}
			c.isEndpoint(at.Index(j), a)
			ip, ok := parseIP(a)
			if six := s.AddressType == discoveryv1.AddressTypeIPv6; ok && six && ip.String() != a {
				at.Index(j).Invalid(a, "must be in canonical form (\""+ip.String()+"\")")
			} else if ok && six == ip.Is4() {
				at.Invalid(a, "must be an address of the family that addressType names")
			}
		}
	}
	names := map[string]bool{}
	for i, p := range s.Ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if names[name] {
			f.At("ports").Index(i).Child("name").Duplicate(name)
		}
		names[name] = true
		if p.Protocol != nil {
			oneOf(f.At("ports").Index(i).Child("protocol"), *p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
	}
}

func checkSliceUpdate(s, old *discoveryv1.EndpointSlice, f *status.Fields) {
	same(f.At("addressType"), s.AddressType == old.AddressType, string(s.AddressType))
}

// checkExcept checks what a range of addresses leaves out: parts of it.
func (c *cluster) checkExcept(b *networkingv1.IPBlock, at status.Field) {
	_, all, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return
	}
	size, _ := all.Mask.Size()
	for i, text := range b.Except {
		c.isCIDR(at.Index(i), text)
		_, part, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		if own, _ := part.Mask.Size(); !all.Contains(part.IP) || own <= size {
			at.Index(i).Invalid(text, "must be a strict subset of `cidr`")
		}
	}
}

// checkNewIngress rejects a new ingress with two classes.
func checkNewIngress(in *networkingv1.Ingress, f *status.Fields) {
	if class, has := in.Annotations[ingressClassAnnotation]; has && in.Spec.IngressClassName != nil && class != *in.Spec.IngressClassName {
		f.At("annotations").Child(ingressClassAnnotation).Invalid(class, "must be the class of the field, if both are there")
	}
}

func checkIngress(in *networkingv1.Ingress, f *status.Fields) {
	spec := f.At("spec")
	if len(in.Spec.Rules) == 0 && in.Spec.DefaultBackend == nil {
		spec.Invalid(in.Spec.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if b := in.Spec.DefaultBackend; b != nil {
		checkBackend(b, spec.Child("defaultBackend"))
	}
	if c := in.Spec.IngressClassName; c != nil {
		if why := meta.CheckDNSSubdomain(*c); why != "" {
			spec.Child("ingressClassName").Invalid(*c, why)
		}
	}
	checkSecured(in.Spec.TLS, spec.Child("tls"))
	for i, r := range in.Spec.Rules {
		one := spec.Child("rules").Index(i)
		if r.Host != "" {
			if why := meta.CheckDNSSubdomain(strings.TrimPrefix(r.Host, "*.")); why != "" {
				one.Child("host").Invalid(r.Host, why)
			}
		}
		if r.HTTP == nil {
			continue
		}
		if len(r.HTTP.Paths) == 0 {
			one.Child("http").Child("paths").Required("")
		}
		for j := range r.HTTP.Paths {
			checkPath(&r.HTTP.Paths[j], one.Child("http").Child("paths").Index(j))
		}
	}
}

// checkSecured checks the hosts of certificates.
func checkSecured(all []networkingv1.IngressTLS, at status.Field) {
	for i, t := range all {
		one := at.Index(i)
		for j, host := range t.Hosts {
			if why := meta.CheckDNSSubdomain(strings.TrimPrefix(host, "*.")); why != "" {
				one.Child("hosts").Index(j).Invalid(host, why)
			}
		}
		if t.SecretName != "" {
			isSubdomain(one.Child("secretName"), t.SecretName)
		}
	}
}

// domainPaths are a domain and a path.
var domainPaths = regexp.MustCompile(`^[^/]+/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$`)

func checkIngressClass(c *networkingv1.IngressClass, f *status.Fields) {
	controller := c.Spec.Controller
	if len(controller) > 250 {
		f.At("spec", "controller").TooLong(250)
	}
	domain, _, _ := strings.Cut(controller, "/")
	switch {
	case controller == "":
		f.At("spec", "controller").Required("")
	case meta.CheckDNSSubdomain(domain) != "" || !domainPaths.MatchString(controller):
		f.At("spec", "controller").Invalid(controller, "must be a domain-prefixed path (such as \"acme.io/foo\")")
	}
	p, at := c.Spec.Parameters, f.At("spec", "parameters")
	if p == nil {
		return
	}
	if p.APIGroup != nil {
		if why := meta.CheckDNSSubdomain(*p.APIGroup); why != "" {
			at.Child("apiGroup").Invalid(*p.APIGroup, why)
		}
	}
	isSegment(at.Child("kind"), p.Kind)
	isSegment(at.Child("name"), p.Name)
	if p.Scope == nil {
		at.Child("scope").Required("")
		return
	}
	oneOf(at.Child("scope"), *p.Scope, networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)
	switch cluster := *p.Scope == networkingv1.IngressClassParametersReferenceScopeCluster; {
	case cluster && p.Namespace != nil:
		at.Child("namespace").Forbidden("`parameters.scope` is set to 'Cluster'")
	case *p.Scope == networkingv1.IngressClassParametersReferenceScopeNamespace && p.Namespace == nil:
		at.Child("namespace").Required("`parameters.scope` is set to 'Namespace'")
	}
}

func checkIngressClassUpdate(c, old *networkingv1.IngressClass, f *status.Fields) {
	same(f.At("spec", "controller"), c.Spec.Controller == old.Spec.Controller, c.Spec.Controller)
}

func checkPath(p *networkingv1.HTTPIngressPath, at status.Field) {
	if p.PathType == nil {
		at.Child("pathType").Required("pathType must be specified")
		return
	}
	oneOf(at.Child("pathType"), *p.PathType, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific,
		networkingv1.PathTypePrefix)
	if *p.PathType != networkingv1.PathTypeImplementationSpecific && !strings.HasPrefix(p.Path, "/") {
		at.Child("path").Invalid(p.Path, "must be an absolute path")
	}
	if *p.PathType != networkingv1.PathTypeImplementationSpecific {
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, part) {
				at.Child("path").Invalid(p.Path, "must not contain '"+part+"'")
			}
		}
		for _, end := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, end) {
				at.Child("path").Invalid(p.Path, "cannot end with '"+end+"'")
			}
		}
	}
	checkBackend(&p.Backend, at.Child("backend"))
}

func checkBackend(b *networkingv1.IngressBackend, at status.Field) {
	switch s := b.Service; {
	case s != nil && b.Resource != nil:
		at.Invalid("", "cannot set both resource and service backends")
	case s != nil:
		isLabel(at.Child("service").Child("name"), s.Name)
		switch port := at.Child("service").Child("port"); {
		case s.Port.Name != "" && s.Port.Number != 0:
			port.Invalid(s.Port, "cannot set both port name & port number")
		case s.Port.Name == "" && s.Port.Number == 0:
			at.Required("port name or number is required") // as kube-apiserver names it
		case s.Port.Number != 0:
			isPort(port.Child("number"), s.Port.Number)
		default:
			if why := validation.IsValidPortName(s.Port.Name); len(why) > 0 {
				port.Child("name").Invalid(s.Port.Name, why[0])
			}
		}
	case b.Resource == nil:
		at.Invalid("", "resource or service backend is required")
	}
}

func (c *cluster) checkNetworkPolicy(p *networkingv1.NetworkPolicy, f *status.Fields) {
	spec := f.At("spec")
	checkSelector(spec.Child("podSelector"), &p.Spec.PodSelector)
	for i, t := range p.Spec.PolicyTypes {
		oneOf(spec.Child("policyTypes").Index(i), t, networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress)
	}
	for i, r := range p.Spec.Ingress {
		c.checkPeers(r.From, r.Ports, spec.Child("ingress").Index(i), "from")
	}
	for i, r := range p.Spec.Egress {
		c.checkPeers(r.To, r.Ports, spec.Child("egress").Index(i), "to")
	}
}

func (c *cluster) checkPeers(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, at status.Field, side string) {
	for i, p := range peers {
		one := at.Child(side).Index(i)
		switch {
		case p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock == nil:
			one.Required("must specify a peer")
		case p.IPBlock != nil && (p.PodSelector != nil || p.NamespaceSelector != nil):
			one.Forbidden("may not specify both ipBlock and another peer")
		case p.IPBlock != nil:
			if cidr := one.Child("ipBlock").Child("cidr"); p.IPBlock.CIDR == "" {
				cidr.Required("")
			} else {
				c.isCIDR(cidr, p.IPBlock.CIDR)
				c.checkExcept(p.IPBlock, one.Child("ipBlock").Child("except"))
			}
		}
		checkSelector(one.Child("podSelector"), p.PodSelector)
		checkSelector(one.Child("namespaceSelector"), p.NamespaceSelector)
	}
	for i, p := range ports {
		one := at.Child("ports").Index(i)
		if p.Protocol != nil {
			oneOf(one.Child("protocol"), *p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
		if p.Port != nil {
			isPortOrName(one.Child("port"), *p.Port)
		}
		checkPortRange(p, one)
	}
}

// checkPortRange checks the last of several ports.
func checkPortRange(p networkingv1.NetworkPolicyPort, at status.Field) {
	if p.EndPort == nil {
		return
	}
	end := at.Child("endPort")
	switch {
	case p.Port == nil:
		end.Invalid(*p.EndPort, "may not be specified when `port` is not specified")
	case p.Port.Type != intstr.Int:
		end.Invalid(*p.EndPort, "may not be specified when `port` is non-numeric")
	default:
		if *p.EndPort < p.Port.IntVal {
			end.Invalid(p.Port.IntVal, "must be greater than or equal to `port`")
		}
		isPort(end, *p.EndPort)
	}
}

// checkRole reports what is wrong with a role. The rules are those of the library.
func checkRole(rules []rbacv1.PolicyRule, f *status.Fields) {
	rbac.CheckRules(ownRules(rules), f, false)
}

// checkClusterRole is checkRole for one that counts everywhere.
func checkClusterRole(r *rbacv1.ClusterRole, f *status.Fields) {
	rbac.CheckRules(ownRules(r.Rules), f, true)
	if r.AggregationRule == nil {
		return
	}
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		rbac.CheckAggregation(&rbac.AggregationRule{}, f)
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		at, selector := f.At("aggregationRule", "clusterRoleSelectors").Index(i), &r.AggregationRule.ClusterRoleSelectors[i]
		checkSelector(at, selector)
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			at.Invalid(nil, "invalid label selector.")
		}
	}
}

func ownRules(rules []rbacv1.PolicyRule) []rbac.PolicyRule {
	out := make([]rbac.PolicyRule, 0, len(rules))
	for _, r := range rules {
		out = append(out, rbac.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, NonResourceURLs: r.NonResourceURLs})
	}
	return out
}

// checkBinding reports invalid subjects and role references of a binding.
func checkBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, f *status.Fields, everywhere bool) {
	own := make([]rbac.Subject, 0, len(subjects))
	for _, s := range subjects {
		own = append(own, rbac.Subject{Kind: s.Kind, APIGroup: s.APIGroup, Name: s.Name, Namespace: s.Namespace})
	}
	rbac.CheckBinding(rbacv1.GroupName, ownRef(ref), own, f, everywhere)
}

func ownRef(r rbacv1.RoleRef) rbac.RoleRef {
	return rbac.RoleRef{APIGroup: r.APIGroup, Kind: r.Kind, Name: r.Name}
}

// checkRoleRef requires that a binding keeps its role.
func checkRoleRef(ref, old rbacv1.RoleRef, f *status.Fields) {
	rbac.CheckRoleRef(ownRef(ref), ownRef(old), f)
}

func checkRuntimeClass(c *nodev1.RuntimeClass, f *status.Fields) {
	isLabel(f.At("handler"), c.Handler)
	if c.Overhead != nil { // which is checked as the limits of a container are
		checkResources(&corev1.ResourceRequirements{Limits: c.Overhead.PodFixed}, f.At("overhead"), nil, checkContainerAmount)
	}
	if s := c.Scheduling; s != nil {
		checkLabels(f.At("scheduling", "nodeSelector"), s.NodeSelector)
		at, seen := f.At("scheduling", "tolerations"), map[corev1.Toleration]bool{}
		checkTolerations(s.Tolerations, at)
		for i, t := range s.Tolerations {
			key := corev1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect}
			if seen[key] {
				at.Index(i).Duplicate(t)
			}
			seen[key] = true
		}
	}
}

func checkRuntimeClassUpdate(c, old *nodev1.RuntimeClass, f *status.Fields) {
	same(f.At("handler"), c.Handler == old.Handler, c.Handler)
}

// checkProvisioner checks the name of what makes volumes, which need not be a driver of CSI.
func checkProvisioner(name string, at status.Field) {
	if name == "" {
		at.Required("")
	} else if why := meta.CheckQualifiedName(strings.ToLower(name)); why != "" {
		at.Invalid(name, why)
	}
}

// checkParameters checks what the maker of volumes is told.
func checkParameters(all map[string]string, at status.Field) {
	const maxCount, maxBytes = 512, 256 << 10
	if len(all) > maxCount {
		at.TooLong(maxCount)
		return
	}
	size := 0
	for name, value := range all {
		if name == "" {
			at.Invalid(name, "field can not be empty.")
		}
		size += len(name) + len(value)
	}
	if size > maxBytes {
		at.TooLong(maxBytes)
	}
}

func checkStorageClass(c *storagev1.StorageClass, f *status.Fields) {
	checkProvisioner(c.Provisioner, f.At("provisioner"))
	checkParameters(c.Parameters, f.At("parameters"))
	if c.ReclaimPolicy != nil {
		oneOf(f.At("reclaimPolicy"), *c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if c.VolumeBindingMode != nil {
		oneOf(f.At("volumeBindingMode"), *c.VolumeBindingMode, storagev1.VolumeBindingImmediate,
			storagev1.VolumeBindingWaitForFirstConsumer)
	}
}

func checkStorageClassUpdate(c, old *storagev1.StorageClass, f *status.Fields) {
	if !maps.Equal(c.Parameters, old.Parameters) {
		f.At("parameters").Forbidden("updates to parameters are forbidden.")
	}
	if c.Provisioner != old.Provisioner {
		f.At("provisioner").Forbidden("updates to provisioner are forbidden.")
	}
	same(f.At("reclaimPolicy"), reflect.DeepEqual(c.ReclaimPolicy, old.ReclaimPolicy), c.ReclaimPolicy)
	same(f.At("volumeBindingMode"), reflect.DeepEqual(c.VolumeBindingMode, old.VolumeBindingMode), c.VolumeBindingMode)
}

// Names and priorities from here on belong to the system.
const (
	systemPrefix   = "system-"
	highestOfUsers = 1000000000
)

func checkPriorityClass(c *schedulingv1.PriorityClass, f *status.Fields) {
	critical := c.Name == "system-cluster-critical" || c.Name == "system-node-critical"
	switch {
	case strings.HasPrefix(c.Name, systemPrefix) && !critical:
		f.At("metadata", "name").Forbidden("priority class names with '" + systemPrefix + "' prefix are reserved for system use only")
	case !critical && c.Value > highestOfUsers:
		f.At("value").Forbidden("maximum allowed value of a user defined priority is 1000000000")
	}
	if c.PreemptionPolicy != nil {
		oneOf(f.At("preemptionPolicy"), *c.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
}

func checkPriorityClassUpdate(c, old *schedulingv1.PriorityClass, f *status.Fields) {
	if c.Value != old.Value {
		f.At("value").Forbidden("may not be changed in an update.")
	}
	same(f.At("preemptionPolicy"), reflect.DeepEqual(c.PreemptionPolicy, old.PreemptionPolicy), c.PreemptionPolicy)
}
