package encrypt

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"slices"
)

// Key is a secret with the name that values carry which are encrypted with it. Its text form does not
// show the secret.
type Key struct {
	Name   string
	Secret []byte
}

// String returns the name.
func (k Key) String() string { return fmt.Sprintf("key %q", k.Name) }

// GoString returns the name.
func (k Key) GoString() string { return k.String() }

// Provider is a way to store values. Make it with [AESGCM], [AESCBC], [Secretbox], [KMS] or [Identity].
// If its keys are unusable, New and Use return an error.
type Provider struct {
	forms  []form
	plugin *Plugin
	err    error
}

// cipherer makes and reads what follows the prefix of a value.
type cipherer interface {
	// seal appends the sealed form of plain to dst. place is where the value is stored.
	seal(dst, plain, place []byte) ([]byte, error)
	// open reverses seal. stale means that seal would use another key now.
	open(ctx context.Context, sealed, place []byte) (plain []byte, stale bool, err error)
	// size bounds the length of the sealed form of n bytes.
	size(n int) int
	// outdated reports whether seal would use another key now. The value belongs to the cipherer.
	outdated(sealed []byte) bool
}

// AESGCM encrypts with AES in Galois counter mode. The storage key is authenticated, so a value cannot
// be moved to another object. Secrets have 16, 24 or 32 bytes. Nonces are random: replace a key before
// it has encrypted 200,000 values.
func AESGCM(keys ...Key) Provider {
	return withKeys("aesgcm", keys, []int{16, 24, 32}, func(secret []byte) (cipherer, error) {
		aead, err := newGCM(secret)
		return gcm{aead}, err
	})
}

// AESCBC encrypts with AES in cipher block chaining mode. Nothing is authenticated: who can write to
// the store can change values unnoticed, or move them. Prefer another provider. Secrets have 16, 24 or
// 32 bytes.
func AESCBC(keys ...Key) Provider {
	return withKeys("aescbc", keys, []int{16, 24, 32}, func(secret []byte) (cipherer, error) {
		block, err := aes.NewCipher(secret)
		return newCBC(block), err
	})
}

// Secretbox encrypts with XSalsa20 and Poly1305. The value is authenticated, its place is not. Secrets
// have 32 bytes.
func Secretbox(keys ...Key) Provider {
	return withKeys("secretbox", keys, []int{32}, func(secret []byte) (cipherer, error) {
		return box([32]byte(secret)), nil
	})
}

// Identity stores values as they are. It does not read encrypted ones.
func Identity() Provider { return Provider{forms: []form{{cipher: plain{}}}} }

// KMS encrypts with keys that a plugin protects.
func KMS(p *Plugin) Provider {
	if p == nil {
		return Provider{err: errors.New("kms: the plugin is nil; make one with OpenPlugin")}
	}
	return Provider{forms: []form{{prefix: "k8s:enc:kms:v2:" + p.name + ":", cipher: p}}, plugin: p}
}

func withKeys(name string, keys []Key, sizes []int, make func(secret []byte) (cipherer, error)) (p Provider) {
	if len(keys) == 0 {
		p.err = fmt.Errorf("%s: at least one key is required", name)
	}
	for _, k := range keys {
		switch {
		case k.Name == "":
			p.err = fmt.Errorf("%s: a key has no name", name)
			return p
		case !slices.Contains(sizes, len(k.Secret)):
			p.err = fmt.Errorf("%s: the secret of %v has %d bytes, and must have one of %v", name, k, len(k.Secret), sizes)
			return p
		}
		c, err := make(slices.Clone(k.Secret))
		if err != nil {
			p.err = fmt.Errorf("%s: %v: %w", name, k, err)
			return p
		}
		p.forms = append(p.forms, form{prefix: mark + name + ":v1:" + k.Name + ":", cipher: c})
	}
	return p
}

func newGCM(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
