package encrypt

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"
)

// The sizes of what belongs to a seed. Values begin with the random info.
const (
	seedBytes = 32
	infoBytes = 32
)

// seed derives a key for each value, so that random nonces never wear a key out.
type seed struct {
	macs sync.Pool // of hash.Hash: HMACs under the seed. Making one costs as much as two keys
}

// newSeed checks the length of a seed that a plugin returned.
func newSeed(secret []byte) (*seed, error) {
	if len(secret) < seedBytes {
		return nil, fmt.Errorf("the seed has %d bytes, and must have %d", len(secret), seedBytes)
	}
	return &seed{sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}, nil
}

// derive is HKDF-Expand with SHA-256 for a key of 32 bytes, which is one block of it.
func (s *seed) derive(info []byte) (gcm, error) {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write(info) // it never fails
	_, _ = mac.Write([]byte{1})
	var block [sha256.Size]byte
	aead, err := newGCM(mac.Sum(block[:0]))
	return gcm{aead}, err
}

// sealedSize is how long what a seed makes of n bytes is.
func sealedSize(n int) int { return infoBytes + 12 + n + 16 }

func (s *seed) seal(dst, plain, place []byte) ([]byte, error) {
	dst = random(dst, infoBytes)
	c, err := s.derive(dst[len(dst)-infoBytes:])
	if err != nil {
		return nil, err
	}
	return c.seal(dst, plain, place)
}

func (s *seed) open(ctx context.Context, sealed, place []byte) ([]byte, error) {
	if len(sealed) < infoBytes {
		return nil, errShort
	}
	c, err := s.derive(sealed[:infoBytes])
	if err != nil {
		return nil, err
	}
	out, _, err := c.open(ctx, sealed[infoBytes:], place)
	return out, err
}
