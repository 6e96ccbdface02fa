package copy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/copy"
	"github.com/kindwright/kindwright/storage/memory"
)

func open(t testing.TB, path string, opts ...bbolt.Option) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func fresh(t testing.TB) *bbolt.DB { return open(t, filepath.Join(t.TempDir(), "store.db")) }

// plain is a backend that keeps no revisions, as one behind a wrapper.
type plain struct{ storage.Backend }

func (p plain) Unwrap() storage.Backend { return p.Backend }

func widget(i int) string {
	return storage.ObjectKey("example.dev/widgets", "team", fmt.Sprint("w", i))
}

func put(t testing.TB, b storage.Backend, key, value string) storage.Revision {
	t.Helper()
	rev, err := b.Commit(context.Background(), []storage.Op{storage.Put(key, []byte(value), storage.Any)})
	require.NoError(t, err)
	return rev
}

// all returns the records of a store.
func all(t testing.TB, b storage.Backend) (out []storage.Record) {
	t.Helper()
	r := storage.ListRequest{Limit: 1000}
	for more := true; more; {
		p, err := b.List(context.Background(), r)
		require.NoError(t, err)
		out = append(out, p.Records...)
		if more = p.More; more {
			r.After, r.At = out[len(out)-1].Key, p.Revision
		}
	}
	return out
}

// alike requires that two stores have the same records, with the same revisions if these are kept.
func alike(t testing.TB, from, to storage.Backend, kept bool) {
	t.Helper()
	want, got := all(t, from), all(t, to)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Key, got[i].Key)
		require.True(t, bytes.Equal(want[i].Value, got[i].Value), "the value of %s", want[i].Key)
		if kept {
			require.Equal(t, want[i].Revision, got[i].Revision, want[i].Key)
		}
	}
}

// churn makes random commits of several keys.
func churn(t testing.TB, b storage.Backend, seed uint64, commits, keys int) {
	t.Helper()
	require.NoError(t, churned(b, seed, commits, keys))
}

func churned(b storage.Backend, seed uint64, commits, keys int) error {
	random := rand.New(rand.NewPCG(seed, 1))
	for n := range commits {
		var ops []storage.Op
		for _, i := range random.Perm(keys)[:1+random.IntN(4)] {
			switch {
			case random.IntN(4) > 0:
				ops = append(ops, storage.Put(widget(i), fmt.Appendf(nil, "%d of %d%s", i, n, make([]byte, random.IntN(500))), storage.Any))
			case len(ops) == 0:
				if _, err := b.Commit(context.Background(), []storage.Op{storage.Delete(widget(i), storage.Any)}); err != nil {
					return err
				}
			}
		}
		if len(ops) > 0 {
			if _, err := b.Commit(context.Background(), ops); err != nil {
				return err
			}
		}
	}
	return nil
}

// The kinds of targets: one that keeps revisions, and one that does not.
func targets(t testing.TB) map[string]storage.Backend {
	return map[string]storage.Backend{"keeping revisions": fresh(t), "giving new ones": plain{fresh(t)}}
}

// A store is copied among writers. In the end the target has what the source has, and goes on above.
func TestOPS_MovesAmongWriters(t *testing.T) {
	for name, to := range targets(t) {
		t.Run(name, func(t *testing.T) {
			from := fresh(t)
			churn(t, from, 1, 100, 100)
			stopped := make(chan error, 1)
			go func() {
				var failed error
				for seed := range uint64(5) {
					rev, err := from.Revision(context.Background())
					failed = errors.Join(failed, err, churned(from, seed, 60, 150), from.Compact(context.Background(), rev)) // it may overtake the copy
				}
				stopped <- failed
			}()
			f, err := copy.Begin(t.Context(), from, to, copy.Options{})
			require.NoError(t, err)
			require.ErrorIs(t, copy.Unfinished(t.Context(), to), copy.ErrUnfinished)
			keeping, stop := context.WithCancel(t.Context())
			kept := make(chan error, 1)
			go func() { kept <- f.Keep(keeping) }()
			require.NoError(t, <-stopped)
			stop()
			require.NoError(t, <-kept)
			result, err := f.Finish(t.Context())
			require.NoError(t, err)
			_, keeps := to.(storage.Importer)
			require.Equal(t, keeps, result.KeptRevisions)
			require.Empty(t, result.LeftOut)
			require.NoError(t, copy.Unfinished(t.Context(), to))
			alike(t, from, to, keeps)
			last, err := from.Revision(t.Context())
			require.NoError(t, err)
			require.Greater(t, put(t, to, widget(1), "first of the new store"), max(last, result.First))
			_, err = to.History(t.Context(), storage.HistoryRequest{After: last, Limit: 10})
			require.ErrorIs(t, err, storage.ErrCompacted, "nobody resumes where the source was")
		})
	}
}

