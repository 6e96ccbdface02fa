package cel

import (
	"fmt"
	"net/netip"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// address and network count their bytes for the cost of comparing them.
type (
	address struct{ netip.Addr }
	network struct{ netip.Prefix }

	ipValue   = extension[address]
	cidrValue = extension[network]
)

func (a address) bytes() int { return (a.BitLen() + 7) / 8 }
func (n network) bytes() int { return (n.Bits() + 7) / 8 }

var (
	ipType   = celgo.OpaqueType("net.IP")
	cidrType = celgo.OpaqueType("net.CIDR")
)

func newIP(a netip.Addr) ref.Val {
	return &ipValue{is: ipType, data: address{a}, equal: func(a, b address) bool { return a == b }}
}

func newCIDR(p netip.Prefix) ref.Val {
	return &cidrValue{is: cidrType, data: network{p}, equal: func(a, b network) bool { return a == b }}
}

// parseIP reads an address without zone that is no IPv4 address in the form of IPv6: two forms of
// one address would compare as different.
func parseIP(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return a, fmt.Errorf("IP Address %q parse error during conversion from string: %w", text, err)
	case a.Zone() != "":
		return a, fmt.Errorf("IP address %q with zone value is not allowed", text)
	case a.Is4In6():
		return a, fmt.Errorf("IPv4-mapped IPv6 address %q is not allowed", text)
	}
	return a, nil
}

func parseCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("network address parse error during conversion from string: %w", err)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("IPv4-mapped IPv6 address %q is not allowed", text)
	}
	return p, nil
}

func stringToIP(text types.String) ref.Val {
	a, err := parseIP(string(text))
	if err != nil {
		return types.NewErr("%v", err)
	}
	return newIP(a)
}

func stringToCIDR(text types.String) ref.Val {
	p, err := parseCIDR(string(text))
	if err != nil {
		return types.NewErr("network address parse error during conversion from string: %v", err)
	}
	return newCIDR(p)
}

// networkLibrary has the functions for addresses and networks. That of cel-go has more functions,
// and rejects literals that Kubernetes accepts.
// Source: CEL-27.
func networkLibrary() []celgo.EnvOption {
	is := func(name, id string, f func(netip.Addr) bool) celgo.EnvOption {
		return celgo.Function(name, celgo.MemberOverload(id, signature(ipType), celgo.BoolType,
			unary(func(v *ipValue) ref.Val { return types.Bool(f(v.data.Addr)) })))
	}
	return append([]celgo.EnvOption{
		celgo.Types(ipType, cidrType),
		is("isUnspecified", "ip_is_unspecified", netip.Addr.IsUnspecified),
		is("isLoopback", "ip_is_loopback", netip.Addr.IsLoopback),
		is("isLinkLocalMulticast", "ip_is_link_local_multicast", netip.Addr.IsLinkLocalMulticast),
		is("isLinkLocalUnicast", "ip_is_link_local_unicast", netip.Addr.IsLinkLocalUnicast),
		is("isGlobalUnicast", "ip_is_global_unicast", netip.Addr.IsGlobalUnicast),
		celgo.Function("ip",
			celgo.Overload("string_to_ip", signature(celgo.StringType), ipType, unary(stringToIP)),
			celgo.MemberOverload("cidr_ip", signature(cidrType), ipType, unary(func(n *cidrValue) ref.Val { return newIP(n.data.Addr()) })),
		),
		celgo.Function("isIP", celgo.Overload("is_ip", signature(celgo.StringType), celgo.BoolType, unary(func(s types.String) ref.Val {
			_, err := parseIP(string(s))
			return types.Bool(err == nil)
		}))),
		celgo.Function("ip.isCanonical", celgo.Overload("ip_is_canonical", signature(celgo.StringType), celgo.BoolType, unary(func(s types.String) ref.Val {
			a, err := parseIP(string(s))
			if err != nil {
				return types.NewErr("%v", err)
			}
			return types.Bool(a.String() == string(s))
		}))),
		celgo.Function("family", celgo.MemberOverload("ip_family", signature(ipType), celgo.IntType, unary(func(v *ipValue) ref.Val {
			if v.data.Is4() {
				return types.Int(4)
			}
			return types.Int(6)
		}))),
	}, cidrFunctions()...)
}

func cidrFunctions() []celgo.EnvOption {
	containsIP := func(n *cidrValue, a *ipValue) ref.Val { return types.Bool(n.data.Contains(a.data.Addr)) }
	containsCIDR := func(n, part *cidrValue) ref.Val {
		return types.Bool(n.data.Overlaps(part.data.Prefix) && n.data.Bits() <= part.data.Bits())
	}
	member := celgo.MemberOverload
	return []celgo.EnvOption{
		celgo.Function("cidr", celgo.Overload("string_to_cidr", signature(celgo.StringType), cidrType, unary(stringToCIDR))),
		celgo.Function("isCIDR", celgo.Overload("is_cidr", signature(celgo.StringType), celgo.BoolType, unary(func(s types.String) ref.Val {
			_, err := parseCIDR(string(s))
			return types.Bool(err == nil)
		}))),
		celgo.Function("containsIP",
			member("cidr_contains_ip_ip", signature(cidrType, ipType), celgo.BoolType, binary(containsIP)),
			member("cidr_contains_ip_string", signature(cidrType, celgo.StringType), celgo.BoolType, binary(func(n *cidrValue, s types.String) ref.Val {
				a, ok := stringToIP(s).(*ipValue)
				if !ok {
					return types.NoSuchOverloadErr() // as Kubernetes says
				}
				return containsIP(n, a)
			})),
		),
		celgo.Function("containsCIDR",
			member("cidr_contains_cidr", signature(cidrType, cidrType), celgo.BoolType, binary(containsCIDR)),
			member("cidr_contains_cidr_string", signature(cidrType, celgo.StringType), celgo.BoolType, binary(func(n *cidrValue, s types.String) ref.Val {
				part, ok := stringToCIDR(s).(*cidrValue)
				if !ok {
					return stringToCIDR(s)
				}
				return containsCIDR(n, part)
			})),
		),
		celgo.Function("prefixLength", member("cidr_prefix_length", signature(cidrType), celgo.IntType,
			unary(func(n *cidrValue) ref.Val { return types.Int(n.data.Bits()) }))),
		celgo.Function("masked", member("cidr_masked", signature(cidrType), cidrType,
			unary(func(n *cidrValue) ref.Val { return newCIDR(n.data.Masked()) }))),
		celgo.Function("string",
			celgo.Overload("ip_to_string", signature(ipType), celgo.StringType, unary(func(v *ipValue) ref.Val { return types.String(v.data.String()) })),
			celgo.Overload("cidr_to_string", signature(cidrType), celgo.StringType, unary(func(n *cidrValue) ref.Val { return types.String(n.data.String()) })),
		),
	}
}
