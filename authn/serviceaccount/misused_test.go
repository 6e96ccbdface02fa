package serviceaccount_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/serviceaccount"
)

func TestKeysThatAreMissingAreRefused(t *testing.T) {
	var ec *ecdsa.PrivateKey
	var rs *rsa.PrivateKey
	for _, key := range []crypto.Signer{nil, ec, rs} {
		_, err := serviceaccount.NewSigner(key)
		require.ErrorContains(t, err, "serviceaccount.NewSigner: the key is nil")
	}
	for _, key := range []crypto.PublicKey{nil, (*ecdsa.PublicKey)(nil), (*rsa.PublicKey)(nil), &rsa.PublicKey{}, &ecdsa.PublicKey{}} {
		_, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key})
		require.Error(t, err, "%T", key)
	}
	_, err := serviceaccount.NewKeySet()
	require.ErrorContains(t, err, "there is no key")
	_, err = serviceaccount.New(serviceaccount.Options{})
	require.Error(t, err)
}
