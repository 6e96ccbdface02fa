package bbolt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

func TestNothingIsAcknowledgedBeforeItsSync(t *testing.T) {
	db, s := openSeam(t)
	var durable atomic.Uint64
	durable.Store(uint64(db.Statistics().Revision))
	s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
		last := stateIn(tx).last
		err := really(tx)
		if err == nil {
			durable.Store(uint64(last))
		}
		return err
	})
	ctx := t.Context()
	var running sync.WaitGroup
	for w := range 16 {
		running.Go(func() {
			for i := range 50 {
				// One of two writers of a key is rejected. The rejection waits for a sync too,
				// because it reveals the other commit.
				known, _ := db.Get(ctx, widget(w/2))
				rev, err := db.Commit(ctx, []storage.Op{storage.Put(widget(w/2), fmt.Append(nil, i), storage.Expect(known.Revision))})
				var conflict *storage.ConflictError
				if errors.As(err, &conflict) {
					rev, err = conflict.Actual, nil
				}
				if err != nil || uint64(rev) > durable.Load() {
					t.Errorf("told of revision %d (%v) when %d was durable", rev, err, durable.Load())
				}
				if now, err := db.Revision(ctx); err != nil || uint64(now) > durable.Load() {
					t.Errorf("Revision said %d (%v) when %d was durable", now, err, durable.Load())
				}
			}
		})
	}
	running.Wait()
	st := db.Statistics()
	require.Less(t, st.Syncs, st.Commits, "writers share syncs")
	require.NoError(t, db.Close())
}

func TestNothingIsVisibleBeforeItsSync(t *testing.T) {
	ctx := t.Context()
	db, s := openSeam(t)
	before := put(t, db, widget(1), "before")
	h := s.hold()
	answer := commitLater(ctx, db, storage.Put(widget(1), []byte("after"), storage.Any))
	<-h.waiting
	r, err := db.Get(ctx, widget(1))
	require.NoError(t, err)
	require.Equal(t, before, r.Revision)
	require.Equal(t, before, db.Statistics().Revision)
	_, err = db.List(ctx, storage.ListRequest{At: before + 1, Limit: 1})
	require.ErrorIs(t, err, storage.ErrFutureRevision)
	for _, err := range db.Watch(ctx, "", before+1) {
		require.ErrorIs(t, err, storage.ErrFutureRevision)
	}
	require.Empty(t, answer)

	h.pass <- struct{}{}
	o := <-answer
	require.NoError(t, o.err)
	r, err = db.Get(ctx, widget(1))
	require.NoError(t, err)
	require.Equal(t, storage.Record{Key: widget(1), Value: []byte("after"), Revision: o.rev}, r)
	s.heal()
	require.NoError(t, db.Close())
}

// A conflict, or a successful check, reveals other commits. So the answer waits for their sync.
func TestAnswersAboutGroupWaitForItsSync(t *testing.T) {
	ctx := t.Context()
	db, s := openSeam(t)
	put(t, db, widget(0), "x")
	h := s.hold()
	blocker := commitLater(ctx, db, storage.Put(widget(0), nil, storage.Any))
	<-h.waiting
	winner := enqueue(ctx, t, db, 0, storage.Put(widget(1), nil, storage.Absent))
	loser := enqueue(ctx, t, db, 1, storage.Put(widget(1), nil, storage.Absent))
	check := enqueue(ctx, t, db, 2, storage.Check(widget(2), storage.Absent))
	h.pass <- struct{}{}
	require.NoError(t, (<-blocker).err)
	<-h.waiting
	require.Empty(t, loser)
	require.Empty(t, check)
	s.heal()
	h.pass <- struct{}{}
	won, lost, checked := <-winner, <-loser, <-check
	require.NoError(t, won.err)
	require.Equal(t, &storage.ConflictError{Key: widget(1), Expected: storage.Absent, Actual: won.rev}, lost.err)
	require.NoError(t, checked.err)
	require.Equal(t, won.rev, checked.rev, "a commit that changes nothing answers the current revision")
	require.NoError(t, db.Close())
}

