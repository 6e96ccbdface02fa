package serviceaccount_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/serviceaccount"
)

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// texts returns a key and its public half in PEM.
func texts(t testing.TB, key *ecdsa.PrivateKey) (private, public []byte) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	open, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open})
}

func TestSAT_05_KeysInFiles(t *testing.T) {
	private, public := texts(t, ecKey(t))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey)})
	own := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})
	der, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	require.NoError(t, err)
	pkcs8 := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	template := &x509.Certificate{}
	der, err = x509.CreateCertificate(rand.Reader, template, template, rsaKey.Public(), rsaKey)
	require.NoError(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 0}})
	var all []byte
	for _, part := range [][]byte{parameters, private, public, pkcs1, own, pkcs8, certificate} {
		all = append(all, part...)
	}
	keys, err := serviceaccount.ParsePublicKeys(all)
	require.NoError(t, err)
	require.Len(t, keys, 6)
	require.Equal(t, keys[0], keys[1])
	for _, k := range keys[3:] {
		require.Equal(t, keys[2], k)
	}
	signer, err := serviceaccount.ParsePrivateKey(all)
	require.NoError(t, err)
	require.Equal(t, keys[0].Key, signer.Public())

	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err = x509.MarshalPKCS8PrivateKey(edKey)
	require.NoError(t, err)
	other := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for _, bad := range []string{"", "x", string(parameters), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}))} {
		_, err := serviceaccount.ParsePublicKeys([]byte(bad))
		require.Error(t, err)
	}
	for _, bad := range []string{"", "x", string(public), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")}))} {
		_, err := serviceaccount.ParsePrivateKey([]byte(bad))
		require.Error(t, err)
	}
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, other, 0o600))
	_, err = serviceaccount.Open(serviceaccount.Files{SigningKey: path})
	require.ErrorContains(t, err, "signs no tokens")
	require.ErrorContains(t, err, path)
	_, err = serviceaccount.Open(serviceaccount.Files{Keys: []string{path}})
	require.ErrorContains(t, err, path)
	_, err = serviceaccount.Open(serviceaccount.Files{Keys: []string{path + "x"}})
	require.ErrorContains(t, err, path+"x")
}

func TestKeysThatSignNoTokens(t *testing.T) {
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	large := &rsa.PublicKey{N: weak.X, E: 65537}
	_, err = serviceaccount.NewSigner(weak)
	require.ErrorContains(t, err, "signs no tokens")
	for _, key := range []crypto.PublicKey{weak.Public(), large, "x", nil} {
		_, err = serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key})
		require.ErrorContains(t, err, "signs no tokens")
	}
	_, err = serviceaccount.NewKeySet()
	require.ErrorContains(t, err, "no key")
}

// A new pair of keys counts a second after it was written; a file that cannot be read changes nothing.
func TestSAT_05_KeyFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	private, public, before := filepath.Join(dir, "private"), filepath.Join(dir, "public"), filepath.Join(dir, "before")
	write := func(path string, data []byte) {
		require.NoError(t, os.WriteFile(path+".new", data, 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	oldKey, newKey := ecKey(t), ecKey(t)
	oldPrivate, oldPublic := texts(t, oldKey)
	newPrivate, newPublic := texts(t, newKey)
	synctest.Test(t, func(t *testing.T) {
		write(private, oldPrivate)
		write(public, oldPublic)
		write(before, oldPublic)
		var failed []error
		files, err := serviceaccount.Open(serviceaccount.Files{
			SigningKey: private, Keys: []string{public, before}, Failed: func(err error) { failed = append(failed, err) },
		})
		require.NoError(t, err)
		w := newWorld(t, serviceaccount.Options{Keys: files, Signer: files.Signer()})
		w.put(accountsOf, "default", "robot", "u1", "")
		old := w.token(t, serviceaccount.TokenRequest{})
		w.accepts(t, old)

		write(private, newPrivate)
		write(public, newPublic)
		require.Same(t, files.Keys(), files.Keys(), "they have not been looked at yet")
		time.Sleep(2 * time.Second)
		renewed := w.token(t, serviceaccount.TokenRequest{})
		w.accepts(t, renewed)
		w.accepts(t, old)

		write(private, []byte("torn"))
		time.Sleep(2 * time.Second)
		w.accepts(t, w.token(t, serviceaccount.TokenRequest{}))
		require.NotEmpty(t, failed)
		require.ErrorContains(t, failed[0], private)
		require.ErrorContains(t, files.Healthy(), private, "and whoever asks for it is told")

		write(private, newPrivate)
		write(before, newPublic)
		time.Sleep(2 * time.Second)
		w.accepts(t, renewed)
		w.rejects(t, old, "not known")
		require.NoError(t, files.Healthy())
	})
}

func TestOpenWithoutASigningKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "public")
	_, public := texts(t, ecKey(t))
	require.NoError(t, os.WriteFile(path, public, 0o600))
	files, err := serviceaccount.Open(serviceaccount.Files{Keys: []string{path, path}})
	require.NoError(t, err)
	require.Nil(t, files.Signer())
	w := newWorld(t, serviceaccount.Options{Keys: files})
	_, err = w.issue(serviceaccount.TokenRequest{})
	require.ErrorContains(t, err, "no key to sign tokens with")
}
