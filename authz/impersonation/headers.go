package impersonation

import (
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/status"
)

// prefix begins the canonical names of the headers.
const prefix = "Impersonate-"

// maxParts bounds the groups and extra values of one request. The authorizer is asked about each.
const maxParts = 256

// isHeader reports whether a header asks for impersonation, and returns what of: "User", "Group",
// "Uid" or "Extra-…". net/http makes the names canonical; an in-process caller may not have. A name
// with an underscore in place of the first hyphen has no meaning, but some back ends read it as the
// one with the hyphen.
func isHeader(name string) (part string, is bool) {
	if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)-1], prefix[:len(prefix)-1]) {
		return "", false
	}
	switch name[len(prefix)-1] {
	case '-':
		return textproto.CanonicalMIMEHeaderKey(name)[len(prefix):], true
	case '_':
		return "", true
	}
	return "", false
}

// headerNames returns the names of the headers that ask for impersonation. They are in order, so that
// extra values are too. Nearly no request has any.
func headerNames(h http.Header) []string {
	var names []string
	for name := range h {
		if _, is := isHeader(name); is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Read returns the user whom the Impersonate-* headers name, without the groups that follow from
// the name. ok is false if there are no such headers.
//
// The error is a 400. Headers are wrong if they name no user, several users or uids, an empty part,
// a part that [authn.CheckText] rejects, an extra key that is not percent-encoded, or more than 256
// groups and extra values. A header Impersonate-* without a meaning is wrong too, because the sender
// expects something of it. Source: IMP-01, IMP-03.
func Read(h http.Header) (wanted authn.User, ok bool, err error) {
	parts, users, uids := 0, 0, 0
	for _, name := range headerNames(h) {
		part, _ := isHeader(name)
		ok = true
		values := h[name]
		for _, v := range values {
			if v == "" && part != "User" || authn.CheckText(v) != "" {
				return authn.User{}, true, wrong("an empty name, or of one with characters that do not show")
			}
		}
		switch key, extra := strings.CutPrefix(part, "Extra-"); {
		case part == "User":
			// Several lines are an error even if all but one are empty: somebody between may go by another
			// one than we do.
			if wanted.Name = strings.Join(values, ""); wanted.Name != "" {
				users += len(values)
			}
		case part == "Uid":
			wanted.UID = strings.Join(values, "")
			uids += len(values)
		case part == "Group":
			wanted.Groups = append(wanted.Groups, values...)
			parts += len(values)
		case extra:
			key, err := url.PathUnescape(strings.ToLower(key))
			if err != nil || key == "" || authn.CheckText(key) != "" {
				return authn.User{}, true, wrong("an extra whose key cannot be read")
			}
			if wanted.Extra == nil && len(values) > 0 {
				wanted.Extra = map[string][]string{}
			}
			if parts += len(values); len(values) > 0 {
				wanted.Extra[key] = append(wanted.Extra[key], values...)
			}
		default:
			return authn.User{}, true, wrong("something by a header that has no meaning")
		}
	}
	switch {
	case !ok:
		return authn.User{}, false, nil
	case users > 1 || uids > 1:
		return authn.User{}, true, wrong("several users or uids")
	case users == 0:
		return authn.User{}, true, status.BadRequest("requested &user.DefaultInfo{Name:\"\", UID:%q, Groups:%#v, Extra:%#v} without impersonating a user name",
			wanted.UID, wanted.Groups, wanted.Extra) // in the words of Kubernetes, which clients compare
	case parts > maxParts:
		return authn.User{}, true, wrong("more than 256 groups and extra values")
	}
	return wanted, true, nil
}

func wrong(what string) error { return status.BadRequest("impersonation of %s", what) }

// without returns the headers without those that ask for impersonation. It does not modify h.
func without(h http.Header) http.Header {
	out := maps.Clone(h)
	for name := range h {
		if _, is := isHeader(name); is {
			delete(out, name)
		}
	}
	return out
}
