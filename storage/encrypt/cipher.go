package encrypt

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"sync"

	"golang.org/x/crypto/nacl/secretbox"
)

var (
	errShort   = errors.New("the value is too short")
	errPadding = errors.New("the padding is wrong: the value is damaged, or was written with another key of this name")
	errOpen    = errors.New("authentication failed: the value is damaged, was moved from another object, or was written with another key of this name")
)

// random appends n random bytes.
func random(dst []byte, n int) []byte {
	dst = append(dst, make([]byte, n)...)
	_, _ = rand.Read(dst[len(dst)-n:]) // it never fails
	return dst
}

// gcm is a nonce and what AES-GCM makes of the value.
type gcm struct{ cipher.AEAD }

func (c gcm) size(n int) int { return c.NonceSize() + n + c.Overhead() }

func (c gcm) seal(dst, plain, place []byte) ([]byte, error) {
	dst = random(dst, c.NonceSize())
	return c.Seal(dst, dst[len(dst)-c.NonceSize():], plain, place), nil
}

func (c gcm) open(_ context.Context, sealed, place []byte) ([]byte, bool, error) {
	if len(sealed) < c.NonceSize() {
		return nil, false, errShort
	}
	out, err := c.Open(nil, sealed[:c.NonceSize()], sealed[c.NonceSize():], place)
	if err != nil {
		return nil, false, errOpen
	}
	return out, false, nil
}

func (gcm) outdated([]byte) bool { return false }

// cbc is an initialization vector, and the value with PKCS#7 padding in AES-CBC.
type cbc struct{ encrypters, decrypters *modes }

// modes keeps block modes of one key. Each has a copy of the expanded key.
type modes struct {
	make func(iv []byte) cipher.BlockMode
	pool sync.Pool
}

func newCBC(block cipher.Block) cbc {
	return cbc{
		&modes{make: func(iv []byte) cipher.BlockMode { return cipher.NewCBCEncrypter(block, iv) }},
		&modes{make: func(iv []byte) cipher.BlockMode { return cipher.NewCBCDecrypter(block, iv) }},
	}
}

// crypt applies a mode that begins with an initialization vector.
func (m *modes) crypt(iv, dst, src []byte) {
	mode, ok := m.pool.Get().(restarted)
	if ok {
		mode.SetIV(iv)
		mode.CryptBlocks(dst, src)
		m.pool.Put(mode)
		return
	}
	made := m.make(iv)
	made.CryptBlocks(dst, src)
	if mode, ok = made.(restarted); ok {
		m.pool.Put(mode)
	}
}

// restarted is a block mode that can begin again, as those of Go's AES can.
type restarted interface {
	cipher.BlockMode
	SetIV(iv []byte)
}

func (cbc) size(n int) int { return aes.BlockSize + n + aes.BlockSize }

func (c cbc) seal(dst, plain, _ []byte) ([]byte, error) {
	begin := len(dst)
	dst = random(dst, aes.BlockSize)
	dst = append(dst, plain...)
	pad := aes.BlockSize - len(plain)%aes.BlockSize
	for range pad {
		dst = append(dst, byte(pad))
	}
	body := dst[begin+aes.BlockSize:]
	c.encrypters.crypt(dst[begin:begin+aes.BlockSize], body, body)
	return dst, nil
}

func (c cbc) open(_ context.Context, sealed, _ []byte) ([]byte, bool, error) {
	if len(sealed) < 2*aes.BlockSize || len(sealed)%aes.BlockSize != 0 {
		return nil, false, errShort
	}
	out := make([]byte, len(sealed)-aes.BlockSize)
	c.decrypters.crypt(sealed[:aes.BlockSize], out, sealed[aes.BlockSize:])
	pad := int(out[len(out)-1])
	if pad == 0 || pad > len(out) {
		return nil, false, errPadding
	}
	for _, b := range out[len(out)-pad:] {
		if int(b) != pad {
			return nil, false, errPadding
		}
	}
	return out[:len(out)-pad], false, nil
}

func (cbc) outdated([]byte) bool { return false }

// box is a nonce and a box of NaCl.
type box [32]byte

const boxNonce = 24

func (box) size(n int) int { return boxNonce + n + secretbox.Overhead }

func (c box) seal(dst, plain, _ []byte) ([]byte, error) {
	dst = random(dst, boxNonce)
	key, nonce := [32]byte(c), [boxNonce]byte(dst[len(dst)-boxNonce:])
	return secretbox.Seal(dst, plain, &nonce, &key), nil
}

func (c box) open(_ context.Context, sealed, _ []byte) ([]byte, bool, error) {
	if len(sealed) < boxNonce+secretbox.Overhead {
		return nil, false, errShort
	}
	key, nonce := [32]byte(c), [boxNonce]byte(sealed)
	out, ok := secretbox.Open(make([]byte, 0, len(sealed)-boxNonce-secretbox.Overhead), sealed[boxNonce:], &nonce, &key)
	if !ok {
		return nil, false, errOpen
	}
	return out, false, nil
}

func (box) outdated([]byte) bool { return false }

// plain is the value as it is.
type plain struct{}

func (plain) size(n int) int { return n }

func (plain) seal(_, value, _ []byte) ([]byte, error) {
	if bytes.HasPrefix(value, []byte(mark)) {
		return nil, errReserved
	}
	return value, nil
}

func (plain) open(_ context.Context, value, _ []byte) ([]byte, bool, error) { return value, false, nil }

func (plain) outdated([]byte) bool { return false }
