package authn

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// MaxTokenBytes is the longest bearer token that is looked at.
const MaxTokenBytes = 64 << 10

// BearerToken returns the bearer token of a request, for authenticators that check tokens. ok is
// false when there is none, also when the Authorization header has another scheme: no such header
// is a bearer token (security vector A6), and [Middleware] refuses it in the end.
//
// The token comes from "Authorization: Bearer <token>", with the scheme in any case (AUTHN-17,
// AUTHN-19), or from a WebSocket subprotocol "base64url.bearer.authorization.<domain>.<token in
// unpadded base64url>" that stands beside another one. An error means that there is a token but
// that it cannot be told which: an empty one, blanks or bytes outside printable ASCII in it,
// several of them, or one beyond [MaxTokenBytes] (security vector A7). No error holds any part of a
// token.
func BearerToken(r *http.Request) (token string, ok bool, err error) {
	fromHeader, inHeader, err := headerToken(r.Header["Authorization"])
	if err != nil {
		return "", false, err
	}
	fromProtocol, inProtocol, err := subprotocolToken(r.Header["Sec-Websocket-Protocol"])
	switch {
	case err != nil:
		return "", false, err
	case inHeader && inProtocol:
		return "", false, errors.New("bearer token in the authorization header and in a websocket subprotocol")
	case inHeader:
		token = fromHeader
	case inProtocol:
		token = fromProtocol
	default:
		return "", false, nil
	}
	if why := CheckToken(token); why != "" {
		return "", false, fmt.Errorf("bearer token %s", why)
	}
	return token, true, nil
}

// CheckToken returns "" when a request could carry the token, else what is wrong with it, without
// repeating it.
func CheckToken(token string) string {
	switch {
	case token == "":
		return "is empty"
	case len(token) > MaxTokenBytes:
		return fmt.Sprintf("is longer than %d bytes", MaxTokenBytes)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "contains blanks or characters outside printable ASCII"
	}
	return ""
}

func headerToken(headers []string) (token string, ok bool, err error) {
	if len(headers) > 1 {
		return "", false, manyHeaders(len(headers))
	}
	if len(headers) == 0 {
		return "", false, nil
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	return token, strings.EqualFold(scheme, "Bearer"), nil
}

func manyHeaders(n int) error {
	return fmt.Errorf("%d authorization headers: it is undefined which one counts", n)
}

// subprotocolPrefix starts the WebSocket subprotocol that carries a token; the group domain and the
// token follow.
const subprotocolPrefix = "base64url.bearer.authorization."

func subprotocolToken(lines []string) (token string, ok bool, err error) {
	found, others := "", 0
	for protocol := range subprotocols(lines) {
		switch rest, isToken := strings.CutPrefix(protocol, subprotocolPrefix); {
		case !isToken:
			others++
		case ok:
			return "", false, errors.New("several websocket subprotocols with a bearer token")
		default:
			// The encoded token has no dot, the domain may have several.
			found, ok = rest[strings.LastIndexByte(rest, '.')+1:], true
		}
	}
	if !ok {
		return "", false, nil
	}
	if others == 0 {
		// The server must answer with a subprotocol, and it must not be the one with the secret.
		return "", false, errors.New("websocket subprotocol with a bearer token without another subprotocol beside it")
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(found)
	if err != nil {
		return "", false, errors.New("websocket subprotocol with a bearer token that is not unpadded base64url")
	}
	return string(decoded), true, nil
}

// subprotocols yields the names in the lines of a Sec-WebSocket-Protocol header.
func subprotocols(lines []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for protocol := range strings.SplitSeq(line, ",") {
				if protocol = strings.TrimSpace(protocol); protocol != "" && !yield(protocol) {
					return
				}
			}
		}
	}
}
