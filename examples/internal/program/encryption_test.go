package program

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// encryptionFile writes a configuration that encrypts widgets with keys, the first of which writes.
func encryptionFile(t *testing.T, keys ...string) string {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [widgets.example.dev]\n  providers:\n  - aesgcm:\n      keys:\n"
	for _, name := range keys {
		secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 32)[:32]))
		text += "      - {name: " + name + ", secret: " + secret + "}\n"
	}
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A server with --encryption-provider-config leaves nothing to read in its data directory, and one
// without the key does not start.
func TestENC_02_AServerWithKeys(t *testing.T) {
	s := serveIn(t, t.TempDir(), "--encryption-provider-config="+encryptionFile(t, "first"))
	kube := admin(t, s.kubeconfig)
	kube.create(t, widgetsPath, strings.Replace(widget("a"), `"size":7`, `"size":7,"owner":"someone with a long name"`, 1))
	kube.http.CloseIdleConnections()
	require.Zero(t, s.stop())
	stored, err := os.ReadFile(filepath.Join(s.dir, dataFile))
	require.NoError(t, err)
	assert.NotContains(t, string(stored), "someone with a long name")
	assert.Contains(t, string(stored), "k8s:enc:aesgcm:v1:first:")

	for name, c := range map[string]struct{ flag, says string }{
		"without the key": {"--encryption-provider-config=" + encryptionFile(t, "second"), `has the key "k8s:enc:aesgcm:v1:first"`},
		"no such file":    {"--encryption-provider-config=/nowhere/encryption.yaml", "--encryption-provider-config: "},
		"no keys":         {"--encryption-provider-config=" + encryptionFile(t), "keys: Required value"},
	} {
		r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+s.dir, c.flag)
		assert.Equal(t, exitFailure, r.code, name)
		assert.Contains(t, r.errOut, c.says, name)
	}
	r := refused(t, "--listen=127.0.0.1:0", "--data-dir="+s.dir, "--encryption-provider-config-automatic-reload")
	assert.Equal(t, exitUsage, r.code)
	fresh := filepath.Join(t.TempDir(), "data")
	refused(t, "--listen=127.0.0.1:0", "--data-dir="+fresh, "--encryption-provider-config="+encryptionFile(t))
	assert.NoDirExists(t, fresh)

	s = serveIn(t, s.dir, "--encryption-provider-config="+encryptionFile(t, "second", "first"))
	kube = admin(t, s.kubeconfig)
	assert.Equal(t, "a", kube.names(t, widgetsPath))
	assert.Equal(t, 200, kube.do(t, "GET", "/healthz/kms-providers", "").code)
}