// overtaken is a source that is compacted beyond each list once, after its first page, and beyond
// the first history.
type overtaken struct {
	*bbolt.DB
	lists, histories *int
}

func (o overtaken) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	r.Limit = min(r.Limit, 40)
	if r.At > 0 && r.After != "" && *o.lists > 0 {
		*o.lists--
		return storage.Page{}, storage.ErrCompacted
	}
	return o.DB.List(ctx, r)
}

func (o overtaken) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	if *o.histories > 0 {
		*o.histories--
		return storage.HistoryPage{}, storage.ErrCompacted
	}
	return o.DB.History(ctx, r)
}

func TestOPS_CompactionOvertakesACopy(t *testing.T) {
	for name, to := range targets(t) {
		t.Run(name, func(t *testing.T) {
			from := overtaken{fresh(t), new(int), new(int)}
			churn(t, from, 1, 100, 200)
			*from.lists = 3
			f, err := copy.Begin(t.Context(), from, to, copy.Options{})
			require.NoError(t, err)
			require.Zero(t, *from.lists)
			churn(t, from, 2, 20, 200)
			*from.lists, *from.histories = 1, 1
			_, err = f.Finish(t.Context())
			require.NoError(t, err)
			require.Zero(t, *from.lists+*from.histories)
			_, keeps := to.(storage.Importer)
			alike(t, from, to, keeps)

			*from.lists = 1000
			_, err = copy.Begin(t.Context(), from, fresh(t), copy.Options{})
			require.ErrorIs(t, err, storage.ErrCompacted, "it does not try for ever")
		})
	}
}

// ending is a context that ends after it was asked a number of times.
type ending struct {
	context.Context
	left *int
}

func (c ending) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return c.Context.Err()
}

// However often a copy is interrupted, and whatever happens to the source in between, the next one
// goes on, and the last one is whole.
func TestOPS_InterruptedCopiesGoOn(t *testing.T) {
	for name, to := range targets(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "from.db")
			from, err := bbolt.Open(path)
			require.NoError(t, err)
			defer func() { require.NoError(t, from.Close()) }()
			churn(t, from, 1, 500, 900)
			interrupted := 0
			for n := 1; ; n++ {
				left := n + 8
				f, err := copy.Begin(ending{t.Context(), &left}, from, to, copy.Options{})
				if err == nil {
					result, err := f.Finish(t.Context())
					require.NoError(t, err)
					require.Equal(t, f.Done().Reached, result.Reached)
					break
				}
				require.ErrorIs(t, err, context.Canceled)
				if copy.Unfinished(t.Context(), to) != nil {
					interrupted++
				}
				churn(t, from, uint64(n), 5, 900)
				if n%3 == 0 { // another session of the source, of which nothing older is left
					rev, err := from.Revision(t.Context())
					require.NoError(t, err)
					require.NoError(t, from.Compact(t.Context(), rev))
				}
				require.NoError(t, from.Close())
				from, err = bbolt.Open(path)
				require.NoError(t, err)
			}
			require.Greater(t, interrupted, 2)
			_, keeps := to.(storage.Importer)
			alike(t, from, to, keeps)
		})
	}
}

// What a resumed copy has already is not read again: the pause is about what has changed.
func TestOPS_TheLastPartIsTheDifference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "from.db")
	from, err := bbolt.Open(path)
	require.NoError(t, err)
	churn(t, from, 1, 100, 400)
	to := fresh(t)
	_, err = copy.Begin(t.Context(), from, to, copy.Options{})
	require.NoError(t, err)
	put(t, from, widget(7), "after the first part")
	require.NoError(t, from.Close())
	again := open(t, path)
	f, err := copy.Begin(t.Context(), again, to, copy.Options{})
	require.NoError(t, err)
	require.Equal(t, copy.Progress{Changes: 1, Reached: f.Done().Reached}, f.Done())
	_, err = f.Finish(t.Context())
	require.NoError(t, err)
	alike(t, again, to, true)
}

