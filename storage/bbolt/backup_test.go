package bbolt

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func TestBackup(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "store.db"), withoutSync)
	write(t, db, 1, 100)
	fill(t, db, 2*backupRecords+10)
	want := tell(t, db)
	path := filepath.Join(dir, "backup.db")
	rev, err := db.Backup(ctx, path)
	require.NoError(t, err)
	require.Equal(t, want.current, rev)
	_, err = db.Backup(ctx, path)
	require.ErrorIs(t, err, fs.ErrExist, "it replaces nothing")
	last := put(t, db, widget(0), "after the backup")
	require.NoError(t, db.Close())

	restored := open(t, path)
	got := tell(t, restored)
	require.True(t, assert.ObjectsAreEqual(want.now, got.now), "the records with their revisions")
	require.Greater(t, got.current, last, "it continues above what the lost store issued")
	require.Equal(t, got.current, got.compacted, "and everything before is compacted")
	_, err = restored.List(ctx, storage.ListRequest{At: rev, Limit: 1})
	require.ErrorIs(t, err, storage.ErrCompacted)
	newest := put(t, restored, widget(0), "x")
	require.Greater(t, newest, got.current)
	require.NoError(t, restored.Check(ctx))
	require.NoError(t, restored.Close())

	again := open(t, path)
	require.Equal(t, newest, again.Statistics().Revision, "the second opening is an ordinary one")
	require.NoError(t, again.Close())
}

func TestBackupOfEmptyStore(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "store.db"), withoutSync)
	_, err := db.Backup(t.Context(), filepath.Join(dir, "backup.db"))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	restored := open(t, filepath.Join(dir, "backup.db"))
	require.Empty(t, listAll(t, restored, 0))
	require.NoError(t, restored.Close())
}

// turning is a context that runs a function each time it is asked.
type turning struct {
	context.Context
	turn func() error
}

func (c turning) Err() error { return c.turn() }

// If compaction overtakes a backup, the backup starts again.
func TestBackupBesideCompaction(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "store.db"), withoutSync)
	fill(t, db, 100)
	turns := 0
	ctx := turning{t.Context(), func() error {
		if turns++; turns == 2 { // between finding the records and copying them
			rev := put(t, db, widget(0), "x")
			require.NoError(t, db.Compact(t.Context(), rev))
		}
		return nil
	}}
	rev, err := db.Backup(ctx, filepath.Join(dir, "backup.db"))
	require.NoError(t, err)
	require.Equal(t, db.Statistics().Revision, rev)

	always := turning{t.Context(), func() error {
		rev := put(t, db, widget(0), "x")
		return db.Compact(t.Context(), rev)
	}}
	_, err = db.Backup(always, filepath.Join(dir, "never.db"))
	require.ErrorIs(t, err, storage.ErrCompacted)
	require.NoError(t, db.Close())
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 2, "a backup that fails leaves nothing")
}

func TestBackupFails(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "store.db"), withoutSync)
	fill(t, db, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := db.Backup(ctx, filepath.Join(dir, "backup.db"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = db.Backup(t.Context(), filepath.Join(dir, "missing", "backup.db"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, db.Close())
	_, err = db.Backup(t.Context(), filepath.Join(dir, "backup.db"))
	require.ErrorIs(t, err, storage.ErrClosed)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
}
