package bbolt

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/storagetest"
)

func TestImport(t *testing.T) {
	storagetest.RunImports(t, storagetest.Harness{
		Open:   func(t testing.TB) storage.Backend { return openFast(t) },
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend { return reopen(t, b, withoutSync) },
	})
}

// A record with a history belongs to somebody. An import must not take it away.
func TestImportLeavesCommitsAlone(t *testing.T) {
	db := openFast(t)
	put(t, db, widget(1), "ours")
	put(t, db, widget(1), "ours again")
	err := db.Import(t.Context(), storage.Import{Put: []storage.Record{{Key: widget(1), Value: []byte("theirs"), Revision: 5}}})
	require.ErrorIs(t, err, storage.ErrInvalid)
	got, err := db.Get(t.Context(), widget(1))
	require.NoError(t, err)
	require.Equal(t, "ours again", string(got.Value))
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.Import(t.Context(), storage.Import{Above: 5}), storage.ErrClosed)
}

// Advance raises the revision and keeps the history; watches are told.
func TestAdvance(t *testing.T) {
	db := openFast(t)
	old := put(t, db, widget(1), "a")
	to := old + 1<<30
	told := make(chan storage.Revision, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for b, err := range db.Watch(ctx, "", old) {
			if err != nil {
				return
			}
			if b.Revision >= to {
				told <- b.Revision
				return
			}
		}
	}()
	require.NoError(t, db.Advance(t.Context(), to))
	require.NoError(t, db.Advance(t.Context(), to), "it is there already")
	require.NoError(t, db.Advance(t.Context(), old), "never back")
	rev, err := db.Sync(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, to, rev)
	require.Equal(t, to, <-told)
	require.ErrorIs(t, db.Holds(t.Context(), to-1), storage.ErrCompacted)
	next := put(t, db, widget(1), "b")
	require.Greater(t, next, to)
	p, err := db.History(t.Context(), storage.HistoryRequest{After: old, Limit: 10, Prev: true})
	require.NoError(t, err)
	require.Len(t, p.Batches, 1)
	require.Equal(t, old, p.Batches[0].Changes[0].Prev.Revision)
	path := db.path
	require.NoError(t, db.Close())
	again := open(t, path)
	require.NoError(t, again.Check(t.Context()))
	require.NoError(t, again.Close())
}
