package kube

import (
	"context"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// checkNewIngress checks a new ingress, which cannot have two classes.
func checkNewIngress(in *networkingv1.Ingress, f *status.Fields) {
	checkIngress(in, nil, f)
	if class, has := in.Annotations[ingressClassAnnotation]; has && in.Spec.IngressClassName != nil && class != *in.Spec.IngressClassName {
		f.At("annotations").Child(ingressClassAnnotation).Invalid(class, "must match `ingressClassName` when both are specified")
	}
}

// checkIngressUpdate checks an ingress that replaces another one, or in a write of the status where it is served.
func (c *cluster) checkIngressUpdate(ctx context.Context, in, old *networkingv1.Ingress, f *status.Fields) {
	if registry.SubresourceFrom(ctx) != "status" {
		checkIngress(in, old, f)
		return
	}
	known := map[string]bool{}
	for _, one := range old.Status.LoadBalancer.Ingress {
		known[one.IP] = true
	}
	for i, one := range in.Status.LoadBalancer.Ingress {
		c.checkBalancer(f.At("status", "loadBalancer", "ingress").Index(i), one.IP, one.Hostname, known)
	}
}

func checkIngress(in, old *networkingv1.Ingress, f *status.Fields) {
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
	checkSecured(in.Spec.TLS, spec.Child("tls"), looseSecrets(old))
	loose := looseWildcards(old)
	for i, r := range in.Spec.Rules {
		one := spec.Child("rules").Index(i)
		if r.Host != "" {
			isNoAddress(one.Child("host"), r.Host)
			isHost(one.Child("host"), r.Host)
		}
		if !loose || !strings.Contains(r.Host, "*") {
			checkIngressPaths(r.HTTP, one.Child("http"))
		}
	}
}

// isHost reports a text that is neither a name in DNS nor stands for all names of a domain.
func isHost(at status.Field, host string) {
	if why := meta.CheckDNSSubdomain(strings.TrimPrefix(host, "*.")); why != "" {
		at.Invalid(host, why)
	} else if len(host) > meta.MaxDNSSubdomain {
		at.Invalid(host, validation.MaxLenError(meta.MaxDNSSubdomain))
	}
}

// looseWildcards reports whether an ingress has rules for all names of a domain that are wrong, and may keep them.
func looseWildcards(old *networkingv1.Ingress) bool {
	if old == nil {
		return false
	}
	f := &status.Fields{}
	for _, r := range old.Spec.Rules {
		if strings.Contains(r.Host, "*") {
			checkIngressPaths(r.HTTP, f.At())
		}
	}
	return f.Len() > 0
}

// looseSecrets reports whether an ingress has names of secrets that are wrong, and may keep them.
func looseSecrets(old *networkingv1.Ingress) bool {
	if old == nil {
		return false
	}
	for _, t := range old.Spec.TLS {
		if t.SecretName != "" && meta.CheckDNSSubdomain(t.SecretName) != "" {
			return true
		}
	}
	return false
}

// checkSecured checks the hosts of certificates, and the secrets that hold them.
func checkSecured(all []networkingv1.IngressTLS, at status.Field, loose bool) {
	for i, t := range all {
		one := at.Index(i)
		for j, host := range t.Hosts {
			isHost(one.Child("hosts").Index(j), host)
		}
		if t.SecretName != "" && !loose {
			isSubdomain(one.Child("secretName"), t.SecretName)
		}
	}
}

func checkIngressPaths(http *networkingv1.HTTPIngressRuleValue, at status.Field) {
	if http == nil {
		return
	}
	if len(http.Paths) == 0 {
		at.Child("paths").Required("")
	}
	for i := range http.Paths {
		checkPath(&http.Paths[i], at.Child("paths").Index(i))
	}
}

func checkPath(p *networkingv1.HTTPIngressPath, at status.Field) {
	if p.PathType == nil {
		at.Child("pathType").Required("pathType must be specified")
		return
	}
	exact := *p.PathType == networkingv1.PathTypeExact || *p.PathType == networkingv1.PathTypePrefix
	known := oneOf(at.Child("pathType"), *p.PathType, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific,
		networkingv1.PathTypePrefix)
	if known && (exact || p.Path != "") && !strings.HasPrefix(p.Path, "/") {
		at.Child("path").Invalid(p.Path, "must be an absolute path")
	}
	if exact {
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
	case b.Resource != nil:
		isGroup(at.Child("resource").Child("apiGroup"), b.Resource.APIGroup)
		isSegment(at.Child("resource").Child("kind"), b.Resource.Kind)
		isSegment(at.Child("resource").Child("name"), b.Resource.Name)
	case s == nil:
		at.Invalid("", "resource or service backend is required")
	default:
		isLabel(at.Child("service").Child("name"), s.Name)
		switch port := at.Child("service").Child("port"); {
		case s.Port.Name != "" && s.Port.Number != 0:
			at.Invalid("", "cannot set both port name & port number") // as kube-apiserver names it
		case s.Port.Name == "" && s.Port.Number == 0:
			at.Required("port name or number is required") // likewise
		case s.Port.Number != 0:
			isPort(port.Child("number"), s.Port.Number)
		default:
			if why := validation.IsValidPortName(s.Port.Name); len(why) > 0 {
				port.Child("name").Invalid(s.Port.Name, why[0])
			}
		}
	}
}

// isGroup reports an optional text that is not the name of a group of kinds.
func isGroup(at status.Field, group *string) {
	if group == nil {
		return
	}
	if why := meta.CheckDNSSubdomain(*group); why != "" {
		at.Invalid(*group, why)
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
	isGroup(at.Child("apiGroup"), p.APIGroup)
	isSegment(at.Child("kind"), p.Kind)
	isSegment(at.Child("name"), p.Name)
	if p.Scope == nil {
		at.Child("scope").Required("")
		return
	}
	oneOf(at.Child("scope"), *p.Scope, networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)
	namespace := at.Child("namespace")
	switch inside := *p.Scope == networkingv1.IngressClassParametersReferenceScopeNamespace; {
	case inside && p.Namespace == nil:
		namespace.Required("`parameters.scope` is set to 'Namespace'")
	case inside:
		if why := meta.CheckDNSLabel(*p.Namespace); why != "" {
			namespace.Invalid(*p.Namespace, why)
		}
	case *p.Scope == networkingv1.IngressClassParametersReferenceScopeCluster && p.Namespace != nil:
		namespace.Forbidden("`parameters.scope` is set to 'Cluster'")
	}
}

func checkIngressClassUpdate(c, old *networkingv1.IngressClass, f *status.Fields) {
	same(f.At("spec", "controller"), c.Spec.Controller == old.Spec.Controller, c.Spec.Controller)
}

// A policyCheck checks a network policy. Ranges that are stored may stay.
type policyCheck struct {
	*cluster
	known map[string]bool
}

// checkNetworkPolicy checks a policy that is new, or that replaces another one.
func (c *cluster) checkNetworkPolicy(p, old *networkingv1.NetworkPolicy, f *status.Fields) {
	check := policyCheck{c, map[string]bool{}}
	if old != nil {
		for _, r := range old.Spec.Ingress {
			check.knows(r.From)
		}
		for _, r := range old.Spec.Egress {
			check.knows(r.To)
		}
	}
	spec := f.At("spec")
	checkSelector(spec.Child("podSelector"), &p.Spec.PodSelector)
	for i, r := range p.Spec.Ingress {
		check.rule(r.From, r.Ports, spec.Child("ingress").Index(i), "from")
	}
	for i, r := range p.Spec.Egress {
		check.rule(r.To, r.Ports, spec.Child("egress").Index(i), "to")
	}
	if len(p.Spec.PolicyTypes) > 2 {
		spec.Child("policyTypes").Invalid(p.Spec.PolicyTypes, "may not specify more than two policyTypes")
		return
	}
	for i, t := range p.Spec.PolicyTypes {
		oneOf(spec.Child("policyTypes").Index(i), t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
}

// knows remembers the ranges of the old policy.
func (c policyCheck) knows(peers []networkingv1.NetworkPolicyPeer) {
	for _, p := range peers {
		if p.IPBlock == nil {
			continue
		}
		c.known[p.IPBlock.CIDR] = true
		for _, text := range p.IPBlock.Except {
			c.known[text] = true
		}
	}
}

// rule checks whom a rule is about, and which ports.
func (c policyCheck) rule(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, at status.Field, side string) {
	for i, p := range peers {
		one := at.Child(side).Index(i)
		switch {
		case p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock == nil:
			one.Required("must specify a peer")
		case p.IPBlock != nil && (p.PodSelector != nil || p.NamespaceSelector != nil):
			one.Forbidden("may not specify both ipBlock and another peer")
		}
		if p.IPBlock != nil {
			c.block(p.IPBlock, one.Child("ipBlock"))
		}
		checkSelector(one.Child("podSelector"), p.PodSelector)
		checkSelector(one.Child("namespaceSelector"), p.NamespaceSelector)
	}
	for i, p := range ports {
		one := at.Child("ports").Index(i)
		if p.Protocol != nil {
			oneOf(one.Child("protocol"), *p.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		}
		if p.Port != nil {
			isPortOrName(one.Child("port"), *p.Port)
		}
		checkPortRange(p, one)
	}
}

// block checks a range of addresses, and what it leaves out: parts of it.
func (c policyCheck) block(b *networkingv1.IPBlock, at status.Field) {
	if b.CIDR == "" {
		at.Child("cidr").Required("")
		return
	}
	c.isRange(at.Child("cidr"), b.CIDR)
	_, all, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return
	}
	size, _ := all.Mask.Size()
	for i, text := range b.Except {
		one := at.Child("except").Index(i)
		c.isRange(one, text)
		_, part, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		if own, _ := part.Mask.Size(); !all.Contains(part.IP) || own <= size {
			one.Invalid(text, "must be a strict subset of `cidr`")
		}
	}
}

func (c policyCheck) isRange(at status.Field, text string) {
	if !c.known[text] {
		c.isCIDR(at, text)
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
