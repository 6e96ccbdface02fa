package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that accepts a connection and says nothing, or breaks a backup off without an end, held the command up for
// ever. Whoever makes backups by the clock would have none, and no error.
func TestOPS_AServerThatSaysNothingIsGivenUp(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("the first half"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer half.Close()
	for name, from := range map[string]string{
		"before the handshake": "https://" + silent.Addr().String(), "before the answer": "http://" + silent.Addr().String(),
		"within the answer": half.URL,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fails(t, exitFailure, "has sent nothing for 200ms", "backup", "--timeout", "200ms", "--from", from, "--to", filepath.Join(dir, "b.db"))
			require.Empty(t, tree(t, dir))
		})
	}
	fails(t, exitUsage, "--timeout", "backup", "--timeout", "-1s", "--from", half.URL, "--to", filepath.Join(t.TempDir(), "b.db"))
}
