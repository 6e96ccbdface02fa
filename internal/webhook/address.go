package webhook

import (
	"net/netip"
	"slices"
)

// IsMetadata reports whether an address is one where a cloud tells a machine its secrets, besides the
// link-local ones. Who answers there believes whoever can reach it. The address is one of [Plain].
func IsMetadata(ip netip.Addr) bool {
	return slices.Contains([]netip.Addr{
		netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
		netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
		netip.MustParseAddr("fd00:c1::a9fe:a9fe"), netip.MustParseAddr("fd00:42::42"),
	}, ip)
}

// Plain returns the IPv4 address that an IPv6 address stands for, or else the address without its
// zone. A gateway translates what begins with 64:ff9b:: (NAT64) or 2002: (6to4), and so a name could
// lead to a link-local address that is not seen as one.
func Plain(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if !ip.Is6() || ip.IsLoopback() || ip.IsUnspecified() {
		return ip
	}
	all := ip.As16()
	for _, known := range [...]struct {
		prefix netip.Prefix
		at     int
	}{
		{netip.MustParsePrefix("64:ff9b::/96"), 12},
		{netip.MustParsePrefix("64:ff9b:1::/48"), 12},
		{netip.MustParsePrefix("2002::/16"), 2},
		{netip.MustParsePrefix("::/96"), 12},
	} {
		if known.prefix.Contains(ip) {
			return netip.AddrFrom4([4]byte(all[known.at : known.at+4]))
		}
	}
	return ip
}
