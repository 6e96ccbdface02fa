package jws

import (
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
)

const (
	// maxIssuer bounds the name of an issuer as it is written. Longer ones are not read.
	maxIssuer = 8 << 10

	// maxClaims bounds the room for claims that is kept for the next token.
	maxClaims = 64 << 10

	// piece is how much of a payload is decoded at a time: a multiple of 4, and of what that decodes to.
	piece = 1 << 10
)

// claims are rooms for the claims of tokens that nobody has verified. A token that is refused leaves no
// garbage of its own size behind.
var claims = sync.Pool{New: func() any { return new([]byte) }}

// Issuer returns the issuer that a signed token names. Nothing has been verified then.
func Issuer(token string) (issuer string, ok bool) {
	_, rest, _ := strings.Cut(token, ".")
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return "", false
	}
	room, _ := claims.Get().(*[]byte)
	defer func() {
		if clear(*room); cap(*room) <= maxClaims {
			claims.Put(room)
		}
	}()
	text, ok := appendDecoded((*room)[:0], payload)
	*room = text
	if !ok || len(text) == 0 || text[0] != '{' {
		return "", false
	}
	return scanIssuer(text)
}

// appendDecoded decodes a part of a token piece by piece, without a copy of the whole.
func appendDecoded(to []byte, part string) (text []byte, ok bool) {
	if need := encoding.DecodedLen(len(part)); cap(to) < need {
		to = make([]byte, 0, need)
	}
	for part != "" {
		n := min(piece, len(part))
		var room [piece]byte
		used := len(to)
		decoded, err := encoding.Decode(to[used:cap(to)], room[:copy(room[:], part[:n])])
		if err != nil || decoded != encoding.DecodedLen(n) { // ends of lines are skipped
			return to, false
		}
		to, part = to[:used+decoded], part[n:]
	}
	return to, true
}

// scanIssuer returns the first member iss of an object, without decoding anything else: whoever made
// the text has signed nothing yet. It does not check the syntax, and finds no name that is escaped.
// Once the signature is verified, the claims are read strictly, and must name the same issuer once.
func scanIssuer(text []byte) (issuer string, ok bool) {
	at := 1
	blanks := func() {
		for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
			at++
		}
	}
	for {
		blanks()
		if at >= len(text) || text[at] != '"' {
			return "", false
		}
		end, ok := json.SkipText(text, at)
		if !ok {
			return "", false
		}
		name := text[at:end]
		at = end
		if blanks(); at >= len(text) || text[at] != ':' {
			return "", false
		}
		at++
		if blanks(); at >= len(text) {
			return "", false
		}
		if end, ok = json.SkipValue(text, at); !ok {
			return "", false
		}
		if string(name) == `"iss"` {
			if end-at > maxIssuer {
				return "", false
			}
			err := json.Unmarshal(text[at:end], &issuer) // some escape slashes
			return issuer, err == nil && issuer != ""
		}
		at = end
		if blanks(); at >= len(text) || text[at] != ',' {
			return "", false
		}
		at++
	}
}
