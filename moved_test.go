package kindwright_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/copy"
)

// A store to which another one is being moved has objects of several moments. No server shows them.
func TestOPS_AnUnfinishedCopyIsNotServed(t *testing.T) {
	open := func() *bbolt.DB {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "store.db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	}
	from, to := open(), open()
	f, err := copy.Begin(t.Context(), from, to, copy.Options{})
	require.NoError(t, err)
	for name, b := range map[string]storage.Backend{"itself": to, "a view of it": storage.Prefix(to, "tenant")} {
		before, err := to.Revision(t.Context())
		require.NoError(t, err)
		srv, err := kindwright.New(b, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header))
		require.NoError(t, err)
		require.ErrorIs(t, srv.Start(t.Context()), copy.ErrUnfinished, name)
		after, err := to.Revision(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, after, "it writes nothing")
	}
	_, err = f.Finish(t.Context())
	require.NoError(t, err)
	srv, err := kindwright.New(to, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header))
	require.NoError(t, err)
	require.NoError(t, srv.Start(t.Context()))
	t.Cleanup(srv.Wait)
}
