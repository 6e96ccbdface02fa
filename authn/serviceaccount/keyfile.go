package serviceaccount

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/files"
)

// Files name the files that [Open] reads.
type Files struct {
	// SigningKey is a PEM file with the private key that signs tokens. It may be empty.
	SigningKey string

	// Keys are PEM files with the keys that tokens may be signed with: public keys, certificates and
	// private keys. Default: SigningKey.
	Keys []string

	// Failed is told about changed files that cannot be read. What was read before counts until they
	// can. Nil tells nobody.
	Failed func(error)
}

// KeyFiles are keys in files, which are read again when they change. It is a [KeySource], and a
// [Signer] if there is a signing key.
type KeyFiles struct {
	files    Files
	follower *files.Follower
	now      atomic.Pointer[keyPair]
}

// keyPair is what the files have at one time.
type keyPair struct {
	signer Signer // nil without a signing key
	keys   *KeySet
}

// Open reads the files. A change of any of them counts about a second later, and with it all of them are
// read. Errors name the file.
func Open(f Files) (*KeyFiles, error) {
	if len(f.Keys) == 0 && f.SigningKey != "" {
		f.Keys = []string{f.SigningKey}
	}
	if f.Failed == nil {
		f.Failed = func(error) {}
	}
	k := &KeyFiles{files: f}
	names := f.Keys
	if f.SigningKey != "" {
		names = append([]string{f.SigningKey}, f.Keys...)
	}
	var err error
	if k.follower, err = files.Follow(k.read, f.Failed, names...); err != nil {
		return nil, err
	}
	return k, nil
}

// read reads all files.
func (k *KeyFiles) read() error {
	var next keyPair
	if path := k.files.SigningKey; path != "" {
		data, err := files.ReadSecret(path)
		if err != nil {
			return fmt.Errorf("the signing key: %w", err)
		}
		key, err := ParsePrivateKey(data)
		if err == nil {
			next.signer, err = NewSigner(key)
		}
		if err != nil {
			return fmt.Errorf("the signing key %s: %w", path, err)
		}
	}
	var all []PublicKey
	for _, path := range k.files.Keys {
		data, err := files.Read(path)
		if err != nil {
			return err
		}
		keys, err := ParsePublicKeys(data)
		if err == nil {
			_, err = NewKeySet(keys...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, keys...)
	}
	var err error
	if next.keys, err = NewKeySet(distinct(all)...); err != nil {
		return err
	}
	k.now.Store(&next)
	return nil
}

// distinct returns each key once.
func distinct(keys []PublicKey) (out []PublicKey) {
	for i, k := range keys {
		same := false
		for _, before := range keys[:i] {
			key, comparable := before.Key.(interface{ Equal(x crypto.PublicKey) bool })
			same = same || comparable && key.Equal(k.Key)
		}
		if !same {
			out = append(out, k)
		}
	}
	return out
}

// Keys returns the public keys that the files have now.
func (k *KeyFiles) Keys() *KeySet {
	k.follower.Look()
	return k.now.Load().keys
}

// Healthy looks at the files, and returns why they cannot be used as they are now, or nil. What was
// read before counts then.
func (k *KeyFiles) Healthy() error { return k.follower.Healthy() }

// Signer returns what signs tokens with the signing key that the file has at that time. It is nil if
// there is no such file.
func (k *KeyFiles) Signer() Signer {
	if k.files.SigningKey == "" {
		return nil
	}
	return fileSigner{k}
}

// fileSigner signs with a key that may change.
type fileSigner struct{ files *KeyFiles }

// Sign returns a token.
func (s fileSigner) Sign(ctx context.Context, claims []byte) (string, error) {
	s.files.follower.Look()
	return s.files.now.Load().signer.Sign(ctx, claims)
}

// ParsePublicKeys reads the keys of a PEM file: public ones, those of certificates, and those that
// belong to private keys.
func ParsePublicKeys(data []byte) ([]PublicKey, error) {
	var out []PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		var (
			key crypto.PublicKey
			err error
		)
		switch block.Type {
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				key = c.PublicKey
			}
		case "RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY":
			var private crypto.Signer
			if private, err = parsePrivate(block); err == nil {
				key = private.Public()
			}
		default:
			continue // parameters of a curve
		}
		if err != nil {
			return nil, err
		}
		out = append(out, PublicKey{Key: key})
	}
	if len(out) == 0 {
		return nil, errors.New("no key in PEM format")
	}
	return out, nil
}

// ParsePrivateKey reads the first private key of a PEM file.
func ParsePrivateKey(data []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if key, err := parsePrivate(block); key != nil || err != nil {
			return key, err
		}
	}
	return nil, errors.New("no private key in PEM format")
}

// parsePrivate reads one block. It returns nil if that is no private key.
func parsePrivate(block *pem.Block) (crypto.Signer, error) {
	switch block.Type {
	case "RSA PRIVATE KEY":
		return signerOr(x509.ParsePKCS1PrivateKey(block.Bytes))
	case "EC PRIVATE KEY":
		return signerOr(x509.ParseECPrivateKey(block.Bytes))
	case "PRIVATE KEY":
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, fmt.Errorf("keys of type %T cannot sign", key)
	}
	return nil, nil
}

// signerOr keeps a nil key with an error from becoming a signer.
func signerOr[K crypto.Signer](key K, err error) (crypto.Signer, error) {
	if err != nil {
		return nil, err
	}
	return key, nil
}
