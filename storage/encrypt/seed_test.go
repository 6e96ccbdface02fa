package encrypt

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// ENC-03: keys of values are those of HKDF, as Kubernetes derives them, also by many at once.
func TestENC_03_KeysOfValuesAreThoseOfHKDF(t *testing.T) {
	secret := bytes.Repeat([]byte("secret"), 6)[:seedBytes]
	s, err := newSeed(secret)
	require.NoError(t, err)
	var sealing sync.WaitGroup
	for i := range 8 {
		sealing.Go(func() {
			for n := range 200 {
				plain, place := bytes.Repeat([]byte{byte(i)}, n), []byte{byte(n)}
				sealed, err := s.seal([]byte("head"), plain, place)
				if err != nil || len(sealed) != len("head")+sealedSize(n) {
					t.Errorf("%d bytes: %v", len(sealed), err)
					return
				}
				sealed = sealed[len("head"):]
				key, err := hkdf.Expand(sha256.New, secret, string(sealed[:infoBytes]), 32)
				if err != nil {
					t.Error(err)
					return
				}
				block, _ := aes.NewCipher(key)
				aead, _ := cipher.NewGCM(block)
				out, err := aead.Open(nil, sealed[infoBytes:infoBytes+12], sealed[infoBytes+12:], place)
				if err != nil || !bytes.Equal(out, plain) {
					t.Errorf("value of %d bytes: %v", n, err)
				}
				if out, err = s.open(context.Background(), sealed, place); err != nil || !bytes.Equal(out, plain) {
					t.Errorf("value of %d bytes: %v", n, err)
				}
			}
		})
	}
	sealing.Wait()
}

// ENC-03: block modes that are used again begin anew.
func TestENC_03_BlockModesBeginAnew(t *testing.T) {
	block, err := aes.NewCipher(bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	c := newCBC(block)
	var working sync.WaitGroup
	for i := range 8 {
		working.Go(func() {
			for n := range 200 {
				plain := bytes.Repeat([]byte{byte(i)}, n)
				sealed, _ := c.seal(nil, plain, nil)
				want := append(bytes.Clone(plain), bytes.Repeat([]byte{byte(16 - n%16)}, 16-n%16)...)
				cipher.NewCBCEncrypter(block, sealed[:16]).CryptBlocks(want, want)
				if !bytes.Equal(want, sealed[16:]) {
					t.Errorf("value of %d bytes", n)
				}
				if out, _, err := c.open(context.Background(), sealed, nil); err != nil || !bytes.Equal(out, plain) {
					t.Errorf("value of %d bytes: %v", n, err)
				}
			}
		})
	}
	working.Wait()
}
