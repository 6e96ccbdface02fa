//go:build unix

package program

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// S8: in a directory that others may write, they can plant keys.
func TestS8_ADataDirectoryThatOthersMayWriteIsRejected(t *testing.T) {
	dir := stopped(t)
	require.NoError(t, os.Chmod(dir, 0o770))
	r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+dir)
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.errOut, "--data-dir: "+dir+": other users may write to it (mode 0770)")
}

func TestS8_KeysAreForTheirOwnerAlone(t *testing.T) {
	dir := stopped(t)
	keys := []string{"ca.crt", "admin.crt", "admin.key", "server.crt", "server.key"}
	for _, name := range keys {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o644))
	}
	assert.Equal(t, 0, serveIn(t, dir).stop())
	for _, name := range keys {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
}

func TestS8_NoKeyIsWrittenThroughALink(t *testing.T) {
	dir, elsewhere := stopped(t), filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, nil, 0o644))
	planted := []string{"server.key", "admin.key", "kubeconfig"}
	for _, name := range planted {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, name)))
	}
	s := serveIn(t, dir)
	assert.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", "/readyz", "").code)
	data, err := os.ReadFile(elsewhere)
	require.NoError(t, err)
	assert.Empty(t, data)
	for _, name := range planted {
		info, err := os.Lstat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.True(t, info.Mode().IsRegular(), name)
	}
}

// S26: none of them keeps the server waiting or fills its memory.
func TestS26_WhatIsNotARegularFileIsRejected(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for path, why := range map[string]string{pipe: "pipe", "/dev/zero": "device", dir: "directory"} {
		for _, flag := range []string{"--token-auth-file", "--client-ca-file"} {
			r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+filepath.Join(t.TempDir(), "data"), flag+"="+path)
			assert.Equal(t, exitFailure, r.code)
			assert.Contains(t, r.errOut, flag)
			assert.Contains(t, r.errOut, why)
		}
	}
	for _, name := range []string{"ca.crt", "server.key", "admin.key", dataFile} {
		data := stopped(t)
		path := filepath.Join(data, name)
		require.NoError(t, os.Remove(path))
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+data)
		assert.Equal(t, exitFailure, r.code)
		assert.Contains(t, r.errOut, path)
		assert.Contains(t, r.errOut, "pipe")
	}
}
