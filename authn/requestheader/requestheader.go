package requestheader

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
)

// Config says in which header fields a proxy names the user. Case does not matter.
type Config struct {
	// UserHeaders, UIDHeaders and GroupHeaders are names of fields. The first field with a value
	// counts for the user and the uid; groups are taken from all. An empty list of the last two
	// means that the proxy does not name them.
	UserHeaders, UIDHeaders, GroupHeaders []string

	// ExtraPrefixes begin the names of fields with further facts. The rest of the name is the key,
	// percent-encoded.
	ExtraPrefixes []string

	// ProxyNames are the common names of the proxies' certificates.
	ProxyNames []string

	// AnyProxyName accepts every certificate of the authority. Set it only for an authority that
	// signs nothing but proxies; ProxyNames must be empty.
	AnyProxyName bool
}

// Standard are the fields that Kubernetes' aggregator uses. It has no ProxyNames.
func Standard() Config {
	return Config{
		UserHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
}

// Authenticator authenticates by header fields of front proxies. It is safe for concurrent use.
type Authenticator struct {
	proxies authn.Authenticator
	cfg     Config
}

var (
	_ authn.Authenticator = (*Authenticator)(nil)
	_ authn.HeaderOwner   = (*Authenticator)(nil)
)

// New returns an authenticator for users whom proxies name. The argument proxies verifies a proxy's
// own credential; it is usually the authenticator of package x509 for the authority of the proxies,
// whose Open reads a changed file again.
//
// A configuration without UserHeaders is an error, and one with neither ProxyNames nor
// AnyProxyName: it would be open to more than its author thought of.
// Source: security vectors A2, A3.
func New(proxies authn.Authenticator, cfg Config) (*Authenticator, error) {
	switch {
	case proxies == nil:
		return nil, errors.New("authn/requestheader: what verifies the proxies must not be nil")
	case len(cfg.UserHeaders) == 0:
		return nil, errors.New("authn/requestheader: no header is configured for the name of the user")
	case len(cfg.ProxyNames) == 0 && !cfg.AnyProxyName:
		return nil, errors.New("authn/requestheader: no names of proxies are configured; set AnyProxyName if the authority signs nothing else")
	case len(cfg.ProxyNames) > 0 && cfg.AnyProxyName:
		return nil, errors.New("authn/requestheader: both names of proxies and AnyProxyName are configured")
	}
	copied := Config{ProxyNames: slices.Clone(cfg.ProxyNames), AnyProxyName: cfg.AnyProxyName}
	for _, list := range []struct{ from, to *[]string }{
		{&cfg.UserHeaders, &copied.UserHeaders},
		{&cfg.UIDHeaders, &copied.UIDHeaders},
		{&cfg.GroupHeaders, &copied.GroupHeaders},
		{&cfg.ExtraPrefixes, &copied.ExtraPrefixes},
	} {
		for _, name := range *list.from {
			if !isToken(name) || reserved(name, list.to == &copied.ExtraPrefixes) {
				return nil, fmt.Errorf("authn/requestheader: %q cannot be the name of a header that names a user", name)
			}
			*list.to = append(*list.to, http.CanonicalHeaderKey(name))
		}
	}
	return &Authenticator{proxies: proxies, cfg: copied}, nil
}

// isToken reports whether a text can be the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// reserved reports whether a header has a meaning of its own, for which handlers need it.
func reserved(name string, isPrefix bool) bool {
	name = strings.ToLower(name)
	for _, known := range []string{
		"accept", "accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type", "host",
		"if-match", "if-none-match", "origin", "sec-websocket-protocol", "transfer-encoding", "upgrade", "user-agent",
	} {
		if name == known || isPrefix && strings.HasPrefix(known, name) {
			return true
		}
	}
	return strings.HasPrefix(name, "impersonate-") || isPrefix && strings.HasPrefix("impersonate-", name)
}

// IdentityHeaders returns the fields that name a user, for [authn.Middleware].
func (a *Authenticator) IdentityHeaders() (names, prefixes []string) {
	return slices.Concat(a.cfg.UserHeaders, a.cfg.UIDHeaders, a.cfg.GroupHeaders), slices.Clone(a.cfg.ExtraPrefixes)
}

// Authenticate returns the user whom a verified proxy names. The user expires with the proxy's
// certificate. A request without the field of the user is left to other authenticators, and so is
// one without a client certificate.
//
// A request that names a user is an error if its client certificate is not that of a proxy, if a
// field that holds one value has several or begins or ends with a blank, or if an extra key cannot be
// decoded. A blank is never cut off: "alice" and the same name after a no-break space may be two users of
// the proxy, and one must not become the other. A proxy is trusted:
// it may name every user and group, also those of the system.
// Source: security vector A2.
func (a *Authenticator) Authenticate(r *http.Request) (authn.User, bool, error) {
	name, err := first(r.Header, a.cfg.UserHeaders)
	if err == nil && name == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return authn.User{}, false, nil
	}
	proxy, ok, proxyErr := a.proxies.Authenticate(r)
	switch {
	case proxyErr != nil:
		return authn.User{}, false, fmt.Errorf("front proxy: %w", proxyErr)
	case !ok:
		return authn.User{}, false, nil
	case !a.cfg.AnyProxyName && !slices.Contains(a.cfg.ProxyNames, proxy.Name):
		return authn.User{}, false, fmt.Errorf("front proxy: the name %q is not allowed", proxy.Name)
	case err != nil:
		return authn.User{}, false, err
	}
	u := authn.User{Name: name, Expires: proxy.Expires, Method: "requestheader", Issuer: proxy.Name}
	if u.UID, err = first(r.Header, a.cfg.UIDHeaders); err != nil {
		return authn.User{}, false, err
	}
	for _, header := range a.cfg.GroupHeaders {
		for _, group := range r.Header[header] {
			if group != "" {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	u.Extra, err = a.extra(r.Header)
	return u, err == nil, err
}

// first returns the value of the first field that has one, or "".
func first(h http.Header, names []string) (string, error) {
	for _, name := range names {
		switch values := h[name]; {
		case len(values) > 1:
			return "", fmt.Errorf("front proxy: %d fields %s, at most one is allowed", len(values), name)
		case len(values) == 1 && strings.TrimSpace(values[0]) != values[0]:
			return "", fmt.Errorf("front proxy: the field %s begins or ends with a blank", name)
		case len(values) == 1 && values[0] != "":
			return values[0], nil
		}
	}
	return "", nil
}

// extra returns the further facts. Fields are read in the order of their names, so that two spellings
// of a key give the same list each time.
func (a *Authenticator) extra(h http.Header) (map[string][]string, error) {
	if len(a.cfg.ExtraPrefixes) == 0 {
		return nil, nil
	}
	var names []string
	for name := range h {
		if a.isExtra(name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil, nil
	}
	slices.Sort(names)
	out := map[string][]string{}
	for _, name := range names {
		i := slices.IndexFunc(a.cfg.ExtraPrefixes, func(prefix string) bool { return strings.HasPrefix(http.CanonicalHeaderKey(name), prefix) })
		// Names of fields have no case, and what is encoded has: as in Kubernetes, %41 is A and A is a.
		key, err := url.PathUnescape(strings.ToLower(http.CanonicalHeaderKey(name)[len(a.cfg.ExtraPrefixes[i]):]))
		if err != nil || key == "" {
			return nil, errors.New("front proxy: an extra key cannot be decoded")
		}
		out[key] = append(out[key], h[name]...)
	}
	return out, nil
}

func (a *Authenticator) isExtra(name string) bool {
	return slices.ContainsFunc(a.cfg.ExtraPrefixes, func(prefix string) bool { return strings.HasPrefix(http.CanonicalHeaderKey(name), prefix) })
}
