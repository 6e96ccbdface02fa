package authn

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	inProtocol, err := offered(r)
	switch {
	case err != nil:
		return "", false, err
	case inProtocol.found && len(r.Header["Upgrade"]) == 0:
		return "", false, errors.New("websocket subprotocol with a bearer token in a request that is no handshake")
	case inHeader && inProtocol.found:
		return "", false, errors.New("bearer token in the authorization header and in a websocket subprotocol")
	case inHeader:
		token = fromHeader
	case inProtocol.found:
		if token, err = inProtocol.token, inProtocol.err; err != nil {
			return "", false, err
		}
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

// encodedToken returns the token in the subprotocols as it is written.
func encodedToken(lines []string) (found string, ok bool, err error) {
	others := 0
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
	return found, true, nil
}

// offer is what the subprotocols of a request say about a token.
type offer struct {
	lines  []string // of the header
	found  bool
	token  string
	err    error // of its decoding
	misuse error // of the header
}

type offerKey struct{}

// read reads the lines of a Sec-WebSocket-Protocol header.
func read(lines []string) offer {
	from, ok, err := encodedToken(lines)
	o := offer{lines: lines, found: ok, misuse: err}
	if ok && err == nil {
		o.token, o.err = decodeToken(from)
	}
	return o
}

// withOffer returns a request that keeps what its subprotocols say, so that each of many
// authenticators need not read them again. Requests without any are returned as they are.
func withOffer(r *http.Request) *http.Request {
	lines := r.Header["Sec-Websocket-Protocol"]
	if len(lines) == 0 {
		return r
	}
	o := read(slices.Clone(lines))
	return r.WithContext(context.WithValue(r.Context(), offerKey{}, &o))
}

// offered returns what the subprotocols of a request say.
func offered(r *http.Request) (offer, error) {
	lines := r.Header["Sec-Websocket-Protocol"]
	if len(lines) == 0 {
		return offer{}, nil
	}
	if o, ok := r.Context().Value(offerKey{}).(*offer); ok && slices.Equal(o.lines, lines) {
		return *o, o.misuse
	}
	o := read(lines)
	return o, o.misuse
}

func decodeToken(from string) (string, error) {
	const piece = 1 << 10 // a multiple of 4
	encoding := base64.RawURLEncoding.Strict()
	if encoding.DecodedLen(len(from)) > MaxTokenBytes {
		return "", fmt.Errorf("bearer token is longer than %d bytes", MaxTokenBytes)
	}
	var out strings.Builder
	out.Grow(encoding.DecodedLen(len(from)))
	for from != "" {
		var in, text [piece]byte
		n := copy(in[:], from)
		got, err := encoding.Decode(text[:], in[:n])
		if err != nil {
			return "", errors.New("websocket subprotocol with a bearer token that is not unpadded base64url")
		}
		out.Write(text[:got])
		from = from[n:]
	}
	return out.String(), nil
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
