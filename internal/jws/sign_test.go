package jws_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/internal/jws"
)

func TestWhatIsSignedIsVerified(t *testing.T) {
	for want, key := range map[string]func() (crypto.Signer, error){
		"RS256": func() (crypto.Signer, error) { return issuer.RSA(t, "").Signer, nil },
		"ES256": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"ES384": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
		"ES512": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
	} {
		t.Run(want, func(t *testing.T) {
			key, err := key()
			require.NoError(t, err)
			signer, err := jws.NewSigner(key)
			require.NoError(t, err)
			token, err := signer.Sign([]byte(`{"iss":"a","sub":"b"}`))
			require.NoError(t, err)
			set, err := jws.NewKeys(jws.Key{Public: key.Public()})
			require.NoError(t, err)
			require.Equal(t, []string{want}, set.Algorithms())
			payload, err := jws.Verify(token, set, set.Algorithms())
			require.NoError(t, err)
			require.JSONEq(t, `{"iss":"a","sub":"b"}`, string(payload))
			algorithm, id, payload, err := jws.Parts(token)
			require.NoError(t, err)
			own, err := jws.KeyID(key.Public())
			require.NoError(t, err)
			require.Equal(t, []string{want, own, `{"iss":"a","sub":"b"}`}, []string{algorithm, id, string(payload)})
			require.True(t, jws.Asymmetric(algorithm))
			name, ok := jws.Issuer(token)
			require.True(t, ok)
			require.Equal(t, "a", name)

			document, err := set.Document()
			require.NoError(t, err)
			others, err := jws.ParseKeys(document, 1)
			require.NoError(t, err)
			_, err = jws.Verify(token, others, []string{want})
			require.NoError(t, err, "what others read")
		})
	}
	require.False(t, jws.Asymmetric("HS256"))
	require.False(t, jws.Asymmetric("none"))
}

// A set of one's own keys is not tried with a token that names none of them, unless it is an old one.
func TestATokenNamesItsKey(t *testing.T) {
	key := issuer.ECDSA(t, "k")
	set, err := jws.NewKeys(jws.Key{ID: "k", Public: key.Signer.Public()})
	require.NoError(t, err)
	claims, without := map[string]any{"sub": "b"}, map[string]any{"alg": "ES256"}
	_, err = jws.Verify(key.Token(claims), set, []string{"ES256"})
	require.NoError(t, err)
	_, err = jws.Verify(key.Sign(without, claims), set, []string{"ES256"})
	require.ErrorIs(t, err, jws.ErrUnknown)
	_, err = jws.Verify(key.Sign(without, claims), set.Unnamed(), []string{"ES256"})
	require.NoError(t, err)
	_, err = jws.NewKeys(jws.Key{Public: key.Signer.Public(), Algorithm: "RS256"})
	require.ErrorContains(t, err, "does not verify RS256")
}

func TestPartsOfWhatIsNoToken(t *testing.T) {
	for _, bad := range []string{"", "a.b", "a.b.c", "e30.!.c", "e30..c", "e30.e30."} {
		_, _, _, err := jws.Parts(bad)
		require.ErrorIs(t, err, jws.ErrMalformed, bad)
	}
	for _, bad := range []string{"", "a.b", "a.b.c.d", "e30.!.c", "e30.W10.c", "e30.e30.c"} {
		_, ok := jws.Issuer(bad)
		require.False(t, ok, bad)
	}
}
