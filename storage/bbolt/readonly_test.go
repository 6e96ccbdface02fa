package bbolt

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// A file that is opened to be read stays what it was, byte for byte, and takes no commits.
func TestReadOnlyChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	_, err := Open(path, WithReadOnly())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoFileExists(t, path)

	db, err := Open(path)
	require.NoError(t, err)
	key := storage.ObjectKey("widgets", "team", "a")
	rev, err := db.Commit(t.Context(), []storage.Op{storage.Put(key, []byte("value"), storage.Absent)})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, os.Chmod(path, 0o444))
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	db, err = Open(path, WithReadOnly())
	require.NoError(t, err)
	got, err := db.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, storage.Record{Key: key, Value: []byte("value"), Revision: rev}, got)
	now, err := db.Revision(t.Context())
	require.NoError(t, err)
	require.Equal(t, rev, now)
	require.NoError(t, db.Holds(t.Context(), rev))
	require.ErrorIs(t, db.Holds(t.Context(), rev+1), storage.ErrCompacted, "of a session that is not in the file")
	page, err := db.History(t.Context(), storage.HistoryRequest{After: rev - 1, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Batches, 1)
	require.NoError(t, db.Check(t.Context()))
	_, err = db.Commit(t.Context(), []storage.Op{storage.Put(key, nil, storage.Any)})
	require.ErrorIs(t, err, storage.ErrClosed)
	require.ErrorContains(t, err, "opened to be read")
	require.ErrorIs(t, db.Compact(t.Context(), rev), storage.ErrClosed)
	require.ErrorIs(t, db.Advance(t.Context(), rev+1), storage.ErrClosed)
	_, err = db.Backup(t.Context(), filepath.Join(t.TempDir(), "backup.db"))
	require.NoError(t, err)
	_, err = Open(path)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, db.Close())
	_, err = db.Get(t.Context(), key)
	require.ErrorIs(t, err, storage.ErrClosed)

	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o444), info.Mode().Perm())
}

// A file of an older format is read as it is: nothing is raised, and no copy is kept.
func TestReadOnlyReadsAnOlderFormat(t *testing.T) {
	path, data := oldFile(t)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	db, err := Open(path, WithReadOnly())
	require.NoError(t, err)
	page, err := db.List(t.Context(), storage.ListRequest{Limit: 100})
	require.NoError(t, err)
	require.NotEmpty(t, page.Records)
	require.NoError(t, db.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, data, after)
	require.NoFileExists(t, path+".format-2")
}
