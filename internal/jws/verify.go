package jws

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/kindwright/kindwright/internal/json"
)

const (
	// maxHeader bounds the header of a token in its encoded form.
	maxHeader = 8 << 10

	// maxTries bounds how many keys are tried for one token.
	maxTries = 8
)

// Errors of [Verify]. They contain no part of the token.
var (
	ErrMalformed = errors.New("not a signed token in compact form")
	ErrAlgorithm = errors.New("signed with an algorithm that is not accepted")
	ErrUnknown   = errors.New("signed with a key that is not known")
	ErrSignature = errors.New("the signature is not that of the key")
)

// Verify returns the payload of a token that one of the keys has signed with one of the algorithms.
// Source: security vectors J1 to J3, J7, J8.
func Verify(token string, keys *Keys, algorithms []string) ([]byte, error) {
	header, err := readHeader(token)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(algorithms, header.Algorithm) {
		return nil, ErrAlgorithm
	}
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(header.Algorithm)})
	if err != nil {
		return nil, ErrMalformed
	}
	tries := 0
	for _, key := range keys.keys {
		if header.KeyID != "" && key.ID != "" && key.ID != header.KeyID || header.KeyID == "" && keys.named || !key.can(header.Algorithm) {
			continue
		}
		if tries++; tries > maxTries {
			break
		}
		if payload, err := parsed.Verify(key.Public); err == nil {
			return payload, nil
		}
	}
	if tries == 0 {
		return nil, ErrUnknown
	}
	return nil, ErrSignature
}

// header is what counts in the header of a token.
type header struct {
	Algorithm string   `json:"alg"`
	KeyID     string   `json:"kid"`
	Critical  []string `json:"crit"`
}

// readHeader reads the header before the token is parsed, so that parsing costs little.
func readHeader(token string) (h header, err error) {
	encoded, rest, _ := strings.Cut(token, ".")
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || len(encoded) > maxHeader || payload == "" || signature == "" || strings.Contains(signature, ".") {
		return h, ErrMalformed
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || json.Valid(text) != nil || json.Unmarshal(text, &h) != nil || h.Critical != nil {
		return h, ErrMalformed
	}
	return h, nil
}
