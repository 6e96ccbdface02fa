package kindwright_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// stoppable is a server that a test can stop.
type stoppable struct {
	*host
	stop func()
}

// serveFile serves the store at path, with backups.
func serveFile(t *testing.T, path string) *stoppable {
	t.Helper()
	db, err := bbolt.Open(path)
	require.NoError(t, err)
	srv, err := kindwright.New(db, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.Debug{Backup: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	web := httptest.NewServer(srv)
	return &stoppable{&host{Server: srv, url: web.URL, t: t}, func() {
		cancel()
		web.CloseClientConnections()
		web.Close()
		srv.Wait()
		require.NoError(t, db.Close())
	}}
}

// A running server gives its backup. A client that watched before is told that its state is void, and
// then knows exactly what the backup has.
func TestD8_ABackupIsRestoredUnderAClient(t *testing.T) {
	dir := t.TempDir()
	first := serveFile(t, filepath.Join(dir, "store.db"))
	create := func(h *host, name string) {
		code, _ := h.do("POST", gadgetPath, `{"metadata":{"name":"`+name+`"}}`)
		require.Equal(t, 201, code)
	}
	create(first.host, "old")
	require.Equal(t, 403, first.ask("GET", "/debug/backup", "", "X-User", "bob", "X-Groups", "").code, "operators only")
	require.Equal(t, 405, first.ask("POST", "/debug/backup", "").code)
	backup := first.ask("GET", "/debug/backup", "")
	require.Equal(t, 200, backup.code)
	create(first.host, "lost")
	known := map[string]bool{}
	version := ""
	watch := func(h *host, until string) {
		c := client.For(&http.Client{Transport: asAdmin{h.transport()}}, gadgets(), client.At(h.url))
		var opts []client.WatchOption
		if version != "" {
			opts = append(opts, client.After(version))
		}
		for event, err := range c.Watch(t.Context(), client.In("default"), opts...) {
			require.NoError(t, err)
			switch event.Type {
			case client.Reset:
				clear(known)
			case meta.Added, meta.Modified:
				known[event.Object.Name] = true
			case meta.Deleted:
				delete(known, event.Object.Name)
			}
			if event.Version != "" {
				version = event.Version
			}
			if known[until] && event.Version != "" {
				break
			}
		}
	}
	watch(first.host, "lost")
	require.Equal(t, map[string]bool{"old": true, "lost": true}, known)
	first.stop()

	path := filepath.Join(dir, "restored.db")
	require.NoError(t, os.WriteFile(path, []byte(backup.body), 0o600))
	second := serveFile(t, path)
	defer second.stop()
	create(second.host, "new")
	watch(second.host, "new")
	require.Equal(t, map[string]bool{"old": true, "new": true}, known)
}

// breaking fails in the middle of a backup.
type breaking struct {
	storage.Backend
	after int
}

func (b breaking) BackupTo(_ context.Context, w io.Writer) (storage.Revision, error) {
	_, err := w.Write(make([]byte, b.after))
	return 0, errors.Join(err, errors.New("the disk is on fire"))
}

// refusing fails before it has written anything.
type refusing struct {
	storage.Backend
	reason error
}

func (r refusing) BackupTo(context.Context, io.Writer) (storage.Revision, error) { return 0, r.reason }

func TestD8_AFailedBackupIsNeverAShortOne(t *testing.T) {
	serve := func(wrap func(storage.Backend) storage.Backend) *host {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "store.db"))
		require.NoError(t, err)
		srv, err := kindwright.New(wrap(db), kindwright.Serve(kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.Debug{Backup: true})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, srv.Start(ctx))
		web := httptest.NewServer(srv)
		t.Cleanup(func() {
			cancel()
			web.CloseClientConnections()
			web.Close()
			srv.Wait()
			require.NoError(t, db.Close())
		})
		return &host{Server: srv, url: web.URL, t: t}
	}
	for _, after := range []int{1, 100_000} {
		h := serve(func(b storage.Backend) storage.Backend { return breaking{b, after} })
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/debug/backup", nil)
		require.NoError(t, err)
		res, err := asAdmin{h.transport()}.RoundTrip(req) // a short answer breaks before its header
		if err == nil {
			_, err = io.ReadAll(res.Body)
			require.NoError(t, res.Body.Close())
		}
		require.Error(t, err, "after %d bytes", after)
	}
	refused := func(reason error) answer {
		return serve(func(b storage.Backend) storage.Backend { return refusing{b, reason} }).ask("GET", "/debug/backup", "")
	}
	require.Equal(t, 500, refused(errors.New("the disk is on fire")).code)
	full := refused(fmt.Errorf("%w: /tmp", storage.ErrNoSpace))
	require.Equal(t, 503, full.code)
	require.Contains(t, full.body, "507 Insufficient Storage")
	memory := run(t, kindwright.Debug{Backup: true})
	require.Equal(t, 400, memory.ask("GET", "/debug/backup", "").code, "its backend cannot")
	require.Equal(t, 404, run(t).ask("GET", "/debug/backup", "").code, "only where asked for")
}
