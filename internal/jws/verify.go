package jws

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	_ "crypto/sha256" // SHA-256 of the algorithms
	_ "crypto/sha512" // SHA-384 and SHA-512
	"encoding/base64"
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

const (
	// maxHeader bounds the header of a token in its encoded form.
	maxHeader = 8 << 10

	// maxSignature bounds the signature of a token in its encoded form: that of the largest RSA key.
	maxSignature = (maxModulus/8*4 + 2) / 3

	// maxTries bounds how many keys are tried for one token.
	maxTries = 8
)

// encoding is that of all parts of a token.
var encoding = base64.RawURLEncoding.Strict()

// hashes are those of the algorithms, by the last three characters of their names.
var hashes = map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}

// Errors of [Verify]. They contain no part of the token.
var (
	ErrMalformed = errors.New("not a signed token in compact form")
	ErrAlgorithm = errors.New("signed with an algorithm that is not accepted")
	ErrType      = errors.New("a signed document of another type than a token")
	ErrUnknown   = errors.New("signed with a key that is not known")
	ErrSignature = errors.New("the signature is not that of the key")
)

// Verify returns the payload of a token that one of the keys has signed with one of the algorithms. A
// document whose header says that it is something else than a token is not one, whoever signed it.
// Until the signature has been verified, it copies no more of the token than its header and its
// signature, which are short.
// Source: security vectors J1 to J3, J7, J8; RFC 8725 section 3.11.
func Verify(token string, keys *Keys, algorithms []string) ([]byte, error) {
	header, err := readHeader(token)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(algorithms, header.Algorithm) {
		return nil, ErrAlgorithm
	}
	if !header.isToken() {
		return nil, ErrType
	}
	end := strings.LastIndexByte(token, '.')
	signature, err := encoding.DecodeString(token[end+1:])
	if err != nil {
		return nil, ErrMalformed
	}
	tries := 0
	var hash crypto.Hash
	var sum []byte
	for _, key := range keys.keys {
		if header.KeyID != "" && key.ID != "" && key.ID != header.KeyID || header.KeyID == "" && keys.named || !key.can(header.Algorithm) {
			continue
		}
		if tries++; tries > maxTries {
			break
		}
		if sum == nil {
			hash = hashes[header.Algorithm[2:]]
			sum = digest(hash, token[:end])
		}
		if key.verifies(header.Algorithm, hash, sum, signature) {
			return payloadOf(token[:end])
		}
	}
	if tries == 0 {
		return nil, ErrUnknown
	}
	return nil, ErrSignature
}

// payloadOf decodes the payload of what was signed.
func payloadOf(signed string) ([]byte, error) {
	text, err := encoding.DecodeString(signed[strings.IndexByte(signed, '.')+1:])
	if err != nil {
		return nil, ErrMalformed
	}
	return text, nil
}

// digest hashes a text without a copy of it.
func digest(hash crypto.Hash, text string) []byte {
	h, room := hash.New(), make([]byte, 1<<10)
	for text != "" {
		n := copy(room, text)
		_, _ = h.Write(room[:n]) // never fails
		text = text[n:]
	}
	return h.Sum(nil)
}

// verifies reports whether the key has made a signature. [Key.can] holds for the algorithm.
func (k Key) verifies(algorithm string, hash crypto.Hash, sum, signature []byte) bool {
	switch key := k.Public.(type) {
	case *rsa.PublicKey:
		if algorithm[:2] == "PS" {
			return rsa.VerifyPSS(key, hash, sum, signature, nil) == nil
		}
		return rsa.VerifyPKCS1v15(key, hash, sum, signature) == nil
	case *ecdsa.PublicKey:
		size := (key.Curve.Params().BitSize + 7) / 8
		return len(signature) == 2*size &&
			ecdsa.Verify(key, sum, new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
	}
	return false
}

// header is what counts in the header of a token.
type header struct {
	Algorithm string   `json:"alg"`
	KeyID     string   `json:"kid"`
	Type      string   `json:"typ"`
	Critical  []string `json:"crit"`
	Encoded   *bool    `json:"b64"` // false: the payload is as it stands (RFC 7797)
}

// isToken reports whether the type leaves it open that the document says who somebody is. Providers sign
// other documents with the same key, for the same audience and about the same user: the order to end a
// session, a notice of an event, the proof that somebody has a key. The types of these have the suffix of
// RFC 8725. Of the types with it, only that of access tokens (RFC 9068) names a token. Others, such as
// JWT, JOSE and those that a provider has made up, say nothing.
func (h *header) isToken() bool {
	of := strings.ToLower(strings.TrimSpace(h.Type))
	return !strings.HasSuffix(of, "+jwt") || strings.TrimPrefix(of, "application/") == "at+jwt"
}

// readHeader reads the header before the token is parsed, so that parsing costs little.
func readHeader(token string) (h header, err error) {
	encoded, rest, _ := strings.Cut(token, ".")
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || len(encoded) > maxHeader || payload == "" || signature == "" || len(signature) > maxSignature || strings.Contains(signature, ".") || strings.ContainsAny(token, "\r\n") {
		return h, ErrMalformed // the encoding skips ends of lines
	}
	text, err := encoding.DecodeString(encoded)
	if err != nil || json.Valid(text) != nil || json.Unmarshal(text, &h) != nil || h.Critical != nil || h.Encoded != nil && !*h.Encoded {
		return h, ErrMalformed
	}
	return h, nil
}
