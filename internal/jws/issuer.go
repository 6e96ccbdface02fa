package jws

import (
	"encoding/base64"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// Issuer returns the issuer that a signed token names. Nothing has been verified then.
func Issuer(token string) (issuer string, ok bool) {
	text, ok := payloadOf(token)
	if !ok || len(text) == 0 || text[0] != '{' {
		return "", false
	}
	return scanIssuer(text)
}

// payloadOf returns the payload of a token of three parts.
func payloadOf(token string) ([]byte, bool) {
	_, rest, _ := strings.Cut(token, ".")
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return nil, false
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	return text, err == nil
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
