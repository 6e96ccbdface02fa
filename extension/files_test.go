package extension

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

const (
	patience = 20 * time.Second
	look     = 20 * time.Millisecond
)

// certificateFiles are the files of a server's certificate, and of the authority that the host is to trust.
func certificateFiles(t *testing.T) (c Certificate, ca []byte) {
	t.Helper()
	authority, err := selfsigned.NewAuthorityFor("fleet", time.Hour)
	require.NoError(t, err)
	pair, err := authority.Serving("fleet.default.svc")
	require.NoError(t, err)
	dir := t.TempDir()
	c = Certificate{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), CAFile: filepath.Join(dir, "ca.crt")}
	for path, data := range map[string][]byte{c.CertFile: pair.Cert, c.KeyFile: pair.Key, c.CAFile: authority.PEM()} {
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	return c, authority.PEM()
}

// Half of the file of authorities was written into the APIServices, and the host refused the server until the file was
// whole and read again. The server said of itself that it was well.
func TestOPS_01_AFileOfAuthoritiesThatCannotBeReadChangesNothing(t *testing.T) {
	for name, broken := range map[string]func(ca []byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"half":         func(ca []byte) []byte { return ca[:len(ca)/2] },
		"and a half":   func(ca []byte) []byte { return append(ca[:len(ca):len(ca)], ca[:len(ca)/2]...) },
		"is something": func([]byte) []byte { return []byte("no certificate") },
	} {
		t.Run(name, func(t *testing.T) {
			c, ca := certificateFiles(t)
			files, err := openFiles(&c, logr.Discard())
			require.NoError(t, err)
			require.Equal(t, string(ca), string(files.bundle()))
			require.NoError(t, os.WriteFile(c.CAFile, broken(ca), 0o600))
			require.Eventually(t, func() bool { return files.check() != nil }, patience, look, "health says nothing")
			require.ErrorContains(t, files.check(), "ca.crt")
			require.Equal(t, string(ca), string(files.bundle()))

			_, err = openFiles(&c, logr.Discard())
			require.ErrorContains(t, err, "CAFile", "a server that begins with it is refused")

			require.NoError(t, os.WriteFile(c.CAFile, append(ca[:len(ca):len(ca)], ca...), 0o600))
			require.Eventually(t, func() bool { return files.check() == nil }, patience, look)
			require.Equal(t, string(ca)+string(ca), string(files.bundle()))
		})
	}
}

// Everybody can read APIServices.
func TestOPS_01_AKeyBesideTheAuthoritiesIsNotPublished(t *testing.T) {
	c, ca := certificateFiles(t)
	key, err := os.ReadFile(c.KeyFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.CAFile, append(key, ca...), 0o600))
	files, err := openFiles(&c, logr.Discard())
	require.NoError(t, err)
	require.Equal(t, string(ca), string(files.bundle()))
}
