package encrypt

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// The sizes of what belongs to a seed. Values begin with the random info.
const (
	seedBytes = 32
	infoBytes = 32
)

// seed derives a key for each value, so that random nonces never wear a key out.
type seed []byte

// newSeed checks the length of a seed that a plugin returned.
func newSeed(secret []byte) (seed, error) {
	if len(secret) < seedBytes {
		return nil, fmt.Errorf("the seed has %d bytes, and must have %d", len(secret), seedBytes)
	}
	return secret, nil
}

func (s seed) derive(info []byte) (gcm, error) {
	key, err := hkdf.Expand(sha256.New, s, string(info), 32)
	if err != nil {
		return gcm{}, err
	}
	aead, err := newGCM(key)
	return gcm{aead}, err
}

func (seed) size(n int) int { return infoBytes + 12 + n + 16 }

func (s seed) seal(dst, plain, place []byte) ([]byte, error) {
	dst = random(dst, infoBytes)
	c, err := s.derive(dst[len(dst)-infoBytes:])
	if err != nil {
		return nil, err
	}
	return c.seal(dst, plain, place)
}

func (s seed) open(ctx context.Context, sealed, place []byte) ([]byte, error) {
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
