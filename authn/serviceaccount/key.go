package serviceaccount

import (
	"context"
	"crypto"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/jws"
)

// Signer signs tokens. Implement it for keys that are held elsewhere, such as in a service. Its methods
// are called concurrently.
type Signer interface {
	// Sign returns a token in compact form whose payload is claims. Its header names an algorithm that
	// is not symmetric and, in kid, a key that the [KeySource] has.
	Sign(ctx context.Context, claims []byte) (token string, err error)
}

// SignatureError is what a [Signer] returns if a token must not be handed out. Its text is sent to the
// client that asked for the token, so it must not have anything secret.
type SignatureError struct{ Reason string }

// Error returns the reason.
func (e *SignatureError) Error() string { return e.Reason }

// KeySource has the public keys of now. Implement it for keys that change elsewhere. Its methods are
// called concurrently, and with each request.
type KeySource interface {
	// Keys returns the keys of now, never nil. A set that has not changed must be the same pointer:
	// what was proven with one set counts for no other.
	Keys() *KeySet
}

// PublicKey is a key that tokens may be signed with: RSA with 2048 to 8192 bits, or ECDSA on P-256,
// P-384 or P-521.
type PublicKey struct {
	ID  string // which tokens have as kid; default: a hash of the key, as in Kubernetes
	Key crypto.PublicKey

	// Unpublished keeps the key out of [Tokens.Documents].
	Unpublished bool
}

// KeySet is a set of public keys. It is immutable, and a [KeySource] of itself.
type KeySet struct {
	keys, unnamed *jws.Keys // the second one also for tokens that name no key
	algorithms    []string
	document      []byte   // the published ones
	published     []string // algorithms
}

// NewKeySet returns a set of keys, of which there must be one.
func NewKeySet(keys ...PublicKey) (*KeySet, error) {
	if len(keys) == 0 {
		return nil, errors.New("there is no key")
	}
	var all, public []jws.Key
	for i, k := range keys {
		if guard.IsNil(k.Key) {
			return nil, fmt.Errorf("serviceaccount.NewKeySet: key %d is nil and signs no tokens: it must be an RSA or ECDSA key", i)
		}
		one := jws.Key{ID: k.ID, Public: k.Key}
		all = append(all, one)
		if !k.Unpublished {
			public = append(public, one)
		}
	}
	known, err := jws.NewKeys(all...)
	if err != nil {
		return nil, err
	}
	shown, err := jws.NewKeys(public...)
	if err != nil {
		return nil, err
	}
	document, err := shown.Document()
	if err != nil {
		return nil, err
	}
	return &KeySet{
		keys: known, unnamed: known.Unnamed(), algorithms: known.Algorithms(), document: document, published: shown.Algorithms(),
	}, nil
}

// Keys returns the set itself.
func (s *KeySet) Keys() *KeySet { return s }

// NewSigner returns a signer with a key as [PublicKey] describes it.
func NewSigner(key crypto.Signer) (Signer, error) {
	if guard.IsNil(key) {
		return nil, errors.New("serviceaccount.NewSigner: the key is nil: pass an RSA or ECDSA key, such as that of ParsePrivateKey")
	}
	s, err := jws.NewSigner(key)
	if err != nil {
		return nil, err
	}
	return local{s}, nil
}

// local signs in this process.
type local struct{ signer *jws.Signer }

// Sign returns a token.
func (l local) Sign(_ context.Context, claims []byte) (string, error) { return l.signer.Sign(claims) }
