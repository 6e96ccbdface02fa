package aggregate

import (
	"errors"
	"net/http"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/spelling"
)

// The headers that name the user to a back end.
const (
	userHeader  = "X-Remote-User"
	uidHeader   = "X-Remote-Uid"
	groupHeader = "X-Remote-Group"
	extraPrefix = "X-Remote-Extra-"
)

// errBlank refuses users whose name another server would read as that of somebody else.
var errBlank = errors.New("the user cannot be named to another server: the name, the uid, a group or an extra value is blank, begins or ends with a blank, or has a control character")

// identify sets the headers that name a user. Whatever begins and ends with blanks would arrive without
// them, as another user.
func identify(h http.Header, u authn.User) error {
	if !travels(u.Name) || u.UID != "" && !travels(u.UID) {
		return errBlank
	}
	h[userHeader] = []string{u.Name}
	if u.UID != "" {
		h[uidHeader] = []string{u.UID}
	}
	for _, g := range u.Groups {
		if !travels(g) {
			return errBlank
		}
	}
	if len(u.Groups) > 0 {
		h[groupHeader] = u.Groups[:len(u.Groups):len(u.Groups)]
	}
	for key, values := range u.Extra {
		if key == "" {
			return errBlank
		}
		name := extraPrefix + escaped(key)
		for _, v := range values {
			if v != "" && !travels(v) {
				return errBlank
			}
		}
		h[name] = append(h[name], values...) // two keys may differ in case
	}
	return nil
}

// travels reports whether a text arrives in a header as it was sent.
func travels(s string) bool {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// escaped writes the key of an extra value as a part of a header's name. Capitals are encoded, too,
// because names of headers have no case.
func escaped(key string) string {
	const hex = "0123456789abcdef"
	plain := true
	for i := range len(key) {
		plain = plain && isPlain(key[i])
	}
	if plain {
		return key
	}
	var out strings.Builder
	for i := range len(key) {
		if c := key[i]; isPlain(c) {
			out.WriteByte(c)
		} else {
			out.WriteByte('%')
			out.WriteByte(hex[c>>4])
			out.WriteByte(hex[c&15])
		}
	}
	return out.String()
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0
}

// strip removes what a client must not tell a back end: credentials, every spelling of the headers that
// name a user, and those that some frameworks take for another method or path than that of the request.
// Some servers take an underscore or a dot for a hyphen.
func strip(h http.Header) {
	for name := range h {
		if isOurs(name) {
			delete(h, name)
		}
	}
}

// isOurs reports whether a header of a request ends at this server.
func isOurs(name string) bool {
	if name == "" {
		return true
	}
	switch name[0] | 0x20 {
	case 'x', 'i', 'a', 'c', 'p', 'f', 't':
	default:
		return false
	}
	for _, prefix := range [...]string{"x-remote-", "impersonate-", "x-forwarded-"} {
		if spelling.Begins(name, prefix) {
			return true
		}
	}
	for _, one := range [...]string{
		"authorization", "proxy-authorization", "cookie", "audit-id", "x-real-ip", "forwarded",
		"content-length", "transfer-encoding", // how long the body is, is said anew
		"x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url", // than was authorized
	} {
		if len(name) == len(one) && spelling.Begins(name, one) {
			return true
		}
	}
	return false
}
