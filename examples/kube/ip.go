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
	if !c.isIP(at, s) {
		return
	}
	if a, _ := parseIP(s); a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		at.Invalid(s, "may not be unspecified, in the loopback range or link-local")
	}
}

// asInvalid reports what Kubernetes' own rules say of a value, and returns whether they accept it.
func asInvalid(at status.Field, why field.ErrorList) bool {
	for _, e := range why {
		at.Invalid(e.BadValue, e.Detail)
	}
	return len(why) == 0
}