func TestOPS_NothingIsWrittenToATargetThatIsRefused(t *testing.T) {
	from := fresh(t)
	churn(t, from, 1, 50, 20)
	put(t, from, widget(100), string(make([]byte, 3000)))
	put(t, from, storage.ObjectKey("example.dev/nodes", "", "n1"), string(make([]byte, 2001)))

	small := open(t, filepath.Join(t.TempDir(), "small.db"), bbolt.WithLimits(storage.Limits{MaxValueBytes: 2000}))
	var obstacles *copy.Obstacles
	_, err := copy.Copy(t.Context(), from, small, copy.Options{})
	require.ErrorAs(t, err, &obstacles)
	require.Equal(t, []string{storage.ObjectKey("example.dev/nodes", "", "n1"), widget(100)}, obstacles.TooLarge)
	require.ErrorContains(t, err, "2 records are larger than the 2000 bytes that the target takes: example.dev/nodes n1, example.dev/widgets team/w100")
	require.Empty(t, all(t, small))

	other := fresh(t)
	put(t, other, widget(5), "mine")
	_, err = copy.Copy(t.Context(), from, other, copy.Options{})
	require.ErrorIs(t, err, copy.ErrNotEmpty)
	require.ErrorIs(t, copy.Check(t.Context(), from, other, copy.Options{}), copy.ErrNotEmpty)
	require.ErrorAs(t, copy.Check(t.Context(), from, small, copy.Options{}), &obstacles)
	require.NoError(t, copy.Check(t.Context(), from, fresh(t), copy.Options{}))
	require.ErrorContains(t, err, "it has example.dev/widgets team/w5")
	require.Len(t, all(t, other), 1)

	half := fresh(t)
	f, err := copy.Begin(t.Context(), from, half, copy.Options{})
	require.NoError(t, err)
	_, err = copy.Copy(t.Context(), half, fresh(t), copy.Options{})
	require.ErrorIs(t, err, copy.ErrUnfinished, "an unfinished copy is no source")
	_, err = copy.Copy(t.Context(), from, plain{half}, copy.Options{})
	require.ErrorContains(t, err, "clear it")
	_, err = f.Finish(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, copy.Clear(t.Context(), half), "not cleared")
	_, err = copy.Copy(t.Context(), from, memory.New(), copy.Options{})
	require.ErrorContains(t, err, "cannot be copied to")
}

func TestOPS_WritersThatGoOnAreNoticed(t *testing.T) {
	from := writing{fresh(t), new(int)}
	churn(t, from, 1, 50, 20)
	to := fresh(t)
	f, err := copy.Begin(t.Context(), from, to, copy.Options{})
	require.NoError(t, err)
	*from.often = 3
	_, err = f.Finish(t.Context())
	require.ErrorIs(t, err, copy.ErrStillWritten)
	require.ErrorIs(t, copy.Unfinished(t.Context(), to), copy.ErrUnfinished)
	*from.often = 0
	_, err = f.Finish(t.Context())
	require.NoError(t, err)
	alike(t, from, to, true)
}

// writing is a source that somebody writes to whenever it is asked for its revision.
type writing struct {
	*bbolt.DB
	often *int
}

func (w writing) Revision(ctx context.Context) (storage.Revision, error) {
	if *w.often > 0 {
		*w.often--
		if _, err := w.Commit(ctx, []storage.Op{storage.Put(widget(1), []byte("still here"), storage.Any)}); err != nil {
			return 0, err
		}
	}
	return w.DB.Revision(ctx)
}

// spoilt is a source of which some records cannot be read.
type spoilt struct {
	*bbolt.DB
	keys []string
}

func (s spoilt) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	p, err := s.DB.List(ctx, r)
	for i := range p.Records {
		if slices.Contains(s.keys, p.Records[i].Key) {
			p.Records[i].Value, p.Records[i].Err = nil, storage.ErrUnreadable
		}
	}
	return p, err
}

