//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/files"
)

// S8: a pair of --cert-dir is made once, for its owner alone, and never through a link.
func TestS8_FilesOfTheCertificateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certificates")
	cert, key := filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	o := &options{certDir: dir}
	written := func() []byte {
		pair, err := o.certificate()
		require.NoError(t, err)
		_, err = files.KeyPair(pair.CertFile, pair.KeyFile) // as the server reads it
		require.NoError(t, err)
		data, err := os.ReadFile(cert)
		require.NoError(t, err)
		return data
	}
	first := written()
	require.NoError(t, os.Chmod(key, 0o644))
	require.Equal(t, first, written())
	info, err := os.Stat(key)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o007)

	// A key without its certificate may be somebody's. Killed in between, the program leaves none.
	require.NoError(t, os.Rename(cert, cert+".kept"))
	_, err = o.certificate()
	require.ErrorContains(t, err, "exists without its certificate")
	require.NoError(t, os.Rename(cert+".kept", cert))
	require.NoError(t, os.Remove(key))
	require.NotEqual(t, first, written())

	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.Remove(key))
	require.NoError(t, os.Remove(cert))
	require.NoError(t, os.Symlink(elsewhere, key))
	_, err = o.certificate()
	require.Error(t, err)
	require.NoFileExists(t, elsewhere)
	require.NoError(t, os.Remove(key))

	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = o.certificate()
	require.ErrorContains(t, err, "other users may write to it")
}

func TestS8_S26_FilesOfTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, dir, "/dev/zero"} {
		for _, args := range [][]string{
			{"--token-auth-file", path},
			{"--client-ca-file", path},
			{"--tls-cert-file", path, "--tls-private-key-file", path},
			{"--service-account-signing-key-file", path, "--service-account-issuer", "https://example.com"},
		} {
			said := refused(t, append(args, "--data-dir="+t.TempDir(), "--secure-port=0")...)
			require.Regexp(t, "pipe|directory|device", said, "%v", args)
		}
	}
	data := t.TempDir()
	require.NoError(t, os.Chmod(data, 0o777))
	require.Contains(t, refused(t, "--data-dir="+data), "other users may write to it")
}
