package request

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// FromOtherSite reports whether a browser sent r on behalf of a page of another site. Such a page
// borrows what the browser holds for its user, such as a client certificate, and for many requests
// the browser does not ask the server first. allowed lists the origins that may do so, such as
// "https://console.example.com".
//
// A request without Origin and Sec-Fetch-Site does not come from a page. Everything that is unclear
// counts as another site: the opaque origin "null", an origin given twice, another port or scheme.
//
// Source: H10, S3, S24.
func FromOtherSite(r *http.Request, allowed []string) bool {
	origins, sites := r.Header["Origin"], r.Header["Sec-Fetch-Site"]
	if len(origins) > 1 || len(sites) > 1 {
		return true
	}
	if len(origins) == 1 && slices.Contains(allowed, origins[0]) {
		return false
	}
	sameOrigin := len(sites) == 1 && sites[0] == "same-origin"
	if len(sites) == 1 && !sameOrigin && sites[0] != "none" { // "none": the user typed the address
		return true
	}
	return len(origins) == 1 && !isOwnOrigin(r, origins[0], sameOrigin)
}

// isOwnOrigin reports whether origin is the one at which r addresses this server. anyScheme accepts
// both schemes: TLS may end at a proxy, and then the scheme that the browser used is unknown.
func isOwnOrigin(r *http.Request, origin string, anyScheme bool) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	if !ok || scheme != "https" && scheme != "http" {
		return false
	}
	if !anyScheme && (scheme == "https") != (r.TLS != nil) {
		return false
	}
	own, ok := canonicalHost(r.Host, scheme)
	if !ok {
		return false
	}
	theirs, ok := canonicalHost(host, scheme)
	return ok && theirs == own
}

// IsOrigin reports whether s is an origin as browsers write it: "https://host" or
// "https://host:port", or the same with another scheme.
func IsOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == s
}

// canonicalHost returns a host in lower case with its port. ok is false for anything else, such as a
// host with user information or a path.
func canonicalHost(host, scheme string) (canonical string, ok bool) {
	if host == "" || strings.HasSuffix(host, ":") || strings.ContainsFunc(host, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", false
	}
	u, err := url.Parse("//" + host)
	if err != nil || u.Host != host || u.Hostname() == "" {
		return "", false
	}
	port := u.Port()
	switch {
	case port != "":
	case scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return strings.ToLower(u.Hostname()) + ":" + port, true
}

// ChangesState reports whether a request may change something, judged by its method alone, or asks
// for a connection of its own. Browsers let pages of other sites open WebSockets and read them.
func ChangesState(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return len(r.Header["Upgrade"]) > 0
	}
	return true
}
