package bbolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

// fullDisk has room for a file up to a size.
type fullDisk struct {
	path  string
	limit atomic.Int64
}

// newFullDisk returns a disk with room for a store of 3 MiB, and the store.
func newFullDisk(t *testing.T) (*fullDisk, *DB, *seam) {
	d, s := &fullDisk{path: filepath.Join(t.TempDir(), "store.db")}, &seam{}
	d.limit.Store(3 << 20)
	d.install(s)
	return d, open(t, d.path, s.option(), WithReserve(512<<10)), s
}

func (d *fullDisk) install(s *seam) {
	allocate := func(_, to int64) error {
		if to > d.limit.Load() {
			return os.NewSyscallError("fallocate", syscall.ENOSPC)
		}
		if info, err := os.Stat(d.path); err != nil || info.Size() >= to {
			return err
		}
		return os.Truncate(d.path, to)
	}
	s.allocate.Store(&allocate)
}

// filled puts objects until the store refuses one, and returns why.
func filled(t *testing.T, db *DB, object int) (refused error) {
	t.Helper()
	value := make([]byte, 20<<10)
	for i := range 10_000 {
		if _, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget(object+i), value, storage.Any)}); err != nil {
			return err
		}
	}
	t.Fatal("the disk is never full")
	return nil
}

// A full disk refuses puts before they change anything. Reads, watches and deletions go on, and puts
// do when there is room, without a new Open.
func TestFullDisk(t *testing.T) {
	disk, db, s := newFullDisk(t)
	ctx := t.Context()
	err := filled(t, db, 0)
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.ErrorIs(t, err, storage.ErrNoSpace)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NotErrorIs(t, err, storage.ErrUnknownOutcome)
	require.ErrorContains(t, err, disk.path)
	require.ErrorContains(t, err, "make room on its disk")
	require.Equal(t, err, db.Room())
	require.NoError(t, db.Healthy(), "it is not for good")

	before := tell(t, db)
	_, err = db.Commit(ctx, []storage.Op{storage.Put(widget(0), []byte("small"), storage.Any)})
	require.ErrorIs(t, err, storage.ErrNoSpace)
	same(t, before, tell(t, db), "after a refusal")
	_, err = db.Commit(ctx, []storage.Op{storage.Check(widget(0), storage.Expect(before.now[0].Revision))})
	require.NoError(t, err, "a question needs no space")

	deleted := 20
	for i := range deleted {
		_, err := db.Commit(ctx, []storage.Op{storage.Delete(widget(i), storage.Any)})
		require.NoError(t, err)
	}
	_, err = db.Commit(ctx, []storage.Op{storage.Put(widget(50), []byte("it is to be deleted"), storage.Any).Freeing()})
	require.NoError(t, err, "a mark is part of a deletion")
	require.LessOrEqual(t, db.Statistics().FileBytes, disk.limit.Load())
	require.NoError(t, db.Check(ctx))

	db = reopen(t, db, s.option(), WithReserve(512<<10)) // on a full disk
	disk.limit.Store(6 << 20)
	require.Eventually(t, func() bool {
		_, err := db.Commit(ctx, []storage.Op{storage.Put(widget(0), []byte("again"), storage.Any)})
		return err == nil
	}, waitLimit, tick)
	require.NoError(t, db.Room())
	require.ErrorIs(t, filled(t, db, 1000), storage.ErrNoSpace)
	disk.limit.Store(8 << 20)
	require.Eventually(t, func() bool { return db.Room() == nil }, waitLimit, tick, "nobody has to write for that")
	require.NoError(t, db.Check(ctx))
	want := tell(t, db)
	db = reopen(t, db)
	same(t, want, tell(t, db), "reopened")
	require.NoError(t, db.Close())
}

// A disk that stays full has room again when what was deleted is compacted.
func TestCompactionMakesRoom(t *testing.T) {
	disk, db, _ := newFullDisk(t)
	for round := range 3 {
		require.ErrorIs(t, filled(t, db, 1000*round), storage.ErrNoSpace)
		page, err := db.List(t.Context(), storage.ListRequest{Limit: 10_000})
		require.NoError(t, err)
		require.Greater(t, len(page.Records), 50)
		var rev storage.Revision
		for _, r := range page.Records {
			rev, err = db.Commit(t.Context(), []storage.Op{storage.Delete(r.Key, storage.Expect(r.Revision))})
			require.NoError(t, err)
		}
		require.NoError(t, db.Compact(t.Context(), rev))
		require.Eventually(t, func() bool { return db.Room() == nil }, waitLimit, tick)
		require.NoError(t, db.Check(t.Context()))
		require.LessOrEqual(t, db.Statistics().FileBytes, disk.limit.Load())
	}
	require.NoError(t, db.Close())
}

