package kindwright

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// forThisHost rejects requests that a browser may have sent for a page of another site whose name
// resolves to this machine. The browser takes the server for that site, so the page may read the
// answers, and no header says where it came from. The name is all that tells.
//
// With TLS the browser asks for a certificate of the name. From elsewhere the page is just another
// client. So this concerns plain connections to the loopback interface alone.
//
// Source: H9.
func (s *Server) forThisHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && onLoopback(r) && !isLocalName(r.Host) && !slices.ContainsFunc(s.cfg.access.Hosts, func(host string) bool {
			return host == "*" || strings.EqualFold(host, r.Host) || strings.EqualFold(host, withoutPort(r.Host))
		}) {
			negotiate.WriteError(w, r, status.Forbidden(meta.GroupResource{}, "", "").WithMessage(
				"a request that comes over a plain connection from this machine must be for localhost, a name without a dot or an address: "+
					"a page of another site could be behind any other name. Access.Hosts lists further names"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// onLoopback reports whether a request came over the loopback interface. A request that a program
// hands over by itself did not.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.IP.IsLoopback()
}

// isLocalName reports whether the host of a request cannot belong to another site: it is an address,
// localhost or a name below it, a name without a dot, which only a local network has, or is missing, as
// only old clients leave it out.
func isLocalName(host string) bool {
	name := withoutPort(host)
	if _, err := netip.ParseAddr(name); err == nil || name == "" {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost")
}

// withoutPort returns the name or the address of a Host header, without brackets.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
