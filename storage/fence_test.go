package storage_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestAFenceKeepsCommitsOut(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := storage.New(db)
	term, work := storage.SysKey("term"), storage.SysKey("work")
	at, err := s.Commit(t.Context(), []storage.Op{storage.Put(term, nil, storage.Absent)})
	require.NoError(t, err)
	lost := 0
	ctx := storage.WithFence(t.Context(), storage.Fence{Key: term, At: at, Lost: func() { lost++ }})
	write := func(ctx context.Context, ops ...storage.Op) error { _, err := s.Commit(ctx, ops); return err }

	require.NoError(t, write(ctx, storage.Put(work, []byte("1"), storage.Any)))
	var conflict *storage.ConflictError
	require.ErrorAs(t, write(ctx, storage.Put(work, nil, storage.Absent)), &conflict, "conflicts of its own stay conflicts")
	require.NoError(t, write(ctx, storage.Put(term, nil, storage.Any)), "a commit that changes the term judges itself")
	require.Zero(t, lost)

	require.ErrorIs(t, write(ctx, storage.Put(work, []byte("2"), storage.Any)), storage.ErrFenced)
	require.ErrorIs(t, write(ctx, storage.Delete(work, storage.Any)), storage.ErrFenced)
	require.Equal(t, 2, lost)
	r, err := s.Get(t.Context(), work)
	require.NoError(t, err)
	require.Equal(t, "1", string(r.Value))
	require.NoError(t, write(t.Context(), storage.Put(work, nil, storage.Any)), "others are not affected")
}

func TestStoresInEachOtherHaveOneFence(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := storage.New(storage.New(db))
	at, err := s.Commit(t.Context(), []storage.Op{storage.Put(storage.SysKey("term"), nil, storage.Absent)})
	require.NoError(t, err)
	ctx := storage.WithFence(t.Context(), storage.Fence{Key: storage.SysKey("term"), At: at})
	_, err = s.Commit(ctx, []storage.Op{storage.Put(storage.SysKey("work"), nil, storage.Any)})
	require.NoError(t, err)
}