// Deletions end when the reserve does. What compaction needs is left.
func TestReserveEnds(t *testing.T) {
	_, db, _ := newFullDisk(t)
	err := filled(t, db, 0)
	require.ErrorIs(t, err, storage.ErrNoSpace)
	var rev storage.Revision
	for range 100_000 {
		var next storage.Revision
		// It counts as a deletion and takes more space than any.
		next, err = db.Commit(t.Context(), []storage.Op{storage.Put(widget(0), make([]byte, 2000), storage.Any).Freeing()})
		if err != nil {
			break
		}
		rev = next
	}
	require.ErrorIs(t, err, storage.ErrNoSpace)
	require.NoError(t, db.Compact(t.Context(), rev))
	require.Eventually(t, func() bool {
		_, err := db.Commit(t.Context(), []storage.Op{storage.Delete(widget(1), storage.Any)})
		return err == nil
	}, waitLimit, tick)
	require.NoError(t, db.Check(t.Context()))
	require.NoError(t, db.Close())
}

// Puts and deletions of one group have each its own answer.
func TestFullDiskDecidesEachCommitOfAGroup(t *testing.T) {
	disk, db, s := newFullDisk(t)
	first := put(t, db, widget(1), "x")
	disk.limit.Store(0)
	h := s.hold()
	ctx := t.Context()
	blocker := commitLater(ctx, db, storage.Put(widget(0), nil, storage.Any))
	<-h.waiting
	large := enqueue(ctx, t, db, 0, storage.Put(widget(1), make([]byte, 3<<20), storage.Any))
	gone := enqueue(ctx, t, db, 1, storage.Delete(widget(1), storage.Expect(first)))
	s.heal()
	h.pass <- struct{}{}
	require.NoError(t, (<-blocker).err)
	require.ErrorIs(t, (<-large).err, storage.ErrNoSpace)
	o := <-gone
	require.NoError(t, o.err, "the put that it would have lost against did not happen")
	require.Equal(t, db.Statistics().Revision, o.rev)
	require.NoError(t, db.Close())
}

// A write that fails for want of space happened not at all, if the meta pages say so. A sync that
// fails for want of space ends the commits as any failed sync does.
func TestNoSpaceDuringTheTransaction(t *testing.T) {
	write := &fs.PathError{Op: "write", Path: "store.db", Err: syscall.ENOSPC}
	for name, c := range map[string]struct {
		commit commitFunc
		passes bool
	}{
		"a page is not written":    {func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), write) }, true},
		"the meta page is written": {func(tx *bolt.Tx) error { return errors.Join(tx.Commit(), write) }, false},
		"the sync fails":           {func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), syscall.ENOSPC) }, false},
		"the resize is not synced": {func(tx *bolt.Tx) error {
			return errors.Join(tx.Rollback(), &fs.PathError{Op: "sync", Path: "store.db", Err: syscall.ENOSPC})
		}, false},
		"another error": {func(tx *bolt.Tx) error {
			return errors.Join(tx.Rollback(), &fs.PathError{Op: "write", Path: "store.db", Err: syscall.EIO})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			db, s := openSeam(t)
			put(t, db, widget(0), "x")
			s.onCommit(func(_ commitFunc, tx *bolt.Tx) error { return c.commit(tx) })
			_, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget(1), []byte("y"), storage.Any)})
			s.heal()
			if c.passes {
				require.ErrorIs(t, err, storage.ErrNoSpace)
				require.NoError(t, db.Healthy())
				require.Eventually(t, func() bool { return db.Room() == nil }, waitLimit, tick)
				put(t, db, widget(1), "z")
				require.NoError(t, db.Check(t.Context()))
			} else {
				require.ErrorIs(t, err, storage.ErrUnknownOutcome)
				require.ErrorIs(t, db.Healthy(), storage.ErrClosed)
			}
			require.NoError(t, db.Close())
		})
	}
}

// On systems without a call for blocks, zeros take them. What the file has stays.
func TestZerosTakeBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, zeros(f, 0, 100_000))
	require.NoError(t, f.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, data, 100_000)
	require.Equal(t, "text", string(data[:4]))
	require.Error(t, zeros(f, 0, 200_000))
}

// Eight times as many deletions as usual pass on a full disk.
func ExampleWithReserve() {
	db, err := Open(filepath.Join(os.TempDir(), "kindwright-reserve.db"), WithReserve(8<<20))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = errors.Join(db.Close(), os.Remove(db.path)) }()
	_, err = db.Commit(context.Background(), []storage.Op{storage.Put("/r/boats/ns/a/", []byte("{}"), storage.Absent)})
	fmt.Println(err, db.Room())
	// Output: <nil> <nil>
}