func TestCancelledCommit(t *testing.T) {
	db, s := openSeam(t)
	start := put(t, db, widget(0), "x")
	h := s.hold()
	ctx, cancel := context.WithCancel(t.Context())
	taken := commitLater(ctx, db, storage.Put(widget(1), []byte("taken"), storage.Any))
	<-h.waiting
	queued := enqueue(ctx, t, db, 0, storage.Put(widget(2), []byte("queued"), storage.Any))
	cancel()

	o := <-queued
	require.ErrorIs(t, o.err, context.Canceled)
	require.NotErrorIs(t, o.err, storage.ErrUnknownOutcome)
	o = <-taken
	require.ErrorIs(t, o.err, context.Canceled)
	require.ErrorIs(t, o.err, storage.ErrUnknownOutcome)

	s.heal()
	h.pass <- struct{}{}
	for b, err := range db.Watch(t.Context(), "", start) {
		require.NoError(t, err)
		require.Equal(t, widget(1), b.Changes[0].Key, "it happens and is published")
		break
	}
	put(t, db, widget(0), "y") // the queue has been worked off
	_, err := db.Get(t.Context(), widget(2))
	require.ErrorIs(t, err, storage.ErrNotFound, "what was withdrawn never happens")
	require.NoError(t, db.Close())
}

func TestCancelledCompaction(t *testing.T) {
	db, s := openSeam(t)
	rev := put(t, db, widget(0), "x")
	h := s.hold()
	blocker := commitLater(t.Context(), db, storage.Put(widget(0), nil, storage.Any))
	<-h.waiting
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() { answer <- db.Compact(ctx, rev) }()
	cancel()
	require.ErrorIs(t, <-answer, context.Canceled)
	s.heal()
	h.pass <- struct{}{}
	require.NoError(t, (<-blocker).err)
	require.NoError(t, db.Close())
}

func TestCloseAnswersWhatIsUnderWay(t *testing.T) {
	ctx := t.Context()
	db, s := openSeam(t)
	h := s.hold()
	taken := commitLater(ctx, db, storage.Put(widget(1), []byte("taken"), storage.Any))
	<-h.waiting
	queued := enqueue(ctx, t, db, 0, storage.Put(widget(2), []byte("queued"), storage.Any))
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	o := <-queued
	require.ErrorIs(t, o.err, storage.ErrClosed)
	require.NotErrorIs(t, o.err, storage.ErrUnknownOutcome)
	require.Empty(t, closed, "Close waits for the writer")
	h.pass <- struct{}{}
	require.NoError(t, (<-taken).err)
	require.NoError(t, <-closed)

	again := open(t, db.path)
	require.Len(t, listAll(t, again, 0), 1)
	require.NoError(t, again.Close())
}

// A record that could not be read back is never written, even for callers without a Store.
func TestCommitRefusesWhatBreaksTheFile(t *testing.T) {
	db := openFast(t, WithLimits(storage.Limits{MaxValueBytes: 100, MaxOps: 20}))
	start := db.Statistics().Revision
	many := make([]storage.Op, 20)
	for i := range many {
		many[i] = storage.Put(widget(i), nil, storage.Any)
	}
	for name, c := range map[string]struct {
		ops  []storage.Op
		want error
	}{
		"a key beyond any limit":      {[]storage.Op{storage.Put("/"+strings.Repeat("x", 1<<16)+"/", nil, storage.Any)}, storage.ErrInvalid},
		"a value beyond the limit":    {[]storage.Op{storage.Put(widget(0), make([]byte, 101), storage.Any)}, storage.ErrTooLarge},
		"operations beyond the limit": {append(many[:20:20], storage.Put(widget(20), nil, storage.Any)), storage.ErrTooLarge},
		"a key twice":                 {[]storage.Op{many[0], storage.Check(widget(1), storage.Absent), many[0]}, storage.ErrInvalid},
		"a key twice among many":      {append(many[:19:19], many[3]), storage.ErrInvalid},
	} {
		_, err := db.Commit(t.Context(), c.ops)
		require.ErrorIs(t, err, c.want, name)
	}
	require.Equal(t, start, db.Statistics().Revision)
	_, err := db.Commit(t.Context(), many)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, open(t, db.path).Close())
}

