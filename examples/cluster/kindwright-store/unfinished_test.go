package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/bbolt"
)

// A backup that is killed leaves the directory in which it is made. The next one to the same place names
// it, for it cannot know whether the other one is running.
func TestOPS_ABackupThatIsNotFinishedIsNamed(t *testing.T) {
	begun, dir := make(chan struct{}, 1), t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	store, to := filepath.Join(dir, "store.db"), filepath.Join(dir, "backup.db")
	db, err := bbolt.Open(store)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	ctx, stop := context.WithCancel(t.Context())
	first := make(chan int)
	go func() {
		var out bytes.Buffer
		first <- run(ctx, []string{"backup", "--from", server.URL, "--to", to}, &out, &out)
	}()
	<-begun
	left := filepath.Join(dir, ".backup.db.unfinished")
	require.Eventually(t, func() bool { _, err := os.Stat(left); return err == nil }, 5*time.Second, time.Millisecond)
	backup := func() (int, string) {
		var out bytes.Buffer
		code := run(t.Context(), []string{"backup", "--from", "bbolt:" + store, "--to", to}, &out, &out)
		return code, out.String()
	}
	code, said := backup()
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "remove "+left+" and try again")
	require.NoFileExists(t, to)
	stop()
	require.Equal(t, 1, <-first)
	require.NoDirExists(t, left)

	code, said = backup()
	require.Zero(t, code, said)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 2, "the store, its backup and nothing else: %v", names)
}
