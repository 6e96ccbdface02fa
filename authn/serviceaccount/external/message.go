package external

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/internal/protowire"
)

// signRequest is a SignJWTRequest.
func signRequest(claims string) []byte {
	return protowire.AppendBytes(protowire.AppendKey(nil, 1, protowire.Bytes), claims)
}

// readSigned reads a SignJWTResponse.
func readSigned(message []byte) (header, signature string, err error) {
	err = protowire.Each(message, func(f protowire.Field) error {
		switch {
		case f.Type != protowire.Bytes:
		case f.Number == 1:
			header = string(f.Bytes)
		case f.Number == 2:
			signature = string(f.Bytes)
		}
		return nil
	})
	return header, signature, err
}

// published is a FetchKeysResponse.
type published struct {
	keys    []serviceaccount.PublicKey
	looked  time.Time // when the signer last looked at them
	refresh time.Duration
}

// maxKeys and maxKeyID bound what a signer publishes.
const (
	maxKeys  = 1000
	maxKeyID = 1024
)

func readPublished(message []byte) (p published, err error) {
	err = protowire.Each(message, func(f protowire.Field) error {
		switch {
		case f.Number == 1 && f.Type == protowire.Bytes:
			k, err := readKey(f.Bytes)
			if err != nil {
				return fmt.Errorf("key %d: %w", len(p.keys), err)
			}
			if p.keys = append(p.keys, k); len(p.keys) > maxKeys {
				return fmt.Errorf("more than %d keys", maxKeys)
			}
		case f.Number == 2 && f.Type == protowire.Bytes:
			var err error
			if p.looked, err = readTime(f.Bytes); err != nil {
				return err
			}
		case f.Number == 3 && f.Type == protowire.Varint:
			p.refresh = time.Duration(min(int64(f.Value), int64(maxRefresh/time.Second))) * time.Second //nolint:gosec // negative values are refused
		}
		return nil
	})
	switch {
	case err != nil:
	case len(p.keys) == 0:
		err = errors.New("it publishes no keys")
	case p.refresh <= 0:
		err = errors.New("refresh_hint_seconds must be positive")
	}
	return p, err
}

// readTime reads a Timestamp.
func readTime(message []byte) (time.Time, error) {
	var sec, nano int64
	err := protowire.Each(message, func(f protowire.Field) error {
		switch {
		case f.Type != protowire.Varint:
		case f.Number == 1:
			sec = int64(f.Value) //nolint:gosec // negative times are sent so
		case f.Number == 2:
			nano = int64(f.Value) //nolint:gosec // likewise
		}
		return nil
	})
	return time.Unix(sec, nano), err
}

func readKey(message []byte) (k serviceaccount.PublicKey, err error) {
	var der []byte
	err = protowire.Each(message, func(f protowire.Field) error {
		switch {
		case f.Number == 1 && f.Type == protowire.Bytes:
			k.ID = string(f.Bytes)
		case f.Number == 2 && f.Type == protowire.Bytes:
			der = f.Bytes
		case f.Number == 3 && f.Type == protowire.Varint:
			k.Unpublished = f.Value != 0
		}
		return nil
	})
	switch {
	case err != nil:
		return k, err
	case k.ID == "" || len(k.ID) > maxKeyID:
		return k, fmt.Errorf("its id has %d bytes, and must have 1 to %d", len(k.ID), maxKeyID)
	}
	k.Key, err = x509.ParsePKIXPublicKey(der)
	return k, err
}

// readLongest reads a MetadataResponse.
func readLongest(message []byte) (longest time.Duration, err error) {
	err = protowire.Each(message, func(f protowire.Field) error {
		if f.Number == 1 && f.Type == protowire.Varint {
			longest = time.Duration(min(f.Value, 1<<32)) * time.Second //nolint:gosec // bounded
		}
		return nil
	})
	if err == nil && longest < shortest {
		err = fmt.Errorf("max_token_expiration_seconds must be at least %d", shortest/time.Second)
	}
	return longest, err
}
