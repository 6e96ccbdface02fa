package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/status"
)

// A service has one family of addresses or both. The first family and its address never change. The
// second comes and goes with ipFamilyPolicy: PreferDualStack takes it if the cluster has it,
// RequireDualStack refuses a cluster without it, and SingleStack releases it.

// familyOf returns the family of an address that has been checked.
func familyOf(ip string) corev1.IPFamily {
	if a, ok := parseIP(ip); ok && a.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// otherFamily returns the family that is not f.
func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// families are those that services can have, the default first.
func (c *cluster) families() []corev1.IPFamily {
	var out []corev1.IPFamily
	for _, p := range c.ownRanges() {
		f := corev1.IPv4Protocol
		if p.Addr().Is6() {
			f = corev1.IPv6Protocol
		}
		out = append(out, f)
	}
	return out
}

// isHeadless reports whether a service is found by the addresses of its endpoints alone.
func isHeadless(s *corev1.ServiceSpec) bool {
	return len(s.ClusterIPs) == 1 && s.ClusterIPs[0] == corev1.ClusterIPNone
}

// policyOf returns the policy of a service, or "" if it has none.
func policyOf(s *corev1.ServiceSpec) corev1.IPFamilyPolicy {
	if s.IPFamilyPolicy == nil {
		return ""
	}
	return *s.IPFamilyPolicy
}

// keepsPreference reports whether an update leaves alone what a service with PreferDualStack has. Such
// a service gains and loses no family by itself when the ranges of the cluster change.
func keepsPreference(s, old *corev1.Service) bool {
	prefers := func(p *corev1.IPFamilyPolicy) bool { return p == nil || *p == corev1.IPFamilyPolicyPreferDualStack }
	return old != nil && old.Spec.Type == s.Spec.Type && s.Spec.IPFamilyPolicy != nil &&
		prefers(s.Spec.IPFamilyPolicy) && prefers(old.Spec.IPFamilyPolicy) &&
		slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

// completeFamilies fills in the families of a service, and the policy that says how many there are. It
// reports fields that contradict each other.
func (c *cluster) completeFamilies(s, old *corev1.Service, f *status.Fields) {
	if !needsAddress(&s.Spec) || keepsPreference(s, old) {
		return
	}
	spec := &s.Spec
	noSelector := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			policy = *old.Spec.IPFamilyPolicy
		case noSelector: // nobody here knows what its endpoints are
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	if c.checkAddresses(s, old, f); f.Len() > 0 {
		return
	}
	if old != nil {
		releaseFamily(spec, &old.Spec, f)
	}
	checkPolicy(spec, f)
	if c.inferFamilies(spec, f); f.Len() > 0 {
		return
	}
	if noSelector {
		c.addFamily(spec, true)
		return
	}
	if c.checkConfigured(spec, f); f.Len() == 0 {
		c.addFamily(spec, len(c.families()) == 2)
	}
}

// releaseFamily takes the second family and its address from a service that becomes SingleStack. Other
// services cannot lose them.
func releaseFamily(s, old *corev1.ServiceSpec, f *status.Fields) {
	if policyOf(s) == corev1.IPFamilyPolicySingleStack {
		if len(s.ClusterIPs) > 1 && slices.Equal(s.ClusterIPs, old.ClusterIPs) {
			s.ClusterIPs = s.ClusterIPs[:1]
		}
		if len(s.IPFamilies) > 1 && slices.Equal(s.IPFamilies, old.IPFamilies) {
			s.IPFamilies = s.IPFamilies[:1]
		}
		return
	}
	at := f.At("spec", "ipFamilyPolicy")
	if n := len(s.ClusterIPs); n > 0 && n < len(old.ClusterIPs) {
		at.Invalid(policyOf(s), "must be 'SingleStack' to release the secondary cluster IP")
	}
	if n := len(s.IPFamilies); n > 0 && n < len(old.IPFamilies) {
		at.Invalid(policyOf(s), "must be 'SingleStack' to release the secondary IP family")
	}
}

// checkPolicy reports two families or addresses of a service that may have one.
func checkPolicy(s *corev1.ServiceSpec, f *status.Fields) {
	if policyOf(s) != corev1.IPFamilyPolicySingleStack {
		return
	}
	const why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple %s are specified"
	at := f.At("spec", "ipFamilyPolicy")
	if len(s.ClusterIPs) == 2 {
		at.Invalid(policyOf(s), fmt.Sprintf(why, "cluster IPs"))
	}
	if len(s.IPFamilies) == 2 {
		at.Invalid(policyOf(s), fmt.Sprintf(why, "IP families"))
	}
}

// inferFamilies adds the families of addresses that the client names.
func (c *cluster) inferFamilies(s *corev1.ServiceSpec, f *status.Fields) {
	for i, ip := range s.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			return
		}
		if i < len(s.IPFamilies) {
			continue
		}
		family := familyOf(ip)
		if !slices.Contains(c.families(), family) {
			f.At("spec", "clusterIPs").Index(i).Invalid(s.ClusterIPs, string(family)+" is not configured on this cluster")
			continue
		}
		s.IPFamilies = append(slices.Clone(s.IPFamilies), family)
	}
}

// checkConfigured reports families that the cluster has no addresses of.
func (c *cluster) checkConfigured(s *corev1.ServiceSpec, f *status.Fields) {
	have := c.families()
	if policyOf(s) == corev1.IPFamilyPolicyRequireDualStack && len(have) < 2 {
		f.At("spec", "ipFamilyPolicy").Invalid(policyOf(s), "this cluster is not configured for dual-stack services")
	}
	for i, family := range s.IPFamilies {
		if !slices.Contains(have, family) {
			f.At("spec", "ipFamilies").Index(i).Invalid(family, "not configured on this cluster")
		}
	}
}

