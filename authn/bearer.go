package authn

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// MaxTokenBytes is the length of the longest accepted bearer token.
const MaxTokenBytes = 64 << 10

// BearerToken returns the bearer token of a request, for authenticators that check tokens. ok is
// false if there is none, including when the Authorization header has another scheme; [Middleware]
// rejects that header in the end.
//
// The token comes from "Authorization: Bearer <token>", with the scheme in any case. It may also
// come from a WebSocket subprotocol "base64url.bearer.authorization.<domain>.<token in unpadded
// base64url>" of a WebSocket handshake that offers another subprotocol as well.
//
// An error means that the request has a token that cannot be read: it is empty, contains blanks or
// bytes outside printable ASCII, occurs more than once, or is longer than [MaxTokenBytes]. Errors
// contain no part of a token.
// Source: AUTHN-17, AUTHN-19, security vectors A6, A7.
func BearerToken(r *http.Request) (token string, ok bool, err error) {
	fromHeader, inHeader, err := headerToken(r.Header["Authorization"])
	if err != nil {
		return "", false, err
	}
	fromProtocol, inProtocol, err := subprotocolToken(r.Header["Sec-Websocket-Protocol"])
	switch {
	case err != nil:
		return "", false, err
	case inProtocol && len(r.Header["Upgrade"]) == 0:
		return "", false, errors.New("websocket subprotocol with a bearer token in a request that is no handshake")
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

// CheckToken returns "" if a request could carry the token, or else the reason why not. It does not
// repeat the token.
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
	return fmt.Errorf("%d authorization headers, at most one is allowed", n)
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
			// The encoded token has no dot; the domain may have several.
			found, ok = rest[strings.LastIndexByte(rest, '.')+1:], true
		}
	}
	if !ok {
		return "", false, nil
	}
	if others == 0 {
		// The server must answer with one of the subprotocols, but not with the secret one.
		return "", false, errors.New("websocket subprotocol with a bearer token needs a second subprotocol")
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
