package jws_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/internal/jws"
)

var both = []string{"RS256", "ES256"}

func keys(t *testing.T, all ...issuer.Key) *jws.Keys {
	t.Helper()
	i := &issuer.Issuer{}
	i.Publish(all...)
	k, err := jws.ParseKeys(i.Set(), 10)
	require.NoError(t, err)
	require.Equal(t, len(all), k.Len())
	return k
}

func TestVerify(t *testing.T) {
	rsa, ec, other := issuer.RSA(t, "r"), issuer.ECDSA(t, "e"), issuer.RSA(t, "r")
	set := keys(t, rsa, ec)
	claims := map[string]any{"sub": "alice"}
	for _, key := range []issuer.Key{rsa, ec} {
		for _, header := range []map[string]any{
			{"alg": key.Algorithm(), "kid": key.ID},
			{"alg": key.Algorithm()}, // any key of the set
		} {
			payload, err := jws.Verify(key.Sign(header, claims), set, both)
			require.NoError(t, err)
			require.JSONEq(t, `{"sub":"alice"}`, string(payload))
		}
		_, err := jws.Verify(key.Sign(map[string]any{"alg": key.Algorithm(), "kid": "x"}, claims), set, both)
		require.ErrorIs(t, err, jws.ErrUnknown)
		_, err = jws.Verify(key.Token(claims), set, []string{"PS256"})
		require.ErrorIs(t, err, jws.ErrAlgorithm)
	}
	_, err := jws.Verify(other.Token(claims), set, both)
	require.ErrorIs(t, err, jws.ErrSignature)

	token := rsa.Token(claims)
	parts := strings.Split(token, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root"}`))
	_, err = jws.Verify(parts[0]+"."+forged+"."+parts[2], set, both)
	require.ErrorIs(t, err, jws.ErrSignature)
	for _, bad := range []string{
		"", ".", "..", "a.b", parts[0] + "." + parts[1], parts[0] + "." + parts[1] + ".", token + ".", token + ".x.y", "." + parts[1] + "." + parts[2],
		parts[0] + "." + parts[1] + "." + parts[2][:10] + "\n" + parts[2][10:], parts[0] + "." + parts[1] + "\r." + parts[2],
		parts[0] + "." + parts[1] + "." + strings.Repeat("A", 1400), parts[0] + "." + parts[1] + "." + parts[2] + "=",
		parts[0] + ".." + parts[2], strings.Repeat(".", 900<<10), strings.Repeat("=", 900<<10), "{" + token + "}",
		rsa.Sign([]byte(strings.Repeat("[", 100_000)), claims), rsa.Sign([]byte(`{"alg":"RS256","alg":"RS256"}`), claims),
		rsa.Sign([]byte(`{"alg":"RS256","pad":"`+strings.Repeat("x", 10_000)+`"}`), claims), rsa.Sign([]byte(`[]`), claims),
	} {
		_, err := jws.Verify(bad, set, both)
		require.ErrorIs(t, err, jws.ErrMalformed, "%.40s", bad)
	}
}

// J2: a curve has one algorithm, and the signatures of a key one length.
func TestJ2_ACurveHasOneAlgorithm(t *testing.T) {
	ec := issuer.ECDSA(t, "e")
	set, all := keys(t, ec), []string{"ES256", "ES384", "ES512"}
	for _, alg := range all[1:] {
		_, err := jws.Verify(ec.Sign(map[string]any{"alg": alg, "kid": "e"}, map[string]any{}), set, all)
		require.ErrorIs(t, err, jws.ErrUnknown, alg)
	}
	token := ec.Token(map[string]any{})
	end := strings.LastIndexByte(token, '.') + 1
	signature, err := base64.RawURLEncoding.DecodeString(token[end:])
	require.NoError(t, err)
	for _, bad := range [][]byte{append([]byte{0}, signature...), append(signature, 0), signature[:32], make([]byte, 64), append([]byte{0}, append(signature[:32], append([]byte{0}, signature[32:]...)...)...)} {
		_, err := jws.Verify(token[:end]+base64.RawURLEncoding.EncodeToString(bad), set, all)
		require.ErrorIs(t, err, jws.ErrSignature)
	}
}

func TestJ1_UnsignedTokensAreRejected(t *testing.T) {
	key := issuer.RSA(t, "r")
	set := keys(t, key)
	for _, alg := range []any{"none", "None", "nOnE", "", nil, 1, []string{"RS256"}, map[string]string{}, true} {
		token := key.Sign(map[string]any{"alg": alg, "kid": "r"}, map[string]any{})
		_, err := jws.Verify(token, set, both)
		require.Error(t, err, "%v", alg)
	}
	_, err := jws.Verify(key.Sign(map[string]any{"kid": "r"}, map[string]any{}), set, both)
	require.ErrorIs(t, err, jws.ErrAlgorithm)
	token := key.Token(map[string]any{})
	_, err = jws.Verify(token[:strings.LastIndexByte(token, '.')+1], set, both)
	require.ErrorIs(t, err, jws.ErrMalformed, "an empty signature")
}

func TestJ2_APublicKeyIsNoSecret(t *testing.T) {
	key := issuer.RSA(t, "r")
	set := keys(t, key)
	der, err := x509.MarshalPKIXPublicKey(key.Signer.Public())
	require.NoError(t, err)
	published := &issuer.Issuer{}
	published.Publish(key)
	for name, secret := range map[string][]byte{
		"der": der, "pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "jwk": published.Set(),
	} {
		signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"r"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{}`))
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(signed))
		_, err := jws.Verify(signed+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), set, both)
		require.ErrorIs(t, err, jws.ErrAlgorithm, name)
	}
}

func TestJ3_ATokenDoesNotBringItsKey(t *testing.T) {
	known, own := issuer.RSA(t, "known"), issuer.RSA(t, "own")
	set := keys(t, known)
	theirs := &issuer.Issuer{}
	theirs.Publish(own)
	var published struct{ Keys []map[string]any }
	require.NoError(t, json.Unmarshal(theirs.Set(), &published))
	for name, header := range map[string]map[string]any{
		"jwk": {"jwk": published.Keys[0]}, "jku": {"jku": "https://127.0.0.1:1/keys"}, "x5u": {"x5u": "https://127.0.0.1:1/cert"},
		"x5c": {"x5c": []string{"AAAA"}}, "path": {"kid": "../../dev/null"}, "sql": {"kid": "' OR 1=1 --"}, "url": {"kid": "https://127.0.0.1:1"},
		"crit": {"crit": []string{"b64"}, "b64": false},
	} {
		header["alg"] = "RS256"
		_, err := jws.Verify(own.Sign(header, map[string]any{}), set, both)
		require.Error(t, err, name)
	}
}

// RFC 7515, section 4.1.11, and RFC 7797: a header can change how the rest is to be read.
func TestJ3_WhatTheHeaderDemandsIsNotIgnored(t *testing.T) {
	key := issuer.RSA(t, "r")
	set := keys(t, key)
	sign := func(header map[string]any) string {
		header["alg"] = "RS256"
		return key.Sign(header, map[string]any{})
	}
	for name, header := range map[string]map[string]any{
		"crit": {"crit": []string{"exp"}}, "empty": {"crit": []string{}}, "both": {"crit": []string{"b64"}, "b64": false},
		"b64": {"b64": false}, // without the crit that it must have
	} {
		_, err := jws.Verify(sign(header), set, both)
		require.ErrorIs(t, err, jws.ErrMalformed, name)
	}
	_, err := jws.Verify(sign(map[string]any{"b64": true}), set, both)
	require.NoError(t, err)
}

// RFC 8725, section 3.11: other documents of the issuer are signed with the same key.
func TestJ1_OtherSignedDocumentsAreNoTokens(t *testing.T) {
	key := issuer.RSA(t, "r")
	set := keys(t, key)
	sign := func(typ any) string { return key.Sign(map[string]any{"alg": "RS256", "typ": typ}, map[string]any{}) }
	for _, of := range []string{"JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "APPLICATION/JWT", "", "JOSE", "ID", "okta-at+jwt+x"} {
		_, err := jws.Verify(sign(of), set, both)
		require.NoError(t, err, of)
	}
	for _, of := range []string{
		"logout+jwt", "secevent+jwt", "dpop+jwt", "oauth-authz-req+jwt", "token-introspection+jwt", "entity-statement+jwt", "wallet+jwt",
		"application/logout+jwt", "application/x-at+jwt", "LOGOUT+JWT", "logout+jwt ", "at+jwt, logout+jwt", "+jwt",
	} {
		_, err := jws.Verify(sign(of), set, both)
		require.ErrorIs(t, err, jws.ErrType, of)
	}
	for _, of := range []any{1, []string{"JWT"}, map[string]any{}, true} {
		_, err := jws.Verify(sign(of), set, both)
		require.ErrorIs(t, err, jws.ErrMalformed, "%v", of)
	}
}

func TestParseKeysLeavesOutWhatCannotVerify(t *testing.T) {
	good := &issuer.Issuer{}
	good.Publish(issuer.ECDSA(t, "good"))
	var set struct{ Keys []map[string]any }
	require.NoError(t, json.Unmarshal(good.Set(), &set))
	weak := map[string]any{"kty": "RSA", "kid": "weak", "n": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff", 128))), "e": "AQAB"}
	encryption := map[string]any{"kty": "RSA", "use": "enc", "n": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff", 256))), "e": "AQAB"}
	set.Keys = append(set.Keys, weak, encryption, map[string]any{"kty": "oct", "k": "c2VjcmV0"}, map[string]any{"kty": "new"}, map[string]any{})
	text, err := json.Marshal(map[string]any{"keys": set.Keys})
	require.NoError(t, err)
	keys, err := jws.ParseKeys(text, 10)
	require.NoError(t, err)
	require.Equal(t, 1, keys.Len())

	_, err = jws.ParseKeys(text, 5)
	require.EqualError(t, err, "6 keys, at most 5 are allowed")
	for _, bad := range []string{"", "[]", "<html>", `{"keys":{}}`, `{"keys":[[[]]]}`, "{}", `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`, `{"keys":` + strings.Repeat("[", 100_000)} {
		_, err := jws.ParseKeys([]byte(bad), 10)
		require.Error(t, err, "%.20s", bad)
		require.Equal(t, strings.Contains(bad, `"oct"`), errors.Is(err, jws.ErrNoKeys), "%.20s", bad)
	}
	_, err = jws.ParseKeys([]byte(`{"keys":[]}`), 10)
	require.ErrorIs(t, err, jws.ErrNoKeys)
	_, err = jws.ParseKeys([]byte(`{"keys":null}`), 10)
	require.False(t, err == nil || errors.Is(err, jws.ErrNoKeys), "that is no key set")
}