// addFamily adds the default family to a service without any, and the other one if both can be had and
// its policy wants both.
func (c *cluster) addFamily(s *corev1.ServiceSpec, both bool) {
	if len(s.IPFamilies) == 0 {
		s.IPFamilies = c.families()[:1:1]
	}
	if both && len(s.IPFamilies) == 1 && policyOf(s) != corev1.IPFamilyPolicySingleStack {
		s.IPFamilies = []corev1.IPFamily{s.IPFamilies[0], otherFamily(s.IPFamilies[0])}
	}
}

// checkAddresses reports addresses and families of a service that are invalid, or do not match.
func (c *cluster) checkAddresses(s, old *corev1.Service, f *status.Fields) {
	spec, addresses := f.At("spec"), f.At("spec", "clusterIPs")
	ips := s.Spec.ClusterIPs
	switch one := s.Spec.ClusterIP; {
	case one == "" && len(ips) > 0:
		addresses.Invalid(ips, "must be empty when `clusterIP` is not specified")
	case one != "" && len(ips) == 0:
		addresses.Required("")
	case one != "" && ips[0] != one:
		addresses.Invalid(ips, "first value must match `clusterIP`")
	}
	seen := unique{}
	for i, family := range s.Spec.IPFamilies {
		at := spec.Child("ipFamilies").Index(i)
		oneOf(at, family, corev1.IPv4Protocol, corev1.IPv6Protocol)
		seen.check(at, string(family))
	}
	if p := s.Spec.IPFamilyPolicy; p != nil {
		oneOf(spec.Child("ipFamilyPolicy"), *p, corev1.IPFamilyPolicyPreferDualStack,
			corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
	}
	if !c.checkSpelling(s, old, addresses) {
		return
	}
	other := func(ip string) bool { return familyOf(ip) != familyOf(ips[0]) }
	if len(ips) > 1 && !slices.ContainsFunc(ips, other) {
		addresses.Invalid(ips, "may specify no more than one IP for each IP family")
	}
	if isHeadless(&s.Spec) {
		return
	}
	for i, ip := range ips[:min(len(ips), len(s.Spec.IPFamilies))] {
		if want := s.Spec.IPFamilies[i]; want != familyOf(ip) && (want == corev1.IPv4Protocol || want == corev1.IPv6Protocol) {
			addresses.Index(i).Invalid(ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", want, i))
		}
	}
}

// checkSpelling reports texts that are not addresses, and returns whether all are. What the service had
// before stays, even if it would be refused today.
func (c *cluster) checkSpelling(s, old *corev1.Service, at status.Field) bool {
	valid := true
	for i, ip := range s.Spec.ClusterIPs {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(s.Spec.ClusterIPs) > 1 {
				at.Invalid(s.Spec.ClusterIPs, "'None' must be the first and only value")
				valid = false
			}
			continue
		}
		if old == nil || !slices.Contains(old.Spec.ClusterIPs, ip) {
			valid = c.isIP(at.Index(i), ip) && valid
		}
	}
	if len(s.Spec.ClusterIPs) > 2 {
		at.Invalid(s.Spec.ClusterIPs, "may only hold up to 2 values")
	}
	return valid
}

// checkAddressUpdate reports changes of addresses and families: the first ones stay, and the second ones
// come and go by the policy.
func checkAddressUpdate(s, old *corev1.Service, f *status.Fields) {
	if !needsAddress(&s.Spec) || !needsAddress(&old.Spec) || isHeadless(&s.Spec) && isHeadless(&old.Spec) {
		return
	}
	now, before := s.Spec.ClusterIPs, old.Spec.ClusterIPs
	at := f.At("spec", "clusterIPs")
	switch {
	case len(now) == len(before):
		for i := range before {
			if now[i] != before[i] {
				at.Index(i).Invalid(now, "may not change once set")
			}
		}
	case len(now) == 0:
		at.Index(0).Invalid(now, "primary clusterIP can not be unset")
	case len(before) > 0 && now[0] != before[0]:
		at.Index(0).Invalid(now, "may not change once set")
	}
	if len(now) == 1 && len(before) > 1 {
		checkReleased(s, "clusterIP", f)
	}
	if isHeadless(&s.Spec) == isHeadless(&old.Spec) {
		checkFamilyUpdate(s, old, f)
	}
}

// checkFamilyUpdate is checkAddressUpdate for the families.
func checkFamilyUpdate(s, old *corev1.Service, f *status.Fields) {
	now, before := s.Spec.IPFamilies, old.Spec.IPFamilies
	at := f.At("spec", "ipFamilies").Index(0)
	switch {
	case len(now) == len(before):
		for i := range before {
			if now[i] != before[i] {
				at.Invalid(now, "may not change once set")
			}
		}
	case len(now) > 0 && len(before) > 0 && now[0] != before[0]:
		at.Invalid(s.Spec.ClusterIPs, "may not change once set")
	}
	if len(now) == 1 && len(before) > 1 {
		checkReleased(s, "ipFamily", f)
	}
}

// checkReleased reports a service that has lost its second address or family and is not SingleStack.
func checkReleased(s *corev1.Service, what string, f *status.Fields) {
	if policyOf(&s.Spec) != corev1.IPFamilyPolicySingleStack {
		f.At("spec", "ipFamilyPolicy").Invalid(s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary "+what)
	}
}
