package webhook

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/kindwright/kindwright/egress"
)

// Dialer returns what connects through a tunnel, or as direct says if there is none, but not to addresses
// that refuse returns an error for. These are [Plain]. A direct connection is judged when its name has been
// resolved.
//
// A tunnel server resolves names itself. An address without a name is judged before it is asked for, as
// are the names of loopback addresses. Another name is that server's: whoever connects by it must begin
// TLS, which no metadata service answers.
func Dialer(tunnel egress.DialFunc, direct net.Dialer, refuse func(netip.Addr) error) egress.DialFunc {
	if tunnel == nil {
		direct.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("address of a connection: %w", err)
			}
			return refuse(Plain(at.Addr()))
		}
		return direct.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		for _, ip := range addressesOf(host) {
			if err := refuse(Plain(ip)); err != nil {
				return nil, err
			}
		}
		return tunnel(ctx, network, address)
	}
}

// addressesOf returns the addresses of a host that has the same ones everywhere.
func addressesOf(host string) []netip.Addr {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return []netip.Addr{netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}
	}
	return nil
}
