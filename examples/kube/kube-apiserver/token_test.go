package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const robots = "/api/v1/namespaces/default/serviceaccounts"

// keyFiles writes a pair of keys and returns the paths of the private and the public one.
func keyFiles(t *testing.T) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	open, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	private, public = filepath.Join(t.TempDir(), "sa.key"), filepath.Join(t.TempDir(), "sa.pub")
	require.NoError(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}), 0o600))
	return private, public
}

func TestSAT_05_TheKeyAndTheIssuerChange(t *testing.T) {
	data := "--data-dir=" + t.TempDir()
	oldPrivate, oldPublic := keyFiles(t)
	newPrivate, newPublic := keyFiles(t)
	ask := func(s *server) string {
		code, got := s.do(t, "master", "POST", robots+"/robot/token", `{"spec":{}}`)
		require.Equal(t, 201, code, got)
		return got["status"].(map[string]any)["token"].(string)
	}
	serves := func(s *server, token string, code int) {
		t.Helper()
		got, _ := s.do(t, token, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`)
		require.Equal(t, code, got)
	}
	before := run(t, data, "--service-account-issuer=https://old.example.dev", "--service-account-signing-key-file="+oldPrivate)
	code, _ := before.do(t, "master", "POST", robots, `{"metadata":{"name":"robot"}}`)
	require.Equal(t, 201, code)
	token := ask(before)
	serves(before, token, 201)
	require.Zero(t, before.stop())

	rotating := run(t, data, "--service-account-issuer=https://new.example.dev", "--service-account-issuer=https://old.example.dev",
		"--service-account-signing-key-file="+newPrivate, "--service-account-key-file="+newPublic, "--service-account-key-file="+oldPublic)
	serves(rotating, token, 201)
	renewed := ask(rotating)
	serves(rotating, renewed, 201)
	require.Zero(t, rotating.stop())

	after := run(t, data, "--service-account-issuer=https://new.example.dev", "--service-account-signing-key-file="+newPrivate)
	serves(after, token, 401)
	serves(after, renewed, 201)
	require.Zero(t, after.stop())

	// A server may check tokens that it does not make.
	only := run(t, data, "--service-account-issuer=https://new.example.dev", "--service-account-key-file="+newPublic)
	serves(only, renewed, 201)
	code, _ = only.do(t, "master", "POST", robots+"/robot/token", `{"spec":{}}`)
	require.Equal(t, 503, code)
	require.Zero(t, only.stop())
}

func TestSAT_05_KeyFiles(t *testing.T) {
	_, public := keyFiles(t)
	for _, args := range [][]string{
		{"--service-account-key-file=" + public},
		{"--service-account-key-file=/no/such/file", "--service-account-issuer=https://a.example.dev"},
	} {
		require.Contains(t, refused(t, append(args, "--secure-port=0", "--data-dir="+t.TempDir())...), "--service-account-key-file")
	}
}
