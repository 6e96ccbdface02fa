package jws

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/kindwright/kindwright/internal/json"
)

// minModulus is the size of the smallest RSA key, in bits, and maxModulus that of the largest.
const (
	minModulus = 2048
	maxModulus = 8192
)

// Keys are public keys that tokens can be signed with. It is immutable.
type Keys struct {
	keys  []Key
	named bool // a token has to name its key
}

// Key is one public key.
type Key struct {
	ID        string           // kid; a token without one may be signed with any key
	Algorithm string           // empty: any that the key can do
	Public    crypto.PublicKey // *rsa.PublicKey or *ecdsa.PublicKey
}

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.keys) }

// raw is the text of a key.
type raw []byte

// UnmarshalJSON keeps the text.
func (r *raw) UnmarshalJSON(text []byte) error {
	*r = slices.Clone(text)
	return nil
}

// ErrNoKeys is the error of [ParseKeys] about a key set that is one, and has no usable key.
var ErrNoKeys = errors.New("no key that can verify tokens")

var errNoSet = errors.New("not a JSON Web Key Set")

// ParseKeys reads a JSON Web Key Set. It leaves out keys that cannot verify tokens: those for
// encryption, symmetric and weak ones, and those of an unknown type. It fails if the document is no
// key set, if it has more keys than limit, or, with [ErrNoKeys], if it has no usable key.
func ParseKeys(document []byte, limit int) (*Keys, error) {
	var set struct {
		Keys []raw `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil || set.Keys == nil {
		return nil, errNoSet
	}
	if len(set.Keys) > limit {
		return nil, fmt.Errorf("%d keys, at most %d are allowed", len(set.Keys), limit)
	}
	out, none := &Keys{}, ErrNoKeys
	for _, text := range set.Keys {
		if text[0] != '{' {
			none = errNoSet
		}
		var key jose.JSONWebKey
		if json.Valid(text) != nil || key.UnmarshalJSON(text) != nil || key.Use != "" && key.Use != "sig" {
			continue
		}
		if k := (Key{ID: key.KeyID, Algorithm: key.Algorithm, Public: key.Public().Key}); k.usable() {
			out.keys = append(out.keys, k)
		}
	}
	if len(out.keys) == 0 {
		return nil, none
	}
	return out, nil
}

func (k Key) usable() bool {
	switch key := k.Public.(type) {
	case *rsa.PublicKey:
		bits := key.N.BitLen()
		return bits >= minModulus && bits <= maxModulus && key.E > 1 && key.E&1 == 1
	case *ecdsa.PublicKey:
		return true
	}
	return false
}

// can reports whether the key can verify signatures of an algorithm.
func (k Key) can(algorithm string) bool {
	if k.Algorithm != "" && k.Algorithm != algorithm {
		return false
	}
	switch k.Public.(type) {
	case *rsa.PublicKey:
		return algorithm[:2] == "RS" || algorithm[:2] == "PS"
	case *ecdsa.PublicKey:
		name, _ := AlgorithmOf(k.Public) // each curve has one
		return algorithm == name
	}
	return false
}