// failure is one way for a transaction to fail.
type failure struct {
	begin  func(really beginFunc) (*bolt.Tx, error)
	commit func(really commitFunc, tx *bolt.Tx) error

	unknown bool // the store cannot know whether it is on disk
	written bool // it is on disk
}

var failures = map[string]failure{
	"the sync fails, nothing is on disk": {
		commit:  func(commitFunc, *bolt.Tx) error { return errDisk },
		unknown: true,
	},
	"the sync fails, all is on disk": {
		commit:  func(really commitFunc, tx *bolt.Tx) error { return errors.Join(really(tx), errDisk) },
		unknown: true,
		written: true,
	},
	"the commit crashes before it writes": {
		commit:  func(commitFunc, *bolt.Tx) error { panic(errDisk) },
		unknown: true,
	},
	"the commit crashes after it wrote": {
		commit:  func(really commitFunc, tx *bolt.Tx) error { panic(errors.Join(really(tx), errDisk)) },
		unknown: true,
		written: true,
	},
	"the transaction cannot begin": {
		begin: func(beginFunc) (*bolt.Tx, error) { return nil, errDisk },
	},
	"the beginning crashes and leaves bbolt locked": {
		begin: func(really beginFunc) (*bolt.Tx, error) {
			_, err := really(true)
			panic(errors.Join(err, errDisk))
		},
	},
}

func (f failure) install(s *seam) {
	s.heal()
	if f.begin != nil {
		s.onBegin(func(really beginFunc, writable bool) (*bolt.Tx, error) {
			if !writable {
				return really(false)
			}
			return f.begin(really)
		})
	}
	if f.commit != nil {
		s.onCommit(f.commit)
	}
}

// Rule 3: a failed sync fails its group and all commits that depend on it and publishes nothing.
// After it, nothing is acknowledged.
func TestFailedTransactionEndsCommits(t *testing.T) {
	for name, f := range failures {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			db, s := openSeam(t)
			before := put(t, db, widget(1), "before")
			h := s.hold()
			blocker := commitLater(ctx, db, storage.Put(widget(0), []byte("goes well"), storage.Any))
			<-h.waiting
			changing := enqueue(ctx, t, db, 0, storage.Put(widget(1), []byte("after"), storage.Expect(before)))
			dependent := enqueue(ctx, t, db, 1, storage.Put(widget(1), []byte("too"), storage.Expect(before)))
			checking := enqueue(ctx, t, db, 2, storage.Check(widget(0), storage.Absent))
			f.install(s)
			h.pass <- struct{}{}
			good := <-blocker
			require.NoError(t, good.err)

			o := <-changing
			require.ErrorContains(t, o.err, errDisk.Error())
			require.ErrorContains(t, o.err, db.path)
			require.Equal(t, f.unknown, errors.Is(o.err, storage.ErrUnknownOutcome), "%v", o.err)
			require.Equal(t, !f.unknown, errors.Is(o.err, storage.ErrClosed), "%v", o.err)
			for _, other := range []<-chan outcome{dependent, checking} {
				o := <-other
				require.ErrorIs(t, o.err, storage.ErrClosed, "what it would have said is not durable")
				require.NotErrorIs(t, o.err, storage.ErrUnknownOutcome)
			}

			s.heal() // the disk recovers; the store must not
			for range 3 {
				_, err := db.Commit(ctx, []storage.Op{storage.Put(widget(2), nil, storage.Any)})
				require.ErrorIs(t, err, storage.ErrClosed)
				require.NotErrorIs(t, err, storage.ErrUnknownOutcome)
				require.ErrorContains(t, err, errDisk.Error())
			}
			require.ErrorIs(t, db.Compact(ctx, good.rev), storage.ErrClosed)
			require.ErrorContains(t, db.Healthy(), errDisk.Error())

			published := tell(t, db) // reads continue
			require.Equal(t, good.rev, published.current)
			require.Equal(t, []string{"goes well", "before"}, []string{string(published.now[0].Value), string(published.now[1].Value)})
			require.NoError(t, db.Close())
			reopenAfterFailure(t, db.path, f, published)
		})
	}
}

