package jws

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"

	"github.com/kindwright/kindwright/internal/json"
)

// NewKeys returns a set of keys. Each of them has an identifier, and a token that names no key is not
// tried with any.
func NewKeys(keys ...Key) (*Keys, error) {
	out := &Keys{keys: slices.Clone(keys), named: true}
	for i := range out.keys {
		k := &out.keys[i]
		algorithm, err := AlgorithmOf(k.Public)
		if err != nil {
			return nil, err
		}
		if k.Algorithm == "" {
			k.Algorithm = algorithm
		}
		if !k.can(k.Algorithm) {
			return nil, fmt.Errorf("a key of type %T does not verify %s", k.Public, k.Algorithm)
		}
		if k.ID == "" {
			if k.ID, err = KeyID(k.Public); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Unnamed returns a set of the same keys with which a token is tried that names no key.
func (k *Keys) Unnamed() *Keys { return &Keys{keys: k.keys} }

// Algorithms returns the algorithms of the keys, sorted.
func (k *Keys) Algorithms() []string {
	var out []string
	for _, key := range k.keys {
		out = append(out, key.Algorithm)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Document returns the keys as a JSON Web Key Set.
func (k *Keys) Document() ([]byte, error) {
	set := struct {
		Keys []published `json:"keys"`
	}{Keys: []published{}}
	for _, key := range k.keys {
		text, err := jose.JSONWebKey{Key: key.Public, KeyID: key.ID, Algorithm: key.Algorithm, Use: "sig"}.MarshalJSON()
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, text)
	}
	return json.Marshal(set)
}

// published is the text of a key.
type published []byte

// MarshalJSON returns the text.
func (p published) MarshalJSON() ([]byte, error) { return p, nil }

// AlgorithmOf returns the algorithm that a key signs with: RS256, or the one of its curve.
func AlgorithmOf(key crypto.PublicKey) (string, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N == nil {
			return "", errors.New("an RSA key without a modulus signs no tokens")
		}
		if bits := k.N.BitLen(); bits < minModulus || bits > maxModulus {
			return "", fmt.Errorf("an RSA key of %d bits signs no tokens: it must have from %d to %d", bits, minModulus, maxModulus)
		}
		return string(jose.RS256), nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return string(jose.ES256), nil
		case elliptic.P384():
			return string(jose.ES384), nil
		case elliptic.P521():
			return string(jose.ES512), nil
		}
	}
	return "", fmt.Errorf("a key of type %T signs no tokens: it must be RSA, or ECDSA on P-256, P-384 or P-521", key)
}

// KeyID derives the identifier of a key from its content, as Kubernetes does.
func KeyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// Signer signs payloads with one key.
type Signer struct{ signer jose.Signer }

// NewSigner returns a signer with a key that [AlgorithmOf] knows. Tokens name it by its [KeyID].
func NewSigner(key crypto.Signer) (*Signer, error) {
	algorithm, err := AlgorithmOf(key.Public())
	if err != nil {
		return nil, err
	}
	id, err := KeyID(key.Public())
	if err != nil {
		return nil, err
	}
	with := jose.SigningKey{Algorithm: jose.SignatureAlgorithm(algorithm), Key: jose.JSONWebKey{Key: cryptosigner.Opaque(key), KeyID: id}}
	signer, err := jose.NewSigner(with, nil)
	if err != nil {
		return nil, err
	}
	return &Signer{signer}, nil
}

// Sign returns a signed token in compact form.
func (s *Signer) Sign(payload []byte) (string, error) {
	signed, err := s.signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// Parts returns the identifier of the key and the payload of a token in compact form, whose signature
// is not verified.
func Parts(token string) (algorithm, keyID string, payload []byte, err error) {
	h, err := readHeader(token)
	if err != nil {
		return "", "", nil, err
	}
	if payload, err = payloadOf(token[:strings.LastIndexByte(token, '.')]); err != nil {
		return "", "", nil, err
	}
	return h.Algorithm, h.KeyID, payload, nil
}

// Asymmetric reports whether an algorithm is one that signs with RSA or ECDSA.
func Asymmetric(algorithm string) bool {
	switch jose.SignatureAlgorithm(algorithm) {
	case jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512:
		return true
	}
	return false
}