func (s spoilt) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	p, err := s.DB.History(ctx, r)
	for i := range p.Batches {
		for j := range p.Batches[i].Changes {
			if c := &p.Batches[i].Changes[j]; slices.Contains(s.keys, c.Key) {
				c.Value, c.Err = nil, storage.ErrUnreadable
			}
		}
	}
	return p, err
}

func TestOPS_RecordsThatCannotBeReadAreNamed(t *testing.T) {
	from := spoilt{fresh(t), []string{widget(3), widget(4)}}
	for i := range 6 {
		put(t, from, widget(i), "x")
	}
	to := fresh(t)
	_, err := copy.Begin(t.Context(), from, to, copy.Options{})
	require.ErrorContains(t, err, "2 records cannot be read (record cannot be read): example.dev/widgets team/w3, example.dev/widgets team/w4")
	require.Empty(t, all(t, to))
	f, err := copy.Begin(t.Context(), from, to, copy.Options{LeaveOutUnreadable: true})
	require.NoError(t, err)
	from.keys[0] = widget(5) // w5 is spoilt with its next change; w3 is mended
	put(t, from, widget(5), "y")
	put(t, from, widget(3), "mended")
	result, err := f.Finish(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{widget(4), widget(5)}, result.LeftOut)
	require.Len(t, all(t, to), 4)
}

func TestOPS_AnUnfinishedTargetIsCleared(t *testing.T) {
	for name, to := range targets(t) {
		t.Run(name, func(t *testing.T) {
			from := fresh(t)
			churn(t, from, 1, 200, 300)
			_, err := copy.Begin(t.Context(), from, to, copy.Options{})
			require.NoError(t, err)
			require.NoError(t, copy.Clear(t.Context(), to))
			require.Empty(t, all(t, to))
			another := fresh(t)
			put(t, another, widget(1), "another one")
			_, err = copy.Copy(t.Context(), another, to, copy.Options{})
			require.NoError(t, err)
			_, keeps := to.(storage.Importer)
			alike(t, another, to, keeps)
		})
	}
}

// A snapshot is of one moment, among writers.
func TestOPS_SnapshotsAreOfOneMoment(t *testing.T) {
	from := fresh(t)
	const pairs = 400
	both := func(n int) {
		ops := []storage.Op{
			storage.Put(storage.ObjectKey("a", "", fmt.Sprint(n%pairs)), fmt.Append(nil, n), storage.Any),
			storage.Put(storage.ObjectKey("z", "", fmt.Sprint(n%pairs)), fmt.Append(nil, n), storage.Any),
		}
		_, err := from.Commit(context.Background(), ops)
		require.NoError(t, err)
	}
	for n := range pairs {
		both(n)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for n := pairs; ctx.Err() == nil; n++ {
			both(n)
		}
	}()
	for range 5 {
		to := fresh(t)
		_, err := copy.Copy(t.Context(), from, to, copy.Options{Snapshot: true, Above: 1 << 60})
		require.NoError(t, err)
		got := all(t, to)
		require.Len(t, got, 2*pairs)
		for i := range pairs {
			require.Equal(t, got[i].Value, got[pairs+i].Value)
		}
		require.Greater(t, put(t, to, widget(1), "x"), storage.Revision(1<<60))
	}
	stop()
	<-stopped
}

// A target that is to begin where there is no room above is refused before anything is written: it could not be
// opened again, or began with revisions that it has given out.
func TestOPS_ATargetHasRoomAboveItsFirstRevision(t *testing.T) {
	from, to := fresh(t), fresh(t)
	put(t, from, widget(1), "x")
	before, err := to.Revision(t.Context())
	require.NoError(t, err)
	for _, above := range []storage.Revision{copy.HighestAbove + 1, math.MaxInt64, math.MaxUint64} {
		_, err := copy.Copy(t.Context(), from, to, copy.Options{Above: above})
		require.ErrorIs(t, err, storage.ErrInvalid)
		require.ErrorIs(t, copy.Check(t.Context(), from, to, copy.Options{Above: above}), storage.ErrInvalid)
		after, err := to.Revision(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	_, err = copy.Copy(t.Context(), from, to, copy.Options{Above: copy.HighestAbove})
	require.NoError(t, err)
	again := fresh(t)
	_, err = copy.Copy(t.Context(), to, again, copy.Options{})
	require.NoError(t, err)
	require.Greater(t, put(t, again, widget(2), "y"), put(t, to, widget(2), "y"))
}
