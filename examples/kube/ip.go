package kube

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kindwright/kindwright/status"
)

// parseIP reads an address as Kubernetes always has: zeros may lead its numbers, and an IPv4 address may
// be written as an IPv6 address. All spellings of an address give the same value.
func parseIP(s string) (netip.Addr, bool) {
	ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return ip.Unmap(), ok
}

// isIP reports a text that is not an IP address.
func (c *cluster) isIP(at status.Field, s string) bool {
	return asInvalid(at, validation.IsValidIPForLegacyField(nil, s, !c.LooseAddresses, nil))
}

// isCIDR reports a text that is not a range of IP addresses.
func (c *cluster) isCIDR(at status.Field, s string) bool {
	return asInvalid(at, validation.IsValidCIDRForLegacyField(nil, s, !c.LooseAddresses, nil))
}

// isEndpoint reports a text that is not the address of another machine.
func (c *cluster) isEndpoint(at status.Field, s string) {
	if c.isIP(at, s) {
		isElsewhere(at, s)
	}
}

// isElsewhere reports an address that means another machine for each that uses it.
func isElsewhere(at status.Field, s string) {
	switch a, _ := parseIP(s); {
	case a.IsUnspecified():
		at.Invalid(s, "may not be unspecified ("+s+")")
	case a.IsLoopback():
		at.Invalid(s, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	case a.IsLinkLocalUnicast():
		at.Invalid(s, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	case a.IsLinkLocalMulticast():
		at.Invalid(s, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	}
}

// asInvalid reports what Kubernetes' own rules say of a value, and returns whether they accept it.
func asInvalid(at status.Field, why field.ErrorList) bool {
	for _, e := range why {
		at.Invalid(e.BadValue, e.Detail)
	}
	return len(why) == 0
}