func reopenAfterFailure(t *testing.T, path string, f failure, published story) {
	again := open(t, path)
	require.NoError(t, again.Check(t.Context()))
	found := tell(t, again)
	if f.written {
		require.Len(t, found.batches, len(published.batches)+1, "the commit had happened after all")
		require.Equal(t, "after", string(found.now[1].Value))
	} else {
		same(t, published, found, "reopened")
	}
	// The group issued the revision after the published one. No later commit may use it.
	next := put(t, again, widget(3), "x")
	require.Greater(t, next, published.current+1)
	require.Greater(t, next, found.current)
	require.NoError(t, again.Close())
}

// If every session of a store fails in its first commit, each session issues new revisions,
// although no commit reaches the file.
func TestRevisionsAreNotReusedAfterFailures(t *testing.T) {
	db, s := openSeam(t)
	put(t, db, widget(0), "x")
	seen := map[storage.Revision]bool{}
	for range 4 {
		s.onCommit(func(_ commitFunc, tx *bolt.Tx) error {
			rev := stateIn(tx).last
			require.False(t, seen[rev], "revision %d again", rev)
			seen[rev] = true
			return errDisk
		})
		_, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget(1), nil, storage.Any)})
		require.ErrorIs(t, err, storage.ErrUnknownOutcome)
		require.NoError(t, db.Close())
		s.heal()
		db = open(t, db.path, s.option())
	}
	require.Len(t, seen, 4)
	require.NoError(t, db.Close())
}

// A session never runs out of reserved revisions.
func TestRevisionsStayWithinReservation(t *testing.T) {
	db, s := openSeam(t)
	durable := db.first - 1 + reservation
	s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
		st := stateIn(tx)
		if st.last > durable {
			return fmt.Errorf("revision %d is issued, %d is reserved", st.last, durable)
		}
		durable = st.reserved
		return really(tx)
	})
	var running sync.WaitGroup
	for w := range 32 {
		running.Go(func() {
			for range 200 {
				if _, err := db.Commit(context.Background(), []storage.Op{storage.Put(widget(w), nil, storage.Any)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	require.NoError(t, db.Close())
}

// If Open cannot start its session, it leaves nothing behind.
func TestOpenFailsWhenDiskDoes(t *testing.T) {
	for name, f := range failures {
		t.Run(name, func(t *testing.T) {
			path, _, want := written(t, 3)
			s := &seam{}
			f.install(s)
			_, err := Open(path, s.option())
			require.ErrorContains(t, err, errDisk.Error())
			require.ErrorContains(t, err, path)
			db := open(t, path)
			same(t, want, tell(t, db), "reopened")
			require.NoError(t, db.Close())
		})
	}
}

// The other tests watch when bbolt commits. This one requires that its commits sync: only a power cut
// would show the difference.
func TestCommitsOfTheFileAreSynced(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "store.db"))
	require.False(t, db.bolt.NoSync)
	require.False(t, db.bolt.NoGrowSync)
	put(t, db, widget(0), "x")
	require.False(t, db.bolt.NoSync, "nobody turns it off later")
	require.NoError(t, db.Close())
}
